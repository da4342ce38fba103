"""Columns that a Protobuf message says."""

import pytest

from sluiceway.formats.protobuf.columns import message_columns, proto_columns
from sluiceway.formats.protobuf.proto_text import compile_proto
from sluiceway.formats.protobuf.schema import ProtobufSchemaError
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.formats.schema_columns import NoColumnsError
from sluiceway.types.hive_types import format_hive_type, parse_hive_type
from sluiceway.types.schema import Field, Schema
from tools import protobuf_bytes as pb

HEAD = 'syntax = "proto3"; package p;\n'


def types(body: str, message: str | None = "p.M", *imported: tuple[str, str]) -> dict[str, str]:
    """Type of each column, or why it has none."""
    return {
        each.name: each.refused if each.type is None else format_hive_type(each.type)
        for each in proto_columns(HEAD + body, message, imported)
    }


@pytest.mark.parametrize(
    ("of", "hive"),
    [
        ("bool", "boolean"),
        ("int32", "int"),
        ("sint32", "int"),
        ("sfixed32", "int"),
        ("uint32", "bigint"),
        ("fixed32", "bigint"),
        ("int64", "bigint"),
        ("sint64", "bigint"),
        ("sfixed64", "bigint"),
        ("uint64", "decimal(20,0)"),
        ("fixed64", "decimal(20,0)"),
        ("float", "float"),
        ("double", "double"),
        ("string", "string"),
        ("bytes", "binary"),
        ("E", "string"),
        ("optional int32", "int"),
        ("repeated uint64", "array<decimal(20,0)>"),
        ("map<string, I>", "map<string,struct<v:int>>"),
        ("map<int32, bytes>", "map<int,binary>"),
        ("map<uint32, bool>", "map<bigint,boolean>"),
        ("map<fixed64, bool>", "map<string,boolean>"),
        ("map<bool, E>", "map<string,string>"),
        ("repeated I", "array<struct<v:int>>"),
        ("google.protobuf.Timestamp", "timestamp"),
        ("google.protobuf.Duration", "decimal(28,9)"),
        ("google.protobuf.UInt64Value", "decimal(20,0)"),
        ("repeated google.protobuf.StringValue", "array<string>"),
        ("google.protobuf.Any", "struct<type_url:string,value:binary>"),
    ],
)
def test_type_holds_every_value(of: str, hive: str) -> None:
    body = f"message M {{ {of} x = 1; }} message I {{ int32 v = 1; }} enum E {{ A = 0; }}"
    assert types(body) == {"x": hive}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("message M { M x = 1; }", "x: the message p.M holds itself"),
        (
            "message M { N x = 1; } message N { repeated N y = 1; }",
            "x.y[]: the message p.N holds itself",
        ),
        (
            "message M { N x = 1; } message N {}",
            "x: it has no fields, and a struct has one at least",
        ),
        ("message M { google.protobuf.Struct x = 1; }", "holds itself"),
    ],
)
def test_field_that_no_type_holds_is_refused_with_its_path(body: str, why: str) -> None:
    assert why in types(body)["x"]


def test_group_is_a_struct() -> None:
    text = 'syntax = "proto2"; message M { repeated group X = 1 { optional int32 v = 1; } }'
    (column,) = proto_columns(text, None)
    assert (column.name, column.type) == ("x", parse_hive_type("array<struct<v:int>>"))


def test_message_has_to_be_named_where_there_are_several() -> None:
    body = "message A { int32 v = 1; } message B { int64 w = 1; }"
    with pytest.raises(NoColumnsError, match=r"declares 2 messages; name one: p\.A, p\.B"):
        types(body, None)
    assert types(body, "p.B") == {"w": "bigint"}
    assert types("message A { int32 v = 1; }", None) == {"v": "int"}
    with pytest.raises(NoColumnsError, match=r"no message p\.C"):
        types(body, "p.C")


def test_message_without_fields_says_no_columns() -> None:
    with pytest.raises(NoColumnsError, match="no fields"):
        types("message M {}")


def test_schemas_that_it_imports_are_put_together() -> None:
    geo = 'syntax = "proto3"; package g; message Geo { double lat = 1; }'
    body = 'import "geo.proto"; message M { g.Geo at = 1; }'
    assert types(body, None, ("geo.proto", geo)) == {"at": "struct<lat:double>"}


def test_message_of_a_schema_that_is_read_already() -> None:
    schema = compile_proto(HEAD + "message M { int32 v = 1; }")
    assert [each.name for each in message_columns(schema, "p.M")] == ["v"]
    with pytest.raises(ProtobufSchemaError):
        message_columns(schema, "p.N")


def test_greatest_numbers_come_through_unchanged_in_the_types_that_are_said() -> None:
    text = HEAD + "message M { uint64 u = 1; uint32 v = 2; google.protobuf.Duration d = 3; }"
    fields = [Field(each.name, each.type) for each in proto_columns(text, None) if each.type]
    seconds = pb.tagged(1, pb.VARINT, pb.varint(2**63 - 1)) + pb.tagged(
        2, pb.VARINT, pb.varint(999_999_999)
    )
    payload = (
        pb.tagged(1, pb.VARINT, pb.varint(2**64 - 1))
        + pb.tagged(2, pb.VARINT, pb.varint(2**32 - 1))
        + pb.tagged(3, pb.LENGTH, seconds)
    )
    choice = FormatChoice("protobuf", (("schema", text), ("message", "p.M")))
    found = open_decoder(choice, Schema(tuple(fields))).decode([payload])
    assert found.dirty == ()
    (row,) = found.rows.to_pylist()
    assert [str(row[name]) for name in ("u", "v", "d")] == [
        str(2**64 - 1),
        str(2**32 - 1),
        f"{2**63 - 1}.999999999",
    ]


def test_files_that_kafka_connect_imports_are_known_without_a_registry_telling_them() -> None:
    imports = """
    import "confluent/meta.proto";
    import "confluent/type/decimal.proto";
    import "google/type/date.proto";
    """
    body = "message M { int64 id = 1; confluent.type.Decimal price = 2; google.type.Date day = 3; }"
    wanted = {
        "id": "bigint",
        "price": "struct<value:binary,precision:bigint,scale:int>",
        "day": "struct<year:int,month:int,day:int>",
    }
    assert types(imports + body) == wanted
    told = ("confluent/type/decimal.proto", "syntax = 'proto3'; message Another { int32 n = 1; }")
    assert types(imports + body, "p.M", told) == wanted
