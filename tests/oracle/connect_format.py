"""Kafka Connect's JSON with its schema around, for the oracle: rows alone, and as Debezium's."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from typing import Any

from sluiceway.formats.changes.envelopes import DEBEZIUM
from sluiceway.formats.contract import RowDecoder
from sluiceway.formats.json.decoder import Engine, JsonDecoder
from sluiceway.host.native_module import native_module
from sluiceway.types.schema import Schema
from tools.avro_bytes import unscaled as whole_bytes

from . import typed_vectors as vectors
from .change_logs import EXACT, LIBRARY, open_change_log
from .model import ABSENT, Column, Num, Obj, render
from .type_text import split_type
from .typed_judge import Sample, TypedFormat
from .typed_model import Moment, Wall, iso_text
from .vectors import Vectors

_CONNECT, _DEBEZIUM = "org.apache.kafka.connect.data.", "io.debezium."
_TIMES = ("date", "timestamp", "timestamp with local time zone")
_STEPS = {
    f"{_CONNECT}Timestamp": ("instant", 10**6),
    f"{_DEBEZIUM}time.Timestamp": ("local", 10**6),
    f"{_DEBEZIUM}time.MicroTimestamp": ("local", 1000),
    f"{_DEBEZIUM}time.NanoTimestamp": ("local", 1),
}
Node = dict[str, Any]
Made = tuple[Node, Any, Any]
"""Schema of the field, the value as the converter writes it, and as the oracle has it."""


class ConnectKind(StrEnum):
    """What a converter writes."""

    MISSING = "missing"
    NULL = "null"
    BOOLEAN = "boolean"
    WHOLE = "int"
    FLOAT = "float"
    STRING = "string"
    BYTES = "bytes"
    ENUM = "enum"
    ARRAY = "array"
    MAP = "map"
    ENTRIES = "map of pairs"
    STRUCT = "struct"
    DECIMAL = "decimal"
    DECIMALS = "decimals"
    VARIABLE = "variable decimal"
    DATE = "date"
    TIME = "time"
    CLOCK = "clock"
    ISO_TEXT = "local time as text"
    ZONED = "zoned time"


def _node(kind: str, name: str = "", **more: Any) -> Node:
    return {"type": kind, "optional": True, **({"name": name} if name else {}), **more}


def _takes_times(column: Column) -> bool:
    return column.unit is None and split_type(column.hive)[0] in _TIMES


def _whole(column: Column, made: Vectors, oddness: float) -> Made:
    del oddness
    bits = made.random.choice((8, 16, 32, 64))
    value = vectors.integer(made, column, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return _node(f"int{bits}"), value, value


def _float(column: Column, made: Vectors, oddness: float) -> Made:
    del column, oddness
    value = Num(repr(vectors.floating(made, 64).value))
    return _node("double"), value, value


def _text(node: Node) -> Callable[[Column, Vectors, float], Made]:
    def make(column: Column, made: Vectors, oddness: float) -> Made:
        value = vectors.text(made, column, oddness)
        return node, value, value

    return make


def _bytes(column: Column, made: Vectors, oddness: float) -> Made:
    del column, oddness
    value = base64.b64encode(vectors.some_bytes(made)).decode()
    return _node("bytes"), value, value


def _array(column: Column, made: Vectors, oddness: float) -> Made:
    value = vectors.nested(made, column, oddness, list)
    return _node("array", items=_node("string")), value, value


def _map(column: Column, made: Vectors, oddness: float) -> Made:
    value = vectors.nested(made, column, oddness, Obj)
    return _node("map", keys=_node("string"), values=_node("string")), value, value


def _entries(column: Column, made: Vectors, oddness: float) -> Made:
    pairs = vectors.nested(made, column, oddness, Obj)
    value = [[Num(str(number)), item] for number, (_, item) in enumerate(pairs)]
    return _node("map", keys=_node("int32"), values=_node("string")), value, value


def _struct(column: Column, made: Vectors, oddness: float) -> Made:
    value = Obj(dict(vectors.nested(made, column, oddness, Obj)).items())
    return _node("struct", fields=[_node("string", field=key) for key in "abx"]), value, value


def _digits(column: Column, made: Vectors, oddness: float) -> tuple[Node, int, str, Num]:
    unscaled, scale, value = vectors.decimal_text(made, column, oddness)
    body = whole_bytes(unscaled)
    if made.random.random() < 0.1:
        body = unscaled.to_bytes(len(body) + 1, "big", signed=True)
    node = _node("bytes", f"{_CONNECT}Decimal", version=1, parameters={"scale": str(scale)})
    return node, scale, base64.b64encode(body).decode(), value


def _decimal(column: Column, made: Vectors, oddness: float) -> Made:
    node, _, text, value = _digits(column, made, oddness)
    return node, text, text if column.hive == "binary" else value


def _variable(column: Column, made: Vectors, oddness: float) -> Made:
    _, scale, text, value = _digits(column, made, oddness)
    fields = [_node("int32", field="scale"), _node("bytes", field="value")]
    held = Obj((("scale", Num(str(scale))), ("value", text)))
    is_object = split_type(column.hive)[0] in ("struct", "map")
    node = _node("struct", f"{_DEBEZIUM}data.VariableScaleDecimal", fields=fields)
    return node, held, held if is_object else value


def _decimals(column: Column, made: Vectors, oddness: float) -> Made:
    """Decimals of one scale in an array, a map or a struct."""
    pick = made.random
    node, scale, text, value = _digits(column, made, oddness)
    held = [(text, value), (None, None), _again(made, scale)][: pick.randrange(4)]
    keys = "abx"
    match pick.randrange(3):
        case 0:
            return _node("array", items=node), [text for text, _ in held], [of for _, of in held]
        case 1:
            found = _node("map", keys=_node("string"), values=node)
        case _:
            found = _node("struct", fields=[{**node, "field": key} for key in keys])
    written, meant = (
        Obj((key, one[side]) for key, one in zip(keys, held, strict=False)) for side in (0, 1)
    )
    return found, written, meant


def _again(made: Vectors, scale: int) -> tuple[str, Num]:
    unscaled = made.random.randrange(-(10**6), 10**6)
    return base64.b64encode(whole_bytes(unscaled)).decode(), Num(vectors.spelt(unscaled, scale))


def _date(column: Column, made: Vectors, oddness: float) -> Made:
    value = vectors.day(made, oddness)
    name = made.random.choice((f"{_CONNECT}Date", f"{_DEBEZIUM}time.Date"))
    return _node("int32", name), *_told(column, value.number, value)


def _time(column: Column, made: Vectors, oddness: float) -> Made:
    name = made.random.choice(list(_STEPS))
    kind, step_ns = _STEPS[name]
    value = vectors.moment(made, kind, step_ns, oddness)
    return _node("int64", name), *_told(column, value.number // step_ns, value)


def _told(column: Column, number: int, value: Moment) -> tuple[Num, Any]:
    """The number, and what the column makes of it."""
    written = Num(str(number))
    return written, value if _takes_times(column) else written


def _clock(column: Column, made: Vectors, oddness: float) -> Made:
    del column
    value = Num(str(vectors.clock(made, 1000, oddness).number // 1000))
    return _node("int64", f"{_DEBEZIUM}time.MicroTime"), value, value


def _iso_text(column: Column, made: Vectors, oddness: float) -> Made:
    value = vectors.text(made, column, oddness)
    if made.random.random() < 0.7:
        local = Moment("local", made.random.randrange(-(10**18), 4 * 10**18) // 1000 * 1000)
        value = f"{iso_text(local)}Z"
    return (
        _node("string", f"{_DEBEZIUM}time.IsoTimestamp"),
        value,
        Wall(value) if _takes_times(column) else value,
    )


_K = ConnectKind
_MAKERS: dict[ConnectKind, Callable[[Column, Vectors, float], Made]] = {
    _K.MISSING: lambda column, made, oddness: (_node("string"), ABSENT, ABSENT),
    _K.NULL: lambda column, made, oddness: (_node("string"), None, None),
    _K.BOOLEAN: lambda column, made, oddness: (
        (_node("boolean"), True, True)
        if made.random.random() < 0.5
        else (_node("boolean"), False, False)
    ),
    _K.WHOLE: _whole,
    _K.FLOAT: _float,
    _K.STRING: _text(_node("string")),
    _K.BYTES: _bytes,
    _K.ENUM: _text(_node("string", f"{_DEBEZIUM}data.Enum", parameters={"allowed": "a,b"})),
    _K.ARRAY: _array,
    _K.MAP: _map,
    _K.ENTRIES: _entries,
    _K.STRUCT: _struct,
    _K.DECIMAL: _decimal,
    _K.DECIMALS: _decimals,
    _K.VARIABLE: _variable,
    _K.DATE: _date,
    _K.TIME: _time,
    _K.CLOCK: _clock,
    _K.ISO_TEXT: _iso_text,
    _K.ZONED: _text(_node("string", f"{_DEBEZIUM}time.ZonedTimestamp")),
}


def _samples(
    wrap: Callable[[Node, bytes], tuple[Node, bytes]],
) -> Callable[[Column, Vectors, int, float], list[Sample]]:
    def make(column: Column, made: Vectors, each: int, oddness: float) -> list[Sample]:
        found = []
        for kind, one in _MAKERS.items():
            for _ in range(each):
                node, written, value = one(column, made, oddness)
                members = () if written is ABSENT else (("v", written),)
                row = _node("struct", fields=[{**node, "field": "v"}])
                schema, payload = wrap(row, render(Obj(members), made.random))
                head = json.dumps(schema, separators=(",", ":")).encode()
                message = b'{"schema":%b,"payload":%b}' % (head, payload)
                found.append(Sample(kind, value, message))
        return found

    return make


def _in_debezium(row: Node, payload: bytes) -> tuple[Node, bytes]:
    images = [{**row, "field": "before"}, {**row, "field": "after"}]
    schema = _node("struct", fields=[*images, _node("string", field="op")])
    return schema, b'{"before":null,"after":%b,"op":"c"}' % payload


def _open_rows(schema: Schema, path: str) -> RowDecoder:
    """A decoder of rows alone."""
    fields = tuple(replace(of, path=("payload", of.name)) for of in schema.fields)
    fast: Engine = "native" if native_module() else "library"
    engine: Engine = "exact" if path == EXACT else "library" if path == LIBRARY else fast
    return JsonDecoder(Schema(fields), engine=engine)


CONNECT = TypedFormat(
    "connect", (), _open_rows, _samples(lambda row, payload: (row, payload)), "payload"
)
WRAPPED_DEBEZIUM = TypedFormat(
    "debezium with schema",
    (),
    lambda schema, path: open_change_log(DEBEZIUM, schema, path),
    _samples(_in_debezium),
    "payload.after",
)
