"""Columns of rows in the order, and under the names, that a table's files have them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sluiceway.sinks.files.row_masks import Mask
from sluiceway.types.arrow_types import arrow_type
from sluiceway.types.dirty import DirtyReason, DirtyRow
from sluiceway.types.schema import Schema


class ColumnMapping:
    """Where each column of a file comes from. Columns that rows do not have are null.

    Args:
        rows: Schema of the rows to be written.
        columns: The table's; None: the rows' columns, as they are.
        lower: Fields inside of these columns get lower-case names, as Hive's readers ask for them.
    """

    def __init__(self, rows: pa.Schema, columns: Schema | None, *, lower: bool = False) -> None:
        self.schema = rows
        self._sources: list[int | None] | None = None
        if columns is None:
            return
        place = {name.lower(): index for index, name in enumerate(rows.names)}
        fields, sources = [], []
        for field in columns.fields:
            index = place.get(field.name.lower())
            kind = arrow_type(field.type) if index is None else _plain(rows.field(index).type)
            fields.append(pa.field(field.name, _lowered(kind) if lower else kind))
            sources.append(index)
        self.schema = pa.schema(fields)
        self._sources = sources

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows as the file has them.

        Raises:
            pa.ArrowException: The batch is of another schema.
        """
        if self._sources is None:
            return batch
        count = batch.num_rows
        arrays = [
            pa.nulls(count, field.type) if index is None else _as(field, batch.column(index))
            for index, field in zip(self._sources, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _lowered(kind: pa.DataType) -> pa.DataType:
    """A type whose structs' fields have lower-case names; the layout in memory is the same."""
    if pa.types.is_list(kind):
        return pa.list_(_lowered(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _lowered(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name.lower(), _lowered(each.type)) for each in kind])
    return kind


def _as(field: pa.Field, values: Any) -> Any:
    found = _decoded(values)
    return found.view(field.type) if pa.types.is_nested(field.type) else found


def _decoded(values: Any) -> Any:
    # Columns that say where rows come from hold few values.
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def unfit_rows(
    rows: pa.RecordBatch, judges: Sequence[Callable[[Any], Mask | None]], message: str
) -> list[DirtyRow]:
    """Rows that the table's files cannot hold, one a row, in rising order.

    Args:
        rows: The rows.
        judges: One a column: its values -> which of them the format cannot keep; None for none.
        message: What is wrong with all of these, without a value.

    Returns:
        For each row the first column to blame.
    """
    found: dict[int, DirtyRow] = {}
    for name, values, judge in zip(rows.schema.names, rows.columns, judges, strict=True):
        mask = judge(_decoded(values))
        for index in () if mask is None else np.flatnonzero(mask):
            row = DirtyRow(int(index), "write", DirtyReason.UNREPRESENTABLE, name, message)
            found.setdefault(row.index, row)
    return [found[index] for index in sorted(found)]
