"""From file spans to the partitions of a Spark job, and from these to Arrow batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pyspark_sluiceway.columns import PLACE, SLOT
from sluiceway.audit.open_table import OpenLedger
from sluiceway.errors import FileLostError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.row_places import FileSpan
from sluiceway.sinks.files.contract import FileFormat
from sluiceway.sinks.files.reading import format_by_name
from sluiceway.sinks.files.span_rows import RowSpan, read_stored, span_batches
from sluiceway.storage.access import Stores
from sluiceway.storage.registry import open_storage

_TASK_BYTES = 128 << 20
_TASK_SPANS = 500
_NOTHING = pa.field("_sw_nothing", pa.null())
"""Batches without a column would not know how many rows they have."""


@dataclass(frozen=True, slots=True)
class PlannedSpan:
    """A span with all that a task needs of it.

    Attributes:
        rows: The file and which of its rows.
        partition: Name of its partition.
        values: Values of the partition columns, as the ledger has them; None is null.
        slot: Slot that brought the rows.
        place: Number of the first row in the order of the log.
    """

    rows: RowSpan
    partition: str
    values: tuple[str | None, ...]
    slot: int
    place: int


@dataclass(frozen=True, slots=True)
class SpanTask:
    """What one task reads.

    Attributes:
        root: Folder of the table, as its storage names it.
        stores: How the store of the table is reached.
        names: Names of the partition columns.
        spans: What is read, in the order of the rows.
        files: Whether each row describes a span, in place of the rows in it.
    """

    root: str
    stores: Stores
    names: tuple[str, ...]
    spans: tuple[PlannedSpan, ...]
    files: bool


class SpanPartition(InputPartition):  # type: ignore[misc]  # Spark's class has no types
    """A `SpanTask` as Spark hands it to a task."""

    def __init__(self, task: SpanTask) -> None:
        self.value = task


def planned(
    config: RouteConfig, ledger: OpenLedger, spans: Sequence[FileSpan], *, files: bool
) -> list[SpanPartition]:
    """Tasks that read these spans, about 128 MiB each; called on the driver."""
    names = tuple(column.name for column in config.table.partition_columns)
    layout = ledger.log.layout
    found: list[list[PlannedSpan]] = []
    size = 0.0
    for span in spans:
        file = span.file
        share = int(file.size_bytes) * span.rows / max(int(file.rows), 1)
        size += share
        if not found or size > _TASK_BYTES or len(found[-1]) == _TASK_SPANS:
            found.append([])
            size = share
        path = layout.final(file.final)
        # Only ORC's reader needs them: they may be long.
        bounds = file.bounds if format_by_name(path) is FileFormat.ORC else {}
        rows = RowSpan(path, span.first_row, span.rows, int(file.rows), bounds)
        found[-1].append(PlannedSpan(rows, span.partition, file.values, span.slot, span.place))
    root, stores = layout.table_root, config.stores
    return [SpanPartition(SpanTask(root, stores, names, tuple(each), files)) for each in found]


def task_batches(task: SpanTask, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows of a task, as Spark's columns; called on an executor.

    Raises:
        FileLostError: A file is gone, or not the one that was committed.
        StorageUnavailableError: The store failed.
    """
    if task.files:
        yield from _span_rows(task, schema)
        return
    storage, _ = open_storage(task.root, task.stores)
    ours = {name.lower() for name in (*task.names, SLOT, PLACE)}
    inside = pa.schema([each for each in schema if each.name.lower() not in ours] or [_NOTHING])
    for span in task.spans:
        gone = FileLostError(
            "it is gone: its rows were merged or let go of since the read was planned",
            where=span.rows.path,
            hint="run the query again; a stream starts again from its checkpoint",
        )
        read = partial(_whole_rows, inside=inside, span=span, names=task.names, schema=schema)
        yield from read_stored(storage, span.rows, read, gone)


def _whole_rows(
    handle: BinaryIO,
    rows: RowSpan,
    *,
    inside: pa.Schema,
    span: PlannedSpan,
    names: Sequence[str],
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    at = 0
    for batch in span_batches(handle, rows, inside):
        yield _whole(batch, span, at, names, schema)
        at += batch.num_rows


def _whole(
    batch: pa.RecordBatch, span: PlannedSpan, at: int, names: Sequence[str], schema: pa.Schema
) -> pa.RecordBatch:
    """A batch with what is not in the file."""
    rows = batch.num_rows
    values = {name.lower(): value for name, value in zip(names, span.values, strict=True)}
    found = {each.name: column for each, column in zip(batch.schema, batch.columns, strict=True)}
    for each in schema:
        name = each.name.lower()
        if each.name == SLOT:
            found[each.name] = pa.repeat(pa.scalar(span.slot, each.type), rows)
        elif each.name == PLACE:
            first = span.place + at
            found[each.name] = pa.array(np.arange(first, first + rows), each.type)
        elif name in values:
            # Null and the empty text are one for Hive.
            text = pa.scalar(values[name] or None, pa.string())
            found[each.name] = pa.repeat(text.cast(each.type), rows)
    return pa.RecordBatch.from_arrays([found[each.name] for each in schema], schema=schema)


def spark_path(path: str) -> str:
    """A path as Spark finds it whatever its default file system is."""
    return path if "://" in path else f"file://{path}"


def _span_rows(task: SpanTask, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    spans = task.spans
    columns = {
        "path": [spark_path(span.rows.path) for span in spans],
        "first_row": [span.rows.first_row for span in spans],
        "rows": [span.rows.rows for span in spans],
        "partition": [span.partition for span in spans],
        "slot": [span.slot for span in spans],
    }
    yield pa.RecordBatch.from_arrays(
        [pa.array(columns[each.name], each.type) for each in schema], schema=schema
    )
