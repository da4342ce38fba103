"""Avro payloads for the oracle: each kind of values, written with a schema of its own."""

import json
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any

from sluiceway.formats.avro.decoder import AvroDecoder
from sluiceway.formats.avro.schema import parse_schema
from sluiceway.formats.avro.writer_schemas import WriterSchema
from sluiceway.formats.schema_registry.frame import confluent_frame
from sluiceway.types.schema import Schema
from sluiceway.types.typed_matrix import AVRO_MATRIX, AvroKind
from tools import avro_bytes as avro

from . import typed_vectors as vectors
from .change_logs import EXACT, LIBRARY
from .model import ABSENT, Column, Num, Obj
from .typed_judge import Sample, TypedFormat
from .vectors import Vectors

_K = AvroKind
Made = tuple[Any, bytes, Any]
"""Type of the field, its bytes, and the value as the oracle has it."""
_TEXTS: dict[int, str] = {}
_WIDE = {"type": "bytes", "logicalType": "decimal", "precision": 300, "scale": 30}
_STEPS = {"millis": 10**6, "micros": 1000, "nanos": 1}


class _Registry:
    """Schemas of the payloads of this process."""

    def of(self, keys: Collection[int]) -> Mapping[int, WriterSchema]:
        return {key: _schema(_TEXTS[key]) for key in keys}


@cache
def _schema(text: str) -> WriterSchema:
    return WriterSchema(parse_schema(text))


@cache
def _id_of(text: str) -> int:
    _TEXTS[len(_TEXTS) + 1] = text
    return len(_TEXTS)


def open_avro_under_test(schema: Schema, path: str) -> AvroDecoder:
    """The decoder, with the schemas of all samples made so far."""
    # Each sample has a schema of its own, so the fast path has to take single rows.
    return AvroDecoder(
        schema,
        confluent_frame,
        _Registry(),
        skips_tombstones=False,
        fast_rows=None if path == EXACT else 1,
        native=path != LIBRARY,
    )


def avro_samples(column: Column, made: Vectors, each: int, oddness: float) -> list[Sample]:
    """Values of every kind for a column."""
    # A mutant may have been planted since they were compiled.
    _schema.cache_clear()
    found = []
    for kind, make in _MAKERS.items():
        for _ in range(each):
            field, body, value = make(column, made, oddness)
            found.append(Sample(kind, value, _payload(field, body, made)))
    for _ in range(each):
        text = '{"type":"record","name":"R","fields":[]}'
        found.append(Sample(_K.MISSING, ABSENT, avro.confluent(_id_of(text), b"")))
    return found


def _payload(field: Any, body: bytes, made: Vectors) -> bytes:
    """A record with the value under `v`, sometimes in a union, sometimes among other fields."""
    if made.random.random() < 0.3 and not isinstance(field, list) and field != "null":
        field, body = ["null", field], avro.long(1) + body
    before: list[Any] = []
    head = b""
    if made.random.random() < 0.2:
        before, head = [{"name": "other", "type": "string"}], avro.text("x")
    fields = [*before, {"name": "v", "type": field}]
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    return avro.confluent(_id_of(text), head + body)


