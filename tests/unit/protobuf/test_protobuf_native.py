"""Protobuf through the native module: any message, and as the slow path reads it."""

import random
from typing import Any

import pytest

from sluiceway.formats.protobuf.decoder import ProtobufDecoder
from sluiceway.formats.protobuf.message_schemas import GivenMessage
from sluiceway.formats.protobuf.native_columns import NativeProtobuf
from sluiceway.formats.protobuf.proto_text import compile_proto
from sluiceway.host.native_module import native_module
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema
from tools import protobuf_bytes as pb
from tools.fetched_payloads import joined
from tools.format_fuzz import outcomes
from tools.made_protobuf import MadeProtobuf
from tools.payload_damage import damaged
from tools.protobuf_types import add_field, file_of, message_class

needs_native = pytest.mark.skipif(
    native_module() is None, reason="the native module is not installed: make native"
)


@pytest.mark.parametrize("seed", range(40))
def test_any_message_is_read_as_the_slow_path_reads_it(seed: int) -> None:
    pick = random.Random(seed)  # noqa: S311
    made = MadeProtobuf(pick)
    payloads: list[bytes | None] = [
        made.payload(oddness) for oddness in (0, 0.05, 0.3, 1) for _ in range(20)
    ]
    payloads += [damaged(lambda _: made.payload() or b"\0", pick) for _ in range(20)]
    expected = outcomes(made.decoder(None).decode(payloads), len(payloads))
    decoder = made.decoder(1)
    assert outcomes(decoder.decode(payloads), len(payloads)) == expected
    assert outcomes(decoder.decode(joined(payloads)), len(payloads)) == expected


_SHOP = """
syntax = "proto3";
message Line { string sku = 1; int32 count = 2; }
enum State { NEW = 0; PAID = 1; GONE = -1; }
message Order {
  int64 id = 1; optional string note = 2; repeated Line lines = 3; map<string, Line> by_sku = 4;
  State state = 6; google.protobuf.Timestamp at = 7;
  oneof how { string card = 10; int32 cash = 11; }
  repeated sint32 numbers = 13; google.protobuf.Int32Value few = 14; Line first = 15;
}
"""
_COLUMNS = {
    "id": "bigint",
    "note": "string",
    "lines": "array<struct<sku:string,count:int>>",
    "by_sku": "map<string,struct<count:int>>",
    "state": "string",
    "at": "timestamp",
    "card": "string",
    "numbers": "array<int>",
    "few": "int",
    "first": "struct<sku:string>",
}


def _reader(text: str, message: str, **columns: str) -> NativeProtobuf:
    schema = Schema(tuple(Field(name, parse_hive_type(of)) for name, of in columns.items()))
    of = compile_proto(text).message(message)
    found = NativeProtobuf.for_message(of, schema, connect=True)
    assert found is not None
    return found


def _rows(reader: NativeProtobuf, *payloads: bytes) -> list[dict[str, Any]]:
    batch, kept, left = reader.read(payloads, ())
    assert (len(kept), len(left)) == (len(payloads), 0)
    return list(batch.to_pylist())


@needs_native
def test_an_empty_message_has_its_defaults() -> None:
    (row,) = _rows(_reader(_SHOP, "Order", **_COLUMNS), b"")
    assert row == {
        **dict.fromkeys(("note", "at", "card", "few", "first")),
        "id": 0,
        "lines": [],
        "by_sku": [],
        "state": "NEW",
        "numbers": [],
    }


@needs_native
@pytest.mark.parametrize(
    ("what", "payload"),
    [
        ("a field that comes twice", b"\x08\1\x08\2"),
        ("two members of a oneof", pb.tagged(10, 2, b"x") + pb.tagged(11, 0, b"\1")),
        ("a message that is merged", pb.tagged(15, 2, b"\x10\1") + pb.tagged(15, 2, b"\x10\2")),
        ("a key that comes twice", pb.tagged(4, 2, b"\n\1a") * 2),
        ("a number without a name", pb.tagged(6, 0, b"\7")),
        ("an instant of nanoseconds", pb.tagged(7, 2, b"\x10\1")),
        ("a number of more than 32 bits", pb.tagged(15, 2, b"\x10" + pb.varint(2**31))),
        ("a wrong wire type", pb.tagged(1, 2, b"a")),
        ("a wrong wire type in an unread field", pb.tagged(11, 2, b"a")),
        ("a number that ends in its middle", b"\x08\x80"),
        ("a group that does not end", pb.varint(99 << 3 | 3)),
        ("a text that is no UTF-8", pb.tagged(2, 2, b"\xff")),
    ],
)
def test_what_may_be_dirty_or_is_unusual_is_left_to_the_slow_path(
    what: str, payload: bytes
) -> None:
    reader = _reader(_SHOP, "Order", **_COLUMNS)
    sound = b"\x08\5"
    batch, kept, left = reader.read([sound, payload, sound], ())
    assert (kept.tolist(), left.tolist()) == ([0, 2], [1]), what
    assert batch.column(0).to_pylist() == [5, 5]


