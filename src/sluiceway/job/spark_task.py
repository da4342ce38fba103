"""The functions that Spark's Python workers import and run."""

import pickle
import time
import zlib
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext

from sluiceway.observe.failpoints import Role, arm
from sluiceway.schedule.runner import Bundle
from sluiceway.types.strict_json import encode
from sluiceway.worker.bundle import run_bundle
from sluiceway.worker.rewrite import RewriteAnswer, RewritePlan, carry_out

RESULT_SCHEMA = "task int, result binary"
ANSWER_SCHEMA = "plan int, answer binary"


def packed(bundles: Sequence[Bundle]) -> tuple[bytes, ...]:
    """Bundles as bytes, one a task, so that a worker unpacks only its own."""
    return tuple(zlib.compress(pickle.dumps(bundle), level=1) for bundle in bundles)


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
            results = [encode(result) for result in run_bundle(plans, attempt=attempt)]
            yield pa.RecordBatch.from_pydict(
                {
                    "task": pa.array([number] * len(results), pa.int32()),
                    "result": pa.array(results, pa.binary()),
                }
            )


def packed_items(shares: Sequence[Sequence[tuple[int, RewritePlan]]]) -> tuple[bytes, ...]:
    """Plans with their numbers as bytes, those of each task together."""
    return tuple(zlib.compress(pickle.dumps(list(share)), level=1) for share in shares)


def rewritten(raw: bytes) -> RewriteAnswer:
    """What a task of ours has answered to a plan."""
    answer: RewriteAnswer = pickle.loads(raw)  # noqa: S301 - our own
    return answer


def run_rewrites(
    shares: tuple[bytes, ...], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Rewrite the partitions of this Spark task, one after the other. Called once per attempt.

    Args:
        shares: Of all tasks, packed.
        batches: One row: the number of the task.
    """
    arm(Role.WORKER)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            share: list[tuple[int, RewritePlan]]
            share = pickle.loads(zlib.decompress(shares[number]))  # noqa: S301 - our own
            for plan_number, plan in share:
                answer = pickle.dumps(carry_out(plan, time.process_time()))
                yield pa.RecordBatch.from_pydict(
                    {
                        "plan": pa.array([plan_number], pa.int32()),
                        "answer": pa.array([answer], pa.binary()),
                    }
                )


def import_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give back what came: that this could be imported is all that is asked."""
    yield from batches