def _number(bits: int) -> Callable[[Column, Vectors, float], Made]:
    def make(column: Column, made: Vectors, oddness: float) -> Made:
        del oddness
        value = vectors.integer(made, column, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return "int" if bits == 32 else "long", avro.long(int(value)), value

    return make


def _floating(bits: int) -> Callable[[Column, Vectors, float], Made]:
    def make(column: Column, made: Vectors, oddness: float) -> Made:
        del column, oddness
        value = vectors.floating(made, bits)
        body = avro.floating(value.value, bits)
        return "double" if bits == 64 else "float", body, value

    return make


def _non_finite(column: Column, made: Vectors, oddness: float) -> Made:
    del column, oddness
    value, bits = vectors.non_finite(made), made.random.choice((32, 64))
    return "double" if bits == 64 else "float", avro.floating(value.value, bits), value


def _string(column: Column, made: Vectors, oddness: float) -> Made:
    value = vectors.text(made, column, oddness)
    return "string", avro.text(value), value


def _enum(column: Column, made: Vectors, oddness: float) -> Made:
    del column, oddness
    index = made.random.randrange(len(vectors.SYMBOLS))
    field = {"type": "enum", "name": "E", "symbols": list(vectors.SYMBOLS)}
    return field, avro.long(index), vectors.SYMBOLS[index]


def _uuid(column: Column, made: Vectors, oddness: float) -> Made:
    del column, oddness
    value = vectors.uuid_text(made)
    if made.random.random() < 0.5:
        return {"type": "string", "logicalType": "uuid"}, avro.text(value), value
    field = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
    return field, bytes.fromhex(value.replace("-", "")), value


def _bytes(column: Column, made: Vectors, oddness: float) -> Made:
    del column, oddness
    value = vectors.some_bytes(made)
    return "bytes", avro.data(value), value


def _fixed(column: Column, made: Vectors, oddness: float) -> Made:
    del column, oddness
    value = vectors.some_bytes(made)
    return {"type": "fixed", "name": "F", "size": len(value)}, value, value


def _decimal(column: Column, made: Vectors, oddness: float) -> Made:
    unscaled, scale, value = vectors.decimal_text(made, column, oddness)
    body = avro.unscaled(unscaled)
    field: dict[str, Any] = {"logicalType": "decimal", "precision": 60, "scale": scale}
    if made.random.random() < 0.5:
        return {"type": "bytes", **field}, avro.data(body), value
    size = len(body) + made.random.randrange(3)
    body = unscaled.to_bytes(size, "big", signed=True)
    return {"type": "fixed", "name": "D", "size": size, **field}, body, value


def _date(column: Column, made: Vectors, oddness: float) -> Made:
    del column
    value = vectors.day(made, oddness)
    return {"type": "int", "logicalType": "date"}, avro.long(value.number), value


def _time(column: Column, made: Vectors, oddness: float) -> Made:
    del column
    unit = made.random.choice(("millis", "micros"))
    value = vectors.clock(made, _STEPS[unit], oddness)
    field = {"type": "int" if unit == "millis" else "long", "logicalType": f"time-{unit}"}
    return field, avro.long(value.number // _STEPS[unit]), value


def _stamp(kind: str, *units: str) -> Callable[[Column, Vectors, float], Made]:
    local = "local-" if kind == "local" else ""

    def make(column: Column, made: Vectors, oddness: float) -> Made:
        del column
        unit = made.random.choice(units)
        value = vectors.moment(made, kind, _STEPS[unit], oddness)
        field = {"type": "long", "logicalType": f"{local}timestamp-{unit}"}
        return field, avro.long(value.number // _STEPS[unit]), value

    return make


def _array(column: Column, made: Vectors, oddness: float) -> Made:
    value = vectors.nested(made, column, oddness, list)
    sized = made.random.random() < 0.5
    deep = _depth(value)
    body = avro.blocks([_any(item, deep) for item in value], sized=sized)
    return {"type": "array", "items": _union(deep)}, body, value


def _map(column: Column, made: Vectors, oddness: float) -> Made:
    value = vectors.nested(made, column, oddness, Obj)
    deep = _depth(value)
    body = avro.blocks([avro.text(key) + _any(item, deep) for key, item in value])
    return {"type": "map", "values": _union(deep)}, body, value


def _record(column: Column, made: Vectors, oddness: float) -> Made:
    value = Obj(dict(vectors.nested(made, column, oddness, Obj)).items())
    deep = _depth(value)
    fields = [{"name": key, "type": _union(deep)} for key, _ in value]
    body = b"".join(_any(item, deep) for _, item in value)
    return {"type": "record", "name": "Inner", "fields": fields}, body, value


def _depth(value: Any) -> int:
    """Levels of arrays and maps below this one; at least 3, as columns have."""
    return max(3, _levels(value) - 1)


def _levels(value: Any) -> int:
    if not isinstance(value, list | Obj):
        return 0
    inner = [item for _, item in value] if isinstance(value, Obj) else value
    return 1 + max((_levels(item) for item in inner), default=0)


@cache
def _union(depth: int) -> Any:
    """Nearly anything: what stands in arrays, maps and records."""
    leaves = ["null", "boolean", "long", "string", _WIDE]
    if depth == 0:
        return leaves
    inner = _union(depth - 1)
    return [*leaves, {"type": "array", "items": inner}, {"type": "map", "values": inner}]


def _any(value: Any, depth: int) -> bytes:
    if value is None:
        return avro.long(0)
    if isinstance(value, bool):
        return avro.long(1) + bytes([value])
    if isinstance(value, Num):
        if "." in value:
            whole, _, places = value.partition(".")
            return avro.long(4) + avro.data(avro.unscaled(int(whole + places)))
        return avro.long(2) + avro.long(int(value))
    if isinstance(value, str):
        return avro.long(3) + avro.text(value)
    if depth == 0:
        raise ValueError("deeper than the oracle's columns")
    if isinstance(value, Obj):
        pairs = [avro.text(key) + _any(item, depth - 1) for key, item in value]
        return avro.long(6) + avro.blocks(pairs)
    return avro.long(5) + avro.blocks([_any(item, depth - 1) for item in value])


_MAKERS: dict[AvroKind, Callable[[Column, Vectors, float], Made]] = {
    _K.NULL: lambda column, made, oddness: ("null", b"", None),
    _K.BOOLEAN: lambda column, made, oddness: (
        ("boolean", b"\1", True) if made.random.random() < 0.5 else ("boolean", b"\0", False)
    ),
    _K.INT: _number(32),
    _K.LONG: _number(64),
    _K.FLOAT: _floating(32),
    _K.DOUBLE: _floating(64),
    _K.NON_FINITE: _non_finite,
    _K.STRING: _string,
    _K.ENUM: _enum,
    _K.UUID: _uuid,
    _K.BYTES: _bytes,
    _K.FIXED: _fixed,
    _K.ARRAY: _array,
    _K.MAP: _map,
    _K.RECORD: _record,
    _K.DECIMAL: _decimal,
    _K.DATE: _date,
    _K.TIME: _time,
    _K.TIMESTAMP: _stamp("instant", "millis", "micros"),
    _K.TIMESTAMP_NANOS: _stamp("instant", "nanos"),
    _K.LOCAL_TIMESTAMP: _stamp("local", "millis", "micros"),
    _K.LOCAL_TIMESTAMP_NANOS: _stamp("local", "nanos"),
}
AVRO = TypedFormat("avro", AVRO_MATRIX, open_avro_under_test, avro_samples)
