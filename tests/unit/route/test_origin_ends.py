"""A source partition that has copies of the log that was left: its origin end in the ledger."""

from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.errors import InvariantError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.operator_records import (
    ORIGIN_HEADER,
    ORIGIN_LOG,
    ChangedSource,
    OriginLog,
    SourceChangeRecord,
)
from sluiceway.ledger.record_formats import needed_format
from sluiceway.ledger.records import (
    FORMAT,
    Body,
    DataRecord,
    FenceRecord,
    RangeRecord,
    decode_record,
    encode_record,
)
from sluiceway.ledger.snapshot import load_snapshot, write_side_file
from sluiceway.route.route_planner import fold_after, follows
from sluiceway.schedule.planner import PlannedEpoch, plan_sources, plan_splits
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    SourceIdentity,
    SourcePartition,
    SplitEnd,
)
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import TaskResult
from tools.ledger_records import data, fence, fold_of, record, sources, span
from tools.origin_rows import origin_answer

NAME = "c1/orders/0"


def change(old_end: int = 7, **evidence: str) -> SourceChangeRecord:
    found = evidence or {ORIGIN_HEADER: "sw-origin", ORIGIN_LOG: NAME}
    moved = ChangedSource(
        "orders", 0, "c1", "t1", "c2", "t2", BigInt(old_end), BigInt(100), 1, found
    )
    return SourceChangeRecord("me@host", "room a is lost", (moved,))


def in_b(start: int, end: int, origin_end: int | None, copies: int = 0) -> RangeRecord:
    read = replace(span(0, start, end, gaps=copies), cluster_id="c2", topic_id="t2")
    big = None if origin_end is None else BigInt(origin_end)
    return replace(read, copies=BigInt(copies), origin_end=big)


def put(fold: Fold, body: Body) -> None:
    if isinstance(body, FenceRecord):
        body = replace(body, format=fold.format, min_reader=fold.format)
    made = record(fold, body)
    fold.apply(made, encode_record(made))


def task_answer(term: int, start: int, end: int, origin_end: int) -> TaskResult:
    return origin_answer(term, 0, start, SplitEnd(end, end - start, 0, None, origin_end=origin_end))


def switched() -> Fold:
    fold = fold_of(fence(), sources(0), data(1, 0, span(0, 0, 7)), fence(driver="d2"))
    put(fold, change())
    return fold


def test_a_switch_to_copies_keeps_the_committed_end_as_origin_end() -> None:
    assert needed_format(change()) == 2
    assert needed_format(change(method="inside")) == FORMAT
    fold = switched()
    known = fold.sources["orders", 0]
    assert (known.end, known.origin) == (100, OriginLog("sw-origin", NAME, "t1", BigInt(7)))
    assert fold.format == 2
    put(fold, data(2, 1, in_b(100, 110, 9, copies=4)))
    assert fold.sources["orders", 0].origin == OriginLog("sw-origin", NAME, "t1", BigInt(9))


@pytest.mark.parametrize("origin_end", [6, None])
def test_an_origin_end_that_falls_or_is_missing_is_refused(origin_end: int | None) -> None:
    with pytest.raises(InvariantError, match="P6"):
        put(switched(), data(2, 1, in_b(100, 110, origin_end)))


def test_copies_are_among_the_gaps_and_only_of_a_log_that_was_left() -> None:
    for copies in (-1, 5):
        wrong = replace(in_b(100, 110, 9, copies=4), copies=BigInt(copies))
        with pytest.raises(InvariantError, match="P6"):
            put(switched(), data(2, 1, wrong))
    plain = fold_of(fence(), sources(0))
    for wrong in (
        replace(span(0, 0, 4, gaps=1), copies=BigInt(1)),
        replace(span(0, 0, 4), origin_end=BigInt(4)),
    ):
        with pytest.raises(InvariantError, match="P6"):
            put(plain, data(1, 0, wrong))


