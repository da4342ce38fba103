"""RESET and SOURCE_CHANGE: what the fold lets an operator do, and what holds afterwards."""

from dataclasses import replace

import pytest

from sluiceway.errors import InvariantError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.operator_records import (
    ChangedSource,
    ResetPartition,
    ResetRecord,
    SourceChangeRecord,
)
from sluiceway.ledger.records import Body, encode_record
from sluiceway.types.strict_json import BigInt
from tools.ledger_records import data, fence, fold_of, record, sources, span


def _move(**changes: object) -> ResetPartition:
    move = ResetPartition("orders", 0, BigInt(10), BigInt(25), 1, "gap", None)
    return replace(move, **changes)  # type: ignore[arg-type]


def _reset(*moves: ResetPartition) -> ResetRecord:
    return ResetRecord("me@here", "retention", moves or (_move(),))


def _change(**changes: object) -> SourceChangeRecord:
    change = ChangedSource("orders", 0, "c1", "t1", "c1", "t2", BigInt(10), BigInt(3), 1, {})
    return SourceChangeRecord("me@here", "created anew", (replace(change, **changes),))  # type: ignore[arg-type]


def _ended() -> Fold:
    """A ledger with committed ends 10 and 0, taken over by nobody but a fence."""
    return fold_of(fence(), sources(0, 1), data(1, 0, span(0, 0, 10)), fence())


def _apply(fold: Fold, body: Body) -> None:
    made = record(fold, body)
    fold.apply(made, encode_record(made))


def test_reset_with_a_gap_moves_the_end_and_begins_a_generation() -> None:
    fold = _ended()
    fold.sources["orders", 0].end_epoch = 7
    _apply(fold, _reset())
    known = fold.sources["orders", 0]
    assert (known.start, known.end, known.how, known.generation) == (25, 25, "reset", 1)
    assert (known.has_data, known.end_epoch) == (False, None)
    assert fold.sources["orders", 1].generation == 0
    _apply(fold, data(2, 0, span(0, 25, 30)))
    assert known.end == 30


def test_reset_backwards_lets_the_offsets_be_read_again() -> None:
    fold = _ended()
    _apply(fold, _reset(_move(new_end=BigInt(4), accepted="twice")))
    _apply(fold, data(2, 0, span(0, 4, 12)))
    assert fold.sources["orders", 0].end == 12


def test_reset_to_the_same_offset_forgets_the_leader_epoch_and_begins_a_generation() -> None:
    fold = _ended()
    fold.sources["orders", 0].end_epoch = 7
    _apply(fold, _reset(_move(new_end=BigInt(10))))
    known = fold.sources["orders", 0]
    assert (known.end, known.generation, known.end_epoch) == (10, 1, None)


@pytest.mark.parametrize("accepted", ["gap", "twice"])
def test_reset_to_the_same_offset_without_a_leader_epoch_is_refused(accepted: str) -> None:
    with pytest.raises(InvariantError, match="rule 22"):
        _apply(_ended(), _reset(_move(new_end=BigInt(10), accepted=accepted)))


def test_epoch_of_an_end_is_gone_with_the_end_that_moves_on() -> None:
    fold = _ended()
    _apply(fold, data(2, 0, replace(span(0, 10, 12), end_epoch=4)))
    known = replace(fold.sources["orders", 0])
    assert known.end_epoch == 4
    _apply(fold, data(2, 1, replace(span(0, 12, 14), leader_epoch=4)))
    assert fold.sources["orders", 0].end_epoch is None


def test_data_that_follows_the_old_end_is_refused_after_a_reset() -> None:
    fold = _ended()
    _apply(fold, _reset())
    with pytest.raises(InvariantError, match="I2"):
        _apply(fold, data(2, 0, span(0, 10, 12)))


def test_source_change_retires_the_old_identity() -> None:
    fold = _ended()
    _apply(fold, _change())
    known = fold.sources["orders", 0]
    assert (known.topic_id, known.end, known.how) == ("t2", 3, "source_change")
    with pytest.raises(InvariantError, match="another log"):
        _apply(fold, data(2, 0, span(0, 3, 5)))
    _apply(fold, data(2, 0, span(0, 3, 5, topic_id="t2")))


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (_reset(_move(old_end=BigInt(9))), "the committed end is 10"),
        (_reset(_move(new_end=BigInt(10))), "goes from 10 to 10"),
        (_reset(_move(new_end=BigInt(-1), accepted="twice")), "goes to -1"),
        (_reset(_move(accepted="twice")), "as `twice`"),
        (_reset(_move(new_end=BigInt(3))), "as `gap`"),
        (_reset(_move(accepted="")), "as ``"),
        (_reset(_move(generation=2)), "begins generation 2 after 0"),
        (_reset(_move(generation=0)), "begins generation 0 after 0"),
        (_reset(_move(partition=5)), "is not read"),
        (_reset(_move(), _move()), "twice"),
        (ResetRecord("me", "x", ()), "no partition"),
        (_reset(_move(max_event_time_us=BigInt(5))), "greatest event time"),
        (_change(old_topic_id="t0"), "was never"),
        (_change(new_topic_id="t1"), "stays the log that it is"),
        (_change(old_end=BigInt(11)), "the committed end is 10"),
        (_change(generation=5), "begins generation 5"),
    ],
)
def test_move_that_does_not_follow_from_the_ledger_is_refused(body: Body, match: str) -> None:
    fold = _ended()
    before = fold.sources["orders", 0].end
    with pytest.raises(InvariantError, match=match):
        _apply(fold, body)
    assert fold.sources["orders", 0].end == before


@pytest.mark.parametrize("body", [_reset(), _change()])
def test_move_that_does_not_stand_right_behind_a_fence_is_refused(body: Body) -> None:
    fold = fold_of(fence(), sources(0, 1), data(1, 0, span(0, 0, 10)))
    with pytest.raises(InvariantError, match="slot 3 does not follow a fence"):
        _apply(fold, body)


def test_second_move_under_one_fence_is_refused() -> None:
    fold = _ended()
    _apply(fold, _reset())
    again = _move(old_end=BigInt(25), new_end=BigInt(30), generation=2)
    with pytest.raises(InvariantError, match="rule 2"):
        _apply(fold, _reset(again))
    _apply(fold, fence())
    _apply(fold, _reset(again))
    assert fold.sources["orders", 0].generation == 2


def _retired() -> Fold:
    return fold_of(
        fence(),
        sources(0),
        data(1, 0, span(0, 0, 10)),
        sources(0, start=10, retired=True, how="retired"),
        fence(),
    )


def test_partition_that_is_retired_cannot_be_moved() -> None:
    fold = _retired()
    with pytest.raises(InvariantError, match="is not read"):
        _apply(fold, _reset())


def test_source_change_reads_another_log_in_place_of_a_retired_one() -> None:
    fold = _retired()
    with pytest.raises(InvariantError, match="the committed end is 10"):
        _apply(fold, _change(old_end=BigInt(11)))
    with pytest.raises(InvariantError, match="stays the log that it is"):
        _apply(fold, _change(new_topic_id="t1"))
    assert fold.sources["orders", 0].retired
    _apply(fold, _change())
    known = fold.sources["orders", 0]
    assert (known.retired, known.topic_id, known.end, known.generation) == (False, "t2", 3, 1)
    _apply(fold, data(2, 0, span(0, 3, 5, topic_id="t2")))
    assert known.end == 5
