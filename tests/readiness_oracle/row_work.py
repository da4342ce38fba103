"""What a task does with its rows' times: the product's vectorised code, on Arrow batches."""

from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from readiness_oracle.bodies import TOPIC
from readiness_oracle.decider import Batch, Fate
from readiness_oracle.history import Route
from sluiceway.schedule.closed_hint import ClosedHint
from sluiceway.schedule.epoch_times import EpochDates
from sluiceway.sinks.partition_path import partition_folder
from sluiceway.sources.contract import SourcePartition
from sluiceway.worker.late_rows import LateJudge, LateSplit
from sluiceway.worker.plan import EventTimeRule, LatePlace, LatePolicy, LateRule, PartitionRule
from sluiceway.worker.row_times import RowTimesReader, partition_assigner, times_of

Placed = tuple[Fate, str | None]
"""What became of a row, and the folder that it is written to."""

_SCHEMA = pa.schema([("at", pa.int64()), ("app", pa.string())])
_APPS = ("ads", "web")


def counted_time(event: int, read_at: int) -> int:
    """What a row adds to its source partition's watermark (commit rule 23)."""
    return min(event, read_at)


def late_rule(route: Route) -> LateRule:
    """As the job file's blocks come to."""
    return LateRule(LatePolicy(route.policy), route.archive_window, route.out_of_orderness)


class _Columns:
    """What is the same for all tasks of a route; made once for all routes that are so."""

    def __init__(
        self,
        zone: str,
        patterns: tuple[tuple[str, str], ...],
        *,
        spreads: bool,
        max_future: int,
    ) -> None:
        self.rule = EventTimeRule(("at",), "us", zone, max_future_us=max_future)
        self.partitions = tuple(PartitionRule(name, pattern, None) for name, pattern in patterns)
        if spreads:
            self.partitions += (PartitionRule("app", None, "app"),)
        self.names = [column.name for column in self.partitions]
        self.times = RowTimesReader(self.rule, self.partitions, _SCHEMA)
        self.assigner = partition_assigner(self.partitions, self.rule, _SCHEMA)


@cache
def _columns(
    zone: str, patterns: tuple[tuple[str, str], ...], *, spreads: bool, max_future: int
) -> _Columns:
    return _Columns(zone, patterns, spreads=spreads, max_future=max_future)


class RowTask:
    """One task of one epoch.

    Args:
        dates: What the epoch knows of time.
        closed: Prefixes that were closed when it was planned.
        batches: What it reads.
    """

    def __init__(
        self, route: Route, dates: EpochDates, closed: tuple[str, ...], batches: Sequence[Batch]
    ) -> None:
        self._columns = _columns(
            route.zone, route.patterns, spreads=route.spreads, max_future=route.max_future
        )
        self._batches = batches
        splits = tuple(
            SimpleNamespace(partition=SourcePartition(TOPIC, batch.span.source))
            for batch in batches
        )
        told = SimpleNamespace(
            late=late_rule(route),
            partitions=self._columns.partitions,
            event_time=self._columns.rule,
        )
        few = ClosedHint().of(cast("Any", told), closed)
        times = dates.for_splits(cast("Any", splits), few)
        plan = SimpleNamespace(route=told, times=times, splits=splits)
        self._late = LateJudge(cast("Any", plan), self._columns.assigner)

    def run(self, read_at: int) -> list[Placed]:
        """Fates of all rows, in the order of batches and rows."""
        events = [event for batch in self._batches for event in batch.events]
        found: list[Placed] = [(Fate.DIRTY, None)] * len(events)
        if not events:
            return found
        apps = [_APPS[number % 2] for number in range(len(events))]
        rows = pa.record_batch([pa.array(events, pa.int64()), pa.array(apps)], schema=_SCHEMA)
        columns = self._columns
        times, dirty = columns.times.read(rows, pa.array(range(len(events))), (), read_at)
        kept = np.ones(len(events), dtype=np.bool_)
        kept[[each.index for each in dirty]] = False
        if dirty:
            rows, times = rows.filter(pa.array(kept)), times_of(times, kept)
        left = np.flatnonzero(kept)
        if len(left):
            assigned = columns.assigner.assign(rows, times)
            bounds = np.cumsum([0, *(len(batch.events) for batch in self._batches)])
            cuts = np.searchsorted(left, bounds).tolist()
            spans = list(zip(range(len(self._batches)), cuts[:-1], cuts[1:], strict=True))
            going = self._late.judge(assigned.values, assigned.codes, times.event, spans)
            for place, row in zip(self._placed(going), left.tolist(), strict=True):
                found[row] = place
        return found

    def _placed(self, going: LateSplit) -> list[Placed]:
        names, dirty = self._columns.names, {each.index for each in going.dirty}
        fates = [0] * len(going.codes) if going.fates is None else going.fates.tolist()
        found: list[Placed] = []
        for row, (code, fate) in enumerate(zip(going.codes.tolist(), fates, strict=True)):
            place = going.places[code]
            if row in dirty:
                found.append((Fate.DIRTY, None))
            elif isinstance(place, LatePlace):
                # Nothing but its mark says that it is counted.
                found.append((Fate.LATE if fate else Fate.WRITTEN, None))
            else:
                folder = partition_folder(names, place)
                found.append((Fate.LATE if fate else Fate.WRITTEN, folder))
        return found