def test_ranges_without_copies_are_written_as_before() -> None:
    fold = fold_of(fence(), sources(0))
    body = data(1, 0, span(0, 0, 4))
    raw = encode_record(record(fold, body))
    assert needed_format(body) == FORMAT
    assert b"origin" not in raw
    assert b"copies" not in raw
    newer = encode_record(record(switched(), data(2, 1, in_b(100, 110, 9, copies=4))))
    decoded = decode_record(newer, "x").body
    assert isinstance(decoded, DataRecord)
    (read,) = decoded.ranges
    assert (read.copies, read.origin_end) == (4, 9)


def test_a_snapshot_keeps_the_origin_end(tmp_path: Path) -> None:
    fold = switched()
    storage, layout = LocalStorage(), LedgerLayout(str(tmp_path), "orders")
    storage.make_folders(layout.stage)
    fold.set_published_through(fold.next_seq)
    restored = load_snapshot(storage, layout, record(fold, write_side_file(storage, layout, fold)))
    assert restored is not None
    assert restored.sources["orders", 0].origin == OriginLog("sw-origin", NAME, "t1", BigInt(7))


def test_the_next_switch_leaves_the_log_before_it_for_good() -> None:
    fold = switched()
    put(fold, fence(driver="d3"))
    moved = replace(
        change().partitions[0],
        old_cluster_id="c2",
        old_topic_id="t2",
        new_cluster_id="c1",
        new_topic_id="t3",
        old_end=BigInt(100),
        generation=2,
        evidence={},
    )
    put(fold, replace(change(), partitions=(moved,)))
    assert fold.sources["orders", 0].origin is None


def test_a_copied_topic_that_is_made_again_has_copies_of_the_same_log() -> None:
    fold = switched()
    put(fold, fence(driver="d3"))
    again = replace(
        change().partitions[0],
        old_cluster_id="c2",
        old_topic_id="t2",
        new_topic_id="t9",
        old_end=BigInt(100),
        new_end=BigInt(0),
        generation=2,
        evidence={},
    )
    put(fold, replace(change(), partitions=(again,)))
    assert fold.sources["orders", 0].origin == OriginLog("sw-origin", NAME, "t1", BigInt(7))


def test_splits_have_the_log_and_an_epoch_ahead_its_returned_end() -> None:
    fold = switched()
    bounds = {SourcePartition("orders", 0): LogBounds(0, 500, 500)}
    (planned,) = plan_splits(fold, bounds, None)
    assert planned.split.origin == OriginLog("sw-origin", NAME, "t1", BigInt(7))
    answer = task_answer(fold.term, 100, 110, 9)
    after = fold_after(fold, [answer])
    assert after is not None
    (ahead,) = plan_splits(after, bounds, None)
    assert ahead.split.origin == OriginLog("sw-origin", NAME, "t1", BigInt(9))
    epoch = PlannedEpoch(1, [ahead], route=None, ahead=True)  # type: ignore[arg-type]
    assert follows(after, epoch)
    other = fold_after(fold, [task_answer(fold.term, 100, 110, 8)])
    assert other is not None
    assert not follows(other, epoch)


def test_a_partition_that_a_copied_topic_gets_later_begins_with_the_same_rule() -> None:
    fold = switched()
    identity = SourceIdentity("c2", "t2")
    found = [DiscoveredPartition(SourcePartition("orders", n), identity, 0) for n in (0, 1)]
    bounds = {each.partition: LogBounds(0, 9, 9) for each in found}
    subscription = fold.subscription
    assert subscription is not None
    body = plan_sources(fold, subscription, found, bounds, {})
    assert body is not None
    (pin,) = body.partitions
    assert pin.origin == OriginLog("sw-origin", "c1/orders/1", "t1", BigInt(0))
    assert needed_format(body) == 2
    put(fold, body)
    assert fold.sources["orders", 1].origin == pin.origin
    plain = fold_of(fence(), sources(0))
    here = [replace(each, identity=SourceIdentity("c1", "t1")) for each in found]
    body = plan_sources(plain, subscription, here, bounds, {})
    assert body is not None
    assert (body.partitions[0].origin, needed_format(body)) == (None, FORMAT)
