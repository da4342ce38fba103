"""How far the audited counts of a time are, by the ledger alone."""

from dataclasses import dataclass

from sluiceway.eventtime.prefix_periods import Period
from sluiceway.eventtime.readiness import CountedDue, OpenPrefixes
from sluiceway.jobfile.compile.ready_rule import ReadyRule
from sluiceway.ledger.folding.fold_state import FoldState


@dataclass(frozen=True, slots=True)
class ObservedCounts:
    """Of a time that is open.

    Attributes:
        have: Committed rows.
        expected: As the last count says; None when none has come.
    """

    have: int
    expected: int | None


def counts_of(fold: FoldState, ready: ReadyRule, period: Period) -> ObservedCounts | None:
    """What is there and what was counted; None for a time that needs no count."""
    counts = ready.counts
    if counts is None or period.prefix in fold.closed or not counts.decide.needs_count(period):
        return None
    prefix = period.prefix
    return ObservedCounts(fold.rows_below(prefix), fold.counted.rows.get(prefix))


def counted_due(fold: FoldState, ready: ReadyRule) -> CountedDue:
    """What the driver closes next, and the time that nothing but its count holds."""
    counts = ready.counts
    if counts is None:
        return CountedDue(None, None)
    book = OpenPrefixes(ready.periods(), ready.lateness_us)
    book.see_closed(fold.closed)
    book.see_partitions(name for name, each in fold.partitions.items() if not each.expired)
    return book.due_counted(fold.watermark.us, counts.decide, fold.has_counted)


def counts_text(fold: FoldState, seen: ObservedCounts) -> str:
    """In words, with what may be missing."""
    if seen.expected is None:
        return f"counts: no count has come for it, and {seen.have:,} rows are there"
    text = f"counts: have {seen.have:,} of {seen.expected:,} rows"
    missing = seen.have < seen.expected and fold.dirty_rows_open > 0
    return text + (f"; {fold.dirty_rows_open:,} dirty rows of the route are open" * missing)
