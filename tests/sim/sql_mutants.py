"""Wrong variants of SQL on a route: what is landed, what fails, which tables it joins."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from sim.sql import SQL
from sluiceway.ledger.data_parts import TablePin
from sluiceway.route import sql_epoch
from sluiceway.route.sql_epoch import SqlEpochs
from sluiceway.schedule.planner import PlannedEpoch
from sluiceway.schedule.sql_engine import SqlAnswer, SqlJob, TransformedEpoch
from sluiceway.storage.contract import Storage
from sluiceway.worker import sql_task
from sluiceway.worker.plan import TaskPlan, TaskResult
from sluiceway.worker.sql_task import FAILED, SqlRows, SqlTask
from tools.mutant_fit import Patch

_TRANSFORMED, _TRIED, _REPLAYED = SqlEpochs.transformed, SqlEpochs._tried, SqlEpochs.replayed
_WRITE, _COUNTED = SqlRows._write, sql_epoch.counted
_FIRST: dict[tuple[object, ...], TaskResult] = {}


def landed_before(
    self: SqlEpochs, planned: PlannedEpoch, results: Sequence[TaskResult]
) -> TransformedEpoch:
    """An epoch that is read again takes what was landed of these splits first."""
    found = []
    for each in results:
        starts = (each.ledger, *((one.topic, one.partition, one.start) for one in each.splits))
        first = _FIRST.setdefault(starts, each)
        found.append(replace(each, landed=first.landed))
    return _TRANSFORMED(self, planned, found)


def without_failed(self: SqlRows, batch: pa.RecordBatch) -> None:
    """A guarded plan leaves records out that it cannot compute."""
    if FAILED in batch.schema.names:
        batch = batch.filter(pc.equal(batch.column(FAILED), 0))
    if batch.num_rows:
        _WRITE(self, batch)


def skip_records(
    task: SqlTask, storage: Storage, numbers: Sequence[int], message: str
) -> TaskResult:
    """Records that were found by halving are in no dirty file."""
    del numbers, message
    return SqlRows(task, storage).close()


def tables_of_now(self: SqlEpochs, job: SqlJob, rows: int) -> list[TaskResult]:
    """Each job of an epoch joins the tables as they are when it begins."""
    return _TRIED(self, replace(job, tables=self.tables.read()), rows)


def tables_of_now_in_replays(
    self: SqlEpochs, plan: TaskPlan, result: TaskResult, pins: Sequence[TablePin]
) -> TransformedEpoch:
    """A replay joins the tables as they are now."""
    del pins
    return _REPLAYED(self, plan, result, ())


def any_rows(answer: SqlAnswer, rows: int) -> None:
    """How many rows Spark has read is not looked at."""
    del answer, rows


def as_they_come(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of one record may be written with those of two batches."""
    yield from (batch for batch in batches if batch.num_rows)


def answers_as_they_are(answers: Sequence[TaskResult], rows: int) -> list[TaskResult]:
    """Records that the SQL leaves out are not counted."""
    return [
        replace(each, counts=replace(each.counts, filtered=each.counts.skipped))
        for each in _COUNTED(answers, rows)
    ]


OFTEN = {
    "sql-tables-of-now": frozenset({SQL, "change_dimension"}),
    "sql-replay-of-now": frozenset({SQL, "replay_rows"}),
}
"""What there is in the worlds in which these are looked for; of the others only SQL."""
ONLY_SQL = frozenset({SQL})
WRONG: dict[str, tuple[str, tuple[Patch, ...]]] = {
    "sql-landed-before": (
        "an epoch that is read again takes landed files of an older attempt",
        ((SqlEpochs, "transformed", landed_before),),
    ),
    "sql-failed-left-out": (
        "a guarded plan drops rows, and no dirty row says so",
        ((SqlRows, "_write", without_failed),),
    ),
    "sql-found-left-out": (
        "records that halving has found are in no dirty file",
        ((sql_epoch, "reject_records", skip_records),),
    ),
    "sql-tables-of-now": (
        "an epoch joins a small table in two states",
        ((SqlEpochs, "_tried", tables_of_now),),
    ),
    "sql-replay-of-now": (
        "a replay joins a small table as it is now, not as it was for its rows",
        ((SqlEpochs, "replayed", tables_of_now_in_replays),),
    ),
    "sql-rows-unseen": (
        "a job that has not read all landed rows is believed",
        ((sql_epoch, "check_rows", any_rows),),
    ),
    "sql-records-cut": (
        "rows of one record are written as those of several",
        ((sql_task, "whole_records", as_they_come),),
    ),
    "sql-left-out-uncounted": (
        "records that the SQL leaves out are not counted",
        ((sql_epoch, "counted", answers_as_they_are),),
    ),
}
