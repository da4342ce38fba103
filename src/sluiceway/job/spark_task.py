"""The function that Spark's Python workers import and run."""

import pickle
import zlib
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext

from sluiceway.schedule.runner import Bundle
from sluiceway.types.strict_json import encode
from sluiceway.worker.bundle import run_bundle

RESULT_SCHEMA = "task int, result binary"


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


def import_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give back what came: that this could be imported is all that is asked."""
    yield from batches
