"""The function that Spark's Python workers import and run."""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark import TaskContext

from sluiceway.types.strict_json import encode
from sluiceway.worker.plan import TaskPlan
from sluiceway.worker.task import run_task

RESULT_SCHEMA = "task int, result binary"


def run_spark_task(
    plans: tuple[TaskPlan, ...], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run the one task of this Spark partition. Called once per attempt.

    Args:
        plans: All tasks of the epoch.
        batches: One row: the number of the task.
    """
    context = TaskContext.get()
    attempt = context.attemptNumber() if context is not None else 0
    for batch in batches:
        for number in batch.column(0).to_pylist():
            # A retried attempt starts late; it reads nothing, so the others do not wait for it.
            plan = plans[number] if attempt == 0 else replace(plans[number], deadline_s=0.0)
            result = run_task(plan)
            yield pa.RecordBatch.from_pydict(
                {
                    "task": pa.array([number], pa.int32()),
                    "result": pa.array([encode(result)], pa.binary()),
                }
            )
