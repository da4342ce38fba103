"""Payloads that name their schema: read group by group, put back in order."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.exact_values import compile_field
from sluiceway.formats.collected_rows import (
    CollectedRows,
    Rows,
    add_tombstones,
    check_columns,
    count_tombstones,
)
from sluiceway.formats.contract import Decoded, DirtyReason, RowDecoder
from sluiceway.formats.native_rows import LIST_BYTES, NativeRowReader, fetched_by_module
from sluiceway.formats.unavailable import marks_of, untold_column, without_unavailable
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.payloads import JoinedPayloads
from sluiceway.types.row_kinds import RowKind
from sluiceway.types.schema import Schema, inner_settings

Key = TypeVar("Key")
Reader = TypeVar("Reader")

Framed = tuple[int, bytes, int]
"""Position of a payload in its batch, the payload, and where its content begins."""
ReadFetched = Callable[[Reader, JoinedPayloads, bytes], tuple[Rows, Rows] | None]
"""Reads fetched payloads with a prefix into the result; returns the positions of payloads
that it leaves, and of payloads without bytes. None reads nothing: it supports no such rows."""
MIN_ROWS = 16
"""Below so many rows the slow path costs less."""


def read_by_schema(  # noqa: PLR0913 - a format's steps
    payloads: Sequence[bytes | None],
    collected: CollectedRows,
    *,
    skips_tombstones: bool,
    frame: Callable[[bytes], tuple[Key, int]],
    readers: Callable[[Collection[Key]], Mapping[Key, Reader | DirtyValueError]],
    read: Callable[[Reader, list[Framed]], None],
    read_fetched: ReadFetched[Reader] | None = None,
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
        read_fetched: Reads the payloads of the batch's first name where they were fetched to; None
            never does.
    """
    left: tuple[Rows, Rows] | None = None
    if read_fetched is not None and fetched_by_module(payloads):
        first = _first_name(payloads, frame, readers)
        left = None if first is None else read_fetched(first[0], payloads, first[1])
    if left is None:
        rows = count_tombstones(payloads, collected, skipped=skips_tombstones)
    else:
        rows = left[0]
        add_tombstones(left[1].tolist(), collected, skipped=skips_tombstones)
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


def _first_name(
    payloads: Sequence[bytes | None],
    frame: Callable[[bytes], tuple[Key, int]],
    readers: Callable[[Collection[Key]], Mapping[Key, Reader | DirtyValueError]],
) -> tuple[Reader, bytes] | None:
    """Reader of the first payload, and the bytes before its content; None where it has none."""
    payload = next(filter(None, payloads), b"")
    try:
        key, begin = frame(payload) if payload else (None, 0)
    except DirtyValueError:
        return None
    if key is None:
        return None
    reader = readers([key])[key]
    return None if isinstance(reader, DirtyValueError) else (reader, payload[:begin])


def in_blocks(group: list[Framed]) -> Iterator[list[Framed]]:
    """Cut payloads into blocks of so many bytes; a larger payload is a block of its own."""
    block: list[Framed] = []
    size = 0
    for one in group:
        if block and size + len(one[1]) > LIST_BYTES:
            yield block
            block, size = [], 0
        block.append(one)
        size += len(one[1])
    if block:
        yield block


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


class FastRecords(Protocol):
    """A fast path for records of one schema, which vouches for rows or leaves them."""

    def read(
        self, payloads: Sequence[bytes], begins: Sequence[int]
    ) -> tuple[pa.RecordBatch, Rows, Rows]:
        """See `NativeRowReader.read`."""
        ...


def read_blocks(
    fast: FastRecords | None,
    read: Callable[[bytes, int], Sequence[object]],
    group: list[Framed],
    collected: CollectedRows,
) -> None:
    """Read payloads by a fast path, and what it leaves one by one.

    Args:
        fast: The fast path; None where there is none.
        read: See `read_rows`.
        group: The payloads.
        collected: Gets the results.
    """
    for block in in_blocks(group):
        left = block
        if fast is not None:
            rows, payloads, begins = zip(*block, strict=True)
            batch, kept, doubted = fast.read(payloads, begins)
            collected.add(batch, np.asarray(rows, np.int64)[kept])
            left = [block[place] for place in doubted.tolist()]
        read_rows(read, left, collected)


