"""One epoch of a replay: dirty rows through the same pipeline as rows of the queue.

Runs in the driver's process, beside its epochs: what is replayed is little, and needs no cluster.
"""

import time
from collections.abc import Iterator, Sequence

from sluiceway.observe.failpoints import reach
from sluiceway.sinks.change_judge import ChangeJudge
from sluiceway.sources.contract import Split, SplitEnd
from sluiceway.storage.contract import Storage
from sluiceway.worker.answers import TaskTimes, finished_result
from sluiceway.worker.dirty_reader import DirtyBatch, read_dirty_rows
from sluiceway.worker.pipeline import RowPipeline
from sluiceway.worker.plan import TaskPlan, TaskResult
from sluiceway.worker.row_files import RowFiles
from sluiceway.worker.task_memory import TaskMemory
from sluiceway.worker.write_behind import WriteBehind


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
        storage: Of the table.
        paths: Where the file of each split is.
        files: Takes the rows; None stages files.
        judge: Of a table with a key: whether a change is still the last of its row.

    Returns:
        How far each split was read, and what became of its rows. At least one batch is read.

    Raises:
        StorageUnavailableError: The store failed; the attempt is thrown away.
        TaskFailedError: Rows cannot be written.
    """
    writes = WriteBehind(TaskMemory(plan.route.memory_bytes))
    times, deadline = TaskTimes(), time.monotonic() + plan.deadline_s
    pipeline = RowPipeline(plan, storage, writes.lane(), files, started=times.started, judge=judge)
    try:
        ends: list[SplitEnd] = []
        for index, (split, path) in enumerate(zip(plan.splits, paths, strict=True)):
            end = split.start_offset
            if not ends or time.monotonic() < deadline:
                batches = _batches(storage, index, split, path)
                end = _take(pipeline, batches, end, deadline)
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


def _take(pipeline: RowPipeline, batches: Iterator[DirtyBatch], end: int, deadline: float) -> int:
    """Take rows until there are no more or the deadline has come; where that was."""
    for batch in batches:
        pipeline.take([batch])
        end += len(batch.values)
        if time.monotonic() >= deadline:
            break
    return end
