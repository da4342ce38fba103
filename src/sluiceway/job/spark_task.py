"""The functions that Spark's Python workers import and run."""

import pickle
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark import TaskContext

from sluiceway import __version__
from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.host.hdfs_tokens import DelegationTokens, hold_tokens
from sluiceway.schedule.runner import Bundle
from sluiceway.types.strict_json import encode
from sluiceway.work.request import WorkAnswer, WorkRequest, carry_out
from sluiceway.worker.bundle import run_bundle
from sluiceway.worker.plan import TaskResult
from sluiceway.worker.preload import forget_archives, warm_worker

RESULT_SCHEMA = "task int, result binary, rows bigint, bytes bigint, dirty bigint"
COUNTED = {"rows": "rows read", "bytes": "bytes read", "dirty": "dirty rows"}
"""Columns of an epoch's answers that Spark's page shows as sums, and their names there.
"""
WORK_SCHEMA = "request int, answer binary"

RunTask = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""The function of a Spark task, as `mapInArrow` takes it."""


def packed(bundles: Sequence[Bundle]) -> tuple[bytes, ...]:
    """Bundles as bytes, one a task, so that a worker unpacks only its own."""
    return tuple(zlib.compress(pickle.dumps(bundle), level=1) for bundle in bundles)


def run_with_tokens(
    tokens: DelegationTokens, run: RunTask, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run a task on a machine that has no login of its own. Called once per attempt."""
    hold_tokens(tokens)
    yield from run(batches)


def with_tokens(tokens: DelegationTokens | None, run: RunTask) -> RunTask:
    """A task with its driver's tokens; the same task where none are needed."""
    return run if tokens is None else partial(run_with_tokens, tokens, run)


def run_of_version(
    version: str, run: RunTask, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run a task whose driver has this very version. Called once per attempt.

    Plans are pickled field by field: in another version a field may have another position.

    Raises:
        UnhealthyEnvironmentError: The driver is of another version.
    """
    if version != __version__:
        raise UnhealthyEnvironmentError(
            f"this executor has sluiceway {__version__}, its driver {version}"
        )
    yield from run(batches)


def require_same_version(run: RunTask) -> RunTask:
    """A task that an executor of another version refuses."""
    return partial(run_of_version, __version__, run)


def run_spark_task(
    bundles: tuple[bytes, ...], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run the one bundle of this Spark partition. Called once per attempt.

    Args:
        bundles: All bundles of the epoch, packed.
        batches: One row: the number of the task.
    """
    context = TaskContext.get()
    attempt = context.attemptNumber() if context is not None else 0
    for batch in batches:
        for number in batch.column(0).to_pylist():
            plans: Bundle = pickle.loads(zlib.decompress(bundles[number]))  # noqa: S301 - our own
            yield _answers(number, run_bundle(plans, attempt=attempt))
    forget_archives()


def _answers(task: int, results: Sequence[TaskResult]) -> pa.RecordBatch:
    counts = [result.counts for result in results]
    return pa.RecordBatch.from_pydict(
        {
            "task": pa.array([task] * len(results), pa.int32()),
            "result": pa.array([encode(result) for result in results], pa.binary()),
            "rows": pa.array([int(each.read) for each in counts], pa.int64()),
            "bytes": pa.array([sum(r.figures.bytes_read.values()) for r in results], pa.int64()),
            "dirty": pa.array([int(each.dirty) for each in counts], pa.int64()),
        }
    )


def packed_shares(shares: Sequence[Sequence[tuple[int, WorkRequest]]]) -> tuple[bytes, ...]:
    """Numbered requests as bytes, one item for each task."""
    return tuple(zlib.compress(pickle.dumps(list(share)), level=1) for share in shares)


def unpacked_answer(raw: bytes) -> WorkAnswer:
    """Unpack a task's answer to a request."""
    answer: WorkAnswer = pickle.loads(raw)  # noqa: S301 - our own
    return answer


def run_work(
    shares: tuple[bytes, ...], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Carry out the requests of this Spark task, one after the other. Called once per attempt.

    Args:
        shares: Requests of all tasks, packed.
        batches: One row: the number of the task.
    """
    for batch in batches:
        for number in batch.column(0).to_pylist():
            share: list[tuple[int, WorkRequest]]
            share = pickle.loads(zlib.decompress(shares[number]))  # noqa: S301 - our own
            attempt = _attempt_mark()
            for request_number, request in share:
                for answer in carry_out(request, time.process_time(), attempt):
                    yield pa.RecordBatch.from_pydict(
                        {
                            "request": pa.array([request_number], pa.int32()),
                            "answer": pa.array([pickle.dumps(answer)], pa.binary()),
                        }
                    )


def _attempt_mark() -> str:
    """A mark of this attempt of a Spark task, unique among attempts; empty for the first one."""
    context = TaskContext.get()
    if context is None or context.attemptNumber() == 0:
        return ""
    return f"-again{context.taskAttemptId()}"


def warm_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Load what tasks need; the answer has an epoch's form, for which Spark compiles code."""
    for batch in batches:
        warm_worker()
        numbers = batch.column(0).cast(pa.int32())
        nothing = pa.array([b""] * batch.num_rows, pa.binary())
        none = pa.array([0] * batch.num_rows, pa.int64())
        yield pa.RecordBatch.from_pydict(
            {"task": numbers, "result": nothing, **dict.fromkeys(COUNTED, none)}
        )
    forget_archives()
