"""Dirty rows, kept whole, as a staged Parquet file of the same commit."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from sluiceway.formats.contract import DirtyRow
from sluiceway.sources.contract import Headers, RawRecords

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

_KEY: Final = DIRTY_SCHEMA.get_field_index("partition")
_TEXT_KEY_SCHEMA: Final = DIRTY_SCHEMA.set(_KEY, pa.field("partition", pa.string(), nullable=False))
_HEADERS: pa.DataType = DIRTY_SCHEMA.field("headers").type


def dirty_schema(*, text_keys: bool) -> pa.Schema:
    """Columns of a route's dirty files: `DIRTY_SCHEMA`, or with texts as keys of partitions."""
    return _TEXT_KEY_SCHEMA if text_keys else DIRTY_SCHEMA


def dirty_batch(
    rows: Sequence[DirtyRow], records: RawRecords, schema_version: str, *, text_keys: bool = False
) -> pa.RecordBatch:
    """Dirty rows with all that the queue had for them.

    Args:
        rows: Why.
        records: The record of each of them.
        schema_version: Fingerprint of the schema they did not fit.
        text_keys: As in `dirty_schema`.

    Returns:
        Columns of `dirty_schema`, in the order given.
    """
    schema = dirty_schema(text_keys=text_keys)
    columns = [
        records.topics,
        records.partitions,
        records.offsets,
        records.timestamps_ms,
        records.keys,
        records.values,
        header_lists(records.headers),
        [row.stage for row in rows],
        [row.reason for row in rows],
        [row.path for row in rows],
        [row.message for row in rows],
        [schema_version] * len(rows),
    ]
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, type=field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def header_lists(headers: Sequence[Headers]) -> pa.Array:
    """Headers of records as Arrow, a list for each record."""
    if any(headers):
        named = [[{"name": name, "value": value} for name, value in each] for each in headers]
        return pa.array(named, _HEADERS)
    # Most records have none, and empty lists of Python's cost as much as the rest of a record.
    starts = pa.array(np.zeros(len(headers) + 1, np.int32))
    return pa.ListArray.from_arrays(starts, pa.array([], _HEADERS.value_type), type=_HEADERS)
