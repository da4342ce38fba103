"""Avro payloads -> typed columns: each by the schema it was written with, all in one batch."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pyarrow as pa

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.formats.avro.fast_columns import FastColumns
from sluiceway.formats.avro.native_columns import NativeAvro
from sluiceway.formats.avro.reader import Cursor, broken
from sluiceway.formats.avro.writer_schemas import (
    GivenSchemas,
    RegistrySchemas,
    WriterSchema,
    WriterSchemas,
)
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
from sluiceway.formats.options import AVRO_BARE, AVRO_CONNECT, AVRO_SCHEMA, AVRO_SCHEMAS
from sluiceway.formats.schema_registry.frame import confluent_frame
from sluiceway.formats.schema_registry.settings import PREFIX, registry_settings
from sluiceway.formats.schema_registry.store import process_store
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.payloads import JoinedPayloads
from sluiceway.types.schema import Schema, inner_settings

FastAvro = NativeAvro | FastColumns
"""The fast path of the native module, or that of the library."""
SINGLE_OBJECT_MARK = b"\xc3\x01"
SINGLE_OBJECT_HEADER_BYTES = 10

Frame = Callable[[bytes], tuple[int, int]]
"""A payload -> its schema's key, and where the Avro part begins; raises DirtyValueError."""


def single_object_frame(payload: bytes) -> tuple[int, int]:
    """Avro's single-object encoding: C3 01, and the schema's fingerprint in eight bytes."""
    if not payload.startswith(SINGLE_OBJECT_MARK) or len(payload) < SINGLE_OBJECT_HEADER_BYTES:
        raise broken("a single object begins with C3 01 and a fingerprint of 8 bytes")
    return int.from_bytes(payload[2:SINGLE_OBJECT_HEADER_BYTES], "little"), 10


def bare_frame(payload: bytes) -> tuple[int, int]:
    """No frame: all payloads have one schema."""
    del payload
    return 0, 0


class AvroDecoder(RowDecoder):
    """Decodes Avro, one record a payload. Created once per task, used by one thread.

    Args:
        schema: The table's columns; `Field.path` says where in the record each one is.
        frame: Reads the frame before the record.
        schemas: Schemas by the keys in frames.
        skips_tombstones: Whether a payload that is None or has no bytes is skipped; else it is
            dirty.
        fast_rows: From how many rows of a schema on the fast path is used, with equal results; None
            never uses it.
        native: Whether to use the native module's fast path, where it is installed and supports the
            schema.

    Raises:
        ValueError: There is no column, or two have the same name.
    """

    takes_any_sequence = True

    def __init__(
        self,
        schema: Schema,
        frame: Frame,
        schemas: WriterSchemas,
        *,
        skips_tombstones: bool,
        fast_rows: int | None = MIN_ROWS,
        native: bool = True,
    ) -> None:
        check_columns(schema)
        self._columns = Schema(tuple(inner_settings(field) for field in schema.fields))
        self._fast_rows = fast_rows
        self._native = native
        self._fast: dict[WriterSchema, FastAvro | None] = {}
        self._schema = arrow_schema(schema)
        self._rows = TypedRows(schema)
        self._frame = frame
        self.reads_schema_header = frame is confluent_frame
        self._schemas = schemas
        self._skips_tombstones = skips_tombstones

    @property
    def arrow_schema(self) -> pa.Schema:
        """Columns of `Decoded.rows`, in the order of the schema it was made for."""
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
            readers=self._schemas.of,
            read=partial(self._read, collected),
            read_fetched=partial(self._read_fetched, collected),
        )
        return collected.decoded()

    def fields_of(self, payload: bytes) -> Mapping[str, object]:
        """See `RowDecoder.fields_of`."""
        try:
            key, begin = self._frame(payload)
            writer = self._schemas.of([key])[key]
            if isinstance(writer, DirtyValueError):
                return {}
            return avro_record(writer, Cursor(payload, begin))
        except DirtyValueError:
            return {}

    def _read(self, collected: CollectedRows, writer: WriterSchema, group: list[Framed]) -> None:
        fast = self._fast_columns(writer, len(group))
        read_blocks(fast, partial(self._read_row, writer), group, collected)

    def _read_fetched(
        self,
        collected: CollectedRows,
        writer: WriterSchema,
        payloads: JoinedPayloads,
        prefix: bytes,
    ) -> tuple[Rows, Rows] | None:
        fast = self._fast_columns(writer, len(payloads))
        return read_in_place(fast, payloads, prefix, collected)

    def _read_row(self, writer: WriterSchema, payload: bytes, begin: int) -> list[object]:
        return self._rows.row(avro_record(writer, Cursor(payload, begin)))

    def _fast_columns(self, writer: WriterSchema, rows: int) -> FastAvro | None:
        if self._fast_rows is None or rows < self._fast_rows:
            return None
        if writer not in self._fast:
            self._fast[writer] = fast_avro(writer, self._columns, native=self._native)
        return self._fast[writer]


