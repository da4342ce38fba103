"""One epoch landed on this machine's disk, and what its SQL makes of it."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.observe.log import stderr_log
from sluiceway.route.sql_epoch import SqlEpochs
from sluiceway.schedule.planner import PlannedEpoch, PlannedSplit
from sluiceway.schedule.sql_engine import SqlEngine
from sluiceway.schedule.sql_tables import SqlTables
from sluiceway.sources.contract import SourcePartition, Split, SplitEnd
from sluiceway.storage.registry import open_storage
from sluiceway.types.schema import Schema
from sluiceway.worker.answers import TaskTimes, finished_result
from sluiceway.worker.pipeline import RowPipeline
from sluiceway.worker.plan import TaskPlan, TaskResult
from sluiceway.worker.row_rules import NO_CHOICES, RowChoices
from sluiceway.worker.write_behind import WriteBehind
from tools.small_task import AT_NOON, made_batch, route_plan

_READ_ROWS = 5000


@dataclass
class LandedEpoch:
    """An epoch of several tasks, and its SQL.

    Attributes:
        log: What the route's log has got.
    """

    root: Path
    decoded: Schema
    planned: PlannedEpoch
    results: list[TaskResult]
    log: io.StringIO = field(default_factory=io.StringIO)

    def transformed(self, rule: SqlRule, engine: SqlEngine) -> list[TaskResult]:
        """What `SqlEpochs` makes of it."""
        storage, _ = open_storage(str(self.root))
        log = stderr_log(stream=self.log)
        config: Any = _Config(self.decoded)
        tables = SqlTables(rule)
        epochs = SqlEpochs(config, rule, engine, storage, log, lambda: None, tables)
        return epochs.transformed(self.planned, self.results).results

    def rows(self, results: Sequence[TaskResult]) -> list[dict[str, Any]]:
        """Written rows."""
        stage = self.root / "_sluiceway/orders/stage"
        paths = (stage / file.staged for each in results for file in each.files)
        tables = (pq.read_table(path, partitioning=None) for path in paths)
        return [row for table in tables for row in table.to_pylist()]

    def dirty(self, results: Sequence[TaskResult]) -> dict[int, str]:
        """Offset of a dirty row -> its message."""
        stage = self.root / "_sluiceway/orders/stage"
        tables = (pq.read_table(stage / f.staged) for r in results for f in r.dirty_files)
        return {row["offset"]: row["message"] for table in tables for row in table.to_pylist()}


@dataclass
class _Config:
    """As much of a route's config as the SQL asks for."""

    columns: Schema
    choices: RowChoices = NO_CHOICES


def land_epoch(
    root: Path,
    decoded: Schema,
    made: Schema | None,
    rows: Sequence[dict[str, Any]],
    *,
    tasks: int = 2,
    **route: Any,
) -> LandedEpoch:
    """Land JSON rows, whose offsets count from 0, by several tasks."""
    route = {"event_time": None, "partitions": (), "schema": decoded, "sql": made, **route}
    plan = route_plan(str(root), **route)
    storage, _ = open_storage(str(root))
    storage.make_folders(plan.layout.stage)
    results, share = [], -(-len(rows) // tasks) if rows else 0
    by_task: dict[int, tuple[PlannedSplit, ...]] = {}
    for task in range(tasks):
        numbers = range(min(task * share, len(rows)), min((task + 1) * share, len(rows)))
        split = Split(SourcePartition("orders", task), numbers.start, None)
        by_task[task] = (PlannedSplit(split, numbers.start),)
        asked = TaskPlan(plan, 1, task, (split,), 600.0, AT_NOON)
        writes = WriteBehind()
        pipeline = RowPipeline(asked, storage, writes.lane())
        for begin in range(numbers.start, numbers.stop, _READ_ROWS):
            read = rows[begin : min(begin + _READ_ROWS, numbers.stop)]
            pipeline.write([made_batch(0, read, first=begin)])
        ends = [SplitEnd(numbers.stop, len(numbers), 0, None)]
        results.append(finished_result(asked, pipeline, ends, TaskTimes()))
        writes.close()
    splits = [each for of_task in by_task.values() for each in of_task]
    return LandedEpoch(root, decoded, PlannedEpoch(1, splits, plan, by_task), results)
