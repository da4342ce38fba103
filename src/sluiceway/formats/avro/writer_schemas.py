"""Sources of the schemas that payloads were written with."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.formats.avro.reader import Read, compile_reader
from sluiceway.formats.avro.schema import (
    AvroRecord,
    AvroSchemaError,
    Node,
    fingerprint,
    parse_schema,
)
from sluiceway.formats.schema_registry.client import RegisteredSchema
from sluiceway.formats.schema_registry.frame import schema_name
from sluiceway.formats.schema_registry.store import SchemaStore
from sluiceway.types.dirty import DirtyReason

AVRO = "AVRO"


@dataclass(eq=False)
class WriterSchema:
    """A schema that payloads were written with, ready to read them.

    Attributes:
        node: The schema.
        connect: Whether values have Kafka Connect's meaning.
    """

    node: Node
    connect: bool = False

    @cached_property
    def read(self) -> Read:
        """Reads a value."""
        return compile_reader(self.node, connect=self.connect)


class WriterSchemas(Protocol):
    """Schemas by the keys that payloads name."""

    def of(self, keys: Collection[int]) -> Mapping[int, "WriterSchema | DirtyValueError"]:
        """The schema of each key, or the fault of its payloads. Called once a batch.

        Raises:
            SchemaRegistryUnavailableError: A registry does not answer.
            SchemaRegistryRefusedError: A registry refuses to.
        """
        ...


def unknown_schema(what: str) -> DirtyValueError:
    """The fault of payloads without a schema."""
    return DirtyValueError(DirtyReason.UNKNOWN_SCHEMA, what, stage="decode")


class GivenSchemas:
    """Schemas from the job file.

    Args:
        texts: Schemas as JSON.
        by_fingerprint: False for one schema of all payloads.
        connect: As in `RegistrySchemas`.

    Raises:
        ValueError: A text is no schema, or two schemas are equal.
    """

    def __init__(
        self, texts: Collection[str], *, by_fingerprint: bool, connect: bool = False
    ) -> None:
        self._schemas: dict[int, WriterSchema] = {}
        for text in texts:
            key = fingerprint(text) if by_fingerprint else 0
            if key in self._schemas:
                raise ValueError("two of the schemas are the same")
            self._schemas[key] = WriterSchema(parse_schema(text, connect=connect), connect)

    def of(self, keys: Collection[int]) -> Mapping[int, WriterSchema | DirtyValueError]:
        """See `WriterSchemas.of`."""
        return {key: self._schemas.get(key) or _not_given(key) for key in keys}


def _not_given(key: int) -> DirtyValueError:
    return unknown_schema(f"no schema of the job file has the fingerprint {key:016x}")


class RegistrySchemas:
    """Schemas of a registry by id.

    Args:
        store: Schemas of the registry.
        connect: Whether Kafka Connect's converter made the schemas: then values have its meaning.
        bare: Field name for values that are no records, read as its only field; None reads no such
            value.
    """

    def __init__(
        self, store: SchemaStore, *, connect: bool = False, bare: str | None = None
    ) -> None:
        self._store = store
        self._connect = connect
        self._bare = bare
        self._read: dict[int, WriterSchema | DirtyValueError] = {}

    def of(self, keys: Collection[int]) -> Mapping[int, WriterSchema | DirtyValueError]:
        """See `WriterSchemas.of`."""
        missing = [key for key in keys if key not in self._read]
        found: dict[int, WriterSchema | DirtyValueError] = {}
        for key, registered in self._store.schemas(missing).items() if missing else ():
            if registered is None:
                found[key] = unknown_schema(self._store.why_unknown(key))
            else:
                self._read[key] = self._parsed(key, registered)
        return {key: found.get(key) or self._read[key] for key in keys}

    def _parsed(self, key: int, registered: RegisteredSchema) -> WriterSchema | DirtyValueError:
        if registered.kind != AVRO:
            return unknown_schema(f"the {schema_name(key)} is {registered.kind}, not {AVRO}")
        try:
            texts = registered.resolved.values()
            node = parse_schema(registered.text, texts, connect=self._connect)
        except AvroSchemaError as error:
            return unknown_schema(f"the {schema_name(key)} cannot be read: {error}")
        if self._bare is not None and not isinstance(node, AvroRecord):
            # A record of one field has the same bytes as the field.
            node = AvroRecord(self._bare, [(self._bare, node)])
        return WriterSchema(node, self._connect)
