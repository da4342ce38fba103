"""An engine that runs a Python function instead of SQL, over real landed files."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sluiceway.errors import TaskFailedError
from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.schedule.sql_engine import (
    JoinedTable,
    NotGuardedError,
    SqlAnswer,
    SqlDataError,
    SqlEngine,
    SqlJob,
)
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.schema import Schema
from sluiceway.worker.landing import AT, carried_fields
from sluiceway.worker.sql_task import CARRIED, FAILED, SqlProblem, run_sql_task

Row = dict[str, Any]
Made = Callable[[Row], list[Row]]
"""(a row of `input`) -> the rows that the SQL makes of it; raises ValueError where it fails."""


@dataclass
class PythonSql(SqlEngine):
    """A `SqlEngine` without Spark.

    Attributes:
        made: Stands for the SQL.
        deaths: So many jobs die before one ends.
        guards: Whether there is a guarded plan.
        lost: Rows that a job says it has not read.
        batch_rows: Rows of a batch.
        fails: Whether it fails whatever rows it reads.
        jobs: (guarded, first record, last record) of the jobs so far.
    """

    made: Made
    deaths: int = 0
    guards: bool = True
    lost: int = 0
    batch_rows: int = 3
    fails: bool = False
    jobs: list[tuple[bool, int, int | None]] = field(default_factory=list)

    def columns(
        self, rule: SqlRule, decoded: Schema, tables: tuple[JoinedTable, ...] = ()
    ) -> tuple[tuple[str, str], ...]:
        raise NotImplementedError(rule, decoded, tables)

    def run(self, job: SqlJob, check: Callable[[], None]) -> SqlAnswer:
        check()
        self.jobs.append((job.guarded, job.first, job.last))
        if self.fails and not (job.guarded and self.guards):
            raise SqlDataError("[DIVIDE_BY_ZERO] in a small table")
        if job.guarded and not self.guards:
            raise NotGuardedError("no plan")
        if self.deaths:
            self.deaths -= 1
            raise TaskFailedError("the executor is gone")
        results, rows = [], 0
        for number, (_, path) in enumerate(job.task.landed):
            landed = pq.read_table(path)
            landed = landed.filter(pa.compute.greater_equal(landed[AT], job.first))
            if job.last is not None:
                landed = landed.filter(pa.compute.less_equal(landed[AT], job.last))
            rows += landed.num_rows
            task = job.task
            if job.guarded:
                task = replace(task, problems=(SqlProblem("job.yaml:7:3", "`1 / n` cannot be"),))
            results.append(run_sql_task(task, number, self._batches(job, landed.to_pylist())))
        lost, self.lost = self.lost, 0
        return SqlAnswer(tuple(results), rows - lost)

    def _batches(self, job: SqlJob, landed: list[Row]) -> Iterator[pa.RecordBatch]:
        route = job.task.plan.route
        carried = carried_fields(route)
        fields = [*arrow_schema(route.sql or Schema(())), pa.field(CARRIED, pa.struct(carried))]
        if job.guarded:
            fields.append(pa.field(FAILED, pa.int32()))
        found: list[Row] = []
        for row in landed:
            hidden = {CARRIED: {each.name: row[each.name] for each in carried}}
            try:
                found += [{**each, **hidden, FAILED: 0} for each in self.made(row)]
            except ValueError as error:
                if not job.guarded:
                    raise SqlDataError(str(error)) from error
                found.append({**hidden, FAILED: 1})
        table = pa.Table.from_pylist(found, schema=pa.schema(fields))
        yield from table.to_batches(max_chunksize=self.batch_rows)
