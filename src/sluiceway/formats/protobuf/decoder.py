"""Protobuf payloads -> typed columns: each by the message it was written as, all in one batch."""

import base64
import binascii
from collections.abc import Mapping, Sequence

import pyarrow as pa

from sluiceway.formats.collected_rows import CollectedRows
from sluiceway.formats.contract import Decoded, RowDecoder
from sluiceway.formats.json.dirty_value import DirtyValueError
from sluiceway.formats.protobuf.descriptor_set import read_descriptor_set
from sluiceway.formats.protobuf.message_schemas import (
    GivenMessage,
    Key,
    MessageSchemas,
    RegistryMessages,
)
from sluiceway.formats.protobuf.proto_text import parse_proto
from sluiceway.formats.protobuf.reader import MessageReader
from sluiceway.formats.protobuf.schema import Schema as MessageSchema
from sluiceway.formats.protobuf.schema import link
from sluiceway.formats.protobuf.well_known import well_known_files
from sluiceway.formats.protobuf.wire import Wire
from sluiceway.formats.schema_registry.settings import PREFIX, registry_settings
from sluiceway.formats.schema_registry.store import process_store
from sluiceway.formats.tombstones import settle_tombstones
from sluiceway.formats.typed_rows import TypedRows, check_columns
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.schema import Schema

DESCRIPTOR_SET_OPTION, SCHEMA_OPTION, MESSAGE_OPTION = "descriptor_set", "schema", "message"
_OPTIONS = {DESCRIPTOR_SET_OPTION, SCHEMA_OPTION, MESSAGE_OPTION, "tombstones"}


class ProtobufDecoder(RowDecoder):
    """Decodes Protobuf, one message a payload. Created once per task, used by one thread.

    Args:
        schema: The table's columns; `Field.path` says where in the message each one is.
        messages: Messages by what payloads name.
        skips_tombstones: Whether a payload that is None or has no bytes is skipped or dirty.

    Raises:
        ValueError: There is no column, or two have the same name.
    """

    def __init__(self, schema: Schema, messages: MessageSchemas, *, skips_tombstones: bool) -> None:
        check_columns(schema)
        self._schema = arrow_schema(schema)
        self._rows = TypedRows(schema)
        self._messages = messages
        self._skips_tombstones = skips_tombstones

    @property
    def arrow_schema(self) -> pa.Schema:
        """Columns of `Decoded.rows`, in the order of the schema it was made for."""
        return self._schema

    def decode(self, payloads: Sequence[bytes | None]) -> Decoded:
        """Decode a batch of payloads; see `RowDecoder.decode`.

        Raises:
            SchemaRegistryUnavailableError: The registry does not answer, and a schema is not known
                yet. Nothing of the batch was decoded.
            SchemaRegistryRefusedError: It refuses to answer.
        """
        collected = CollectedRows(self._schema)
        rows = settle_tombstones(payloads, collected, skipped=self._skips_tombstones)
        groups: dict[Key, list[tuple[int, bytes, int]]] = {}
        for row in rows.tolist():
            payload = payloads[row] or b""
            try:
                key, begin = self._messages.frame(payload)
            except DirtyValueError as error:
                collected.dirty.append(error.row(row))
            else:
                groups.setdefault(key, []).append((row, payload, begin))
        for key, reader in self._messages.of(groups).items() if groups else ():
            if isinstance(reader, DirtyValueError):
                collected.dirty += [reader.row(row) for row, _, _ in groups[key]]
            else:
                self._read(reader, groups[key], collected)
        return collected.decoded()

    def _read(
        self, reader: MessageReader, group: list[tuple[int, bytes, int]], collected: CollectedRows
    ) -> None:
        values, clean = [], []
        for row, payload, begin in group:
            try:
                message = reader.read(Wire(payload, begin), len(payload))
                values.append(self._rows.row(message))
            except DirtyValueError as error:
                collected.dirty.append(error.row(row))
            else:
                clean.append(row)
        collected.add_values(values, clean)


def open_protobuf(schema: Schema, options: Mapping[str, str]) -> RowDecoder:
    """The decoder for a route; see `formats.registry.OpenDecoder`.

    Options: `tombstones`; and either `registry.*`, or `message` and one of `descriptor_set` (in
    Base64) and `schema` (text).
    """
    registry = {name: value for name, value in options.items() if name.startswith(PREFIX)}
    if unknown := sorted(options.keys() - registry.keys() - _OPTIONS):
        raise ValueError(f"the format protobuf has no option {unknown[0]}: {options[unknown[0]]}")
    tombstones = options.get("tombstones", "dirty")
    if tombstones not in ("skip", "dirty"):
        raise ValueError(f"the format protobuf has no option tombstones: {tombstones}")
    given = options.keys() & {DESCRIPTOR_SET_OPTION, SCHEMA_OPTION}
    if bool(registry) + len(given) != 1 or bool(given) != (MESSAGE_OPTION in options):
        raise ValueError(
            "the format protobuf needs a registry, or one of descriptor_set and schema with message"
        )
    messages: MessageSchemas
    if registry:
        messages = RegistryMessages(process_store(registry_settings(registry)))
    else:
        messages = GivenMessage(_given_schema(options), options[MESSAGE_OPTION])
    return ProtobufDecoder(schema, messages, skips_tombstones=tombstones == "skip")


def _given_schema(options: Mapping[str, str]) -> MessageSchema:
    if SCHEMA_OPTION in options:
        return link([*well_known_files(), parse_proto(options[SCHEMA_OPTION])])
    try:
        data = base64.b64decode(options[DESCRIPTOR_SET_OPTION], validate=True)
    except binascii.Error as error:
        raise ValueError("the descriptor set is not in Base64") from error
    return link(read_descriptor_set(data))
