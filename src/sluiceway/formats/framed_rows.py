"""Payloads that name their schema: read group by group, put back in order."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.exact_values import compile_field
from sluiceway.formats.collected_rows import CollectedRows, count_tombstones
from sluiceway.formats.contract import Decoded, DirtyReason, RowDecoder
from sluiceway.formats.unavailable import marks_of, untold_column, without_unavailable
from sluiceway.types.row_kinds import RowKind
from sluiceway.types.schema import Schema, inner_settings

Key = TypeVar("Key")
Reader = TypeVar("Reader")

Framed = tuple[int, bytes, int]
"""Position of a payload in its batch, the payload, and where its content begins."""


def read_by_schema(
    payloads: Sequence[bytes | None],
    collected: CollectedRows,
    *,
    skips_tombstones: bool,
    frame: Callable[[bytes], tuple[Key, int]],
    readers: Callable[[Collection[Key]], Mapping[Key, Reader | DirtyValueError]],
    read: Callable[[Reader, list[Framed]], None],
) -> None:
    """Read a batch; every payload ends in `collected`.

    Called once per batch.

    Args:
        payloads: Payloads of the batch.
        collected: Gets the results.
        skips_tombstones: Whether a payload that is None or has no bytes is skipped; else it is
            dirty.
        frame: Returns a payload's schema name, and where the content begins; raises
            DirtyValueError.
        readers: Readers for the payloads of each name, or why there is none.
        read: Reads the payloads of one name into `collected`.
    """
    rows = count_tombstones(payloads, collected, skipped=skips_tombstones)
    groups: dict[Key, list[Framed]] = {}
    for row in rows.tolist():
        payload = payloads[row] or b""
        try:
            key, begin = frame(payload)
        except DirtyValueError as error:
            collected.dirty.append(error.row(row))
        else:
            groups.setdefault(key, []).append((row, payload, begin))
    for key, reader in readers(groups).items() if groups else ():
        if isinstance(reader, DirtyValueError):
            collected.dirty += [reader.row(row) for row, _, _ in groups[key]]
        else:
            read(reader, groups[key])


def read_rows(
    read: Callable[[bytes, int], Sequence[object]],
    group: Sequence[Framed],
    collected: CollectedRows,
) -> None:
    """Read payloads one by one.

    Args:
        read: From a payload and the start of its content to the row's values; raises
            DirtyValueError.
        group: The payloads.
        collected: Gets the results.
    """
    values, clean = [], []
    for row, payload, begin in group:
        try:
            values.append(read(payload, begin))
        except DirtyValueError as error:
            collected.dirty.append(error.row(row))
        else:
            clean.append(row)
    collected.add_values(values, clean)


class TypedRows:
    """Makes rows of records. Created once per task.

    Args:
        schema: The table's columns; `Field.path` says where in the record each one is.

    Raises:
        ValueError: No value of a format fits a column.
    """

    def __init__(self, schema: Schema) -> None:
        fields = [inner_settings(field) for field in schema.fields]
        self._readers = [compile_field(field, field.path or (field.name,)) for field in fields]

    def row(self, record: Mapping[str, object]) -> list[object]:
        """One value a column, as `pa.array` takes it for the column's Arrow type.

        Called once a payload.

        Args:
            record: Values by field: as in JSON, or as in `convert.typed_values`.

        Raises:
            DirtyValueError: The row is dirty; says why and where.
        """
        return [read(record) for read in self._readers]


def check_columns(schema: Schema) -> None:
    """Refuse columns that no format can fill. Called when a decoder is made.

    Raises:
        ValueError: There is no column, or two have the same name.
    """
    names = [field.name for field in schema.fields]
    if not names:
        raise ValueError("the table has no column to read")
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"columns have the same name: {', '.join(twice)}")


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
