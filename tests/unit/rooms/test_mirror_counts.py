"""Rows of a copy against rows of the table: when they are compared."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from sluiceway.ledger.folding.fold_state import SourceState
from sluiceway.rooms.mirror_counts import MirrorCounts
from sluiceway.rooms.positions import (
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
