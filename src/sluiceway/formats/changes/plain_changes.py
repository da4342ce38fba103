"""Plain changes of a change log, read by columns: the row after the change, or a deleted row."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sluiceway.convert.arrow_blocks import BlockReader
from sluiceway.convert.fast_rows import FastPath
from sluiceway.convert.native_blocks import FetchedPath, NativeReader
from sluiceway.formats.changes.envelopes import Envelope
from sluiceway.formats.changes.forms import MessageForm
from sluiceway.formats.collected_rows import CollectedRows, Rows
from sluiceway.formats.connect_blocks import WrappedReader, WrappedSchemas
from sluiceway.types.payloads import JoinedPayloads, taken_out
from sluiceway.types.row_kinds import KIND_COLUMN, RowKind
from sluiceway.types.schema import Field, Schema, StringType

_IMAGE = pa.scalar(int(RowKind.IMAGE), pa.int8())
_DELETE = pa.scalar(int(RowKind.DELETE), pa.int8())
_WRAPPED = Field("$unwrapped", StringType())
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class _Part:
    """Changes of one form with rows under one path of the message.

    Attributes:
        path: Fast path that reads some columns of the table, then the marker, and then optional
            values.
        schema: Schema of the rows, with their kind where they have one.
        columns: Positions in the table of the columns that are read; the others are null.
        of_row: Positions among these of the row's columns, of which at least one has a value; else
            the row may be missing. None where a message is its row.
        plain: Markers of these changes.
        deletes: Markers of deletes.
    """

    path: FastPath
    schema: pa.Schema
    columns: tuple[int, ...]
    of_row: tuple[int, ...]
    plain: pa.Array
    deletes: pa.Array

    def read(self, payloads: list[bytes], rows: Rows, collected: CollectedRows) -> Rows:
        """Take the changes that are vouched for; returns their positions among the payloads."""
        taken: list[Rows] = []
        for block in self.path.read(payloads):
            for batch, places in zip(block.batches, block.rows, strict=True):
                kept = places[self._add_sound(batch, rows[places], _NONE, collected)]
                taken.append(kept)
        return np.concatenate(taken) if taken else _NONE

    def read_fetched(
        self, payloads: JoinedPayloads, doubted: Rows, collected: CollectedRows
    ) -> tuple[Rows, Rows]:
        """As `read`, for fetched payloads, in place.

        Returns:
            Positions of the taken payloads, and of payloads without bytes.
        """
        assert isinstance(self.path, FetchedPath)  # noqa: S101 - `PlainChanges.can_read` saw it
        block, empty = self.path.read_fetched(payloads)
        taken = [_NONE]
        for batch, places in zip(block.batches, block.rows, strict=True):
            taken.append(places[self._add_sound(batch, places, doubted, collected)])
        return np.concatenate(taken), empty

    def _add_sound(
        self, batch: pa.RecordBatch, rows: Rows, doubted: Rows, collected: CollectedRows
    ) -> NDArray[np.bool_]:
        """Add the sound rows of a batch to the result; returns which these are."""
        sound = self._sound(batch)
        if len(doubted):
            sound = pc.and_(sound, pa.array(~np.isin(rows, doubted)))
        read = dict(zip(self.columns, batch.columns, strict=False))
        width = len(self.schema) - (KIND_COLUMN in self.schema.names)
        columns = [
            read[place] if place in read else pa.nulls(len(rows), self.schema.types[place])
            for place in range(width)
        ]
        if width < len(self.schema):
            deleted = pc.is_in(batch.column(len(self.columns)), self.deletes)
            columns.append(pc.if_else(deleted, _DELETE, _IMAGE))
        found = pa.RecordBatch.from_arrays(columns, schema=self.schema).filter(sound)
        kept: NDArray[np.bool_] = sound.to_numpy(zero_copy_only=False)
        collected.add(found, rows[kept])
        return kept

    def _sound(self, batch: pa.RecordBatch) -> pa.Array:
        """Rows of a batch whose form is certain."""
        width = len(self.columns)
        sound = pc.is_in(batch.column(width), self.plain)
        if batch.num_columns > width + 1:
            sound = pc.and_(sound, batch.column(width + 1).is_null())
        if self.of_row:
            held = batch.column(self.of_row[0]).is_valid()
            for place in self.of_row[1:]:
                held = pc.or_(held, batch.column(place).is_valid())
            sound = pc.and_(sound, held)
        return sound


class PlainChanges:
    """Reads plain changes of one form. Created once a task, used by one thread.

    Args:
        parts: Changes that leave a row, then deletes, where their columns are at another path.

    Attributes:
        knows_schemas: Whether values are read by the schemas in their messages.
    """

    def __init__(self, parts: Sequence[_Part]) -> None:
        self._first, *self._rest = parts
        self.knows_schemas = all(isinstance(part.path, WrappedReader) for part in parts)

    @classmethod
    def of_form(
        cls,
        form: MessageForm,
        schema: Schema,
        envelope: Envelope,
        collected: pa.Schema,
        schemas: WrappedSchemas,
    ) -> "PlainChanges | None":
        """Make the reader for a form's messages; None when columns cannot read them.

        Args:
            form: Form of the messages.
            schema: The table's columns.
            envelope: Says which markers are plain.
            collected: Schema of the rows, with their kind where they have one.
            schemas: Schemas in messages; None for messages without them.
        """
        keyed = KIND_COLUMN in collected.names
        # Only the slow path sees the values before a change of a key.
        plain = envelope.plain - (envelope.old.keys() if keyed else frozenset())
        (image,) = {envelope.images[marker] for marker in envelope.plain}
        everything = tuple(range(len(schema.fields)))
        of_plain = _ChangeKind(image, plain, everything)
        first = _part(form, schema, envelope, (collected, schemas), of_plain)
        if first is None:
            return None
        parts = [first]
        elsewhere = {marker for marker in envelope.deletes if envelope.images[marker] != image}
        for marker in sorted(elsewhere):
            wanted = tuple(form.key_places) if keyed else everything
            of_image = _ChangeKind(envelope.images[marker], frozenset({marker}), wanted)
            # Without a column of the row, a missing row would not be noticed.
            if any(form.reads_rows[place] for place in wanted):
                part = _part(form, schema, envelope, (collected, schemas), of_image)
                parts += [] if part is None else [part]
        return cls(parts)

    def read(self, payloads: list[bytes], rows: Rows, collected: CollectedRows) -> Rows:
        """Take the changes that are vouched for. Called once a batch.

        Args:
            payloads: None of them empty.
            rows: Their positions in the batch.
            collected: Gets the changes.

        Returns:
            Positions of these changes among the payloads.
        """
        found = self._first.read(payloads, rows, collected)
        return np.concatenate([found, self._read_rest(payloads, rows, found, collected)])

    def can_read(self, payloads: Sequence[bytes | None]) -> bool:
        """Whether `read_fetched` supports these payloads."""
        path = self._first.path
        return isinstance(path, FetchedPath) and path.can_read(payloads)

    def read_fetched(
        self, payloads: JoinedPayloads, doubted: Rows, collected: CollectedRows
    ) -> tuple[Rows, Rows]:
        """Take the changes that are vouched for, from fetched payloads, in place.

        Called once a batch for which `can_read` is true.

        Args:
            payloads: Payloads of the batch.
            doubted: Positions of payloads to leave out.
            collected: Gets the changes.

        Returns:
            Positions of the payloads that are left, without the doubted ones, and of payloads
            without bytes; both ascending.
        """
        taken, empty = self._first.read_fetched(payloads, doubted, collected)
        left = np.delete(np.arange(len(payloads)), np.concatenate([taken, empty, doubted]))
        found = self._read_rest(taken_out(payloads, left), left, _NONE, collected)
        return np.delete(left, found), empty

    def _read_rest(
        self, payloads: list[bytes], rows: Rows, taken: Rows, collected: CollectedRows
    ) -> Rows:
        """Take what the other parts vouch for among the remaining payloads."""
        left = np.delete(np.arange(len(payloads)), taken)
        found = [_NONE]
        for part in self._rest:
            if len(left):
                these = part.read([payloads[row] for row in left.tolist()], rows[left], collected)
                found.append(left[these])
                left = np.delete(left, these)
        return np.concatenate(found)


@dataclass(frozen=True, slots=True)
class _ChangeKind:
    """Changes of one kind: path of the image, markers, places of the columns."""

    image: tuple[str, ...]
    markers: frozenset[str]
    columns: tuple[int, ...]


def _part(
    form: MessageForm,
    schema: Schema,
    envelope: Envelope,
    shared: tuple[pa.Schema, WrappedSchemas],
    wanted: _ChangeKind,
) -> _Part | None:
    """A part for rows under an image; None where neither fast path supports it.

    Args:
        form: Form of the messages.
        schema: The table's columns.
        envelope: Envelope of the form.
        shared: Schema of the rows, and the schemas in messages.
        wanted: Kind of the changes.
    """
    (collected, schemas), columns = shared, wanted.columns
    all_fields = form.fields(schema, wanted.image)
    # A deleted row is known by its key, as far as the message has it.
    partial = len(columns) < len(all_fields)
    chosen = [all_fields[place] for place in columns]
    fields = [replace(field, required=False) for field in chosen] if partial else chosen
    fields.append(form.marker_field)
    if form.wrapper:
        # A message with a marker outside of the wrapper is not a wrapped one.
        fields.append(Field(_WRAPPED.name, StringType(), path=envelope.marker))
    numbered = Schema(tuple(replace(field, name=f"c{n}") for n, field in enumerate(fields)))
    path: FastPath | None = None
    if form.wrapper:
        path = WrappedReader.for_schema(numbered, schemas)
    path = path or NativeReader.for_schema(numbered) or BlockReader.for_schema(numbered)
    if path is None:
        return None
    of_row = tuple(at for at, place in enumerate(columns) if form.reads_rows[place])
    return _Part(
        path,
        collected,
        columns,
        of_row if wanted.image else (),
        pa.array(sorted(wanted.markers), pa.string()),
        pa.array(sorted(envelope.deletes), pa.string()),
    )
