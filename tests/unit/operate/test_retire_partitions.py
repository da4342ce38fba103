"""What `offsets retire` gives up, and what the ledger keeps of it."""

from dataclasses import replace

import pytest

from sluiceway.cli.app import run_command
from sluiceway.cli.commands.ledger import describe
from sluiceway.errors import (
    InvariantError,
    ResetRefusedError,
    TopicNotFoundError,
    UnhealthyEnvironmentError,
)
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.records import Body, SourcesRecord, decode_record, encode_record
from sluiceway.operate.retire_partitions import (
    Retirement,
    RetireRequest,
    planned_retirements,
    record_of,
    refuse_unaccepted,
)
from sluiceway.schedule.planner import plan_sources, plan_splits
from sluiceway.schedule.source_view import SourceView, read_source_view
from sluiceway.sources.contract import LogBounds, SourcePartition
from tools.ledger_records import data, fence, fold_of, record, sources, span
from tools.session_on_disk import ONE, SmallSource

TWO = SourcePartition("orders", 1)
WISH = RetireRequest("it burnt", "me@here", accepts_gap=True)
GONE = Retirement(TWO, 7)


def fold() -> Fold:
    """Partition 1 was read up to 7; a command has fenced."""
    return fold_of(fence(), sources(0, 1), data(1, 0, span(1, 0, 7)), fence())


def source(*, has_two: bool = False) -> SmallSource:
    rest = {TWO: LogBounds(0, 9, 9)} if has_two else {}
    return SmallSource(LogBounds(0, 10, 10), rest=rest)


def view(*, has_two: bool = False) -> SourceView:
    return read_source_view(source(has_two=has_two), ["orders"])


def put(state: Fold, body: Body) -> None:
    made = record(state, body)
    state.apply(made, encode_record(made))


@pytest.mark.parametrize("named", [(), (TWO,)])
def test_what_is_gone_is_given_up_and_nothing_else(named: tuple[SourcePartition, ...]) -> None:
    wish = replace(WISH, partitions=named)
    assert planned_retirements(fold(), wish, source()) == (GONE,)


def test_what_the_cluster_has_is_never_given_up_also_without_a_leader() -> None:
    there = source(has_two=True)
    assert planned_retirements(fold(), WISH, there) == ()
    there.silent = frozenset({TWO})
    with pytest.raises(ResetRefusedError, match="the cluster has it"):
        planned_retirements(fold(), replace(WISH, partitions=(TWO,)), there)


def test_what_the_route_does_not_read_is_refused() -> None:
    with pytest.raises(ResetRefusedError, match=r"does not read orders\[7\]"):
        planned_retirements(
            fold(), replace(WISH, partitions=(SourcePartition("orders", 7),)), source()
        )


def test_partitions_of_a_topic_that_is_gone_are_given_up_and_of_one_that_is_hidden_not() -> None:
    nothing = SourceView({}, {}, {"orders": TopicNotFoundError("gone", where="orders")})
    assert record_of(fold(), WISH, [GONE], nothing).partitions[0].retired
    hidden = SourceView({}, {}, {"orders": UnhealthyEnvironmentError("no right to it")})
    with pytest.raises(UnhealthyEnvironmentError):
        record_of(fold(), WISH, [GONE], hidden)


def test_rows_that_were_not_read_have_to_be_given_up_in_so_many_words() -> None:
    with pytest.raises(ResetRefusedError, match="from offset 7 on would never be read"):
        refuse_unaccepted([GONE], replace(WISH, accepts_gap=False))
    refuse_unaccepted([GONE], WISH)


def test_it_holds_nothing_any_more_and_is_read_on_when_it_comes_back() -> None:
    state = fold()
    with pytest.raises(ResetRefusedError, match="the cluster has it"):
        record_of(state, WISH, [GONE], view(has_two=True))
    body = record_of(state, WISH, [GONE], view())
    made = record(state, body)
    raw = encode_record(made)
    assert decode_record(raw, "here").body == body
    assert describe(made) == "me@here gives up orders[1] from offset 7 on: it burnt"
    state.apply(made, raw)
    assert state.sources["orders", 1].retired
    (split,) = plan_splits(state, view().bounds, None)
    assert split.split.partition == ONE
    assert state.subscription is not None
    back = view(has_two=True)
    again = plan_sources(state, state.subscription, back.of(["orders"]), back.bounds, {})
    assert again is not None
    assert [(p.partition, p.start, p.how) for p in again.partitions] == [(1, 7, "resumed")]
    assert (again.operator, again.reason) == ("", "")


def test_ledger_that_has_moved_on_is_left_alone() -> None:
    state = fold()
    with pytest.raises(ResetRefusedError, match="moved on"):
        record_of(state, WISH, [replace(GONE, end=6)], view())
    put(state, record_of(state, WISH, [GONE], view()))
    with pytest.raises(ResetRefusedError, match="moved on"):
        record_of(state, WISH, [GONE], view())


def test_operators_record_retires_and_does_nothing_else_behind_a_fence_of_its_own() -> None:
    lawful = record_of(fold(), WISH, [GONE], view())
    assert isinstance(lawful, SourcesRecord)
    more = replace(lawful.partitions[0], partition=5, start=lawful.partitions[0].start)
    for unlawful in (
        replace(lawful, start="latest"),
        replace(lawful, topics=("orders", "other")),
        replace(lawful, partitions=(*lawful.partitions, replace(more, retired=False))),
        replace(lawful, partitions=()),
    ):
        with pytest.raises(InvariantError, match="rule 22"):
            put(fold(), unlawful)
    later = fold()
    put(later, data(2, 0, span(0, 0, 3)))
    with pytest.raises(InvariantError, match="does not follow a fence"):
        put(later, lawful)


def test_command_says_what_it_would_do_and_what_it_wants(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sluiceway.cli.commands.offsets._retire", lambda *_, **__: ((GONE,), None))
    command = ["offsets", "retire", "job.yaml", "--reason", "why"]
    assert run_command(command) == 7
    shown = capsys.readouterr()
    assert "orders[1]: gone; what came from offset 7 on is never read (needs" in shown.out
    assert shown.out.endswith("nothing was changed; it needs --accept-gap\n")
    assert "add --accept-gap" in shown.err
    assert run_command([*command, "--accept-gap"]) == 0
    assert "repeat it with --execute" in capsys.readouterr().out
    monkeypatch.setattr("sluiceway.cli.commands.offsets._retire", lambda *_, **__: ((), None))
    assert run_command(command) == 0
    assert "the cluster has all partitions" in capsys.readouterr().out
