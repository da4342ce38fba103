"""What Spark's Python workers import and run for the SQL of a route."""

from collections.abc import Iterable

import pyarrow as pa
from pyspark import TaskContext

from sluiceway import __version__
from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.host.hdfs_tokens import DelegationTokens, hold_tokens
from sluiceway.types.strict_json import encode
from sluiceway.worker.preload import forget_archives
from sluiceway.worker.sql_task import SqlTask, run_sql_task


def write_batches(
    version: str,
    tokens: DelegationTokens | None,
    task: SqlTask,
    schema: bytes,
    batches: Iterable[bytes],
) -> bytes:
    """Write the rows of one Spark task. Called once per attempt, in a Python worker.

    Args:
        version: Of the driver.
        tokens: For the stores; None where they need none.
        task: What all tasks share.
        schema: Arrow message of the rows' schema.
        batches: Arrow messages of the rows.

    Returns:
        A `TaskResult`, encoded.

    Raises:
        UnhealthyEnvironmentError: The driver is of another version.
    """
    if version != __version__:
        raise UnhealthyEnvironmentError(
            f"this executor has sluiceway {__version__}, its driver {version}"
        )
    if tokens is not None:
        hold_tokens(tokens)
    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    kind = pa.ipc.read_schema(pa.py_buffer(schema))
    rows = (pa.ipc.read_record_batch(pa.py_buffer(each), kind) for each in batches)
    answer = encode(run_sql_task(task, number, rows))
    forget_archives()
    return answer
