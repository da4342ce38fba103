"""One task of the SQL's job: rows that the SQL returns -> staged files, every row counted.

All rows of a record stay or go together, and their times are those of the record.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from sluiceway.errors import SluicewayError, TaskFailedError
from sluiceway.eventtime.partition_time import TimeKind
from sluiceway.eventtime.partition_values import RowTimes
from sluiceway.ledger.records import RowCounts
from sluiceway.observe.failpoints import Role, arm
from sluiceway.storage.contract import Storage
from sluiceway.storage.registry import open_storage
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.dirty import DirtyReason, DirtyRow
from sluiceway.types.schema import Schema
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.answers import failed_result
from sluiceway.worker.far_times import FAR, FarTimes
from sluiceway.worker.landing import LandedBatch, LandedRecords, landing_tasks
from sluiceway.worker.plan import TaskPlan, TaskResult
from sluiceway.worker.row_batch import RowBatch, RowStage
from sluiceway.worker.row_rules import NO_CHOICES
from sluiceway.worker.row_stages import FindPlaces, FitToFiles, RejectDirty
from sluiceway.worker.row_times import partition_assigner
from sluiceway.worker.row_writer import RowWriter
from sluiceway.worker.staged_files import StagedFiles
from sluiceway.worker.task_figures import TaskCounts
from sluiceway.worker.task_memory import TaskMemory

STAGE = "transform"
"""Stage of rows that the SQL cannot compute."""
CARRIED, FAILED = "__sw", "__sw_failed"
"""Columns after those of the SQL: a struct of what is carried, and which expression has failed."""


@dataclass(frozen=True, slots=True)
class SqlProblem:
    """An expression that may fail, as dirty rows name it.

    Attributes:
        place: `file:line:column` in the SQL.
        message: What cannot be computed.
    """

    place: str
    message: str


@dataclass(frozen=True, slots=True)
class SqlTask:
    """What the tasks of one SQL job share.

    Attributes:
        plan: `task` is the number of the first task, `splits` are all that the epoch has read.
        first_splits: Landing task -> where its splits begin among these.
        landed: (landing task, path) of all landed files of the epoch.
        problems: By the number in the column `FAILED`, counted from 1; none in an untouched plan.
    """

    plan: TaskPlan
    first_splits: dict[int, int]
    landed: tuple[tuple[int, str], ...]
    problems: tuple[SqlProblem, ...] = field(default=())


def run_sql_task(task: SqlTask, number: int, batches: Iterable[pa.RecordBatch]) -> TaskResult:
    """Write the rows of one task. Called once per attempt, in a Python worker.

    Args:
        task: What all tasks share.
        number: Which task of the job, from 0.
        batches: What the SQL returns; all rows of a record follow each other.

    Returns:
        What was written; `counts.read` are the records that the SQL has returned rows of. A failure
        of ours is a value.

    Raises:
        Exception: The SQL has failed while it made a batch.
    """
    arm(Role.WORKER)
    plan = replace(task.plan, task=task.plan.task + number)
    try:
        storage, _ = open_storage(plan.route.layout.table_root, plan.route.stores)
        rows = SqlRows(replace(task, plan=plan), storage)
    except SluicewayError as error:
        return _failed(plan, error)
    try:
        for whole in whole_records(batches):
            if (failure := _failure_of(partial(rows.write, whole))) is not None:
                rows.abort()
                return _failed(plan, failure)
    except BaseException:
        # Spark's own: the SQL has failed.
        rows.abort()
        raise
    try:
        return rows.close()
    except SluicewayError as error:
        rows.abort()
        return _failed(plan, error)


def _failure_of(write: Callable[[], None]) -> SluicewayError | None:
    """What writing has failed with, as a value: else it would look like a failure of the SQL."""
    try:
        write()
    except SluicewayError as error:
        return error
    except Exception as error:  # noqa: BLE001 - the task's boundary
        return TaskFailedError(
            f"{type(error).__name__}: {str(error)[:300]}",
            hint="a bug, or rows that this version cannot take; nothing was committed of them",
        )
    return None


def reject_records(
    task: SqlTask, storage: Storage, numbers: Sequence[int], message: str
) -> TaskResult:
    """Make landed records dirty: the SQL fails at each of them. Called by the driver.

    Args:
        task: As the SQL's job got it.
        storage: The table's storage.
        numbers: Numbers of the records, rising; at least one.
        message: What Spark says.

    Raises:
        StorageUnavailableError: The store failed.
        TaskFailedError: A record is in no landed file.
    """
    rows = SqlRows(task, storage)
    try:
        rows.reject(numbers, message)
        return rows.close()
    except BaseException:
        rows.abort()
        raise


def _failed(plan: TaskPlan, error: SluicewayError) -> TaskResult:
    return replace(failed_result(plan, error), splits=())


def whole_records(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, cut where records end."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows == 0:
            continue
        numbers = _numbers(batch)
        # The last record may go on in the next batch.
        cut = int(np.searchsorted(numbers[::-1] != numbers[-1], True))  # noqa: FBT003
        whole = batch.num_rows - cut
        if held and numbers[0] != _numbers(held[-1])[-1]:
            yield _joined(held)
            held = []
        if whole:
            yield _joined([*held, batch.slice(0, whole)])
            held = []
        held.append(batch.slice(whole))
    if held:
        yield _joined(held)


def _numbers(batch: pa.RecordBatch) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.asarray(batch.column(CARRIED).field(0))


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


class SqlRows:
    """From rows that the SQL returns to staged files. One task; used by its thread.

    Args:
        task: What all tasks share, with the number of this one.
        storage: The table's storage.
    """

    def __init__(self, task: SqlTask, storage: Storage) -> None:
        self._started = time.monotonic()
        plan = task.plan
        route = replace(plan.route, choices=NO_CHOICES)
        self._task = task
        self._plan = replace(plan, route=route)
        self._columns = arrow_schema(route.sql or Schema(()))
        self._far = FarTimes(self._columns)
        self._counts = TaskCounts()
        assigner = partition_assigner(route.partitions, route.event_time, self._columns)
        fitted = FitToFiles(route, self._columns)
        places = FindPlaces(self._plan, assigner, self._counts)
        self._stages: list[RowStage] = [places, fitted, RejectDirty(route, self._counts)]
        self._by_now = any(each.kind is TimeKind.PROCESSING for each in route.partitions)
        self._records = LandedRecords(storage, task.landed)
        self._files = StagedFiles(storage, self._plan, fitted.schema)
        self._writer = RowWriter(self._files, TaskMemory(route.memory_bytes))
        self._meta = [each.type for each in fitted.schema][len(fitted.kept) :]

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows of whole records.

        Raises:
            StorageUnavailableError: The store failed; the attempt is discarded.
            TaskFailedError: Rows cannot be written.
        """
        if not self._by_now:
            self._write(batch)
            return
        # A record is read at one moment, and all rows of a batch are.
        now = np.asarray(batch.column(CARRIED).field(4))
        cuts = [0, *(np.flatnonzero(now[1:] != now[:-1]) + 1).tolist(), len(now)]
        for begin, end in pairwise(cuts):
            self._write(batch.slice(begin, end - begin))

    def _write(self, batch: pa.RecordBatch) -> None:
        rows, seen = self._rows(batch)
        self._counts.read += seen
        if self._task.problems:
            rows.drop(self._failed(batch))
        far = self._far.find(rows.columns).items()
        rows.drop([DirtyRow(row, STAGE, DirtyReason.SQL_FAILED, name, FAR) for row, name in far])
        for stage in self._stages:
            stage.apply(rows)
        count = len(rows.indices)
        self._counts.expanded += count - len(np.unique(rows.indices.to_numpy())) if count else 0
        self._writer.write(rows.columns, rows.places, rows.rejected)

    def _rows(self, batch: pa.RecordBatch) -> tuple[RowBatch, int]:
        """The rows as the stages take them, and how many records they are of."""
        carried = batch.column(CARRIED)
        numbers, splits = np.asarray(carried.field(0)), np.asarray(carried.field(1))
        first = np.concatenate(([True], numbers[1:] != numbers[:-1]))
        records, indices = numbers[first], np.cumsum(first) - 1
        if len(np.unique(records)) != len(records):
            raise TaskFailedError("rows of one record came apart", hint="a bug; please report it")
        tasks, of_task = np.unique(landing_tasks(records), return_inverse=True)
        bases = np.array([self._task.first_splits[each] for each in tasks.tolist()], np.int64)
        of_splits = bases[of_task] + splits[first]
        cuts = [0, *(np.flatnonzero(of_splits[1:] != of_splits[:-1]) + 1).tolist(), len(records)]
        batches = [
            LandedBatch(int(of_splits[begin]), records[begin:end], self._records)
            for begin, end in pairwise(cuts)
        ]
        event, record = carried.field(2), carried.field(3)
        now_us = carried.field(4)[0].as_py()
        arrays = [batch.column(index).cast(each.type) for index, each in enumerate(self._columns)]
        starts = pa.array(np.flatnonzero(first))
        meta = [
            carried.field(5 + index).cast(kind).take(starts)
            for index, kind in enumerate(self._meta)
        ]
        rows = RowBatch(
            batches,
            cuts,
            now_us,
            pa.RecordBatch.from_arrays(arrays, schema=self._columns),
            pa.array(indices),
            times=RowTimes(
                None if event.null_count else event,
                None if record.null_count else record,
                now_us,
            ),
            meta=meta,
            expanded=len(records) < len(numbers),
        )
        return rows, len(records)

    def reject(self, numbers: Sequence[int], message: str) -> None:
        """Write records as dirty rows. Called in place of `write`.

        Raises:
            StorageUnavailableError: The store failed; the attempt is discarded.
            TaskFailedError: A record is in no landed file.
        """
        found = np.array(numbers, np.int64)
        nothing = self._columns.empty_table().to_batches() or [
            pa.RecordBatch.from_arrays(
                [pa.nulls(0, each.type) for each in self._columns], schema=self._columns
            )
        ]
        dirty = [
            DirtyRow(index, STAGE, DirtyReason.SQL_FAILED, "", message[:300])
            for index in range(len(found))
        ]
        none = pa.array([], pa.int64())
        rows = RowBatch(
            [LandedBatch(0, found, self._records)],
            [0, len(found)],
            0,
            nothing[0],
            none,
            dirty,
            times=RowTimes(none, none, 0),
            meta=[pa.nulls(len(found), kind) for kind in self._meta],
        )
        self._counts.read += len(found)
        for stage in self._stages:
            stage.apply(rows)
        self._writer.write(rows.columns, rows.places, rows.rejected)

    def _failed(self, batch: pa.RecordBatch) -> list[DirtyRow]:
        numbers = np.asarray(batch.column(batch.schema.get_field_index(FAILED)))
        found = []
        for index in np.flatnonzero(numbers).tolist():
            problem = self._task.problems[int(numbers[index]) - 1]
            message = f"{problem.message} ({problem.place})"[:300]
            found.append(DirtyRow(index, STAGE, DirtyReason.SQL_FAILED, "", message))
        return found

    def close(self) -> TaskResult:
        """Close and check the files. Called once, after the last batch.

        Raises:
            StorageUnavailableError: The store failed; the attempt is discarded.
            TaskFailedError: A file is not what was written.
        """
        files, dirty_files, late_files = self._writer.close()
        plan, counted = self._plan, self._counts
        late = counted.late_rows.plus(self._writer.late_rows)
        return TaskResult(
            ledger=plan.route.ledger,
            term=plan.route.term,
            epoch=plan.epoch,
            task=plan.task,
            attempt=self._files.attempt,
            splits=(),
            files=files,
            dirty_files=dirty_files,
            counts=RowCounts(
                BigInt(counted.read),
                BigInt(self._writer.rows),
                BigInt(counted.dirty),
                late.side,
                BigInt(0),
                BigInt(0),
                BigInt(counted.expanded),
            ),
            dirty_reasons=counted.reasons.counts(),
            timings_ms={"sql": int((time.monotonic() - self._started) * 1000)},
            consumer_reused=False,
            failure=None,
            dirty_samples=tuple(counted.reasons.samples),
            late_files=late_files,
            late_rows=late,
        )

    def abort(self) -> None:
        """Drop what is open. Safe to repeat."""
        self._writer.abort()
