"""Wrong variants of closing by audited counts. In some of them the fold sees nothing wrong."""

from typing import Any

from sluiceway.eventtime.prefix_periods import Period
from sluiceway.eventtime.readiness import CountedDue, CountRule, DuePrefixes, OpenPrefixes
from sluiceway.ledger.counts_records import CountsRecord
from sluiceway.ledger.folding.fold_state import FoldState
from sluiceway.upkeep.partition_bodies import counts_body


def a_count_is_enough(fold: FoldState, prefix: str) -> bool:
    """Whoever was counted is there."""
    return prefix in fold.counted.rows


def nobody_needs_a_count(rule: CountRule, period: Period) -> bool:
    """The watermark decides, whatever was counted."""
    del rule, period
    return False


def one_row_may_be_missing(fold: FoldState, prefix: str) -> bool:
    """Almost all is all."""
    expected = fold.counted.rows.get(prefix)
    return expected is not None and fold.rows_below(prefix) >= expected - 1


def in_no_order(
    book: OpenPrefixes, watermark_us: int | None, rule: CountRule, is_there: Any, most: int = 10_000
) -> CountedDue:
    """Whoever has all rows is closed, what is before it as well or not."""
    del most
    found = [
        each
        for each in book.open
        if is_there(each.prefix)
        and (rule.alone or (watermark_us is not None and book.bound_us(each) <= watermark_us))
    ]
    if not found:
        return CountedDue(None, None)
    passed = [book.bound_us(each) for each in found]
    bounds = [each for each in passed if watermark_us is not None and each <= watermark_us]
    counted = tuple(each.prefix for each in found)
    due = DuePrefixes(tuple(found), max(bounds, default=None), counted=counted)
    return CountedDue(due, None)


def never_due(book: OpenPrefixes, *asked: Any) -> CountedDue:
    """What was counted waits for ever."""
    del book, asked
    return CountedDue(None, None)


def counts_what_is_closed(
    fold: Any, closed: Any, log: Any, ends: Any, counts: Any
) -> CountsRecord | None:
    """The driver asks the ledger alone what is closed, not itself."""
    del closed
    return counts_body(fold, (), log, ends, counts)
