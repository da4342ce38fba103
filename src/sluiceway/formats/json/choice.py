"""The JSON decoder for a job file's options."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import pyarrow as pa

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.formats.collected_rows import CollectedRows, Rows
from sluiceway.formats.contract import Decoded, RowDecoder
from sluiceway.formats.json.connect_schema import ConnectSchemas, Node
from sluiceway.formats.json.decoder import Engine, JsonDecoder
from sluiceway.formats.options import FREE, known_options
from sluiceway.formats.schema_registry.frame import confluent_frame
from sluiceway.formats.schema_registry.settings import PREFIX, registry_settings
from sluiceway.formats.schema_registry.store import process_store
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.schema import Schema

if TYPE_CHECKING:
    from sluiceway.convert.extra_keys import ExtraRule


_Bodies = tuple[list[bytes], list[int]]


class FramedJsonDecoder(RowDecoder):
    """Reads JSON after a schema's id. Created once per task, used by one thread.

    The columns decide what is read, so rows of several versions are alike. Only the schema has
    Kafka Connect's meaning of a value, for example of a decimal in base64.

    Args:
        inner: Reads the objects.
        schemas: Schemas of the registry; None reads all values as JSON.
    """

    reads_schema_header = True

    def __init__(self, inner: JsonDecoder, schemas: ConnectSchemas | None = None) -> None:
        self._inner = inner
        self._schemas = schemas

    @property
    def arrow_schema(self) -> pa.Schema:
        """See `RowDecoder.arrow_schema`."""
        return self._inner.arrow_schema

    def decode(self, payloads: Sequence[bytes | None]) -> Decoded:
        """See `RowDecoder.decode`.

        Raises:
            SchemaRegistryUnavailableError: The registry does not answer, and a schema is not known
                yet. Nothing of the batch was decoded.
            SchemaRegistryRefusedError: It refuses to answer.
        """
        collected = CollectedRows(self._inner.arrow_schema)
        bodies: list[bytes | None] = []
        rows: list[int] = []
        told: dict[int, _Bodies] = {}
        for row, payload in enumerate(payloads):
            try:
                number, body = _framed(payload) if payload else (None, payload)
            except DirtyValueError as error:
                collected.dirty.append(error.row(row))
                continue
            if number is None or self._schemas is None:
                bodies.append(body)
                rows.append(row)
            else:
                of_schema = told.setdefault(number, ([], []))
                of_schema[0].append(body or b"")
                of_schema[1].append(row)
        schemas = self._schemas.of(told) if self._schemas is not None and told else {}
        for number, schema in schemas.items():
            if isinstance(schema, DirtyValueError):
                collected.dirty += [schema.row(row) for row in told[number][1]]
            elif schema is None:
                bodies += told[number][0]
                rows += told[number][1]
            else:
                found = self._inner.decode_by(told[number][0], schema)
                _add(collected, found, np.array(told[number][1], np.int64))
        _add(collected, self._inner.decode(bodies), np.array(rows, np.int64))
        return collected.decoded()

    def fields_of(self, payload: bytes) -> Mapping[str, object]:
        """See `RowDecoder.fields_of`."""
        try:
            number, body = _framed(payload)
        except DirtyValueError:
            return {}
        schema: Node | DirtyValueError | None = None
        if self._schemas is not None:
            schema = self._schemas.of([number])[number]
        return self._inner.fields_by(body, None if isinstance(schema, DirtyValueError) else schema)


def _framed(payload: bytes) -> tuple[int, bytes]:
    number, begin = confluent_frame(payload)
    if begin == len(payload):
        message = "the payload is empty after the schema's id"
        raise DirtyValueError(DirtyReason.EMPTY, message, stage="decode")
    return number, payload[begin:]


def _add(collected: CollectedRows, found: Decoded, rows: Rows) -> None:
    """Put the results of some payloads into their positions in the whole batch."""
    collected.add(found.rows, rows[found.indices.to_numpy()])
    collected.dirty += [replace(each, index=int(rows[each.index])) for each in found.dirty]
    collected.skipped += found.skipped
    collected.notes.update(found.notes)


def open_json(schema: Schema, options: Mapping[str, str]) -> RowDecoder:
    """Open a decoder as `OpenDecoder` describes.

    Raises:
        ValueError: JSON cannot carry a column, or an option is unknown.
    """
    known = {
        "unknown_fields": ("ignore", "dirty", "keep", "evolve"),
        "extra_column": FREE,
        "tombstones": ("dirty", "skip"),
        "engine": ("auto", "native", "library"),
        "frame": ("none", "confluent"),
    }
    registry = {name: value for name, value in options.items() if name.startswith(PREFIX)}
    rest = {name: value for name, value in options.items() if name not in registry}
    chosen = known_options("json", rest, known)
    tombstones = cast("Literal['skip', 'dirty']", chosen["tombstones"])
    decoder = JsonDecoder(
        schema,
        extra=cast("ExtraRule", chosen["unknown_fields"]),
        extra_column=chosen["extra_column"],
        tombstones=tombstones,
        engine=cast("Engine", chosen["engine"]),
    )
    if chosen["frame"] == "none":
        return decoder
    store = process_store(registry_settings(registry)) if registry else None
    return FramedJsonDecoder(decoder, None if store is None else ConnectSchemas(store))
