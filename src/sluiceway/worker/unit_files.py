"""Writes what a query returns for one unit of a table: in a task, batch by batch."""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from sluiceway.errors import TaskFailedError
from sluiceway.ledger.file_names import FileRecord
from sluiceway.observe.failpoints import Role, arm, reach
from sluiceway.sinks.partition_path import partition_folder
from sluiceway.storage.registry import open_storage
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.worker.far_times import FAR, FarTimes
from sluiceway.worker.plan import RoutePlan, StagedPrefix, TaskPlan
from sluiceway.worker.staged_files import StagedFiles


@dataclass(frozen=True, slots=True)
class UnitPlan:
    """Where the rows of a unit go.

    Attributes:
        route: Plan of the route that fills the table; its schema has the columns of the rows.
        attempt: Folder under stage/ of the INTENT; it exists.
        values: Values of the partition columns, which no row has.
    """

    route: RoutePlan
    attempt: str
    values: tuple[str | None, ...]


def write_unit(plan: UnitPlan, batches: Iterable[pa.RecordBatch]) -> tuple[FileRecord, ...]:
    """Write rows to staged files, at most one partition's share of them. Called once per attempt.

    Files of an attempt that dies stay as garbage of the folder: only returned files count.

    Args:
        plan: Where they go.
        batches: Rows with the columns of the table, in order; types may be wider in form only.

    Raises:
        TaskFailedError: A value does not fit its column, or a file is not what was written.
        StorageUnavailableError: The store failed.
    """
    arm(Role.WORKER)
    route = plan.route
    storage, _ = open_storage(route.layout.table_root, route.stores)
    schema = arrow_schema(route.schema)
    unit = partition_folder([rule.name for rule in route.partitions], plan.values)
    task = TaskPlan(route, 0, 0, (), 0.0, prefix=StagedPrefix(unit, plan.attempt))
    files = StagedFiles(storage, task, schema)
    try:
        for batch in batches:
            if batch.num_rows:
                files.write(plan.values, _fitted(batch, schema))
                files.free(route.memory_bytes // 2)
        clean, _, _ = files.close()
    except BaseException:
        files.abort()
        raise
    reach("unit.written", route.layout.attempt(plan.attempt))
    return clean


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    try:
        columns = [
            column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)
        ]
    except (pa.ArrowException, ValueError) as error:
        raise TaskFailedError(f"a value does not fit its column: {str(error)[:200]}") from error
    fitted = pa.RecordBatch.from_arrays(columns, schema=schema)
    for name in FarTimes(schema).find(fitted).values():
        raise TaskFailedError(f"a value does not fit its column {name}: {FAR}")
    return fitted
