"""`.proto` texts as people and registries have them: what links, what it means, what is refused."""

import base64
from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest

from sluiceway.formats.protobuf.descriptor_set import read_descriptor_set, read_schema
from sluiceway.formats.protobuf.proto_text import compile_proto
from sluiceway.formats.protobuf.schema import MessageType, ProtobufSchema, ProtobufSchemaError
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field
from sluiceway.types.schema import Schema as Columns
from tools import protobuf_bytes as pb
from tools.protobuf_types import add_field, descriptor_set, file_of

HEAD = 'syntax = "proto3"; package p; '


def fields(schema: ProtobufSchema, name: str = "p.M") -> dict[str, str]:
    found = {}
    for each in schema.message(name).fields:
        of = each.of.name if isinstance(each.of, MessageType) else ""
        found[each.name] = ("repeated " if each.repeated else "") + (of or each.kind)
    return found


def linked(body: str, *imported: tuple[str, str]) -> dict[str, str]:
    return fields(compile_proto(HEAD + body, imported))


def row(text: str, payload: bytes, **columns: str) -> dict[str, object]:
    schema = Columns(tuple(Field(name, parse_hive_type(of)) for name, of in columns.items()))
    choice = FormatChoice("protobuf", (("schema", text), ("message", "p.M")))
    decoded = open_decoder(choice, schema).decode([payload])
    assert decoded.dirty == ()
    (found,) = decoded.rows.to_pylist()
    return dict(found)


OPTIONS = {
    "field": "message M { int32 a = 1 [(v.field).int32 = {gt: 0, in: [1, 2]}]; }",
    "several": "message M { int32 a = 1 [deprecated = true, (v.x) = 'a]b', json_name = 'z', "
    "(v.y) = 1]; }",
    "message": "message M { option (v.message) = { a { b: [1] } c: '}' }; int32 a = 1; }",
    "file": 'option (v.file) = "x"; option (v.all).a.b = true; message M { int32 a = 1; }',
    "oneof": "message M { oneof o { option (v.oneof) = {a: 1}; int32 a = 1; } }",
    "enum": "enum E { option (v.e) = 1; Z = 0 [(v.v) = {}]; } message M { int32 a = 1; }",
    "range": "message M { int32 a = 1; reserved 5 to 9, 11; reserved 'x', 'y'; }",
    "language": "option features.(pb.go).api_level = API_OPAQUE; message M { int32 a = 1; }",
    "extend": "extend google.protobuf.FieldOptions { v.Rule rule = 50001; } "
    "message M { int32 a = 1; }",
    "extend inside": "message M { extend v.Other { optional int32 z = 100; } int32 a = 1; }",
    "service": "message M { int32 a = 1; } service S { rpc G(v.In) returns (stream v.Out) "
    "{ option (http) = { get: '/v1/{a=b/*}' }; }; };",
}


@pytest.mark.parametrize("body", OPTIONS.values(), ids=OPTIONS)
def test_options_and_services_need_no_file_of_theirs(body: str) -> None:
    assert linked('import "buf/validate/validate.proto";\n' + body) == {"a": "int32"}


def test_lines_of_a_fault_are_those_of_the_text() -> None:
    text = HEAD + '\nimport "v.proto";\noption (v.a) = {\n  b: 1\n};\nmessage M {\n  Nil a = 1;\n}'
    told = r'^line 7: "Nil" is not defined\. It imports v\.proto, which is not given$'
    with pytest.raises(ProtobufSchemaError, match=told):
        compile_proto(text)
    with pytest.raises(ProtobufSchemaError, match=r'^line 2: in a/b\.proto: "Nil" is not defined'):
        compile_proto(HEAD + 'import "a/b.proto"; message M { N n = 1; }', [
            ("a/b.proto", 'syntax = "proto3";\nmessage N { Nil a = 1; }'),
        ])  # fmt: skip


def test_names_of_fields_may_be_words_of_the_language() -> None:
    words = (
        "message", "enum", "service", "extend", "option", "import", "package", "syntax", "rpc",
        "edition", "reserved", "extensions", "group", "stream", "returns", "to", "max", "public",
    )  # fmt: skip
    body = "".join(f"int32 {word} = {number}; " for number, word in enumerate(words, 1))
    assert linked(f"message M {{ {body} }}") == dict.fromkeys(words, "int32")


