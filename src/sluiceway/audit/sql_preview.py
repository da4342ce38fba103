"""What a route's SQL makes of some records, for `preview` and `plan`: by the code of a run."""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.records import NO_ROWS, RowCounts
from sluiceway.observe.log import stderr_log
from sluiceway.route.sql_epoch import SqlEpochs
from sluiceway.schedule.sql_engine import SqlEngine
from sluiceway.schedule.sql_tables import SqlTables
from sluiceway.schedule.unit_sql import UnitSql
from sluiceway.sinks.files.contract import PARQUET_FILES
from sluiceway.sources.contract import SourceBatch, SplitEnd
from sluiceway.storage.access import NO_STORES
from sluiceway.storage.contract import Storage
from sluiceway.storage.registry import open_storage
from sluiceway.worker.answers import TaskTimes, finished_result
from sluiceway.worker.pipeline import RowPipeline
from sluiceway.worker.plan import RoutePlan, TaskPlan, TaskResult
from sluiceway.worker.task_memory import TaskMemory
from sluiceway.worker.write_behind import WriteBehind


def sql_engine() -> SqlEngine:
    """Spark SQL in this process. Called once a command, for routes with SQL.

    Raises:
        UnhealthyEnvironmentError: Spark does not start.
    """
    # Only commands over SQL pay for Spark.
    from sluiceway.driver.spark.local_sql import local_sql  # noqa: PLC0415

    return local_sql()


def unit_engine() -> UnitSql:
    """Likewise what runs SQL over units of a table."""
    from sluiceway.driver.spark.local_sql import local_units  # noqa: PLC0415 - as above

    return local_units()


@dataclass(frozen=True, slots=True)
class TriedSql:
    """What became of the records.

    Attributes:
        answers: Answers of the task that decoded them, and of the SQL.
        rows: (values of the partition, whether late, its rows) of each file.
        dirty: Dirty rows.
    """

    answers: tuple[TaskResult, ...]
    rows: tuple[tuple[tuple[str | None, ...], bool, pa.RecordBatch], ...]
    dirty: tuple[pa.RecordBatch, ...]

    @property
    def counts(self) -> RowCounts:
        """What became of the records."""
        counts = NO_ROWS
        for each in self.answers:
            counts = counts.plus(each.counts)
        return counts

    @property
    def reasons(self) -> dict[str, int]:
        """Why rows are dirty -> how many."""
        found: dict[str, int] = {}
        for each in self.answers:
            for name, rows in each.dirty_reasons.items():
                found[name] = found.get(name, 0) + rows
        return found


def try_sql(
    config: RouteConfig, rule: SqlRule, task: TaskPlan, batches: Sequence[SourceBatch]
) -> TriedSql:
    """Land records in a folder of this machine and run the SQL over them. Nothing else is written.

    Args:
        config: The route, with the columns of its SQL.
        rule: Its SQL.
        task: The splits of the records.
        batches: The records.

    Raises:
        SqlFailedError: The SQL fails at too many values.
        SluicewayError: Spark or the disk has failed.
    """
    with scratch(task.route) as (route, storage):
        plan = replace(task, route=route)
        writes = WriteBehind(TaskMemory(plan.route.memory_bytes))
        pipeline = RowPipeline(plan, storage, writes.lane())
        try:
            for batch in batches:
                pipeline.write([batch])
            ends = [
                SplitEnd(0, sum(len(b.values) for b in batches if b.split_index == n), 0, None)
                for n in range(len(plan.splits))
            ]
            landed = finished_result(plan, pipeline, ends, TaskTimes())
        except BaseException:
            pipeline.abort()
            raise
        finally:
            writes.close()
        log = stderr_log(stream=sys.stderr, level="error")
        epochs = SqlEpochs(config, rule, sql_engine(), storage, log, lambda: None, SqlTables(rule))
        answers = tuple(epochs.replayed(plan, landed, ()).results)
        return TriedSql(
            answers, tuple(_rows(storage, plan, answers)), _dirty(storage, plan, answers)
        )


@contextmanager
def scratch(route: RoutePlan) -> Iterator[tuple[RoutePlan, Storage]]:
    """The route, as if its table lay in a folder of this machine that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="sluiceway-preview-") as folder:
        layout = LedgerLayout(folder, route.layout.route)
        route = replace(route, layout=layout, stores=NO_STORES, files=PARQUET_FILES)
        storage, _ = open_storage(folder)
        storage.make_folders(layout.stage)
        yield route, storage


def _rows(
    storage: Storage, plan: TaskPlan, answers: Sequence[TaskResult]
) -> Iterator[tuple[tuple[str | None, ...], bool, pa.RecordBatch]]:
    for answer in answers:
        for late, files in ((False, answer.files), (True, answer.late_files)):
            for file in files:
                with storage.open_read(plan.route.layout.attempt(file.staged)) as handle:
                    for batch in pq.read_table(handle).to_batches():
                        yield file.values, late, batch


def _dirty(
    storage: Storage, plan: TaskPlan, answers: Sequence[TaskResult]
) -> tuple[pa.RecordBatch, ...]:
    found: list[pa.RecordBatch] = []
    for answer in answers:
        for file in answer.dirty_files:
            with storage.open_read(plan.route.layout.attempt(file.staged)) as handle:
                found += pq.read_table(handle).to_batches()
    return tuple(found)
