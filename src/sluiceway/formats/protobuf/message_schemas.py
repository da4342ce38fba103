"""Sources of the message types that payloads were written as."""

from collections.abc import Collection, Mapping
from typing import Protocol

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.formats.protobuf.descriptor_set import read_schema
from sluiceway.formats.protobuf.reader import MessageReader
from sluiceway.formats.protobuf.schema import ProtobufSchema, ProtobufSchemaError
from sluiceway.formats.protobuf.wire import Wire, broken, zigzag
from sluiceway.formats.schema_registry.client import RegisteredSchema
from sluiceway.formats.schema_registry.frame import check_header, schema_frame, schema_name
from sluiceway.formats.schema_registry.store import SchemaStore
from sluiceway.types.dirty import DirtyReason

PROTOBUF = "PROTOBUF"
MAX_INDEXES = 100

Key = tuple[int, tuple[int, ...]]
"""A schema's id and Confluent's message indexes in it."""


class MessageSchemas(Protocol):
    """Messages by the keys that payloads name."""

    def frame(self, payload: bytes) -> tuple[Key, int]:
        """A payload's key, and where its message begins; raises DirtyValueError."""
        ...

    def of(self, keys: Collection[Key]) -> Mapping[Key, "MessageReader | DirtyValueError"]:
        """The reader of each key, or why its payloads cannot be read. Called once a batch.

        Raises:
            SchemaRegistryUnavailableError: A registry does not answer.
            SchemaRegistryRefusedError: A registry refuses to.
        """
        ...


class GivenMessage:
    """One message from the job file, for all payloads.

    Args:
        schema: Its schema.
        name: Full name of the message.
        connect: As in `RegistryMessages`.

    Raises:
        ProtobufSchemaError: There is no such message.
    """

    def __init__(self, schema: ProtobufSchema, name: str, *, connect: bool = False) -> None:
        try:
            self._reader = MessageReader(schema.message(name), {}, connect=connect)
        except RecursionError as error:
            raise ProtobufSchemaError(f"{name} holds messages too many levels deep") from error

    def frame(self, payload: bytes) -> tuple[Key, int]:
        """See `MessageSchemas.frame`."""
        del payload
        return (0, ()), 0

    def of(self, keys: Collection[Key]) -> Mapping[Key, MessageReader | DirtyValueError]:
        """See `MessageSchemas.of`."""
        return dict.fromkeys(keys, self._reader)


class RegistryMessages:
    """Messages of a registry's schemas, by id and message indexes.

    Args:
        store: Schemas of the registry.
        connect: Whether Kafka Connect's converter made the schemas: then values have its meaning.
    """

    def __init__(self, store: SchemaStore, *, connect: bool = False) -> None:
        self._store = store
        self._connect = connect
        self._schemas: dict[int, ProtobufSchema | DirtyValueError] = {}
        self._readers: dict[Key, MessageReader | DirtyValueError] = {}

    def frame(self, payload: bytes) -> tuple[Key, int]:
        """See `MessageSchemas.frame`."""
        number, begin = schema_frame(payload)
        wire = Wire(payload, begin)
        count = _index(wire)
        if not 0 <= count <= MAX_INDEXES:
            raise broken(f"{count} message indexes follow the schema's id")
        indexes = tuple(_index(wire) for _ in range(count)) if count else (0,)
        check_header(payload, wire.position)
        return (number, indexes), wire.position

    def of(self, keys: Collection[Key]) -> Mapping[Key, MessageReader | DirtyValueError]:
        """See `MessageSchemas.of`."""
        missing = {number for number, _ in keys} - self._schemas.keys()
        unknown: dict[int, DirtyValueError] = {}
        for number, registered in self._store.schemas(missing).items() if missing else ():
            if registered is None:
                unknown[number] = _unknown(self._store.why_unknown(number))
            else:
                self._schemas[number] = _parsed(number, registered)
        return {key: unknown.get(key[0]) or self._reader(key) for key in keys}

    def _reader(self, key: Key) -> MessageReader | DirtyValueError:
        if key not in self._readers:
            number, indexes = key
            schema = self._schemas[number]
            if isinstance(schema, DirtyValueError):
                return schema
            message = schema.at(indexes)
            if message is None:
                return _unknown(f"the {schema_name(number)} has no message {list(indexes)}")
            try:
                self._readers[key] = MessageReader(message, {}, connect=self._connect)
            except RecursionError:
                text = f"the {schema_name(number)} holds messages too many levels deep"
                self._readers[key] = _unknown(text)
        return self._readers[key]


def _index(wire: Wire) -> int:
    return zigzag(wire.varint(wire.end))


def _unknown(what: str) -> DirtyValueError:
    return DirtyValueError(DirtyReason.UNKNOWN_SCHEMA, what, stage="decode")


def _parsed(number: int, registered: RegisteredSchema) -> ProtobufSchema | DirtyValueError:
    if registered.kind != PROTOBUF:
        return _unknown(f"the {schema_name(number)} is {registered.kind}, not {PROTOBUF}")
    try:
        return read_schema(registered.text, registered.references)
    except ProtobufSchemaError as error:
        return _unknown(f"the {schema_name(number)} cannot be read: {error}")
