"""What an epoch knows of time when it is planned: by which clock rows are read, what is late."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sluiceway.eventtime.partition_time import TimeKind
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.records import DataRecord
from sluiceway.schedule.steady_clock import process_clock
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import PROCESSING_TIME, EpochTimes, LateRule, RoutePlan


def _steady_us() -> int:
    return process_clock().now_us()


@dataclass(frozen=True, slots=True)
class EpochDates:
    """What one epoch knows of time.

    Attributes:
        clock_us: The driver's clock when it was planned.
        planned: When it was planned, in seconds of the monotonic clock.
        late_before_us: Source partition -> a row of it before this time is late.
        watermark_us: The route's watermark; None before there is one.
    """

    clock_us: int = 0
    planned: float = 0.0
    late_before_us: Mapping[SourcePartition, int] = field(default_factory=dict)
    watermark_us: int | None = None

    def for_splits(self, splits: tuple[Split, ...], closed: tuple[str, ...]) -> EpochTimes:
        """The times that a task gets.

        Args:
            splits: Splits of the task.
            closed: Prefixes that rows of the epoch reach by the late policy only.
        """
        bounds = tuple(self.late_before_us.get(split.partition) for split in splits)
        return EpochTimes(
            clock_us=self.clock_us,
            closed=closed,
            late_before_us=bounds if any(bound is not None for bound in bounds) else (),
            watermark_us=self.watermark_us,
        )

    def until_us(self, at: float) -> int:
        """The clock, carried on to a moment of the monotonic one: no row was read later."""
        return self.clock_us + max(0, int((at - self.planned) * 1_000_000))

    def dated(self, record: DataRecord, route: RoutePlan, at: float) -> DataRecord:
        """The record of the epoch, with the clock where rows go by it.

        Args:
            record: The record as the tasks have answered.
            route: Says whether they do.
            at: When the tasks had answered, on the monotonic clock.
        """
        return replace(record, clock_us=BigInt(self.until_us(at))) if is_by_clock(route) else record


UNDATED = EpochDates()


@dataclass(slots=True)
class EpochClock:
    """The driver's clock of one route, which never falls (commit rule 23). Used by one thread.

    Attributes:
        wall_us: Microseconds since the epoch, UTC; may be earlier than what it has said.
    """

    wall_us: Callable[[], int] = _steady_us
    _last: EpochDates = UNDATED

    def date(self, fold: Fold, rule: LateRule) -> EpochDates:
        """What an epoch that is planned now knows of time. Called once an epoch.

        Args:
            fold: What it is planned from.
            rule: When rows are late.
        """
        now = time.monotonic()
        # Tasks of the epoch before may have dated rows up to now by the clock that it was given.
        before_us = self._last.until_us(now) if self._last.clock_us else 0
        self._last = EpochDates(
            clock_us=max(self.wall_us(), fold.clock_us, before_us),
            planned=now,
            late_before_us=late_before_us(fold, rule),
            watermark_us=watermark_us(fold, rule),
        )
        return self._last


def late_before_us(fold: Fold, rule: LateRule) -> dict[SourcePartition, int]:
    """Source partition -> a row of it before this time is late; none without any event time yet.

    Args:
        fold: Committed event times of source partitions.
        rule: Without a window no row is late by its age.
    """
    window_us = rule.window_us
    if window_us is None:
        return {}
    return {
        SourcePartition(topic, number): known.max_event_time_us - window_us
        for (topic, number), known in fold.sources.items()
        if known.max_event_time_us is not None
    }


def watermark_us(fold: Fold, rule: LateRule) -> int | None:
    """Where rows are redirected to: the route's watermark, or what it would be without idleness."""
    if fold.watermark.us is not None:
        return fold.watermark.us
    times = [
        known.max_event_time_us
        for known in fold.sources.values()
        if not known.retired and known.max_event_time_us is not None
    ]
    return min(times) - rule.out_of_orderness_us if times else None


def is_by_clock(route: RoutePlan) -> bool:
    """Whether the time at which a row is read says where it goes."""
    rule = route.event_time
    by_event = rule is not None and rule.name == PROCESSING_TIME
    return by_event or any(each.kind is TimeKind.PROCESSING for each in route.partitions)
