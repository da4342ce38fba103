"""Which prefixes may be closed, which may be announced, and what keeps the others open.

Decided from the watermark in the ledger alone (commit rules 6, 12, 30a). Values only, without
I/O: times are int64 microseconds since the epoch, UTC.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from sluiceway.eventtime.prefix_periods import Period, PrefixPeriods
from sluiceway.eventtime.watermark import SourceStatus, SourceVerdict, WatermarkRule
from sluiceway.types.log_key import LogKey

MOST_EMPTY = 10_000
"""Most prefixes without a row that are closed in one stretch: 416 days of hours."""


@dataclass(frozen=True, slots=True)
class DuePrefixes:
    """Prefixes that have to be closed now.

    Attributes:
        periods: The prefixes, in time order.
        bound_us: Greatest end + lateness of the periods that the watermark closes, in microseconds
            since the epoch; None when counts alone close all of them.
        skipped: How many prefixes without a row are left out, because one stretch has too many.
        counted: Prefixes that have all rows of their audited counts.
    """

    periods: tuple[Period, ...]
    bound_us: int | None
    skipped: int = 0
    counted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CountRule:
    """Which prefixes need an audited count before they are closed.

    Attributes:
        since_us: Prefixes that begin before it need no count; None when all need one.
        alone: Whether the count alone decides, without the watermark.
    """

    since_us: int | None = None
    alone: bool = False

    def needs_count(self, period: Period) -> bool:
        """Whether a prefix waits for its count."""
        return self.since_us is None or period.begin_us >= self.since_us


@dataclass(frozen=True, slots=True)
class CountedDue:
    """Prefixes that may be closed where counts decide too.

    Attributes:
        due: The prefixes to close; None when there are none.
        waits: The first prefix that waits only for its count; all later ones wait as well.
    """

    due: DuePrefixes | None
    waits: Period | None


class OpenPrefixes:
    """Which prefixes of one route are open and which are closed. Used by one thread.

    Prefixes without a row are closed too, from the first one with rows on: a stretch of time
    without rows is complete as well.

    Args:
        periods: Periods of the table's leading time columns.
        lateness_us: How long after its end a prefix stays open, in event time, microseconds.
    """

    def __init__(self, periods: PrefixPeriods, lateness_us: int) -> None:
        self.periods = periods
        self.lateness_us = lateness_us
        self._open: dict[str, Period] = {}
        self._closed: set[str] = set()
        self._last: Period | None = None

    def see_closed(self, prefixes: Iterable[str]) -> None:
        """Add prefixes that are closed. Safe to repeat."""
        for prefix in prefixes:
            if prefix in self._closed:
                continue
            self._closed.add(prefix)
            self._open.pop(prefix, None)
            period = self.periods.of(prefix)
            if period is not None and (self._last is None or period > self._last):
                self._last = period

    def see_partitions(self, partitions: Iterable[str]) -> None:
        """Add partitions that have rows. Safe to repeat."""
        for partition in partitions:
            period = self.periods.of(partition)
            if period is not None and period.prefix not in self._closed:
                self._open[period.prefix] = period

    @property
    def open(self) -> tuple[Period, ...]:
        """Prefixes with rows that are open, in time order."""
        return tuple(sorted(self._open.values()))

    def without_rows(self, until_us: int, most: int = MOST_EMPTY) -> list[Period]:
        """Prefixes that end by a moment, are not closed and have no row yet, in order of time.

        Only the latest when there are too many. They begin after the last closed prefix, or after
        the first one with rows.

        Args:
            until_us: The moment, by any clock.
            most: Most prefixes.
        """
        last = self._last if self._last is not None else min(self._open.values(), default=None)
        empty, _ = ([], 0) if last is None else self._empty(last, until_us, most)
        return [each for each in empty if each.prefix not in self._open]

    def bound_us(self, period: Period) -> int:
        """The watermark that closes a prefix. A row at the very bound is in time."""
        return period.end_us + self.lateness_us

    def due(self, watermark_us: int | None, most_empty: int = MOST_EMPTY) -> DuePrefixes | None:
        """Prefixes that the watermark closes; None when there are none.

        Args:
            watermark_us: Watermark of the route in the ledger; None without one.
            most_empty: Most prefixes without a row that are closed in one stretch.
        """
        if watermark_us is None:
            return None
        until_us = watermark_us - self.lateness_us
        due = {each.prefix: each for each in self._open.values() if each.end_us <= until_us}
        last = self._last if self._last is not None else min(due.values(), default=None)
        skipped = 0
        if last is not None:
            empty, skipped = self._empty(last, until_us, most_empty)
            for each in empty:
                if each.prefix not in self._closed:
                    due.setdefault(each.prefix, each)
        if not due:
            return None
        ordered = tuple(sorted(due.values()))
        return DuePrefixes(ordered, self.bound_us(ordered[-1]), skipped)

    def due_announced(
        self, prefixes: Iterable[str], watermark_us: int | None
    ) -> DuePrefixes | None:
        """What is closed because another table has announced it; None when that is nothing.

        Args:
            prefixes: That the other table has announced, all of them.
            watermark_us: Watermark of the route by its ledger, in microseconds; None without one.
        """
        first = self._last if self._last is not None else min(self._open.values(), default=None)
        found = {
            each.prefix: each
            for prefix in prefixes
            if prefix not in self._closed and (each := self.periods.of(prefix)) is not None
        }
        due = [
            each
            for each in found.values()
            if each.prefix in self._open or (first is not None and each > first)
        ]
        if not due:
            return None
        ordered = tuple(sorted(due))
        # The ledger wants a bound that its own watermark has reached.
        bound_us = None if watermark_us is None else min(watermark_us, self.bound_us(ordered[-1]))
        return DuePrefixes(ordered, bound_us)

    def due_counted(
        self,
        watermark_us: int | None,
        rule: CountRule,
        is_there: Callable[[str], bool],
        most: int = MOST_EMPTY,
    ) -> CountedDue:
        """As `due`, in strict order of time; a prefix needs all rows that were counted for it.

        Args:
            watermark_us: Watermark of the route in the ledger; None without one.
            rule: Which prefixes need a count.
            is_there: Whether the count of a prefix has come, and as many rows are committed.
            most: Most prefixes that are closed in one stretch; more follow in the next.
        """
        there = functools.cache(is_there)
        # Prefixes before a closed one are closed to rows, and wait for no order.
        due = [
            each
            for each in self._behind_last()
            if self._has_passed(each, watermark_us) or there(each.prefix)
        ]
        waits: Period | None = None
        period: Period | None = self._next_in_order()
        while period is not None and len(due) < most:
            passed = self._has_passed(period, watermark_us)
            needs = rule.needs_count(period)
            if not passed and not (needs and rule.alone):
                break
            if needs and not there(period.prefix):
                waits = period
                break
            due.append(period)
            period = self.periods.after(period)
        if not due:
            return CountedDue(None, waits)
        due.sort()
        counted = [each.prefix for each in due if there(each.prefix)]
        passed_ones = [each for each in due if self._has_passed(each, watermark_us)]
        bound_us = max((self.bound_us(each) for each in passed_ones), default=None)
        return CountedDue(DuePrefixes(tuple(due), bound_us, counted=tuple(counted)), waits)

    def _has_passed(self, period: Period, watermark_us: int | None) -> bool:
        return watermark_us is not None and self.bound_us(period) <= watermark_us

    def _behind_last(self) -> list[Period]:
        last = self._last
        return [] if last is None else [each for each in self.open if each <= last]

    def _next_in_order(self) -> Period | None:
        if self._last is not None:
            return self.periods.after(self._last)
        return min(self._open.values(), default=None)

    def _empty(self, last: Period, until_us: int, most: int) -> tuple[list[Period], int]:
        """Periods after `last` that end by `until_us`; only the latest of too many."""
        first = self.periods.after(last)
        if first is None or first.end_us > until_us:
            return [], 0
        length_us = max(1, first.end_us - first.begin_us)
        many = (until_us - first.begin_us) // length_us
        skipped = 0
        if many > most:
            later = self.periods.at(until_us - most * length_us)
            if later > first:
                skipped = (later.begin_us - first.begin_us) // length_us
                first = later
        return list(self.periods.between(first, until_us)), skipped


def next_to_announce(
    closed: Mapping[str, int], periods: PrefixPeriods, most: int | None = None
) -> list[str]:
    """Prefixes that were never announced, in the order in which they may be.

    A prefix is announced after all that end before it; a prefix that has to wait holds later ones.

    Args:
        closed: Prefix -> version of its last announcement, 0 for none, as the ledger has them.
        periods: Periods of the table.
        most: Most prefixes; None for all.
    """
    waiting = [prefix for prefix, version in closed.items() if version == 0]
    found = [(periods.of(prefix), prefix) for prefix in waiting]
    ordered = sorted((period, prefix) for period, prefix in found if period is not None)
    # Prefixes that others have closed are in no order of ours.
    rest = sorted(prefix for period, prefix in found if period is None)
    return [*(prefix for _, prefix in ordered), *rest][:most]


@dataclass(frozen=True, slots=True)
class Holder:
    """A source partition that keeps a prefix open.

    Attributes:
        needs_us: Event time that it has to reach.
        at_us: Event time that it has reached; None when it never had a row.
        since_us: Since when it has brought no row; None when that is not known.
        expected_us: When it will let go at its present pace; None when that is not known.
        reason: Why it holds the prefix, in words.
    """

    topic: str
    partition: LogKey
    status: SourceStatus
    at_us: int | None
    needs_us: int
    behind_records: int | None
    since_us: int | None
    expected_us: int | None
    reason: str


def holders_of(
    bound_us: int, rule: WatermarkRule, verdicts: Collection[SourceVerdict], read_at_us: int
) -> tuple[Holder, ...]:
    """Source partitions that keep a prefix open, the slowest first.

    Args:
        bound_us: The watermark that closes it (`OpenPrefixes.bound_us`).
        rule: Watermark rule of the route.
        verdicts: Verdicts of all source partitions that are read.
        read_at_us: When their log ends were read.

    Returns:
        Empty when the watermark has passed the prefix, or when all are idle and the watermark only
        waits for `idle_after`.
    """
    needs_us = bound_us + rule.out_of_orderness_us
    found = [
        _holder(each, rule, needs_us, read_at_us)
        for each in verdicts
        if each.holds and (each.event_time_us is None or each.event_time_us < needs_us)
    ]
    found.sort(key=lambda each: (each.at_us is not None, each.at_us or 0, each.topic))
    return tuple(found)


def _holder(verdict: SourceVerdict, rule: WatermarkRule, needs_us: int, read_at_us: int) -> Holder:
    expected = None
    if verdict.status is SourceStatus.ACTIVE:
        # Without rows it becomes idle; else its rows go on with the clock.
        candidates = [read_at_us + rule.idle_after_us]
        if verdict.quiet_since_us is not None:
            candidates = [verdict.quiet_since_us + rule.idle_after_us]
        if verdict.event_time_us is not None:
            candidates.append(read_at_us + needs_us - verdict.event_time_us)
        expected = max(read_at_us, min(candidates))
    reason = verdict.reason or (
        "it has no row yet" if verdict.event_time_us is None else "its rows are not so far yet"
    )
    return Holder(
        topic=verdict.key[0],
        partition=verdict.key[1],
        status=verdict.status,
        at_us=verdict.event_time_us,
        needs_us=needs_us,
        behind_records=verdict.behind_records,
        since_us=verdict.quiet_since_us,
        expected_us=expected,
        reason=reason,
    )
