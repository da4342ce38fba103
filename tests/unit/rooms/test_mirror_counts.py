"""Rows of a copy against rows of the table: when they are compared."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from sluiceway.ledger.folding.fold_state import SourceState
from sluiceway.rooms.mirror_counts import MirrorCounts
from sluiceway.rooms.positions import (
    MIRROR_CLOSED,
    MIRROR_ONLY,
    CopiedLog,
    PositionMethod,
    ResumePosition,
)
from sluiceway.sources.contract import LogBounds, SourceIdentity, SourcePartition
from tools.ledger_records import data, fence, fold_of, record, sources, span

ONE = SourcePartition("orders", 0)
LOG = CopiedLog(
    ONE,
    SourceState("c1", "t1", 0, "earliest", 10),
    SourceIdentity("c2", "t2"),
    LogBounds(0, 99, 99),
)


def inside(offset: int, log: CopiedLog = LOG) -> ResumePosition:
    return ResumePosition(log, offset, PositionMethod.INSIDE)


def counted(spans: Mapping[SourcePartition, tuple[int, int]]) -> dict[SourcePartition, int]:
    """Every offset of the copy is a row."""
    return {one: end - first for one, (first, end) in spans.items()}


def committed(counts: MirrorCounts, rows: int) -> None:
    fold = fold_of(fence(), sources(0))
    counts.add([record(fold, data(1, 0, span(0, 0, rows)))])


@pytest.mark.parametrize(
    ("log", "rows", "unfaithful"),
    [
        (LOG, 5, set()),
        (LOG, 4, {"orders/0"}),
        (LOG, 6, {"orders/0"}),
        # A compacted log has fewer rows, and a log after a reset is counted from the start again.
        (replace(LOG, compacted=True), 4, set()),
        (replace(LOG, known=replace(LOG.known, generation=1)), 4, set()),
    ],
)
def test_rows_between_two_positions_are_compared(
    log: CopiedLog, rows: int, unfaithful: set[str]
) -> None:
    counts = MirrorCounts()
    # What came before the first position says nothing.
    committed(counts, 70)
    assert counts.judge([inside(20)], counted) == (inside(20),)
    committed(counts, rows)
    (judged,) = counts.judge([inside(25, log)], counted)
    assert counts.unfaithful == unfaithful
    assert judged.needs == ((MIRROR_ONLY,) if unfaithful else ())
    assert len(counts.problems) == len(unfaithful)


def test_only_positions_by_a_tail_need_more() -> None:
    counts = MirrorCounts(["orders/0"])
    begin = replace(inside(0), method=PositionMethod.BEGIN)
    short = replace(inside(3), method=PositionMethod.SHORT, needs=(MIRROR_ONLY,))
    assert counts.judge([begin, short], counted) == (begin, short)
    assert counts.judge([inside(3)], counted)[0].needs == (MIRROR_ONLY,)


NEEDS = (MIRROR_ONLY, MIRROR_CLOSED)


@pytest.mark.parametrize(
    ("log", "rows", "more", "needs"),
    [
        (LOG, 20, 5, (MIRROR_CLOSED,)),
        # Another writer wrote before the first position, or after it.
        (LOG, 19, 5, NEEDS),
        (LOG, 20, 4, NEEDS),
        # The beginning is not there, or is of another log, or the copy is too long to count.
        (replace(LOG, bounds=LogBounds(1, 99, 99)), 20, 5, NEEDS),
        (replace(LOG, known=replace(LOG.known, generation=1)), 20, 5, NEEDS),
        (replace(LOG, known=replace(LOG.known, how="timestamp")), 20, 5, NEEDS),
        (replace(LOG, compacted=True), 20, 5, NEEDS),
    ],
)
def test_equal_counts_from_the_beginning_take_the_place_of_a_confirmation(
    log: CopiedLog, rows: int, more: int, needs: tuple[str, ...]
) -> None:
    counts = MirrorCounts()
    fold = fold_of(fence(), sources(0))
    counts.begin([record(fold, data(1, 0, span(0, 0, rows)))])
    first, then = (replace(inside(offset, log), needs=NEEDS) for offset in (20, 25))
    counts.judge([first], counted)
    committed(counts, more)
    (judged,) = counts.judge([then], counted)
    assert judged.needs == needs
    assert ("counts" in judged.evidence) is (needs != NEEDS)


def test_a_ledger_that_was_not_counted_from_its_beginning_spares_no_confirmation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    position = replace(inside(20), needs=NEEDS)
    counts = MirrorCounts()
    committed(counts, 20)
    assert counts.judge([position], counted) == (position,)
    monkeypatch.setattr("sluiceway.rooms.mirror_counts.MOST_COUNTED", 19)
    counts = MirrorCounts()
    counts.begin([record(fold_of(fence(), sources(0)), data(1, 0, span(0, 0, 20)))])
    assert counts.judge([position], counted) == (position,)


def test_equal_counts_prove_nothing_of_a_copy_that_ends_early() -> None:
    counts = MirrorCounts()
    counts.begin([record(fold_of(fence(), sources(0)), data(1, 0, span(0, 0, 20)))])
    counts.judge([inside(20)], counted)
    short = replace(inside(20), method=PositionMethod.SHORT, needs=NEEDS)
    assert counts.judge([short], counted) == (short,)
    # Between the two, the copy was read from an earlier offset on: its rows are not known.
    committed(counts, 1)
    (judged,) = counts.judge([replace(inside(19), needs=NEEDS)], counted)
    assert judged.needs == NEEDS
