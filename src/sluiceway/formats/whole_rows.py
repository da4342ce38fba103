"""Payloads that are whole rows of a keyed table: each puts its row, a null one deletes it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sluiceway.formats.contract import Decoded, DirtyReason, RowDecoder
from sluiceway.formats.unavailable import marks_of, untold_column, without_unavailable
from sluiceway.types.row_kinds import RowKind
from sluiceway.types.schema import Schema

DELETED = "deleted"
"""Note that counts payloads which delete a row."""
_KIND = pa.int8()


class WholeRowsDecoder(RowDecoder):
    """Makes changes of a format without them: an image for each payload. Created once a task.

    Args:
        inner: Reads the rows; it reports a tombstone as dirty where that deletes.
        schema: The table's columns.
        nulls_delete: Whether a payload that is None deletes the row of the record's key. `inner`
            decides about a payload without bytes.
    """

    def __init__(self, inner: RowDecoder, schema: Schema, *, nulls_delete: bool) -> None:
        self._inner = inner
        self._fields = schema.fields
        self._marks = marks_of(schema.fields)
        self._nulls_delete = nulls_delete
        self.takes_any_sequence = inner.takes_any_sequence
        self.reads_schema_header = inner.reads_schema_header

    @property
    def arrow_schema(self) -> pa.Schema:
        """See `RowDecoder.arrow_schema`."""
        return self._inner.arrow_schema

    def decode(self, payloads: Sequence[bytes | None]) -> Decoded:
        """See `RowDecoder.decode`."""
        found = self._inner.decode(payloads)
        kinds = pa.array(np.full(found.rows.num_rows, int(RowKind.IMAGE), np.int8))
        found = replace(found, kinds=kinds)
        # The format has checked every payload: only payloads that it calls empty are checked again.
        gone = [
            row.index
            for row in found.dirty
            if self._nulls_delete
            and row.reason is DirtyReason.EMPTY
            and payloads[row.index] is None
        ]
        found = _with_deletes(found, kinds, gone) if gone else found
        # Rows may be those of Debezium without its envelope (`ExtractNewRecordState`).
        return without_unavailable(found, payloads, self._untold, self._marks)

    def _untold(self, payload: bytes) -> str | None:
        return untold_column(self._fields, self._inner.fields_of(payload))

    def fields_of(self, payload: bytes) -> Mapping[str, object]:
        """See `RowDecoder.fields_of`."""
        return self._inner.fields_of(payload)


def _with_deletes(found: Decoded, kinds: pa.Array, gone: list[int]) -> Decoded:
    """The result with a delete, of which only the key is known, for each of these payloads."""
    schema = found.rows.schema
    nothing = [pa.nulls(len(gone), field.type) for field in schema]
    deletes = pa.RecordBatch.from_arrays(nothing, schema=schema)
    indices = np.concatenate([found.indices.to_numpy(), np.array(gone, np.int64)])
    order = pa.array(np.argsort(indices, kind="stable"))
    removed = pa.array(np.full(len(gone), int(RowKind.DELETE), np.int8), _KIND)
    taken = set(gone)
    return replace(
        found,
        rows=pa.concat_batches([found.rows, deletes]).take(order),
        indices=pa.array(indices).take(order),
        kinds=pa.concat_arrays([kinds, removed]).take(order),
        dirty=tuple(row for row in found.dirty if row.index not in taken),
        notes={**found.notes, DELETED: len(gone)},
    )
