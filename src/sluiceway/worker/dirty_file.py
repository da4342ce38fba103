"""Dirty rows, kept whole, as a staged Parquet file of the same commit."""

import pyarrow as pa

from sluiceway.formats.contract import DirtyRow
from sluiceway.sources.contract import RawRecord

DIRTY_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp_ms", pa.int64()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field(
            "headers",
            pa.list_(pa.struct([pa.field("name", pa.string()), pa.field("value", pa.binary())])),
        ),
        pa.field("stage", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
        pa.field("schema_version", pa.string(), nullable=False),
    ]
)


def dirty_batch(rows: list[tuple[DirtyRow, RawRecord]], schema_version: str) -> pa.RecordBatch:
    """Dirty rows with all that the queue had for them.

    Args:
        rows: Why, and the record.
        schema_version: Fingerprint of the schema they did not fit.

    Returns:
        Columns of `DIRTY_SCHEMA`, in the order given.
    """
    columns = [
        [record.partition.topic for _, record in rows],
        [record.partition.partition for _, record in rows],
        [record.offset for _, record in rows],
        [record.timestamp_ms for _, record in rows],
        [record.key for _, record in rows],
        [record.value for _, record in rows],
        [[{"name": n, "value": v} for n, v in record.headers] for _, record in rows],
        [row.stage for row, _ in rows],
        [row.reason.value for row, _ in rows],
        [row.path for row, _ in rows],
        [row.message for row, _ in rows],
        [schema_version] * len(rows),
    ]
    arrays = [
        pa.array(column, type=field.type)
        for column, field in zip(columns, DIRTY_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=DIRTY_SCHEMA)
