"""Rows of a table as JSON, for dirty files: what `format: json` reads back as the same values."""

import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.sinks.files.json_format import json_lines
from sluiceway.sinks.files.span_rows import ROWS_COLUMN


def row_texts(rows: pa.RecordBatch) -> pa.Array:
    """One object a row; times in ISO 8601 with their zone, bytes in base64."""
    names = [name for name in rows.schema.names if name != ROWS_COLUMN]
    if not names:
        return pa.array(["{}"] * rows.num_rows)
    columns = [_readable(rows.column(name)) for name in names]
    return json_lines(pa.RecordBatch.from_arrays(columns, names=names))


def _readable(array: pa.Array) -> pa.Array:
    if not pa.types.is_timestamp(array.type):
        return array
    utc = array.cast(pa.timestamp(array.type.unit))
    return pc.strftime(utc, "%Y-%m-%dT%H:%M:%SZ")
