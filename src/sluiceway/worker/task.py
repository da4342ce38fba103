"""One task of one epoch: read to the deadline, write, answer."""

import time
from dataclasses import dataclass

from sluiceway.errors import SluicewayError, StorageUnavailableError, TaskFailedError
from sluiceway.ledger.offset_sum import ZERO
from sluiceway.ledger.records import NO_ROWS
from sluiceway.sources.contract import Split, SplitEnd, SplitReader
from sluiceway.sources.kafka.consumer_cache import process_cache
from sluiceway.sources.kafka.reader import KafkaSplitReader
from sluiceway.storage.contract import Storage
from sluiceway.storage.registry import open_storage
from sluiceway.types.strict_json import BigInt, decode, encode
from sluiceway.worker.pipeline import RowPipeline, SplitTotals
from sluiceway.worker.plan import SplitResult, TaskFailure, TaskPlan, TaskResult

_READ_TIMEOUT_S = 0.2
_STOP_POLL_S = 0.2


@dataclass(slots=True)
class _Clock:
    """Reading time of a task, where its time went, and whether an earlier consumer went on."""

    started: float
    deadline: float
    next_look: float
    fetch_s: float = 0.0
    reused: bool = False


def run_task(plan: TaskPlan) -> TaskResult:
    """Run one attempt. Called once per attempt, in a Python worker without a JVM of its own.

    An error of our tree is an answer, not an exception: one route's failure must not stop the
    others. Anything else is a bug and fails the attempt.

    Returns:
        What the first attempt that finished has put by name; that is this one, as a rule.
    """
    storage, _ = open_storage(plan.route.layout.table_root)
    try:
        earlier = storage.read(plan.result_path)
        if earlier is not None:
            return decode(earlier, TaskResult)
        result = _run(plan, storage)
        return _put_result(plan, storage, result) if result.moved() else result
    except SluicewayError as error:
        return _failed(plan, error)


def _run(plan: TaskPlan, storage: Storage) -> TaskResult:
    pipeline = RowPipeline(plan, storage)
    clock = _Clock(time.monotonic(), time.monotonic() + plan.deadline_s, 0.0)
    reader: SplitReader | None = None
    try:
        if plan.deadline_s > 0 and plan.splits:
            reused = process_cache().reuse_counts().reused
            reader = _open_reader(plan)
            clock.reused = process_cache().reuse_counts().reused > reused
            _read_all(plan, storage, reader, pipeline, clock)
        ends = reader.ends() if reader is not None else _unread(plan.splits)
        result = _close(plan, pipeline, ends, clock)
    except BaseException:
        pipeline.abort()
        if reader is not None:
            reader.close(reusable=False)
        raise
    if reader is not None:
        reader.close(reusable=True)
    return result


def _open_reader(plan: TaskPlan) -> SplitReader:
    kafka = plan.route.kafka
    return KafkaSplitReader(
        plan.splits,
        bootstrap_servers=kafka.bootstrap_servers,
        properties=dict(kafka.properties),
        owner=plan.route.owner_token,
    )


def _read_all(
    plan: TaskPlan, storage: Storage, reader: SplitReader, pipeline: RowPipeline, clock: _Clock
) -> None:
    while not reader.finished():
        now = time.monotonic()
        left = clock.deadline - now
        if left <= 0:
            return
        if now >= clock.next_look:
            clock.next_look = now + _STOP_POLL_S
            if storage.status(plan.stop_path) is not None:
                return
        batches = reader.read(min(left, _READ_TIMEOUT_S))
        clock.fetch_s += time.monotonic() - now
        if batches:
            pipeline.take(batches)


def _close(
    plan: TaskPlan,
    pipeline: RowPipeline,
    ends: tuple[SplitEnd, ...],
    clock: _Clock,
) -> TaskResult:
    written = pipeline.close()
    splits = tuple(
        _split_result(split, end, totals)
        for split, end, totals in zip(plan.splits, ends, written.totals, strict=True)
    )
    return TaskResult(
        term=plan.route.term,
        epoch=plan.epoch,
        task=plan.task,
        attempt=written.attempt,
        splits=splits,
        files=written.files,
        dirty_files=written.dirty_files,
        counts=written.counts,
        dirty_reasons=written.dirty_reasons,
        timings_ms={
            "fetch": int(clock.fetch_s * 1000),
            "task": int((time.monotonic() - clock.started) * 1000),
            **written.timings_ms,
        },
        consumer_reused=clock.reused,
        failure=None,
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
        leader_epoch=end.leader_epoch,
        max_event_time_us=(
            None if totals.max_event_time_us is None else BigInt(totals.max_event_time_us)
        ),
        offset_sum=totals.offset_sum,
    )


def _unread(splits: tuple[Split, ...]) -> tuple[SplitEnd, ...]:
    return tuple(SplitEnd(split.start_offset, 0, 0, None) for split in splits)


def _put_result(plan: TaskPlan, storage: Storage, result: TaskResult) -> TaskResult:
    """Put the result by name, exclusively; the first attempt to finish wins."""
    layout = plan.route.layout
    storage.make_folders(layout.results(plan.route.term, plan.epoch))
    storage.put_if_absent(plan.result_path, encode(result), tmp_folder=layout.stage)
    raw = storage.read(plan.result_path)
    if raw is None:
        raise StorageUnavailableError("the result was put and is gone", where=plan.result_path)
    return decode(raw, TaskResult)


def _failed(plan: TaskPlan, error: SluicewayError) -> TaskResult:
    return TaskResult(
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
                leader_epoch=None,
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
    )