@needs_native
def test_fields_in_any_order_packed_and_not_are_vouched_for() -> None:
    numbers = pb.tagged(13, 0, b"\1") + b"\x08\7" + pb.tagged(13, 2, b"\2\3")
    line = pb.tagged(3, 2, pb.tagged(1, 2, b"s") + b"\x10\2")
    (row,) = _rows(_reader(_SHOP, "Order", **_COLUMNS), line + numbers + line)
    assert (row["id"], row["numbers"]) == (7, [-1, 1, -2])
    assert row["lines"] == [{"sku": "s", "count": 2}] * 2


@needs_native
def test_scalars_equal_what_another_implementation_writes() -> None:
    kinds = {"int32": "int", "sint64": "bigint", "uint64": "decimal(20,0)", "fixed32": "bigint",
             "double": "double", "float": "float", "bool": "boolean", "bytes": "binary",
             "string": "string", "sfixed64": "bigint"}  # fmt: skip
    file = file_of("all.proto", "t", "proto3")
    message = file.message_type.add(name="All")
    for number, kind in enumerate(kinds, 1):
        add_field(message, f"f_{kind}", number, kind)
        add_field(message, f"r_{kind}", number + 100, kind, repeated=True)
    make = message_class([file], "t.All")
    text = " ".join(
        f"{kind} f_{kind} = {number}; repeated {kind} r_{kind} = {number + 100};"
        for number, kind in enumerate(kinds, 1)
    )
    columns = {f"f_{kind}": of for kind, of in kinds.items()}
    columns |= {f"r_{kind}": f"array<{of}>" for kind, of in kinds.items()}
    text = f'syntax = "proto3"; message All {{ {text} }}'
    reader = _reader(text, "All", **columns)
    pick = random.Random(5)  # noqa: S311
    payloads, expected = [], []
    for _ in range(100):
        row: dict[str, Any] = {}
        for kind in kinds:
            row[f"f_{kind}"] = _scalar(kind, pick)
            row[f"r_{kind}"] = [_scalar(kind, pick) for _ in range(pick.randrange(3))]
        payloads.append(make(**row).SerializeToString())
        expected.append(row)
    assert _rows(reader, *payloads) == expected
    schema = Schema(tuple(Field(name, parse_hive_type(of)) for name, of in columns.items()))
    messages = GivenMessage(compile_proto(text), "All", connect=True)
    for fast_rows in (None, 1):
        decoder = ProtobufDecoder(schema, messages, skips_tombstones=False, fast_rows=fast_rows)
        for given in (payloads, joined(payloads)):
            assert decoder.decode(given).rows.to_pylist() == expected, fast_rows


def _scalar(kind: str, pick: random.Random) -> Any:
    match kind:
        case "double" | "float":
            return pick.randrange(-(10**6), 10**6) / 64
        case "bool":
            return pick.random() < 0.5
        case "string":
            return pick.choice(("", "北京", "x"))
        case "bytes":
            return pick.randbytes(pick.randrange(4))
        case _:
            low, high = (-(2**31), 2**31) if kind == "int32" else (-(2**63), 2**63)
            low, high = (0, 2**64) if kind == "uint64" else (low, high)
            return pick.randrange(*((0, 2**32) if kind == "fixed32" else (low, high)))


@needs_native
def test_groups_and_messages_that_hold_themselves_are_stepped_over() -> None:
    text = """syntax = "proto2"; message R { optional int32 id = 1; optional R inner = 2;
      optional group Part = 3 { optional string name = 1; }
      optional google.protobuf.Timestamp t = 4;
    }"""
    reader = _reader(text, "R", id="int", part="struct<name:string>")
    begin, end = pb.varint(3 << 3 | 3), pb.varint(3 << 3 | 4)
    part = begin + pb.tagged(1, 2, b"a") + end
    inner = pb.tagged(2, 2, part + pb.tagged(2, 2, b"\x08\1"))
    assert _rows(reader, inner + part) == [{"id": None, "part": {"name": "a"}}]
    late = pb.tagged(2, 2, pb.tagged(4, 2, b"\x10" + pb.varint(10**9)))
    _, _, left = reader.read([late], ())
    assert left.tolist() == [0]
