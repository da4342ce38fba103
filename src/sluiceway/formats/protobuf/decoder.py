"""Protobuf payloads -> typed columns: each by the message it was written as, all in one batch."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial

import pyarrow as pa

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.formats.collected_rows import CollectedRows, Rows
from sluiceway.formats.contract import Decoded, RowDecoder
from sluiceway.formats.framed_rows import (
    MIN_ROWS,
    Framed,
    TypedRows,
    check_columns,
    read_blocks,
    read_by_schema,
    read_in_place,
)
from sluiceway.formats.options import (
    PROTOBUF_CONNECT,
    PROTOBUF_DESCRIPTOR_SET,
    PROTOBUF_MESSAGE,
    PROTOBUF_SCHEMA,
)
from sluiceway.formats.protobuf.descriptor_set import read_descriptor_set
from sluiceway.formats.protobuf.message_schemas import (
    GivenMessage,
    MessageSchemas,
    RegistryMessages,
)
from sluiceway.formats.protobuf.native_columns import NativeProtobuf
from sluiceway.formats.protobuf.proto_text import compile_proto
from sluiceway.formats.protobuf.reader import MessageReader
from sluiceway.formats.protobuf.schema import ProtobufSchema as MessageSchema
from sluiceway.formats.protobuf.wire import Wire
from sluiceway.formats.schema_registry.settings import PREFIX, registry_settings
from sluiceway.formats.schema_registry.store import process_store
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.payloads import JoinedPayloads
from sluiceway.types.schema import Schema, inner_settings

_OPTIONS = {
    PROTOBUF_CONNECT,
    PROTOBUF_DESCRIPTOR_SET,
    PROTOBUF_SCHEMA,
    PROTOBUF_MESSAGE,
    "tombstones",
}


class ProtobufDecoder(RowDecoder):
    """Decodes Protobuf, one message a payload. Created once per task, used by one thread.

    Args:
        schema: The table's columns; `Field.path` says where in the message each one is.
        messages: Messages by the keys in payloads.
        skips_tombstones: Whether a payload that is None or has no bytes is skipped; else it is
            dirty.
        fast_rows: From how many rows of a message on the native module reads them, where it is
            installed and supports the columns, with equal results; None never uses it.

    Raises:
        ValueError: There is no column, or two have the same name.
    """

    takes_any_sequence = True

    def __init__(
        self,
        schema: Schema,
        messages: MessageSchemas,
        *,
        skips_tombstones: bool,
        fast_rows: int | None = MIN_ROWS,
    ) -> None:
        check_columns(schema)
        self._columns = Schema(tuple(inner_settings(field) for field in schema.fields))
        self._fast_rows = fast_rows
        self._fast: dict[MessageReader, NativeProtobuf | None] = {}
        self._schema = arrow_schema(schema)
        self._rows = TypedRows(schema)
        self._messages = messages
        self.reads_schema_header = isinstance(messages, RegistryMessages)
        self._skips_tombstones = skips_tombstones

    @property
    def arrow_schema(self) -> pa.Schema:
        """Columns of `Decoded.rows`, in the order of the decoder's schema."""
        return self._schema

    def decode(self, payloads: Sequence[bytes | None]) -> Decoded:
        """Decode a batch of payloads; see `RowDecoder.decode`.

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
            frame=self._messages.frame,
            readers=self._messages.of,
            read=partial(self._read, collected),
            read_fetched=partial(self._read_fetched, collected),
        )
        return collected.decoded()

    def fields_of(self, payload: bytes) -> Mapping[str, object]:
        """See `RowDecoder.fields_of`."""
        try:
            key, begin = self._messages.frame(payload)
            reader = self._messages.of([key])[key]
            if isinstance(reader, DirtyValueError):
                return {}
            return reader.read(Wire(payload, begin), len(payload))
        except DirtyValueError:
            return {}

    def _read(self, collected: CollectedRows, reader: MessageReader, group: list[Framed]) -> None:
        fast = self._fast_columns(reader, len(group))
        read_blocks(fast, partial(self._read_row, reader), group, collected)

    def _read_fetched(
        self,
        collected: CollectedRows,
        reader: MessageReader,
        payloads: JoinedPayloads,
        prefix: bytes,
    ) -> tuple[Rows, Rows] | None:
        fast = self._fast_columns(reader, len(payloads))
        return read_in_place(fast, payloads, prefix, collected)

    def _fast_columns(self, reader: MessageReader, rows: int) -> NativeProtobuf | None:
        if self._fast_rows is None or rows < self._fast_rows:
            return None
        if reader not in self._fast:
            self._fast[reader] = NativeProtobuf.for_message(
                reader.of, self._columns, connect=reader.connect
            )
        return self._fast[reader]

    def _read_row(self, reader: MessageReader, payload: bytes, begin: int) -> list[object]:
        return self._rows.row(reader.read(Wire(payload, begin), len(payload)))


def open_protobuf(schema: Schema, options: Mapping[str, str]) -> RowDecoder:
    """The decoder for a route; see `formats.registry.OpenDecoder`.

    Options: `tombstones`; `connect`: `false` where messages of Kafka Connect's converter have no
        special meaning; and either `registry.*`, or `message` and one of `descriptor_set` (in
        Base64) and `schema` (text).
    """
    registry = {name: value for name, value in options.items() if name.startswith(PREFIX)}
    if unknown := sorted(options.keys() - registry.keys() - _OPTIONS):
        raise ValueError(f"the format protobuf has no option {unknown[0]}: {options[unknown[0]]}")
    tombstones = options.get("tombstones", "dirty")
    if tombstones not in ("skip", "dirty"):
        raise ValueError(f"the format protobuf has no option tombstones: {tombstones}")
    given = options.keys() & {PROTOBUF_DESCRIPTOR_SET, PROTOBUF_SCHEMA}
    if bool(registry) + len(given) != 1 or bool(given) != (PROTOBUF_MESSAGE in options):
        raise ValueError(
            "the format protobuf needs a registry, or one of descriptor_set and schema with message"
        )
    messages: MessageSchemas
    connect = options.get(PROTOBUF_CONNECT, "true") == "true"
    if registry:
        store = process_store(registry_settings(registry))
        messages = RegistryMessages(store, connect=connect)
    else:
        messages = GivenMessage(given_schema(options), options[PROTOBUF_MESSAGE], connect=connect)
    return ProtobufDecoder(schema, messages, skips_tombstones=tombstones == "skip")


def given_schema(options: Mapping[str, str]) -> MessageSchema:
    """The schema among the options of the format.

    Raises:
        ValueError: The schema is not valid.
    """
    if PROTOBUF_SCHEMA in options:
        return _of_text(options[PROTOBUF_SCHEMA])
    try:
        data = base64.b64decode(options[PROTOBUF_DESCRIPTOR_SET], validate=True)
    except binascii.Error as error:
        raise ValueError("the descriptor set is not in Base64") from error
    return read_descriptor_set(data)


@lru_cache(maxsize=8)
def _of_text(text: str) -> MessageSchema:
    """Cached for the tasks that this process runs one after the other."""
    return compile_proto(text)
