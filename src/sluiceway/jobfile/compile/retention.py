"""Partitions that are older than the job file keeps them. Decided from the ledger; no I/O."""

from dataclasses import dataclass

from sluiceway.eventtime.prefix_periods import PrefixPeriods
from sluiceway.ledger.folding.fold_state import FoldState, PartitionState

MOST_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """How long partitions are kept.

    Attributes:
        keep_us: How long, in event time from the end of a partition's time on, microseconds.
        text: The same duration as it is written.
        drop: Whether the driver removes their files too.
        columns: Name and pattern of each leading time column.
        timezone: Time zone of their texts.
        announced: Whether times are announced: then only announced ones expire.
    """

    keep_us: int
    text: str
    drop: bool
    columns: tuple[tuple[str, str], ...]
    timezone: str
    announced: bool


def expired_by_age(fold: FoldState, rule: RetentionRule, now_us: int) -> list[str]:
    """Partitions to remove now, the oldest first, at most `MOST_AT_ONCE`.

    An open partition never expires, and no partition expires by the clock alone. Where times are
    announced, its own must be, with all rows so far. Otherwise every source partition must be past
    it, or rows that are still unread would create it again.

    Args:
        fold: State of the ledger now.
        rule: Retention of the route.
        now_us: The clock, an upper bound for event times.
    """
    reached_us = _reached_us(fold, announced=rule.announced)
    if reached_us is None:
        return []
    bound_us = min(reached_us, now_us) - rule.keep_us
    periods = PrefixPeriods(rule.columns, rule.timezone)
    due = []
    for name, state in fold.partitions.items():
        if state.expired or fold.is_worked_on(name) or (rule.drop and not state.whole):
            continue
        period = periods.of(name)
        if period is None or period.end_us > bound_us:
            continue
        if rule.announced and not _is_announced(fold, period.prefix, state):
            continue
        due.append((period, name))
    return [name for _, name in sorted(due)[:MOST_AT_ONCE]]


def _is_announced(fold: FoldState, prefix: str, state: PartitionState) -> bool:
    closed = fold.closed.get(prefix)
    return closed is not None and closed.version > 0 and not state.has_rows_since(closed.ready_seq)


def _reached_us(fold: FoldState, *, announced: bool) -> int | None:
    """Event time up to which the route is complete; None when that is not known.

    Never after the newest row. Where all source partitions are idle, the watermark follows the
    clock alone; a clock that is wrong for a moment must not remove partitions.
    """
    if announced:
        newest = [known.max_event_time_us for known in fold.sources.values()]
        newest_us = max((each for each in newest if each is not None), default=None)
        known_us = fold.watermark.us
        return None if known_us is None or newest_us is None else min(known_us, newest_us)
    times = [known.max_event_time_us for known in fold.sources.values() if not known.retired]
    seen = [each for each in times if each is not None]
    return min(seen) if seen and len(seen) == len(times) else None