def read_in_place(
    fast: FastRecords | None, payloads: JoinedPayloads, prefix: bytes, collected: CollectedRows
) -> tuple[Rows, Rows] | None:
    """Read fetched payloads; see `ReadFetched`."""
    if not isinstance(fast, NativeRowReader):
        return None
    batch, kept, left, empty = fast.read_fetched(payloads, prefix)
    collected.add(batch, kept)
    return left, empty


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


class FramedDecoder(RowDecoder, Generic[Key, Reader]):
    """Decodes payloads that name their schema, one record each.

    Created once per task, used by one thread.

    Args:
        schema: The table's columns; `Field.path` says where in the record each one is.
        frame: See `read_by_schema`.
        readers: See `read_by_schema`.
        skips_tombstones: See `read_by_schema`.
        fast_rows: From how many rows of a schema on the fast path is used, with equal results; None
            never uses it.

    Raises:
        ValueError: There is no column, or two have the same name.
    """

    takes_any_sequence = True

    def __init__(
        self,
        schema: Schema,
        *,
        frame: Callable[[bytes], tuple[Key, int]],
        readers: Callable[[Collection[Key]], Mapping[Key, Reader | DirtyValueError]],
        skips_tombstones: bool,
        fast_rows: int | None,
    ) -> None:
        check_columns(schema)
        self._columns = Schema(tuple(inner_settings(field) for field in schema.fields))
        self._fast_rows = fast_rows
        self._fast: dict[Reader, FastRecords | None] = {}
        self._schema = arrow_schema(schema)
        self._rows = TypedRows(schema)
        self._frame = frame
        self._readers = readers
        self._skips_tombstones = skips_tombstones

    @abstractmethod
    def _record(self, reader: Reader, payload: bytes, begin: int) -> Mapping[str, object]:
        """The record of a payload, whose content begins there; raises DirtyValueError."""

    @abstractmethod
    def _fast_path(self, reader: Reader) -> FastRecords | None:
        """The fast path for a schema; None where there is none. Called once a task."""

    @property
    def arrow_schema(self) -> pa.Schema:
        """See `RowDecoder.arrow_schema`."""
        return self._schema

    def decode(self, payloads: Sequence[bytes | None]) -> Decoded:
        """Decode a batch of payloads; see `RowDecoder.decode`.

        Payloads are read group by group, by the schemas they name, and put back into order.

        Raises:
            SchemaRegistryUnavailableError: The registry does not answer, and a schema is not known
                yet. Nothing of the batch was decoded.
            SchemaRegistryRefusedError: It refuses to answer.
        """
        collected = CollectedRows(self._schema)
        read_by_schema(
            payloads,
            collected,
            skips_tombstones=self._skips_tombstones,
            frame=self._frame,
            readers=self._readers,
            read=partial(self._read, collected),
            read_fetched=partial(self._read_fetched, collected),
        )
        return collected.decoded()

    def fields_of(self, payload: bytes) -> Mapping[str, object]:
        """See `RowDecoder.fields_of`."""
        try:
            key, begin = self._frame(payload)
            reader = self._readers([key])[key]
            if isinstance(reader, DirtyValueError):
                return {}
            return self._record(reader, payload, begin)
        except DirtyValueError:
            return {}

    def _read(self, collected: CollectedRows, reader: Reader, group: list[Framed]) -> None:
        read_blocks(
            self._fast_records(reader, len(group)), partial(self._row, reader), group, collected
        )

    def _read_fetched(
        self, collected: CollectedRows, reader: Reader, payloads: JoinedPayloads, prefix: bytes
    ) -> tuple[Rows, Rows] | None:
        fast = self._fast_records(reader, len(payloads))
        return read_in_place(fast, payloads, prefix, collected)

    def _row(self, reader: Reader, payload: bytes, begin: int) -> list[object]:
        return self._rows.row(self._record(reader, payload, begin))

    def _fast_records(self, reader: Reader, rows: int) -> FastRecords | None:
        if self._fast_rows is None or rows < self._fast_rows:
            return None
        if reader not in self._fast:
            self._fast[reader] = self._fast_path(reader)
        return self._fast[reader]


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
