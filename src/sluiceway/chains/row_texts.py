"""Rows of a table as JSON, for dirty files: what `format: json` reads back as the same values."""

import numpy as np
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
    """The same with times as texts, however deep they lie."""
    kind = array.type
    if pa.types.is_struct(kind):
        parts = [_readable(array.field(at)) for at in range(kind.num_fields)]
        names = [kind.field(at).name for at in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, names, mask=array.is_null()) if parts else array
    if pa.types.is_list(kind):
        values = _readable(array.values)
        return pa.ListArray.from_arrays(_offsets(array), values)
    if pa.types.is_map(kind):
        keys, items = _readable(array.keys), _readable(array.items)
        return pa.MapArray.from_arrays(_offsets(array), keys, items)
    if not pa.types.is_timestamp(kind):
        return array
    utc = array.cast(pa.timestamp(array.type.unit))
    return pc.strftime(utc, "%Y-%m-%dT%H:%M:%SZ")


def _offsets(array: pa.Array) -> pa.Array:
    """Offsets of lists, null where the list is."""
    if not array.null_count:
        return array.offsets
    gone = np.append(np.asarray(array.is_null()), values=False)
    return pa.array(np.asarray(array.offsets), pa.int32(), mask=gone)
