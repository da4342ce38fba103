"""Protobuf payloads, written by another implementation, and bytes that nobody should trust."""

import base64
from collections.abc import Collection
from decimal import Decimal
from typing import Any

import pytest

from sluiceway.formats.contract import RowDecoder
from sluiceway.formats.protobuf.decoder import ProtobufDecoder
from sluiceway.formats.protobuf.message_schemas import RegistryMessages
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.formats.schema_registry.client import RegisteredSchema
from sluiceway.types.dirty import DirtyReason as Why
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import Field, Schema
from sluiceway.worker.field_samples import FewSamples
from tools.avro_bytes import confluent
from tools.protobuf_types import TYPES, add_field, descriptor_set, file_of, message_class

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto"; // and more
option java_package = "a{b}";
/* An order; it is } odd. */
message Order {
  reserved 9, 15 to 20; reserved "old";
  message Line { string sku = 1; int32 count = 2 [deprecated = true]; }
  enum State { option allow_alias = true; NEW = 0; PAID = 1; SETTLED = 1; GONE = -1; }
  int64 id = 1;
  optional string note = 2 [json_name = "n{o]te"];
  repeated Line lines = 3;
  map<string, Line> by_sku = 4;
  map<int64, bool> flags = 5;
  State state = 6;
  google.protobuf.Timestamp at = 7;
  oneof how { string card = 10; int32 cash = 11; }
  .shop.Order parent = 12;
  repeated sint32 numbers = 13;
};
message Other { uint64 big = 1; }
service Shop { rpc Get(Order) returns (Other) { option x = 1; } }
"""


def columns(**types: str) -> Schema:
    return Schema(tuple(Field(name, parse_hive_type(of)) for name, of in types.items()))


def of_text(schema: Schema, text: str = PROTO, message: str = "shop.Order") -> RowDecoder:
    return open_decoder(FormatChoice("protobuf", (("schema", text), ("message", message))), schema)


def of_set(schema: Schema, files: list[Any], message: str) -> RowDecoder:
    data = base64.b64encode(descriptor_set(files)).decode()
    options = (("descriptor_set", data), ("message", message))
    return open_decoder(FormatChoice("protobuf", options), schema)


def scalars(syntax: str) -> Any:
    file = file_of("all.proto", "t", syntax)
    message = file.message_type.add(name="All")
    for number, of in enumerate(TYPES, 1):
        add_field(message, f"f_{of}", number, of)
        add_field(message, f"r_{of}", number + 100, of, repeated=True)
    return file


HIVE = {
    "double": "double", "float": "float", "bool": "boolean", "string": "string", "bytes": "binary",
    "uint64": "decimal(20,0)", "fixed64": "decimal(20,0)",
}  # fmt: skip
VALUES: dict[str, tuple[Any, ...]] = {
    "double": (0.1, -1e300), "float": (0.5, -3.25), "bool": (True, True),
    "bytes": (b"\0\xff", b"a"),
    "string": ("北京", "x"), "int32": (-(2**31), 2**31 - 1), "sint32": (-(2**31), 2**31 - 1),
    "sfixed32": (-(2**31), 7), "uint32": (2**32 - 1, 1), "fixed32": (2**32 - 1, 1),
    "int64": (-(2**63), 2**63 - 1), "sint64": (-(2**63), 2**63 - 1), "sfixed64": (-(2**63), 5),
    "uint64": (2**64 - 1, 1), "fixed64": (2**64 - 1, 1),
}  # fmt: skip


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_every_scalar_comes_as_another_implementation_writes_it(syntax: str) -> None:
    file = scalars(syntax)
    make = message_class([file], "t.All")
    schema = columns(
        **{f"f_{of}": HIVE.get(of, "bigint") for of in TYPES},
        **{f"r_{of}": f"array<{HIVE.get(of, 'bigint')}>" for of in TYPES},
    )
    message = make()
    for of, values in VALUES.items():
        setattr(message, f"f_{of}", values[0])
        getattr(message, f"r_{of}").extend(values)
    decoded = of_set(schema, [file], "t.All").decode([message.SerializeToString()])
    assert decoded.dirty == ()
    (row,) = decoded.rows.to_pylist()
    for of, values in VALUES.items():
        assert row[f"f_{of}"] == values[0], of
        assert row[f"r_{of}"] == list(values), of


def test_what_is_not_set_is_null_with_presence_and_the_default_without() -> None:
    for syntax, wanted in (("proto2", None), ("proto3", 0)):
        file = scalars(syntax)
        schema = columns(f_int32="int", f_uint64="bigint", r_int32="array<int>")
        decoded = of_set(schema, [file], "t.All").decode([b"\x40\x01"])
        assert decoded.dirty == ()
        (row,) = decoded.rows.to_pylist()
        assert row == {"f_int32": wanted, "f_uint64": wanted, "r_int32": []}


def test_messages_maps_enums_oneofs_and_times_of_a_proto_text() -> None:
    schema = columns(
        id="bigint", note="string", lines="array<struct<sku:string,count:int>>",
        by_sku="map<string,struct<count:int>>", flags="map<bigint,boolean>", state="string",
        at="timestamp", card="string", cash="int", numbers="array<int>",
        parent="struct<id:bigint,state:string>",
    )  # fmt: skip
    line = b"\x0a\x01a\x10\x05"
    payload = (
        b"\x08\x07" + b"\x1a\x05" + line + b"\x22\x0a" + b"\x0a\x01k\x12\x05" + line
        + b"\x22\x03\x0a\x01e" + b"\x2a\x04\x08\x03\x10\x01" + b"\x30\x01"
        + b"\x3a\x05\x08\x02\x10\xf4\x03" + b"\x52\x01x" + b"\x58\x09" + b"\x62\x02\x08\x08"
        + b"\x6a\x02\x01\x02" + b"\x68\x03" + b"\xf8\x06\x01"
    )  # fmt: skip
    decoded = of_text(schema).decode([payload])
    assert [row.reason for row in decoded.dirty] == [Why.SCALE]
    payload = payload.replace(b"\x10\xf4\x03", b"\x10\xe8\x07")
    (row,) = of_text(schema).decode([payload]).rows.to_pylist()
    assert row["id"] == 7
    assert row["note"] is None
    assert row["lines"] == [{"sku": "a", "count": 5}]
    assert row["by_sku"] == [("k", {"count": 5}), ("e", {"count": 0})]
    assert row["flags"] == [(3, True)]
    assert row["state"] == "PAID"
    assert row["at"].isoformat() == "1970-01-01T00:00:02.000001"
    assert (row["card"], row["cash"]) == (None, 9)
    assert row["numbers"] == [-1, 1, -2]
    assert row["parent"] == {"id": 8, "state": "NEW"}


def test_message_that_comes_twice_is_put_together() -> None:
    schema = columns(parent="struct<id:bigint,note:string>")
    payload = b"\x62\x02\x08\x08" + b"\x62\x03\x12\x01a"
    (row,) = of_text(schema).decode([payload]).rows.to_pylist()
    assert row["parent"] == {"id": 8, "note": "a"}


def test_enum_number_without_a_name_is_told_where_a_name_is_wanted() -> None:
    decoder = of_text(columns(state="string"))
    decoded = decoder.decode([b"\x30\x07", b"\x30" + b"\xff" * 9 + b"\x01"])
    assert decoded.rows.to_pylist() == [{"state": "GONE"}]
    (dirty,) = decoded.dirty
    assert (dirty.reason, dirty.path) == (Why.WRONG_TYPE, "state")
    assert "the number '7'" in dirty.message


def test_number_beyond_the_column_overflows() -> None:
    decoder = of_text(columns(big="bigint"), message="shop.Other")
    decoded = decoder.decode([b"\x08" + b"\xff" * 9 + b"\x01", b"\x08" + b"\xff" * 8 + b"\x7f"])
    assert decoded.rows.to_pylist() == [{"big": 2**63 - 1}]
    assert (decoded.dirty[0].reason, decoded.dirty[0].path) == (Why.OVERFLOW, "big")


def test_wrappers_and_durations_are_values() -> None:
    file = file_of("w.proto", "t", "proto3")
    message = file.message_type.add(name="W")
    for number, of in enumerate(("Int64Value", "StringValue", "Duration"), 1):
        add_field(message, f"v{number}", number, f".google.protobuf.{of}")
    made = message_class([file], "t.W")()
    made.v1.value = 0
    made.v3.seconds, made.v3.nanos = -1, -500_000_000
    decoder = of_set(columns(v1="bigint", v2="string", v3="decimal(9,3)"), [file], "t.W")
    (row,) = decoder.decode([made.SerializeToString()]).rows.to_pylist()
    assert row == {"v1": 0, "v2": None, "v3": Decimal("-1.500")}
    bad = b"\x1a" + bytes([len(b"\x08\x01\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")])
    bad += b"\x08\x01\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    (dirty,) = decoder.decode([bad]).dirty
    assert (dirty.reason, dirty.path) == (Why.BAD_TIME, "v3")


BROKEN_CASES = [
    (b"\x08", Why.BROKEN, "in its middle", "id"),
    (b"\x08" + b"\xff" * 10 + b"\1", Why.BROKEN, "more than 64 bits", "id"),
    (b"\x08" + b"\xff" * 9 + b"\2", Why.BROKEN, "more than 64 bits", "id"),
    (b"\x00", Why.BROKEN, "tag at byte 0", ""),
    (b"\x0e\x00", Why.BROKEN, "tag at byte 0", ""),
    (b"\x12\x05ab", Why.BROKEN, "the length at byte 1 is 5", "note"),
    (b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f", Why.BROKEN, "bytes left", "note"),
    (b"\x1a\x02\x0a\x05", Why.BROKEN, "the length at byte 3 is 5", "lines.sku"),
    (b"\x1a\x06\x10\xff\xff\xff\xff\x7f", Why.BROKEN, "more than 32 bits", "lines.count"),
    (b"\x2a\x02\x10\x02", Why.BROKEN, "the boolean at byte 3 is 2", "flags.value"),
    (b"\x0a\x01a", Why.WRONG_TYPE, "the wire type is 2, of a int64 it is 0", "id"),
    (b"\xfb\x06\x08\x01", Why.BROKEN, "in its middle", ""),
    (b"\xfb\x06\x84\x07", Why.BROKEN, "the group", ""),
    (b"\xfc\x06", Why.BROKEN, "did not begin", ""),
    (b"\xfb\x06" * 5000, Why.TOO_DEEP, "deeper than 100", ""),
    (b"\x12\x01\xff", Why.ENCODING, "it is not UTF-8", "note"),
]


@pytest.mark.parametrize(
    ("payload", "reason", "told", "path"), BROKEN_CASES, ids=range(len(BROKEN_CASES))
)
def test_broken_payload_is_told(payload: bytes, reason: Why, told: str, path: str) -> None:
    (dirty,) = of_text(columns(id="bigint", note="string")).decode([payload]).dirty
    assert dirty.reason is reason, dirty
    assert told in dirty.message
    assert dirty.path == path


def test_nesting_has_an_end() -> None:
    payload = b""
    for _ in range(99):
        size = len(payload)
        head = bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80, size >> 7])
        payload = b"\x62" + head + payload
    size = len(payload)
    deeper = b"\x62" + bytes([size & 0x7F | 0x80, size >> 7]) + payload
    decoded = of_text(columns(id="bigint")).decode([payload, deeper])
    assert decoded.indices.to_pylist() == [0]
    assert decoded.dirty[0].reason is Why.TOO_DEEP


class Store:
    """A registry's schemas."""

    def __init__(self, **schemas: RegisteredSchema) -> None:
        self._schemas = {int(name[1:]): schema for name, schema in schemas.items()}

    def schemas(self, ids: Collection[int]) -> dict[int, RegisteredSchema | None]:
        return {number: self._schemas.get(number) for number in ids}

    @staticmethod
    def why_unknown(number: int) -> str:
        return f"the registry does not know the schema id {number}"


