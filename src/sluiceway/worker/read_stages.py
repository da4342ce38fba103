"""The stages that need no route's own files: count, decode, meta columns, choose, times.

Routes of a task that read the same and decode alike pass them together, once for all.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sluiceway.eventtime.partition_time import TimeKind
from sluiceway.ledger.offset_sum import add_sums, offset_sum
from sluiceway.sources.contract import SourceBatch
from sluiceway.worker.plan import RoutePlan, TaskPlan
from sluiceway.worker.row_batch import RowBatch, RowStage
from sluiceway.worker.row_rules import NO_CHOICES
from sluiceway.worker.row_shares import RowShares
from sluiceway.worker.row_stages import AddMeta, AssignAll, ChooseRows, DecodeRows, ReadTimes
from sluiceway.worker.task_figures import FigureTally, SplitTotals, TaskClock, TaskCounts

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ReadCounts:
    """What was read, for all routes that read it.

    Attributes:
        counts: Rows, and seconds of these stages.
        totals: Rows and sums of offsets of each split.
        figures: For metrics alone.
        routes: Number of the routes.
    """

    counts: TaskCounts
    totals: tuple[SplitTotals, ...]
    figures: FigureTally
    routes: int


class ReadStages:
    """From fetched batches to rows with times. Used by the task's thread.

    Args:
        plan: The task; plans of other routes that share it have an equal `read_key`.
        started: When the task was, on the monotonic clock.
        routes: Number of the routes that share it.
    """

    def __init__(self, plan: TaskPlan, started: float, *, routes: int = 1) -> None:
        route = plan.route
        self._splits = [split.partition for split in plan.splits]
        self._clock = TaskClock(plan.times.clock_us, started)
        self._keeps_tails = route.tails
        counts = TaskCounts()
        totals = tuple(SplitTotals() for _ in plan.splits)
        self.done = ReadCounts(counts, totals, FigureTally(self._splits), routes)
        self.decode = DecodeRows(route, counts)
        self._decode: list[RowStage] = [AddMeta(route, self._splits)]
        self._convert: list[RowStage] = []
        schema, choose = self.decode.schema, ChooseRows
        if route.key is not None:
            from sluiceway.worker import keyed_stages  # noqa: PLC0415 - only where it is used

            self._decode.insert(0, keyed_stages.CompleteKeys(route.key, route.schema, self._splits))
            choose = keyed_stages.ChooseChanges
        if route.choices != NO_CHOICES:
            chosen = choose(route, counts)
            self._convert, schema = [chosen], chosen.schema
        self._convert.append(ReadTimes(route, schema))
        if route.share is not None and all(each.partitioner is None for each in route.partitions):
            self._convert.append(AssignAll(route, schema))
        self.schema: pa.Schema = schema

    def read(self, batches: Sequence[SourceBatch]) -> RowBatch:
        """Count, decode and time what one read returned.

        Args:
            batches: At most one a split; offsets rising within each. Rows of a route without key
                and SQL may come as several batches of a split, one after the other.
        """
        done, since = self.done, time.monotonic()
        now_us = self._clock.now_us()
        bounds = self._count_rows(batches)
        done.figures.count(batches)
        rows = self.decode.decode(batches, bounds, now_us)
        for part, stages in (("decode", self._decode), ("convert", self._convert)):
            for stage in stages:
                stage.apply(rows)
            since = done.counts.add_time(part, since)
        return rows

    def _count_rows(self, batches: Sequence[SourceBatch]) -> list[int]:
        """Add the batches to their splits' totals; where each batch begins among all rows."""
        bounds = [0]
        for batch in batches:
            bounds.append(bounds[-1] + len(batch.values))
            totals = self.done.totals[batch.split_index]
            totals.rows += len(batch.values)
            number = self._splits[batch.split_index].partition
            part = offset_sum(number, np.asarray(batch.offsets, dtype=np.int64))
            totals.offset_sum = add_sums(totals.offset_sum, part)
            if self._keeps_tails:
                totals.tail.add(batch)
        self.done.counts.read += bounds[-1]
        return bounds


def dealt_rows(rows: RowBatch, plans: Sequence[TaskPlan]) -> list[RowBatch]:
    """The rows of each plan; all of one `read_key`.

    The stages of a route replace values of its rows and change none, so the values are shared.
    """
    shares = [plan.route.share for plan in plans if plan.route.share is not None]
    if shares:
        return RowShares(shares).deal(rows)
    return [replace(rows, dirty=list(rows.dirty)) for _ in plans]


def read_key(plan: TaskPlan) -> object:
    """Equal for plans whose rows pass the same `ReadStages`."""
    route = plan.route
    return (
        (route.source, route.tails, plan.splits),
        (route.format, route.schema, route.samples, route.choices, route.meta, route.key),
        (route.event_time, _needs_record_time(route), route.text_keys),
        # One step finds the partitions of all tables of a `route_by`.
        None
        if route.share is None
        else (route.share.column, route.share.pattern, route.partitions),
    )


def _needs_record_time(route: RoutePlan) -> bool:
    return any(each.kind is TimeKind.RECORD for each in route.partitions)
