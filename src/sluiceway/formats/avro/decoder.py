"""Avro payloads -> typed columns: each by the schema it was written with, all in one batch."""

from collections.abc import Callable, Mapping

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
from sluiceway.formats.contract import RowDecoder
from sluiceway.formats.framed_rows import MIN_ROWS, FramedDecoder
from sluiceway.formats.options import AVRO_BARE, AVRO_CONNECT, AVRO_SCHEMA, AVRO_SCHEMAS
from sluiceway.formats.schema_registry.frame import confluent_frame
from sluiceway.formats.schema_registry.settings import PREFIX, registry_settings
from sluiceway.formats.schema_registry.store import process_store
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.schema import Schema

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


class AvroDecoder(FramedDecoder[int, WriterSchema]):
    """Decodes Avro, one record a payload. Created once per task, used by one thread.

    Args:
        schema: The table's columns; `Field.path` says where in the record each one is.
        frame: Reads the frame before the record.
        schemas: Schemas by the keys in frames.
        skips_tombstones: See `FramedDecoder`.
        fast_rows: See `FramedDecoder`.
        native: Whether to use the native module's fast path, where it is installed and supports the
            schema.

    Raises:
        ValueError: There is no column, or two have the same name.
    """

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
        super().__init__(
            schema,
            frame=frame,
            readers=schemas.of,
            skips_tombstones=skips_tombstones,
            fast_rows=fast_rows,
        )
        self._native = native
        self.reads_schema_header = frame is confluent_frame

    def _record(self, reader: WriterSchema, payload: bytes, begin: int) -> dict[str, object]:
        return avro_record(reader, Cursor(payload, begin))

    def _fast_path(self, reader: WriterSchema) -> FastAvro | None:
        return fast_avro(reader, self._columns, native=self._native)


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
