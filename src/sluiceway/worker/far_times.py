"""Dates and times outside of the years 0001 to 9999, which only SQL makes: no row may have one."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sluiceway.types.iso_time import MAX_TIME_US, MIN_TIME_US

_DAY_US = 86_400_000_000
_DAYS = MIN_TIME_US // _DAY_US, MAX_TIME_US // _DAY_US

FAR = "it is outside of the years 0001 to 9999"

Rows = NDArray[np.int64]


class FarTimes:
    """Finds them in rows of one schema, also inside of structs, lists and maps.

    Args:
        schema: Names and types of the columns, in the order of the file.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._columns = [
            (index, field.name) for index, field in enumerate(schema) if _has_times(field.type)
        ]

    def find(self, rows: pa.RecordBatch) -> dict[int, str]:
        """Find the rows that have one. Called once a batch.

        Returns:
            Number of a row in the batch -> its first column with such a value.
        """
        found: dict[int, str] = {}
        for index, name in self._columns:
            for row in _far(rows.column(index)).tolist():
                found.setdefault(row, name)
        return found


def _has_times(kind: pa.DataType) -> bool:
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return True
    return any(_has_times(kind.field(number).type) for number in range(kind.num_fields))


def _far(array: pa.Array) -> Rows:
    """Positions of the values that have one."""
    kind = array.type
    if pa.types.is_date32(kind):
        return _outside(array.view(pa.int32()), *_DAYS)
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        # Finer units hold fewer years.
        return _outside(array.view(pa.int64()), MIN_TIME_US, MAX_TIME_US)
    parts = [np.array([], np.int64), *_far_parts(array)]
    return np.unique(np.concatenate(parts))


def _far_parts(array: pa.Array) -> Iterator[Rows]:
    if pa.types.is_struct(array.type):
        yield from map(_far, array.flatten())
    elif pa.types.is_map(array.type):
        yield from (_rows_with(array, each) for each in (array.keys, array.items))
    elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        yield _rows_with(array, array.values)


def _rows_with(array: pa.Array, values: pa.Array) -> Rows:
    """Rows of lists or maps that have such a value; what a null row hides does not count."""
    offsets = array.offsets.to_numpy()
    begin, end = int(offsets[0]), int(offsets[-1])
    found = _far(values.slice(begin, end - begin)) + begin
    rows = np.searchsorted(offsets, found, side="right") - 1
    valid: NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return rows[valid[rows]]


def _outside(numbers: pa.Array, low: int, high: int) -> Rows:
    bounds = pc.min_max(numbers).as_py()
    if bounds["min"] is None or (bounds["min"] >= low and bounds["max"] <= high):
        return np.array([], np.int64)
    outside = pc.or_(pc.less(numbers, low), pc.greater(numbers, high))
    return np.flatnonzero(pc.fill_null(outside, False).to_numpy(zero_copy_only=False))  # noqa: FBT003