def fast_avro(writer: WriterSchema, columns: Schema, *, native: bool = True) -> FastAvro | None:
    """The fast path for a schema and columns; None where there is none. Called once a task.

    Args:
        writer: Schema of the payloads.
        columns: Columns, with units and policies passed on to inner fields.
        native: Whether to try the native module.
    """
    found = NativeAvro.for_schemas(writer.node, columns, connect=writer.connect) if native else None
    return found or FastColumns.for_schemas(writer.node, columns)


def avro_record(writer: WriterSchema, cursor: Cursor) -> dict[str, object]:
    """The record of a payload."""
    found = writer.read(cursor)
    if cursor.position != cursor.end:
        raise broken(f"{cursor.end - cursor.position} bytes are left after the record")
    if not isinstance(found, dict):
        message = "the payload is Avro, but no record"
        raise DirtyValueError(DirtyReason.NOT_AN_OBJECT, message, stage="decode")
    return found


def open_avro(schema: Schema, options: Mapping[str, str]) -> RowDecoder:
    """The decoder for a route; see `formats.registry.OpenDecoder`.

    Options: `tombstones`; `connect`: `false` where Kafka Connect's type names have no meaning;
        `bare`, for a registry: the field name for payloads that are no records; and either
        `registry.*`, or `schema`, or `schemas.0`, `schemas.1` ...
    """
    registry = {name: value for name, value in options.items() if name.startswith(PREFIX)}
    connect = options.get(AVRO_CONNECT, "true") == "true"
    given = [value for name, value in options.items() if name.startswith(AVRO_SCHEMAS)]
    tombstones = options.get("tombstones", "dirty")
    if tombstones not in ("skip", "dirty"):
        raise ValueError(f"the format avro has no option tombstones: {tombstones}")
    left = options.keys() - {*registry, "tombstones", AVRO_SCHEMA, AVRO_CONNECT, AVRO_BARE}
    if unknown := sorted(name for name in left if not name.startswith(AVRO_SCHEMAS)):
        raise ValueError(f"the format avro has no option {unknown[0]}: {options[unknown[0]]}")
    if bool(registry) + bool(given) + (AVRO_SCHEMA in options) != 1:
        raise ValueError("the format avro needs one of: a registry, schema, schemas")
    frame: Frame
    schemas: WriterSchemas
    if registry:
        frame = confluent_frame
        store = process_store(registry_settings(registry))
        schemas = RegistrySchemas(store, connect=connect, bare=options.get(AVRO_BARE))
    elif given:
        frame = single_object_frame
        schemas = GivenSchemas(given, by_fingerprint=True, connect=connect)
    else:
        frame = bare_frame
        schemas = GivenSchemas([options[AVRO_SCHEMA]], by_fingerprint=False, connect=connect)
    return AvroDecoder(schema, frame, schemas, skips_tombstones=tombstones == "skip")
