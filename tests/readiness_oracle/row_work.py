"""What a task does with the times of its rows: the product's vectorised code on arrow batches."""

from collections.abc import Iterable, Sequence
from functools import cache

import pyarrow as pa

from readiness_oracle.decider import Fate
from readiness_oracle.history import Route
from sluiceway.eventtime.closed_prefixes import ClosedPrefixes
from sluiceway.eventtime.prefix_periods import PrefixPeriods
from sluiceway.sinks.hive.partition_path import partition_folder
from sluiceway.worker.plan import EventTimeRule, PartitionRule
from sluiceway.worker.row_times import RowTimesReader, partition_assigner, times_of

_SCHEMA = pa.schema([("at", pa.int64()), ("app", pa.string())])
_APPS = ("ads", "web")


@cache
def _task(
    zone: str, patterns: tuple[tuple[str, str], ...], *, spreads: bool, max_future: int
) -> "_Task":
    return _Task(zone, patterns, spreads=spreads, max_future=max_future)


class _Task:
    def __init__(
        self,
        zone: str,
        patterns: tuple[tuple[str, str], ...],
        *,
        spreads: bool,
        max_future: int,
    ) -> None:
        rule = EventTimeRule(("at",), "us", zone, max_future_us=max_future)
        columns = [
            PartitionRule(name=name, pattern=pattern, column=None) for name, pattern in patterns
        ]
        if spreads:
            columns.append(PartitionRule(name="app", pattern=None, column="app"))
        self.times = RowTimesReader(rule, columns, _SCHEMA)
        self.assigner = partition_assigner(columns, rule, _SCHEMA)
        self.names = [column.name for column in columns]


def place_rows(route: Route, events: Sequence[int | None], read_at: int) -> list[str | None]:
    """Folders of one task's rows by their own times; None where a row is dirty."""
    if not events:
        return []
    task = _task(route.zone, route.patterns, spreads=route.spreads, max_future=route.max_future)
    apps = [_APPS[number % 2] for number in range(len(events))]
    rows = pa.record_batch([pa.array(events, pa.int64()), pa.array(apps)], schema=_SCHEMA)
    times, dirty = task.times.read(rows, pa.array(range(len(events))), (), read_at)
    left = {each.index for each in dirty}
    keep = [number not in left for number in range(len(events))]
    if left:
        mask = pa.array(keep)
        rows, times = rows.filter(mask), times_of(times, mask.to_numpy(zero_copy_only=False))
    if not rows.num_rows:
        return [None] * len(events)
    found = task.assigner.assign(rows, times)
    folders = [partition_folder(task.names, values) for values in found.values]
    codes = iter(found.codes.tolist())
    return [folders[next(codes)] if kept else None for kept in keep]


def counted_time(event: int, read_at: int) -> int:
    """What a row adds to its source partition's watermark (commit rule 23)."""
    return min(event, read_at)


class LateRule:
    """Which rows are late, and where they go. One epoch's.

    Args:
        closed: Prefixes that were closed when it was planned.
        watermark: Of the route, then.
    """

    def __init__(
        self,
        route: Route,
        periods: PrefixPeriods,
        closed: Iterable[str],
        watermark: int | None,
    ) -> None:
        self._route = route
        self._periods = periods
        self._closed = ClosedPrefixes(periods, closed)
        self._watermark = watermark

    def fate(
        self, event: int | None, folder: str | None, before: int | None
    ) -> tuple[Fate, str | None]:
        """What becomes of a row, and the folder that it is written to.

        Args:
            folder: Of its own time; None when it is dirty.
            before: Watermark of its source partition when the epoch was planned.
        """
        if event is None or folder is None:
            return Fate.DIRTY, None
        closed = self._closed.holds(folder)
        old = before is not None and event < before - self._route.archive_window
        if not closed and not old:
            return Fate.WRITTEN, folder
        policy = self._route.policy
        if policy == "reopen" and not old:
            return Fate.LATE, folder
        if policy == "redirect" and self._watermark is not None:
            return Fate.LATE, self._redirected(folder, self._watermark)
        return (Fate.DIRTY if policy == "dirty" else Fate.LATE), None

    def _redirected(self, folder: str, watermark: int) -> str:
        """The same partition of the watermark's hour."""
        values = folder.split("/")[self._periods.depth :]
        return "/".join([self._periods.at(watermark).prefix, *values])