def test_types_that_serializers_bundle_need_no_reference() -> None:
    assert linked(
        'import "google/type/money.proto"; import "google/type/datetime.proto";'
        'import "google/type/latlng.proto"; import "confluent/type/decimal.proto";'
        'import "google/rpc/status.proto"; import "google/protobuf/api.proto";'
        'import "google/protobuf/descriptor.proto"; import "google/api/annotations.proto";'
        "message M { google.type.Money a = 1; google.type.DateTime b = 2; google.type.LatLng c = 3;"
        "confluent.type.Decimal d = 4; google.rpc.Status e = 5; google.protobuf.Api f = 6;"
        "google.protobuf.FieldDescriptorProto g = 7; google.protobuf.ListValue h = 8;"
        "google.protobuf.Type i = 9; repeated google.protobuf.Any j = 10; }",
    ) == {
        "a": "google.type.Money", "b": "google.type.DateTime", "c": "google.type.LatLng",
        "d": "confluent.type.Decimal", "e": "google.rpc.Status", "f": "google.protobuf.Api",
        "g": "google.protobuf.FieldDescriptorProto", "h": "google.protobuf.ListValue",
        "i": "google.protobuf.Type", "j": "repeated google.protobuf.Any",
    }  # fmt: skip


def test_entries_of_maps_are_told_apart_by_the_names_of_their_fields() -> None:
    body = (
        "message M { map<string, int32> itemIds = 1; map<string, string> itemids = 2; "
        "map<int32, N> item_iDs = 3; message N { int32 v = 1; } }"
    )
    payload = b"".join(
        pb.tagged(number, 2, entry)
        for number, entry in ((1, b"\x0a\x01a\x10\x05"), (2, b"\x0a\x01b\x12\x01c"))
    )
    columns = {"itemIds": "map<string,int>", "itemids2": "map<string,string>"}
    schema = Columns((
        Field("itemIds", parse_hive_type(columns["itemIds"])),
        Field("other", parse_hive_type(columns["itemids2"]), path=("itemids",)),
    ))  # fmt: skip
    choice = FormatChoice("protobuf", (("schema", HEAD + body), ("message", "p.M")))
    decoded = open_decoder(choice, schema).decode([payload])
    assert decoded.rows.to_pylist() == [{"itemIds": [("a", 5)], "other": [("b", "c")]}]


def test_names_that_only_json_would_take_for_one() -> None:
    assert linked("message M { int32 item_id = 1; int32 itemId = 2; }") == {
        "item_id": "int32", "itemId": "int32",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + HEAD + "message M { int32 a = 1; }",
        'syntax = "proto3"; package p . q; message M { .p . q . N a = 1; message O {} } '
        "message N {}",
        "package p; message M { int32 a = 1; }",
        "// nothing before\nmessage M { optional int32 a = 1; }",
        'import "v.proto"; import "v.proto"; message M { optional int32 a = 1; }',
    ],
    ids=range(5),
)
def test_spellings_that_registries_take(text: str) -> None:
    message = compile_proto(text).top[0]
    assert [one.name for one in message.fields] == ["a"]


def test_versions_of_one_import_are_put_together() -> None:
    old = ("c.proto", HEAD + "message C { int32 a = 1; E e = 2; } enum E { Z = 0; }")
    new = ("c.proto", HEAD + "message C { int32 a = 1; E e = 2; string b = 3; } enum E {Z=0;Y=1;}")
    user = ("a.proto", HEAD + 'import "c.proto"; message A { C c = 1; }')
    text = HEAD + 'import "a.proto"; import "c.proto"; message M { A a = 1; C c = 2; }'
    for order in ((old, user, new), (new, old, user)):
        schema = compile_proto(text, order)
        (made,) = schema.top
        (held,) = [each.of for each in made.fields if each.name == "c"]
        assert isinstance(held, MessageType)
        assert {each.name for each in held.fields} == {"a", "e", "b"}
    other = ("c.proto", HEAD + "message C { sint32 a = 1; }")
    with pytest.raises(ProtobufSchemaError, match=r"two versions .* about the field 1 of p\.C"):
        compile_proto(text, (old, user, other))
    lacks = ("c.proto", HEAD + "message C { int32 a = 1; }")
    needs = ("a.proto", HEAD + 'import "c.proto"; message A { E e = 1; }')
    assert [each.name for each in compile_proto(text, (old, needs, lacks)).top] == ["p.M"]


def test_one_file_by_two_names_and_names_that_no_import_says() -> None:
    common = HEAD + "message C { int32 a = 1; }"
    text = HEAD + 'import "./c.proto"; import "x/a.proto"; message M { C c = 1; A a = 2; }'
    user = HEAD + 'import "c.proto"; message A { C c = 1; }'
    given = (("c.proto", common), ("./c.proto", common), ("a-value", user))
    assert fields(compile_proto(text, given)) == {"c": "p.C", "a": "p.A"}
    assert linked(
        'import "../../etc/x.proto"; message M { int32 a = 1; }', ("../../etc/x.proto", common)
    )


