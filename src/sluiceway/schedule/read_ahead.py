"""How many records the splits of an epoch will hold: those in the logs, and those to come."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sluiceway.schedule.planner import PlannedSplit
from sluiceway.sources.contract import LogBounds, SourcePartition

# Looks that follow each other closer than this say nothing about a rate.
_LEAST_APART_S = 0.2
# Weight of the newest reading; the rest is what was known before.
_NEWEST_SHARE = 0.5


@dataclass(slots=True)
class _Growth:
    """How fast one log grows: its end when it was last read, and records a second."""

    at: float
    end: int
    per_s: float = 0.0


class ReadAhead:
    """Expects the records of a route's splits. Owned by its session, used by one thread.

    Args:
        interval_s: Length of an epoch.
        clock: Monotonic seconds.
    """

    def __init__(self, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._known: dict[SourcePartition, _Growth] = {}

    def expect(
        self, splits: Sequence[PlannedSplit], bounds: Mapping[SourcePartition, LogBounds]
    ) -> list[PlannedSplit]:
        """Say of each split how many records it will hold. Called once per planned epoch.

        Args:
            splits: Splits of the epoch; in a bounded run they have their stops.
            bounds: Bounds of at least these source partitions, as just read.

        Returns:
            The same splits with `expected_records` and `lag_records`.
        """
        now = self._clock()
        return [self._expected(each, bounds[each.split.partition], now) for each in splits]

    def _expected(self, planned: PlannedSplit, place: LogBounds, now: float) -> PlannedSplit:
        split = planned.split
        per_s = self._growth_per_s(split.partition, place.end_offset, now)
        lag = max(0, place.end_offset - split.start_offset)
        if split.stop_offset is not None:
            lag = min(lag, max(0, split.stop_offset - split.start_offset))
            return replace(planned, expected_records=lag, lag_records=lag)
        more = round(per_s * self._interval_s)
        return replace(planned, expected_records=lag + more, lag_records=lag)

    def _growth_per_s(self, partition: SourcePartition, end: int, now: float) -> float:
        known = self._known.get(partition)
        if known is None:
            # Nothing is known of the time before: all of its lag may be a day old.
            self._known[partition] = _Growth(now, end)
            return 0.0
        apart_s = now - known.at
        if apart_s >= _LEAST_APART_S:
            newest = max(0, end - known.end) / apart_s
            known.per_s += (newest - known.per_s) * _NEWEST_SHARE
            known.at, known.end = now, end
        return known.per_s
