"""What a task answers for one route."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from sluiceway.errors import (
    SluicewayError,
    StorageRefusedError,
    StorageUnavailableError,
    TaskFailedError,
)
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.offset_sum import ZERO
from sluiceway.ledger.records import NO_ROWS
from sluiceway.sources.contract import Split, SplitEnd
from sluiceway.storage.contract import Storage
from sluiceway.types.strict_json import BigInt, decode, encode
from sluiceway.worker.pipeline import RowPipeline
from sluiceway.worker.plan import (
    NO_FIGURES,
    SplitResult,
    TaskFailure,
    TaskFigures,
    TaskPlan,
    TaskResult,
)
from sluiceway.worker.task_figures import SplitTotals


@dataclass(slots=True)
class TaskTimes:
    """Where a route's time in a task went, and whether an earlier consumer went on."""

    started: float = field(default_factory=time.monotonic)
    fetch_s: float = 0.0
    consumer_reused: bool = False


def finished_result(
    plan: TaskPlan, pipeline: RowPipeline, ends: Sequence[SplitEnd], times: TaskTimes
) -> TaskResult:
    """Close the files and describe what was read and written.

    Raises:
        StorageUnavailableError: The store failed; the attempt is discarded.
        TaskFailedError: A file is not what was written, or rows were miscounted.
    """
    written = pipeline.close()
    splits = tuple(
        _split_result(split, end, totals)
        for split, end, totals in zip(plan.splits, ends, written.totals, strict=True)
    )
    return TaskResult(
        ledger=plan.route.ledger,
        term=plan.route.term,
        epoch=plan.epoch,
        task=plan.task,
        attempt=written.attempt,
        splits=splits,
        files=written.files,
        dirty_files=written.dirty_files,
        counts=written.counts,
        dirty_reasons=written.dirty_reasons,
        notes=written.notes,
        timings_ms={
            "fetch": int(times.fetch_s * 1000),
            "task": int((time.monotonic() - times.started) * 1000),
            **written.timings_ms,
        },
        consumer_reused=times.consumer_reused,
        failure=None,
        dirty_samples=written.dirty_samples,
        unknown_fields=written.unknown_fields,
        late_files=written.late_files,
        late_rows=written.late_rows,
        unfilled=written.unfilled,
        figures=written.figures,
        landed=written.landed,
        tables=written.tables,
    )


def _split_result(split: Split, end: SplitEnd, totals: SplitTotals) -> SplitResult:
    if end.rows != totals.rows:
        raise TaskFailedError(
            f"the reader counted {end.rows} rows, the pipeline {totals.rows}",
            where=str(split.partition),
        )
    return SplitResult(
        topic=split.partition.topic,
        partition=split.partition.partition,
        start=BigInt(split.start_offset),
        end=BigInt(end.end_offset),
        rows=BigInt(end.rows),
        gaps=BigInt(end.gaps),
        end_epoch=end.leader_epoch,
        max_event_time_us=(
            None if totals.max_event_time_us is None else BigInt(totals.max_event_time_us)
        ),
        offset_sum=totals.offset_sum,
        copies=BigInt(end.copies),
        origin_end=None if end.origin_end is None else BigInt(end.origin_end),
        tail=totals.tail.text,
    )


def put_result(plan: TaskPlan, storage: Storage, result: TaskResult) -> TaskResult:
    """Put the result by name, exclusively; the first attempt to finish wins.

    Returns:
        The winner's result.

    Raises:
        StorageUnavailableError: The store failed; the attempt is discarded.
    """
    layout = plan.route.layout
    # The temporary file lies there too: its own name does not say which epoch it is garbage of.
    folder = layout.results(plan.route.term, plan.epoch)
    storage.expect_files(folder)
    mine = encode(result)
    storage.put_if_absent(plan.result_path, mine, tmp_folder=folder)
    raw = storage.read(plan.result_path)
    if raw is None:
        raise StorageUnavailableError("the result was put and is gone", where=plan.result_path)
    return result if raw == mine else decode(raw, TaskResult)


def failed_result(
    plan: TaskPlan, error: SluicewayError, figures: TaskFigures = NO_FIGURES
) -> TaskResult:
    """Nothing that counts was read for this route; why.

    Args:
        plan: Plan of the task.
        error: Why.
        figures: What the attempt had read all the same.
    """
    return TaskResult(
        ledger=plan.route.ledger,
        term=plan.route.term,
        epoch=plan.epoch,
        task=plan.task,
        attempt="",
        splits=tuple(
            SplitResult(
                topic=split.partition.topic,
                partition=split.partition.partition,
                start=BigInt(split.start_offset),
                end=BigInt(split.start_offset),
                rows=BigInt(0),
                gaps=BigInt(0),
                end_epoch=None,
                max_event_time_us=None,
                offset_sum=ZERO,
            )
            for split in plan.splits
        ),
        files=(),
        dirty_files=(),
        counts=NO_ROWS,
        dirty_reasons={},
        timings_ms={},
        consumer_reused=False,
        failure=TaskFailure.of(error),
        figures=figures,
    )


def check_staged_files(
    storage: Storage, layout: LedgerLayout, results: Sequence[TaskResult]
) -> None:
    """Look once into each attempt's folder: the files named are there, whole, and no others.

    The listing decides nothing about what is committed; it only refuses.

    Raises:
        TaskFailedError: A file is missing, of another size, or unknown.
        StorageRefusedError: This process could not give one its final name.
        StorageUnavailableError: The store failed.
    """
    for result in results:
        named = {
            layout.attempt(file.staged): int(file.size_bytes)
            for file in (*result.files, *result.dirty_files, *result.late_files)
        }
        if not named:
            continue
        found = storage.list(layout.attempt(result.attempt))
        listed = {status.path: status.size_bytes for status in found}
        if listed != named:
            raise TaskFailedError(
                f"task {result.task} named {sorted(named)}, its folder has {sorted(listed)}",
                where=layout.attempt(result.attempt),
            )
        unfit = next((status for status in found if status.unfit), None)
        if unfit is not None:
            # Once it is committed, it would wait for its final name for ever.
            raise StorageRefusedError(
                f"a staged file cannot be published: {unfit.unfit}",
                where=unfit.path,
                hint="run driver and workers as one user, or give them one group and the umask 002",
            )
