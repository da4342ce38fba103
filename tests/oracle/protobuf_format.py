"""Protobuf payloads for the oracle: each kind of values, in a message of its own."""

from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any

from sluiceway.formats.protobuf.decoder import ProtobufDecoder
from sluiceway.formats.protobuf.message_schemas import Key
from sluiceway.formats.protobuf.proto_text import compile_proto
from sluiceway.formats.protobuf.reader import MessageReader
from sluiceway.formats.schema_registry.frame import confluent_frame
from sluiceway.types.schema import Schema
from sluiceway.types.typed_matrix import PROTOBUF_MATRIX, ProtobufKind
from tools import protobuf_bytes as pb
from tools.avro_bytes import confluent

from . import typed_vectors as vectors
from .change_logs import EXACT
from .model import ABSENT, Column, Num, Obj
from .typed_judge import Sample, TypedFormat
from .typed_model import Flt, Moment
from .vectors import Vectors

_K = ProtobufKind
Made = tuple[str, bytes, Any]
"""Declarations of the message, its bytes, and the value as the oracle has it."""
_TEXTS: dict[int, str] = {}
_NAMES = ("a", "b", "x")


class _Messages:
    """Messages of the payloads of this process."""

    def frame(self, payload: bytes) -> tuple[Key, int]:
        number, begin = confluent_frame(payload)
        return (number, ()), begin

    def of(self, keys: Collection[Key]) -> Mapping[Key, MessageReader]:
        return {key: _reader(_TEXTS[key[0]]) for key in keys}


@cache
def _reader(text: str) -> MessageReader:
    schema = compile_proto(text)
    return MessageReader(schema.message("M"), {})


@cache
def _id_of(text: str) -> int:
    _TEXTS[len(_TEXTS) + 1] = text
    return len(_TEXTS)


def open_protobuf_under_test(schema: Schema, path: str) -> ProtobufDecoder:
    """The decoder, with the messages of all samples made so far."""
    # Each sample has a message of its own, so the native module has to take single rows.
    fast_rows = None if path == EXACT else 1
    return ProtobufDecoder(schema, _Messages(), skips_tombstones=False, fast_rows=fast_rows)


def protobuf_samples(column: Column, made: Vectors, each: int, oddness: float) -> list[Sample]:
    """Values of every kind for a column."""
    # A mutant may have been planted since they were made.
    _reader.cache_clear()
    found = []
    for kind, make in _MAKERS.items():
        for _ in range(each):
            declared, body, value = make(column, made, oddness)
            syntax = made.random.choice(("proto2", "proto3"))
            text = f'syntax = "{syntax}"; message M {{ {declared} }}'
            if made.random.random() < 0.2:
                body = pb.tagged(77, pb.LENGTH, b"unknown") + body
            found.append(Sample(kind, value, confluent(_id_of(text), body)))
    return found


def _integer(
    name: str, low: int, high: int, kind: int, write: Callable[[int], bytes]
) -> Callable[[Column, Vectors, float], Made]:
    def make(column: Column, made: Vectors, oddness: float) -> Made:
        del oddness
        value = vectors.integer(made, column, low, high)
        return f"optional {name} v = 1;", pb.tagged(1, kind, write(int(value))), value

    return make


def _one_of(*makers: Callable[[Column, Vectors, float], Made]) -> Any:
    def make(column: Column, made: Vectors, oddness: float) -> Made:
        return made.random.choice(makers)(column, made, oddness)

    return make


