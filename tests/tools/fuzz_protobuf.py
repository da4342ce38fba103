"""Protobuf for the fuzzer: decoders, and payloads with lengths and numbers beyond all reason."""

import random
from collections.abc import Callable

from sluiceway.formats.contract import RowDecoder
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import Field, Schema
from tools import protobuf_bytes as pb

PROTO = """
syntax = "proto3";
message Row {
  int64 id = 1; optional string name = 2; float rate = 3; bool paid = 4; repeated int32 n = 5;
  map<string, int32> by = 6; google.protobuf.Timestamp at = 7; Row inner = 8; uint64 big = 9;
  enum E { A = 0; B = 1; } E e = 10; repeated Row rows = 11;
  oneof o { string s = 12; bytes b = 13; }
  google.protobuf.Duration took = 14; google.protobuf.Struct any = 15;
}
"""
COLUMNS = {
    "id": "bigint",
    "name": "varchar(6)",
    "rate": "float",
    "paid": "boolean",
    "n": "array<smallint>",
    "by": "map<string,int>",
    "at": "timestamp",
    "inner": "struct<id:int,e:string>",
    "big": "bigint",
    "took": "decimal(18,3)",
    "rows": "array<struct<id:bigint>>",
}
_WORDS = (1, -1, 300, 2**31 - 1, 40_000)


def _opened(schema: Schema) -> RowDecoder:
    return open_decoder(FormatChoice("protobuf", (("schema", PROTO), ("message", "Row"))), schema)


def _columns() -> Schema:
    found = [Field(name, parse_hive_type(of)) for name, of in COLUMNS.items()]
    return Schema(tuple(found))


def _lenient() -> Schema:
    return Schema(
        (
            Field("name", parse_hive_type("varchar(3)"), policy=Policy(
                on_lossy="truncate", on_bad_text="replace"
            )),
            Field("big", parse_hive_type("int"), policy=Policy(on_overflow="clamp")),
            Field("deep", parse_hive_type("string"), path=("inner", "inner", "e")),
        )
    )  # fmt: skip


DECODERS: tuple[Callable[[], RowDecoder], ...] = (
    lambda: _opened(_columns()),
    lambda: _opened(_lenient()),
)


def payload(pick: random.Random) -> bytes:
    """A payload that is sound but for a number in it, now and then."""
    calm = pick.random() < 0.7
    depth = pick.randrange(3) if calm else pick.choice((0, 1, 97, 98, 99, 100, 101, 500))
    return _row(pick, depth, calm=calm)


def _row(pick: random.Random, depth: int, *, calm: bool) -> bytes:
    two = _number(pick, 1, pick.randrange(10**10)) + _number(pick, 2, pick.randrange(10**9))
    whole = pb.tagged(1, pb.VARINT, pb.varint(pick.randrange(10**10)))
    entry = _text(pick, 1, "k") + _number(pick, 2, 5)
    parts = [
        _number(pick, 1, pick.randrange(-(2**63), 2**63)),
        _text(pick, 2, "né北😀"[: pick.randrange(5)]),
        pb.tagged(3, pb.FIXED32, pb.floating(0.5 if calm else float("nan"), 32)),
        _number(pick, 4, 1),
        _part(pick, 5, b"".join(pb.varint(n) for n in _WORDS[: 3 if calm else 5])),
        _number(pick, 5, 7),
        _part(pick, 6, entry),
        _part(pick, 7, whole if calm else two),
        _number(pick, 9, 1 if calm else 2**63),
        _number(pick, 10, pick.choice((0, 1, 7))),
        _text(pick, 12, "s"),
        _part(pick, 14, whole if calm else two),
        pb.tagged(99, pb.VARINT if calm else pick.randrange(6), b"\x01"),
    ]
    found = b"".join(part for part in parts if pick.random() < 0.5)
    for _ in range(depth):
        found = _part(pick, pick.choice((8, 8, 8, 11)), found)
    return found


def _number(pick: random.Random, number: int, value: int) -> bytes:
    if pick.random() < 0.03:
        return pb.tagged(
            number, 0, pick.choice((b"\xff" * 10 + b"\1", b"\xff" * 9 + b"\1", b"\x80"))
        )
    return pb.tagged(number, pb.VARINT, pb.varint(value))


def _part(pick: random.Random, number: int, body: bytes) -> bytes:
    size = pick.choice((2**31, 2**62, 2**64 - 1, 0)) if pick.random() < 0.01 else len(body)
    return pb.varint(number << 3 | pb.LENGTH) + pb.varint(size) + body


def _text(pick: random.Random, number: int, text: str) -> bytes:
    return _part(pick, number, text.encode() if pick.random() < 0.95 else b"\xff\x00")
