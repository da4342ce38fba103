"""Which partitions are older than the job file keeps them. Decided from the ledger; no I/O."""

from dataclasses import dataclass

from sluiceway.eventtime.prefix_periods import PrefixPeriods
from sluiceway.ledger.folding.fold_state import FoldState, PartitionState

MOST_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """How long partitions are kept.

    Attributes:
        keep_us: In event time, from the end of a partition's time on.
        text: The same as it is written.
        drop: Whether the driver removes their files too.
        columns: Name and pattern of each leading time column.
        timezone: That their texts are in.
        announced: Whether times are announced: then none goes that is not.
    """

    keep_us: int
    text: str
    drop: bool
    columns: tuple[tuple[str, str], ...]
    timezone: str
    announced: bool


def expired_by_age(fold: FoldState, rule: RetentionRule, now_us: int) -> list[str]:
    """Partitions that are to go now, the oldest first, at most `MOST_AT_ONCE`.

    A partition that is open never goes, and none by the clock alone. Where times are announced,
    its own has to be, with all rows that have come; elsewhere every source partition has to be
    that far, or rows that are still to be read would begin it anew.

    Args:
        fold: State of the ledger now.
        rule: What the route keeps, and for how long.
        now_us: The clock, which event times never make later.
    """
    reached_us = _reached_us(fold, announced=rule.announced)
    if reached_us is None:
        return []
    bound_us = min(reached_us, now_us) - rule.keep_us
    periods = PrefixPeriods(rule.columns, rule.timezone)
    busy = {intent.partition for intent in fold.intents.values()}
    due = []
    for name, state in fold.partitions.items():
        if state.expired or name in busy or (rule.drop and not state.whole):
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

    Never beyond the newest row: where all are idle the watermark follows the clock alone, and one
    that is wrong for a moment must not cost what was kept.
    """
    if announced:
        newest = [known.max_event_time_us for known in fold.sources.values()]
        newest_us = max((each for each in newest if each is not None), default=None)
        known_us = fold.watermark.us
        return None if known_us is None or newest_us is None else min(known_us, newest_us)
    times = [known.max_event_time_us for known in fold.sources.values() if not known.retired]
    seen = [each for each in times if each is not None]
    return min(seen) if seen and len(seen) == len(times) else None