def _whole(bits: int, *, with_sign: bool) -> Any:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if with_sign else (0, 2**bits - 1)
    fixed = pb.FIXED32 if bits == 32 else pb.FIXED64

    def words(number: int) -> bytes:
        return number.to_bytes(bits // 8, "little", signed=with_sign)

    if with_sign:
        return _one_of(
            _integer(f"int{bits}", low, high, pb.VARINT, pb.varint),
            _integer(f"sint{bits}", low, high, pb.VARINT, pb.zigzag),
            _integer(f"sfixed{bits}", low, high, fixed, words),
        )
    return _one_of(
        _integer(f"uint{bits}", low, high, pb.VARINT, pb.varint),
        _integer(f"fixed{bits}", low, high, fixed, words),
    )


def _float_field(value: Flt, bits: int) -> Made:
    name, kind = ("double", pb.FIXED64) if bits == 64 else ("float", pb.FIXED32)
    body = pb.tagged(1, kind, pb.floating(value.value, bits))
    return f"optional {name} v = 1;", body, value


def _string(column: Column, made: Vectors, oddness: float) -> Made:
    value = vectors.text(made, column, oddness)
    return "optional string v = 1;", pb.tagged(1, pb.LENGTH, pb.text(value)), value


def _enum(column: Column, made: Vectors, oddness: float) -> Made:
    del column, oddness
    number = made.random.randrange(3)
    declared = "enum E { NULL = 0; true = 1; RED = 2; } optional E v = 1;"
    return declared, pb.tagged(1, pb.VARINT, pb.varint(number)), ("NULL", "true", "RED")[number]


def _bytes(column: Column, made: Vectors, oddness: float) -> Made:
    del column, oddness
    value = vectors.some_bytes(made)
    return "optional bytes v = 1;", pb.tagged(1, pb.LENGTH, value), value


def _timestamp(column: Column, made: Vectors, oddness: float) -> Made:
    del column
    value = vectors.moment(made, "instant", 1, oddness)
    seconds, nanos = divmod(value.number, 10**9)
    if made.random.random() < oddness * 0.2:
        seconds, nanos = made.random.choice((2**62, -(2**62))), 0
        value = Moment("instant", seconds * 10**9)
    declared = "optional google.protobuf.Timestamp v = 1;"
    return declared, pb.tagged(1, pb.LENGTH, _two(seconds, nanos)), value


def _duration(column: Column, made: Vectors, oddness: float) -> Made:
    del oddness
    seconds = int(vectors.integer(made, column, -(10**12), 10**12))
    nanos = made.random.choice((0, 0, 500_000_000, 10**6, 1, 999_999_999))
    nanos = -nanos if seconds < 0 else nanos
    value = Num(vectors.spelt(seconds * 10**9 + nanos, 9))
    declared = "optional google.protobuf.Duration v = 1;"
    return declared, pb.tagged(1, pb.LENGTH, _two(seconds, nanos)), value


def _two(seconds: int, nanos: int) -> bytes:
    found = pb.tagged(1, pb.VARINT, pb.varint(seconds)) if seconds else b""
    return found + (pb.tagged(2, pb.VARINT, pb.varint(nanos)) if nanos else b"")


def _scalar(number: int, value: Any) -> bytes:
    if isinstance(value, bool):
        return pb.tagged(number, pb.VARINT, pb.varint(int(value)))
    if isinstance(value, Num):
        return pb.tagged(number, pb.VARINT, pb.varint(int(value)))
    return pb.tagged(number, pb.LENGTH, pb.text(value))


def _some(made: Vectors, kind: str) -> Any:
    pick = made.random
    if kind == "bool":
        return pick.random() < 0.5
    if kind == "int64":
        return Num(str(pick.choice((0, 7, -129, 40_000, 2**31, 2**53 + 1, -(2**63)))))
    return pick.choice(("", "a", "7", "2026-11-20", "2026-11-20T08:00:00Z", "x\udcc3", "12.5"))


def _repeated(column: Column, made: Vectors, oddness: float) -> Made:
    kind = made.random.choice(("bool", "int64", "string", "Inner"))
    count = made.random.randrange(4)
    if kind == "Inner":
        items = [_inner(column, made, oddness) for _ in range(count)]
        body = b"".join(pb.tagged(1, pb.LENGTH, one) for _, one, _ in items)
        declared = f"message Inner {{ {_INNER} }} repeated Inner v = 1;"
        return declared, body, [value for _, _, value in items]
    values = [_some(made, kind) for _ in range(count)]
    body = b"".join(_scalar(1, value) for value in values)
    if kind != "string" and values and made.random.random() < 0.5:
        body = pb.tagged(1, pb.LENGTH, b"".join(_scalar(1, value)[1:] for value in values))
    return f"repeated {kind} v = 1;", body, values


def _map(column: Column, made: Vectors, oddness: float) -> Made:
    del column, oddness
    kind = made.random.choice(("bool", "int64", "string"))
    keys = made.random.sample(("1", "2", "-3", "12", "300"), made.random.randrange(4))
    of_keys = made.random.choice(("string", "sint64"))
    pairs = [(key, _some(made, kind)) for key in keys]
    body = b""
    for key, value in pairs:
        first = pb.tagged(1, pb.VARINT, pb.zigzag(int(key)))
        first = _scalar(1, key) if of_keys == "string" else first
        body += pb.tagged(1, pb.LENGTH, first + _scalar(2, value))
    return f"map<{of_keys}, {kind}> v = 1;", body, Obj(pairs)


_INNER = "optional int64 a = 1; optional string b = 2; optional bool x = 3;"


def _inner(column: Column, made: Vectors, oddness: float) -> Made:
    del column, oddness
    kinds = dict(zip(_NAMES, ("int64", "string", "bool"), strict=True))
    given = [name for name in _NAMES if made.random.random() < 0.8]
    pairs = [(name, _some(made, kinds[name])) for name in given]
    body = b"".join(_scalar(_NAMES.index(name) + 1, value) for name, value in pairs)
    return "", body, Obj(pairs)


def _message(column: Column, made: Vectors, oddness: float) -> Made:
    _, body, value = _inner(column, made, oddness)
    declared = f"message Inner {{ {_INNER} }} optional Inner v = 1;"
    return declared, pb.tagged(1, pb.LENGTH, body), value


_MAKERS: dict[ProtobufKind, Callable[[Column, Vectors, float], Made]] = {
    _K.MISSING: lambda column, made, oddness: ("optional int32 v = 1;", b"", ABSENT),
    _K.BOOL: lambda column, made, oddness: (
        "optional bool v = 1;",
        *((b"\x08\x01", True) if made.random.random() < 0.5 else (b"\x08\x00", False)),
    ),
    _K.INT32: _whole(32, with_sign=True),
    _K.UINT32: _whole(32, with_sign=False),
    _K.INT64: _whole(64, with_sign=True),
    _K.UINT64: _whole(64, with_sign=False),
    _K.FLOAT: lambda column, made, oddness: _float_field(vectors.floating(made, 32), 32),
    _K.DOUBLE: lambda column, made, oddness: _float_field(vectors.floating(made, 64), 64),
    _K.NON_FINITE: lambda column, made, oddness: _float_field(
        vectors.non_finite(made), made.random.choice((32, 64))
    ),
    _K.STRING: _string,
    _K.ENUM: _enum,
    _K.BYTES: _bytes,
    _K.REPEATED: _repeated,
    _K.MAP: _map,
    _K.MESSAGE: _message,
    _K.TIMESTAMP: _timestamp,
    _K.DURATION: _duration,
}
PROTOBUF = TypedFormat("protobuf", PROTOBUF_MATRIX, open_protobuf_under_test, protobuf_samples)