def test_groups_and_editions_are_read() -> None:
    group = (
        "package p; message M { optional group Part = 1 { optional int32 v = 1; "
        "optional group In = 2 { optional int32 w = 3; } } repeated int32 n = 4; "
        "message X {} }"
    )
    payload = b"\x0b\x08\x05\x13\x18\x07\x14\x0c\x20\x09"
    columns = {"part": "struct<v:int,in:struct<w:int>>", "n": "array<int>"}
    wanted = {"part": {"v": 5, "in": {"w": 7}}, "n": [9]}
    assert row(group, payload, **columns) == wanted
    edition = (
        'edition = "2023"; package p; message M { Part part = 1 '
        "[features.message_encoding = DELIMITED]; repeated int32 n = 4; message Part { int32 v = 1;"
        " In in = 2 [features.message_encoding = DELIMITED]; message In { int32 w = 3; } } }"
    )
    assert row(edition, payload, **columns) == wanted
    schema = compile_proto(
        edition.replace("int32 v = 1;", "int32 v = 1 [features.field_presence = IMPLICIT];")
    )
    (part,) = [each.of for each in schema.message("p.M").fields if each.name == "part"]
    assert isinstance(part, MessageType)
    assert {each.name: each.has_presence for each in part.fields} == {"v": False, "in": True}
    indexed = compile_proto(group).at((0, 0))
    assert indexed is not None
    assert indexed.name == "p.M.X"


def test_text_without_labels_is_read_as_proto2_would_be() -> None:
    assert row(
        "package p; message M { int32 v = 1; string s = 2; }", b"\x08\x05", v="int", s="string"
    ) == {"v": 5, "s": None}


def test_descriptor_set_needs_not_the_types_of_options() -> None:
    file = file_of("m.proto", "p", "proto3")
    file.dependency[:] = [
        "buf/validate/validate.proto",
        "google/protobuf/duration.proto",
        "u.proto",
    ]
    message = file.message_type.add(name="M")
    for number, of in ((1, ".google.protobuf.Duration"), (2, ".p.U")):
        add_field(message, f"f{number}", number, "message").type_name = of
    extended = file.extension.add(name="x", number=50001, extendee=".google.protobuf.FieldOptions")
    extended.type, extended.type_name, extended.label = 11, ".v.Rule", 1
    used = file_of("u.proto", "p", "proto3")
    used.message_type.add(name="U")
    data = descriptor_set([file, used])
    assert fields(read_descriptor_set(data)) == {"f1": "google.protobuf.Duration", "f2": "p.U"}
    options = (("descriptor_set", base64.b64encode(data).decode()), ("message", "p.M"))
    schema = Columns((Field("f1", parse_hive_type("decimal(28,9)")),))
    decoded = open_decoder(FormatChoice("protobuf", options), schema).decode([b"\x0a\x02\x08\x05"])
    assert decoded.rows.to_pylist() == [{"f1": Decimal(5)}]


def test_files_of_a_set_come_in_any_order_and_the_last_one_is_the_schema() -> None:
    def using(name: str, *others: str) -> Any:
        file = file_of(f"{name}.proto", "p", "proto3")
        file.dependency[:] = [f"{other}.proto" for other in others]
        message = file.message_type.add(name=name.upper())
        for number, other in enumerate(others, 1):
            add_field(message, other, number, f".p.{other.upper()}")
        return file

    files = [using("a", "b", "c", "d"), using("d", "b", "c"), using("b", "c"), using("c")]
    for order in permutations(files):
        schema = read_descriptor_set(descriptor_set(order))
        assert [one.name for one in schema.top] == [f"p.{order[-1].name[0].upper()}"]
        assert fields(schema, "p.D") == {"b": "p.B", "c": "p.C"}
    with pytest.raises(ProtobufSchemaError, match=r"the file a\.proto imports itself"):
        read_descriptor_set(descriptor_set([using("a", "b"), using("b", "a")]))


def test_descriptors_in_base64_are_schemas_as_python_registers_them() -> None:
    used = file_of("u", "p", "proto3")
    used.message_type.add(name="U")
    file = file_of("root", "p", "proto3")
    file.dependency.append("x/u.proto")
    add_field(file.message_type.add(name="M"), "u", 1, ".p.U")
    text, other = (base64.b64encode(each.SerializeToString()).decode() for each in (file, used))
    schema = read_schema(text, [("x/u.proto", other)])
    assert fields(schema) == {"u": "p.U"}
    assert [one.name for one in schema.top] == ["p.M"]
    with pytest.raises(ProtobufSchemaError, match=r"and x/u\.proto, which it imports, is a text"):
        read_schema(text, [("x/u.proto", HEAD + "message U {}")])
    assert fields(read_schema(HEAD + "message M { int32 a = 1; }")) == {"a": "int32"}
    assert read_schema("").top == ()


def test_messages_that_hold_each_other_too_deep_are_refused() -> None:
    body = "".join(f"message M{n} {{ M{n + 1} m = 1; }} " for n in range(2000))
    options = (("schema", HEAD + body + "message M2000 {}"), ("message", "p.M0"))
    with pytest.raises(ValueError, match="too many levels deep"):
        open_decoder(
            FormatChoice("protobuf", options), Columns((Field("m", parse_hive_type("int")),))
        )
