"""Debezium's messages in Avro or Protobuf, by a registry's schemas, which include the envelope."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.formats.avro.decoder import avro_record, fast_avro
from sluiceway.formats.avro.reader import Cursor
from sluiceway.formats.avro.writer_schemas import RegistrySchemas, WriterSchema
from sluiceway.formats.changes.envelopes import DEBEZIUM
from sluiceway.formats.changes.forms import MessageForm
from sluiceway.formats.changes.outcomes import (
    KIND_FIELD,
    TOMBSTONE,
    TRUNCATE,
    TRUNCATE_CHOICES,
    OtherMessages,
    with_kinds,
)
from sluiceway.formats.collected_rows import CollectedRows, Rows, check_columns
from sluiceway.formats.contract import Decoded, RowDecoder
from sluiceway.formats.framed_rows import (
    MIN_ROWS,
    FastRecords,
    Framed,
    in_blocks,
    read_by_schema,
)
from sluiceway.formats.native_rows import NativeRowReader
from sluiceway.formats.options import FREE, known_options
from sluiceway.formats.protobuf.message_schemas import RegistryMessages
from sluiceway.formats.protobuf.native_columns import NativeProtobuf
from sluiceway.formats.protobuf.reader import MessageReader
from sluiceway.formats.protobuf.wire import Wire
from sluiceway.formats.schema_registry.frame import confluent_frame
from sluiceway.formats.schema_registry.settings import PREFIX, registry_settings
from sluiceway.formats.schema_registry.store import process_store
from sluiceway.formats.unavailable import marks_of, without_unavailable
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.payloads import JoinedPayloads
from sluiceway.types.row_kinds import RowKind
from sluiceway.types.schema import Field, Schema, StringType, inner_settings

_SNAPSHOT = ("source", "snapshot")
_BEGINS = "first"
_IMAGE_PATH = ("after",)
Origin = WriterSchema | MessageReader
"""What payloads were written as."""
_PLAIN = pa.array(sorted(DEBEZIUM.plain), pa.string())


class FramedChangeDecoder(RowDecoder):
    """Decodes Debezium's envelopes in Confluent's wire format, one change each.

    Created once per task, used by one thread. `MessageForm` defines the meaning, as for JSON.

    Args:
        schema: The table's columns. A path that begins with `$` starts at the message, any other at
            the changed row.
        options: As in `ChangeLogDecoder`, `registry.*`, and `encoding`: `avro` or `protobuf`.
        fast_rows: From how many rows of a schema on they are read by columns, with equal results;
            None never does.

    Raises:
        ValueError: Options or columns are not valid.
    """

    reads_schema_header = True
    takes_any_sequence = True

    def __init__(
        self, schema: Schema, options: Mapping[str, str], *, fast_rows: int | None = MIN_ROWS
    ) -> None:
        registry = {name: value for name, value in options.items() if name.startswith(PREFIX)}
        known = {
            "other_messages": ("dirty", "skip"),
            "tombstones": DEBEZIUM.tombstones,
            "key": FREE,
            TRUNCATE: TRUNCATE_CHOICES,
            "encoding": ("avro", "protobuf"),
        }
        rest = {name: value for name, value in options.items() if name not in registry}
        chosen = known_options(DEBEZIUM.name, rest, known)
        check_columns(schema)
        key = tuple(json.loads(chosen["key"] or "[]"))
        self._keyed = bool(key)
        self._other = OtherMessages(chosen, keyed=self._keyed)
        self._schema = arrow_schema(schema)
        self._collected = self._schema.append(KIND_FIELD) if key else self._schema
        columns = Schema(tuple(inner_settings(field) for field in schema.fields))
        self._untold_marks = marks_of(columns.fields)
        self._form = MessageForm(columns, DEBEZIUM, (), key)
        self._fast_schema = _fast_schema(self._form, columns, keyed=self._keyed)
        self._fast_rows = fast_rows
        self._fast: dict[Origin, FastRecords | None] = {}
        settings = registry_settings(registry)
        store = process_store(settings)
        self._schemas = RegistrySchemas(store, connect=True)
        self._messages: RegistryMessages | None = None
        if chosen["encoding"] == "protobuf":
            self._messages = RegistryMessages(store, connect=True)

    @property
    def arrow_schema(self) -> pa.Schema:
        """See `RowDecoder.arrow_schema`."""
        return self._schema

    def decode(self, payloads: Sequence[bytes | None]) -> Decoded:
        """See `RowDecoder.decode`.

        Raises:
            SchemaRegistryUnavailableError: The registry does not answer, and a schema is not known
                yet. Nothing of the batch was decoded.
            SchemaRegistryRefusedError: It refuses to answer.
            SourceEmptiedError: A keyed table's source was emptied.
        """
        collected = CollectedRows(self._collected)
        skips = self._other.tombstones_skipped
        if self._messages is not None:
            read_by_schema(
                payloads,
                collected,
                skips_tombstones=skips,
                frame=self._messages.frame,
                readers=self._messages.of,
                read=partial(self._read, collected),
                read_fetched=partial(self._read_fetched, collected),
            )
        else:
            read_by_schema(
                payloads,
                collected,
                skips_tombstones=skips,
                frame=confluent_frame,
                readers=self._schemas.of,
                read=partial(self._read, collected),
                read_fetched=partial(self._read_fetched, collected),
            )
        if absent := collected.skipped - sum(collected.notes.values()):
            collected.notes[TOMBSTONE] += absent
        decoded = collected.decoded()
        if not self._keyed:
            return decoded
        decoded = with_kinds(decoded, self._schema)
        decoded = without_unavailable(decoded, payloads, self._untold, self._untold_marks)
        begun = tuple(
            row.index for row in decoded.dirty if self._begins(payloads[row.index] or b"")
        )
        return replace(decoded, begins=begun)

    def _untold(self, payload: bytes) -> str | None:
        try:
            message = self._message(payload)
            return None if message is None else self._form.untold(message)
        except DirtyValueError:
            return None

    def _begins(self, payload: bytes) -> bool:
        """Whether a dirty record begins a snapshot, as far as it can be read."""
        try:
            message = self._message(payload)
        except DirtyValueError:
            return False
        return message is not None and _begins_snapshot(message)

    def _message(self, payload: bytes) -> Mapping[str, object] | None:
        if self._messages is not None:
            name, begin = self._messages.frame(payload)
            reader = self._messages.of([name])[name]
            if isinstance(reader, DirtyValueError):
                return None
            return reader.read(Wire(payload, begin), len(payload))
        number, begin = confluent_frame(payload)
        writer = self._schemas.of([number])[number]
        return (
            None
            if isinstance(writer, DirtyValueError)
            else avro_record(writer, Cursor(payload, begin))
        )

    def _read(self, collected: CollectedRows, writer: Origin, group: list[Framed]) -> None:
        fast = self._fast_columns(writer, len(group))
        for block in in_blocks(group):
            left = block
            if fast is not None:
                rows, payloads, begins = zip(*block, strict=True)
                batch, kept, doubted = fast.read(payloads, begins)
                sound = self._take(batch, np.asarray(rows, np.int64)[kept], collected)
                left = [block[place] for place in _left(doubted, kept[~sound]).tolist()]
            if isinstance(writer, MessageReader):
                self._read_messages(collected, writer, left)
            else:
                self._read_rows(collected, writer, left)

    def _read_fetched(
        self, collected: CollectedRows, writer: Origin, payloads: JoinedPayloads, prefix: bytes
    ) -> tuple[Rows, Rows] | None:
        fast = self._fast_columns(writer, len(payloads))
        if not isinstance(fast, NativeRowReader):
            return None
        batch, kept, doubted, empty = fast.read_fetched(payloads, prefix)
        sound = self._take(batch, kept, collected)
        return _left(doubted, kept[~sound]), empty

    def _read_rows(
        self, collected: CollectedRows, writer: WriterSchema, group: list[Framed]
    ) -> None:
        def read(at: Cursor) -> list[list[object]]:
            return [self._values(avro_record(writer, at))]

        messages = ((row, Cursor(payload, begin)) for row, payload, begin in group)
        self._other.collect(messages, read, collected, self._collected)

    def _read_messages(
        self, collected: CollectedRows, reader: MessageReader, group: list[Framed]
    ) -> None:
        def read(at: tuple[bytes, int]) -> list[list[object]]:
            payload, begin = at
            return [self._values(reader.read(Wire(payload, begin), len(payload)))]

        messages = ((row, (payload, begin)) for row, payload, begin in group)
        self._other.collect(messages, read, collected, self._collected)

    def _values(self, message: Mapping[str, object]) -> list[object]:
        values = self._form.read(message)
        if self._keyed and values[-1] == RowKind.IMAGE and _begins_snapshot(message):
            values[-1] = RowKind.FIRST
        return values

    def _fast_columns(self, writer: Origin, rows: int) -> FastRecords | None:
        if self._fast_rows is None or rows < self._fast_rows:
            return None
        if writer not in self._fast:
            self._fast[writer] = (
                NativeProtobuf.for_message(writer.of, self._fast_schema, connect=writer.connect)
                if isinstance(writer, MessageReader)
                else fast_avro(writer, self._fast_schema)
            )
        return self._fast[writer]

    def _take(
        self, batch: pa.RecordBatch, rows: Rows, collected: CollectedRows
    ) -> NDArray[np.bool_]:
        """Add the plain changes among some that are vouched for; returns which these are."""
        width = len(self._schema)
        sound = pc.is_in(batch.column(width), _PLAIN)
        # Where no column of the row has a value, the row as a whole may be missing.
        held = [batch.column(n) for n, of_row in enumerate(self._form.reads_rows) if of_row]
        if held:
            there = held[0].is_valid()
            for column in held[1:]:
                there = pc.or_(there, column.is_valid())
            sound = pc.and_(sound, there)
        columns = batch.columns[:width]
        if self._keyed:
            begun = pc.fill_null(pc.starts_with(batch.column(width + 1), _BEGINS), False)  # noqa: FBT003
            first, image = (pa.scalar(int(k), pa.int8()) for k in (RowKind.FIRST, RowKind.IMAGE))
            columns.append(pc.if_else(begun, first, image))
        found = pa.RecordBatch.from_arrays(columns, schema=self._collected).filter(sound)
        mask: NDArray[np.bool_] = sound.to_numpy(zero_copy_only=False)
        collected.add(found, rows[mask])
        return mask


def _left(doubted: Rows, others: Rows) -> Rows:
    return np.sort(np.concatenate([doubted, others]))


def _fast_schema(form: MessageForm, schema: Schema, *, keyed: bool) -> Schema:
    """Columns for the fast path: the table's, and the ones that decide whether rows count."""
    fields = [*form.fields(schema, _IMAGE_PATH), form.marker_field]
    if keyed:
        fields.append(Field("$snapshot", StringType(), path=_SNAPSHOT))
    return Schema(tuple(replace(field, name=f"c{n}") for n, field in enumerate(fields)))


def _begins_snapshot(message: Mapping[str, object]) -> bool:
    """Whether a snapshot of the table begins with this row."""
    found: object = message
    for step in _SNAPSHOT:
        found = found.get(step) if isinstance(found, Mapping) else None
    return isinstance(found, str) and found.startswith(_BEGINS)