def test_messages_of_a_registry_are_found_by_id_and_indexes() -> None:
    imported = 'syntax = "proto3"; package base; message Money { int64 cents = 1; }'
    text = """
        syntax = "proto3"; import "money.proto"; import "google/protobuf/wrappers.proto";
        message A { int64 id = 1; map<string, int32> m = 2; message In { int64 id = 1; } }
        message B { base.Money money = 1; google.protobuf.Int32Value id = 2; }
    """
    references = (("money.proto", imported), ("google/protobuf/wrappers.proto", "?"))
    store = Store(
        n1=RegisteredSchema("PROTOBUF", text, references),
        n2=RegisteredSchema("AVRO", '"int"'),
        n3=RegisteredSchema("PROTOBUF", "message {"),
    )
    schema = Schema(
        (
            Field("id", parse_hive_type("bigint")),
            Field("cents", parse_hive_type("bigint"), path=("money", "cents")),
        )
    )
    decoder = ProtobufDecoder(
        schema,
        RegistryMessages(store),  # type: ignore[arg-type]
        skips_tombstones=False,
    )
    payloads = [
        confluent(1, b"\x00" + b"\x08\x05"),
        confluent(1, b"\x04\x00\x00" + b"\x08\x06"),
        confluent(1, b"\x02\x02" + b"\x0a\x02\x08\x63" + b"\x12\x02\x08\x07"),
        confluent(1, b"\x02\x04"),
        confluent(2, b"\x00"),
        confluent(3, b"\x00"),
        confluent(9, b"\x00"),
        confluent(1, b"\x01"),
        confluent(1, b""),
        b"\x01",
    ]
    decoded = decoder.decode(payloads)
    assert decoded.rows.to_pylist() == [
        {"id": 5, "cents": None},
        {"id": 6, "cents": None},
        {"id": 7, "cents": 99},
    ]
    unknown, bad = Why.UNKNOWN_SCHEMA, Why.BROKEN
    assert [row.reason for row in decoded.dirty] == [unknown] * 4 + [bad] * 3
    told = ["has no message [2]", "is AVRO", "cannot be read", "does not know"]
    assert all(text in row.message for text, row in zip(told, decoded.dirty, strict=False))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("message A { int64 id = 1", "line 1: Expected"),
        ("message A {\n Nowhere id = 1; }", 'line 2: "Nowhere" is not defined'),
        ("message A { int64 id = 1; int32 b = 1; }", "Field number 1 has already been used"),
        ("message A { int64 id = x; }", "Expected field number"),
        ("message A {} message A {}", '"A" is already defined'),
        ('edition = "1999"; message A {}', "1999"),
        ('syntax = "proto4";', "proto4"),
        ("message A { map<double, int32> m = 1; }", "Key in map fields cannot be"),
        ("message B {}", "no message A; there is: B"),
        ("\x00", "Invalid control characters"),
        ("message A { " * 500, "Reached maximum recursion limit"),
        ("message A { string a = 1; } // \ud800", "no text in UTF-8"),
    ],
    ids=range(12),
)
def test_schema_that_cannot_be_read_is_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        of_text(columns(id="bigint"), text, "A")


