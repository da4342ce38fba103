"""Protobuf payloads -> typed columns: each by the message it was written as, all in one batch."""

import base64
import binascii
from collections.abc import Mapping
from functools import lru_cache

from sluiceway.formats.contract import RowDecoder
from sluiceway.formats.framed_rows import MIN_ROWS, FramedDecoder
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
from sluiceway.formats.protobuf.message_schemas import (
    Key as MessageKey,
)
from sluiceway.formats.protobuf.native_columns import NativeProtobuf
from sluiceway.formats.protobuf.proto_text import compile_proto
from sluiceway.formats.protobuf.reader import MessageReader
from sluiceway.formats.protobuf.schema import ProtobufSchema as MessageSchema
from sluiceway.formats.protobuf.wire import Wire
from sluiceway.formats.schema_registry.settings import PREFIX, registry_settings
from sluiceway.formats.schema_registry.store import process_store
from sluiceway.types.schema import Schema

_OPTIONS = {
    PROTOBUF_CONNECT,
    PROTOBUF_DESCRIPTOR_SET,
    PROTOBUF_SCHEMA,
    PROTOBUF_MESSAGE,
    "tombstones",
}


class ProtobufDecoder(FramedDecoder[MessageKey, MessageReader]):
    """Decodes Protobuf, one message a payload. Created once per task, used by one thread.

    Args:
        schema: The table's columns; `Field.path` says where in the message each one is.
        messages: Messages by the keys in payloads.
        skips_tombstones: See `FramedDecoder`.
        fast_rows: From how many rows of a message on the native module reads them, where it is
            installed and supports the columns, with equal results; None never uses it.

    Raises:
        ValueError: There is no column, or two have the same name.
    """

    def __init__(
        self,
        schema: Schema,
        messages: MessageSchemas,
        *,
        skips_tombstones: bool,
        fast_rows: int | None = MIN_ROWS,
    ) -> None:
        super().__init__(
            schema,
            frame=messages.frame,
            readers=messages.of,
            skips_tombstones=skips_tombstones,
            fast_rows=fast_rows,
        )
        self.reads_schema_header = isinstance(messages, RegistryMessages)

    def _record(self, reader: MessageReader, payload: bytes, begin: int) -> Mapping[str, object]:
        return reader.read(Wire(payload, begin), len(payload))

    def _fast_path(self, reader: MessageReader) -> NativeProtobuf | None:
        return NativeProtobuf.for_message(reader.of, self._columns, connect=reader.connect)


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
