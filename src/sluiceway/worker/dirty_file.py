"""Dirty rows, kept whole, as a staged Parquet file of the same commit."""

from collections.abc import Sequence

import pyarrow as pa

from sluiceway.formats.contract import DirtyRow
from sluiceway.sources.raw_records import RECORD_SCHEMA

_WHY = ("stage", "reason", "path", "message", "schema_version")
DIRTY_SCHEMA = pa.schema(
    [*RECORD_SCHEMA, *(pa.field(name, pa.string(), nullable=False) for name in _WHY)]
)


def dirty_batch(
    rows: Sequence[DirtyRow], records: pa.RecordBatch, schema_version: str
) -> pa.RecordBatch:
    """Dirty rows with all that the queue had for them.

    Args:
        rows: Why.
        records: Columns of `RECORD_SCHEMA`, the record of each of them.
        schema_version: Fingerprint of the schema they did not fit.

    Returns:
        Columns of `DIRTY_SCHEMA`, in the order given.
    """
    why = [
        [row.stage for row in rows],
        [row.reason for row in rows],
        [row.path for row in rows],
        [row.message for row in rows],
    ]
    arrays = [
        *records.columns,
        *(pa.array(texts, pa.string()) for texts in why),
        pa.repeat(pa.scalar(schema_version, pa.string()), len(rows)),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=DIRTY_SCHEMA)