@pytest.mark.parametrize("data", ["!", "", "AAAA", "CgEK"])
def test_file_that_is_no_descriptor_set_is_refused(data: str) -> None:
    options = (("descriptor_set", data), ("message", "A"))
    with pytest.raises(ValueError, match=r"Base64|no descriptor set|is empty|no message"):
        open_decoder(FormatChoice("protobuf", options), columns(id="bigint"))


@pytest.mark.parametrize(
    "options",
    [
        (),
        (("schema", "message A {}"),),
        (("message", "A"),),
        (("registry.url", "http://h"), ("message", "A")),
    ],
    ids=range(4),
)  # fmt: skip
def test_options_that_say_no_message_are_refused(options: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(ValueError, match="needs a registry"):
        open_decoder(FormatChoice("protobuf", options), columns(id="bigint"))


def test_policy_holds_for_what_json_has_not() -> None:
    field = Field("at", parse_hive_type("string"), policy=Policy(on_lossy="text"))
    (row,) = of_text(Schema((field,))).decode([b"\x3a\x05\x08\x02\x10\xf4\x03"]).rows.to_pylist()
    assert row == {"at": "1970-01-01T00:00:02.0000005Z"}


def test_fields_that_no_column_reads_are_told_with_their_type() -> None:
    decoder = of_text(columns(id="bigint"))
    found = FewSamples(columns(id="bigint"), decoder.fields_of)
    # `id`, `note` and `cash`; one that is cut off.
    for payload in (b"\x08\x07\x12\x01a\x58\x05", b"\x08"):
        found.sample([payload], ())
    told = {each.name: each.type for each in found.fields()}
    assert (told["note"], told["cash"]) == ("string", "bigint")
    assert "id" not in told
    assert decoder.fields_of(b"\x08") == {}


@pytest.mark.parametrize(("number", "kind"), [(2**63 - 1, "bigint"), (2**64 - 1, "decimal(38,0)")])
def test_type_that_is_told_of_an_unread_number_takes_it(number: int, kind: str) -> None:
    found = FewSamples(columns(id="bigint"), lambda _: {"n": number})
    found.sample([b"x"], ())
    assert [each.type for each in found.fields()] == [kind]
