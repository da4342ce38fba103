"""New source partitions of a keyed route wait until the old ones are read."""

from pathlib import Path

import pytest

from sluiceway.errors import SourceOrderError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.observe.log import stderr_log
from sluiceway.route.key_order import KeyOrderGuard
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    SourceIdentity,
    SourcePartition,
)
from tools.ledger_records import data, fence, fold_of, sources, span
from tools.session_on_disk import ONE, session_on_disk


def _found(*numbers: int) -> tuple[DiscoveredPartition, ...]:
    identity = SourceIdentity("c", "t")
    return tuple(
        DiscoveredPartition(SourcePartition("orders", number), identity, 0) for number in numbers
    )


def _bounds(*ends: int) -> dict[SourcePartition, LogBounds]:
    return {SourcePartition("orders", n): LogBounds(0, end, end) for n, end in enumerate(ends)}


def _numbers(found: tuple[DiscoveredPartition, ...]) -> list[object]:
    return [each.partition.partition for each in found]


def test_a_new_partition_waits_for_the_time_and_then_for_the_others_ends() -> None:
    now = [0.0]
    drain = KeyOrderGuard(60.0, stderr_log(level="error"), clock=lambda: now[0])
    fold = fold_of(fence(), sources(0), data(1, 0, span(0, 0, 5)))
    assert _numbers(drain.admitted(_found(0), fold, _bounds(5))) == [0]
    assert not drain.holds
    assert _numbers(drain.admitted(_found(0, 1), fold, _bounds(5, 3))) == [0]
    assert drain.holds
    now[0] = 61.0
    assert _numbers(drain.admitted(_found(0, 1), fold, _bounds(7, 3))) == [0]
    # What comes after the ends that were seen is not waited for.
    fold = fold_of(fence(), sources(0), data(1, 0, span(0, 0, 7)))
    assert _numbers(drain.admitted(_found(0, 1), fold, _bounds(9, 3))) == [0, 1]
    assert not drain.holds


def test_rows_behind_an_open_transaction_are_read_before_a_new_partition() -> None:
    now = [0.0]
    drain = KeyOrderGuard(60.0, stderr_log(level="error"), clock=lambda: now[0])
    fold = fold_of(fence(), sources(0), data(1, 0, span(0, 0, 5)))
    open_since_5 = _bounds(5, 3) | {SourcePartition("orders", 0): LogBounds(0, 5, 9)}
    drain.admitted(_found(0, 1), fold, open_since_5)
    now[0] = 61.0
    assert _numbers(drain.admitted(_found(0, 1), fold, open_since_5)) == [0]
    fold = fold_of(fence(), sources(0), data(1, 0, span(0, 0, 9)))
    assert _numbers(drain.admitted(_found(0, 1), fold, _bounds(9, 3))) == [0, 1]


def test_a_look_at_an_epoch_that_is_not_committed_does_not_begin_the_wait_anew() -> None:
    now = [0.0]
    drain = KeyOrderGuard(60.0, stderr_log(level="error"), clock=lambda: now[0])
    fold = fold_of(fence(), sources(0), data(1, 0, span(0, 0, 5)))
    ahead = fold_of(fence(), sources(0), data(1, 0, span(0, 0, 7)))
    drain.admitted(_found(0, 1), fold, _bounds(7, 3))
    now[0] = 61.0
    assert _numbers(drain.admitted(_found(0, 1), ahead, _bounds(7, 3))) == [0, 1]
    # That epoch has failed: the old one is not read after all.
    assert _numbers(drain.admitted(_found(0, 1), fold, _bounds(7, 3))) == [0]
    assert drain.holds
    # It is committed at the second try.
    assert _numbers(drain.admitted(_found(0, 1), ahead, _bounds(7, 3))) == [0, 1]
    assert not drain.holds


def test_a_partition_that_went_before_it_was_read_is_not_waited_for() -> None:
    drain = KeyOrderGuard(60.0, stderr_log(level="error"))
    fold = fold_of(fence(), sources(0))
    drain.admitted(_found(0, 1), fold, _bounds(5, 3))
    assert drain.holds
    drain.admitted(_found(0), fold, _bounds(5))
    assert not drain.holds


def test_the_first_partitions_of_a_topic_wait_for_nobody() -> None:
    drain = KeyOrderGuard(60.0, stderr_log(level="error"))
    assert _numbers(drain.admitted(_found(0, 1), Fold(), _bounds(5, 3))) == [0, 1]


def test_a_route_without_a_key_holds_nothing_back() -> None:
    drain = KeyOrderGuard(None, stderr_log(level="error"))
    assert _numbers(drain.admitted(_found(0, 1), fold_of(fence(), sources(0)), _bounds(5, 3))) == [
        0,
        1,
    ]


def _texts(*keys: str) -> tuple[DiscoveredPartition, ...]:
    identity = SourceIdentity("c", "t")
    return tuple(DiscoveredPartition(SourcePartition("orders", k), identity, None) for k in keys)


def test_where_one_partition_counts_a_second_is_refused_whatever_their_keys_are() -> None:
    drain = KeyOrderGuard(60.0, stderr_log(level="error"), one_partition=True)
    assert len(drain.admitted(_texts("broker-a/0"), Fold(), {})) == 1
    for several in (_texts("broker-a/0", "broker-b/0"), _found(0, 1)):
        with pytest.raises(SourceOrderError, match="the topic has more"):
            drain.admitted(several, Fold(), {})


def test_where_one_partition_counts_one_that_was_read_before_counts_too() -> None:
    drain = KeyOrderGuard(0.0, stderr_log(level="error"), one_partition=True)
    with pytest.raises(SourceOrderError, match="the topic has more"):
        drain.admitted(_found(1), fold_of(fence(), sources(0)), _bounds(5, 3))


def test_bounded_run_reads_the_others_as_far_as_a_new_partition_waits_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    with session_on_disk(tmp_path / "t", monkeypatch) as route:
        session, source = route.session, route.source
        drain = session.planner.key_order
        drain.drain_s, drain.clock = 60.0, lambda: now[0]
        session.committer.pin(session.planner.due_sources(route.view()), route.view())
        route.run_epoch(10)
        assert session.planner.plan(route.view(), bounded=True) is None
        assert session.planner.caught_up
        # Rows come in the old one while the new one waits.
        source.rest[SourcePartition("orders", 1)] = LogBounds(0, 3, 3)
        source.place = LogBounds(0, 12, 12)
        assert session.planner.due_sources(route.view()) is None
        now[0] = 61.0
        assert session.planner.due_sources(route.view()) is None
        planned = session.planner.plan(route.view(), bounded=True)
        assert planned is not None
        assert {e.split.partition: e.split.stop_offset for e in planned.splits} == {ONE: 12}
        route.run_epoch(12)
        assert session.planner.due_sources(route.view()) is not None
