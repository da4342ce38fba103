"""One epoch of a lane: dirty rows through the same pipeline as rows of the queue, or late files.

Runs in the driver's process, between its epochs: a replay is small, and needs no cluster.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from uuid import uuid4

from sluiceway.errors import FileLostError
from sluiceway.ledger.file_names import FileOrigin, FileRecord, renamed_file
from sluiceway.ledger.layout import late_folder
from sluiceway.ledger.offset_sum import ZERO
from sluiceway.ledger.records import NO_ROWS
from sluiceway.observe.failpoints import Role, arm, reach
from sluiceway.sinks.change_judge import ChangeJudge
from sluiceway.sources.contract import Split, SplitEnd
from sluiceway.storage.contract import FileSeal, Storage
from sluiceway.storage.copying import copy_staged, stream_crc32c
from sluiceway.storage.registry import open_storage
from sluiceway.types.strict_json import BigInt
from sluiceway.work.request import WorkRequest
from sluiceway.worker.answers import TaskTimes, finished_result
from sluiceway.worker.dirty_reader import DirtyBatch, read_dirty_rows
from sluiceway.worker.pipeline import RowPipeline
from sluiceway.worker.plan import SplitResult, TaskPlan, TaskResult
from sluiceway.worker.read_stages import ReadStages
from sluiceway.worker.row_files import RowFiles
from sluiceway.worker.task_memory import TaskMemory
from sluiceway.worker.write_behind import WriteBehind

LANE_BUG = "a bug, or rows that this version cannot take; nothing was committed of them"
_GRACE_S = 30.0


def lane_request(plan: TaskPlan, paths: Sequence[str]) -> tuple[WorkRequest, float]:
    """`run_lane_task` as work for an executor, and the longest time for it in seconds."""
    route = plan.route
    request = WorkRequest(
        f"{__name__}:{run_lane_elsewhere.__name__}",
        (plan, tuple(paths)),
        LANE_BUG,
        place=(route.layout.table_root, route.stores),
        route=route.layout.route,
    )
    return request, plan.deadline_s + _GRACE_S


def run_lane_elsewhere(argument: tuple[TaskPlan, Sequence[str]], attempt: str) -> TaskResult:
    """`run_lane_task` by another process than the driver's; files of each attempt are its own."""
    del attempt
    plan, paths = argument
    arm(Role.WORKER)
    storage, _ = open_storage(plan.route.layout.table_root, plan.route.stores)
    return run_lane_task(plan, storage, paths)


def run_lane_task(
    plan: TaskPlan,
    storage: Storage,
    paths: Sequence[str],
    files: RowFiles | None = None,
    *,
    judge: ChangeJudge | None = None,
) -> TaskResult:
    """Read splits of dirty files, in order, until all are done or the deadline has come.

    Args:
        plan: The splits are `[start, stop)` of dirty files, with row numbers as offsets.
        storage: The table's storage.
        paths: Where the file of each split is.
        files: Takes the rows; None stages files.
        judge: Says for a table with a key whether a change is still the last of its row; else None.

    Returns:
        How far each split was read, and what became of its rows. At least one batch is read.

    Raises:
        StorageUnavailableError: The store failed; the attempt is discarded.
        TaskFailedError: Rows cannot be written.
    """
    writes = WriteBehind(TaskMemory(plan.route.memory_bytes))
    times, deadline = TaskTimes(), time.monotonic() + plan.deadline_s
    reads = ReadStages(plan, times.started)
    pipeline = RowPipeline(plan, storage, writes.lane(), files, judge=judge, reads=reads)
    try:
        ends: list[SplitEnd] = []
        for index, (split, path) in enumerate(zip(plan.splits, paths, strict=True)):
            end = split.start_offset
            if not ends or time.monotonic() < deadline:
                batches = _batches(storage, index, split, path)
                end = _write_batches(pipeline, batches, end, deadline)
            ends.append(SplitEnd(end, end - split.start_offset, 0, None))
        reach("lane.close", plan.epoch)
        return finished_result(plan, pipeline, ends, times)
    except BaseException:
        pipeline.abort()
        raise
    finally:
        writes.close()


def _batches(storage: Storage, index: int, split: Split, path: str) -> Iterator[DirtyBatch]:
    start, stop = split.start_offset, split.stop_offset or split.start_offset
    for first, rows in read_dirty_rows(storage, path, start, stop):
        yield DirtyBatch(index, first, rows)


def _write_batches(
    pipeline: RowPipeline, batches: Iterator[DirtyBatch], end: int, deadline: float
) -> int:
    """Take rows until there are no more or the deadline has come; where that was."""
    for batch in batches:
        pipeline.write([batch])
        end += len(batch.values)
        if time.monotonic() >= deadline:
            break
    return end


def copy_late_files(plan: TaskPlan, storage: Storage, files: Sequence[FileRecord]) -> TaskResult:
    """Copy files of the late place for their own partitions, in order, until the deadline.

    The bytes stay as they are, so no value can change: they were written with the table's columns.

    Args:
        plan: Each split is a whole file.
        storage: The table's storage.
        files: The file of each split.

    Returns:
        Which were copied, at least the first one; all of their rows are written.

    Raises:
        FileLostError: A file is not the one that was committed.
        StorageUnavailableError: The store failed; the attempt is discarded.
    """
    route, deadline = plan.route, time.monotonic() + plan.deadline_s
    attempt = f"{route.term}-{plan.epoch}-{uuid4().hex}"
    folder = route.layout.attempt(attempt)
    storage.expect_files(folder)
    copies: list[FileRecord] = []
    for file in files:
        if not copies or time.monotonic() < deadline:
            copies.append(_copied(plan, storage, file, attempt))
    storage.sync_folder(folder)
    storage.sync_folder(route.layout.stage)
    reach("lane.close", plan.epoch)
    rows = BigInt(sum(int(file.rows) for file in copies))
    return TaskResult(
        ledger=route.ledger,
        term=route.term,
        epoch=plan.epoch,
        task=plan.task,
        attempt=attempt,
        splits=tuple(
            _whole_or_none(split, copied=index < len(copies))
            for index, split in enumerate(plan.splits)
        ),
        files=tuple(copies),
        dirty_files=(),
        counts=replace(NO_ROWS, read=rows, written=rows),
        dirty_reasons={},
        timings_ms={},
        consumer_reused=False,
        failure=None,
    )


def _copied(plan: TaskPlan, storage: Storage, file: FileRecord, attempt: str) -> FileRecord:
    """The record of a copy, of which every byte was checked (commit rule 28)."""
    layout, origin = plan.route.layout, FileOrigin(plan.route.term, plan.epoch)
    path = layout.final(file.final)
    name = renamed_file(layout.route, path.rpartition("/")[2], origin)
    staged = f"{attempt}/{name}"
    seal = copy_staged(storage, path, storage, layout.attempt(staged))
    if not seal.attested:
        with storage.open_read(layout.attempt(staged)) as stream:
            seal = FileSeal(seal.size_bytes, stream_crc32c(stream))
    if (seal.size_bytes, seal.crc32c) != (file.size_bytes, file.crc32c):
        raise FileLostError(
            f"it has {seal.size_bytes} bytes with the checksum {seal.crc32c}, "
            f"committed were {file.size_bytes} with {file.crc32c}",
            where=path,
            hint="bring it back from a backup; `sluiceway verify JOB --deep` lists all that differ",
        )
    folder = late_folder(file.final)
    return replace(file, staged=staged, final=f"{folder}/{name}" if folder else name)


def _whole_or_none(split: Split, *, copied: bool) -> SplitResult:
    start = split.start_offset
    end = split.stop_offset if copied and split.stop_offset is not None else start
    return SplitResult(
        topic=split.partition.topic,
        partition=split.partition.partition,
        start=BigInt(start),
        end=BigInt(end),
        rows=BigInt(end - start),
        gaps=BigInt(0),
        end_epoch=None,
        max_event_time_us=None,
        offset_sum=ZERO,
    )
