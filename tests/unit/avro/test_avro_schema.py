"""Avro schemas, held against another implementation."""

import json
from typing import Any

import fastavro.schema
import pytest

from sluiceway.formats.avro.schema import (
    AvroRecord,
    AvroSchemaError,
    Enum,
    Fixed,
    Logical,
    Primitive,
    canonical_form,
    fingerprint,
    parse_schema,
)

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop.v1",
    "doc": "An order.",
    "fields": [
        {"name": "id", "type": "long", "default": 0},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9}},
        {"name": "colour", "type": {"type": "enum", "name": "Colour", "symbols": ["R", "G"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "other.Md5", "size": 16}},
        {"name": "again", "type": ["null", "Colour", "other.Md5"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": {"type": "string"}}},
        {"name": "by", "type": {"type": "map", "values": "double"}},
        {"name": "parent", "type": ["null", "Order"], "aliases": ["p"]},
        {
            "name": "inner",
            "type": {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]},
        },
    ],
}
SCHEMAS: tuple[Any, ...] = (
    ORDER,
    "int",
    {"type": "string"},
    ["null", "long"],
    {"type": "array", "items": "bytes"},
)


_A = '{"name":"a","type":"int"}'
_F = '{"type":"fixed","name":"F","size":1}'


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
def test_canonical_form_and_fingerprint_are_those_of_another_implementation(schema: Any) -> None:
    text, wanted = json.dumps(schema), fastavro.schema.to_parsing_canonical_form(schema)
    assert canonical_form(text) == wanted
    theirs = fastavro.schema.fingerprint(wanted, "CRC-64-AVRO")
    assert fingerprint(text).to_bytes(8, "little").hex() == theirs


def test_record_holds_itself_and_named_types_again() -> None:
    found = parse_schema(json.dumps(ORDER))
    assert isinstance(found, AvroRecord)
    fields = dict(found.fields)
    assert found.name == "shop.v1.Order"
    assert fields["parent"].branches[1] is found  # type: ignore[union-attr]
    assert fields["again"].branches[2] is fields["hash"]  # type: ignore[union-attr]


def test_types_of_other_schemas_are_known_by_their_names() -> None:
    inner = '{"type":"record","name":"a.Inner","fields":[{"name":"x","type":"int"}]}'
    outer = '{"type":"record","name":"a.Outer","fields":[{"name":"i","type":"Inner"}]}'
    found = parse_schema(outer, [inner])
    assert isinstance(found, AvroRecord)
    assert isinstance(dict(found.fields)["i"], AvroRecord)


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"type": "int", "logicalType": "date"}, Primitive("int", Logical("date"))),
        ({"type": "long", "logicalType": "date"}, Primitive("long")),
        ({"type": "int", "logicalType": "timestamp-millis"}, Primitive("int")),
        ({"type": "bytes", "logicalType": "decimal", "precision": 0}, Primitive("bytes")),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3},
            Primitive("bytes"),
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": True}, Primitive("bytes")),
        ({"type": "string", "logicalType": "house-number"}, Primitive("string")),
        ({"type": "fixed", "name": "U", "size": 15, "logicalType": "uuid"}, Fixed(15)),
        ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, Fixed(12)),
    ],
    ids=str,
)
def test_logical_type_that_is_not_valid_is_ignored(schema: Any, wanted: object) -> None:
    assert parse_schema(json.dumps(schema)) == wanted


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not JSON"),
        ("7", "text, a list or an object"),
        ('"nonsense"', "nonsense is not known"),
        ('{"type":"record","fields":[]}', "no name"),
        ('{"type":"record","name":"R"}', "no `fields`"),
        ('{"type":"record","name":"R","fields":{}}', "no list"),
        ('{"type":"record","name":"R","fields":[{"type":"int"}]}', "has no name"),
        (f'{{"type":"record","name":"R","fields":[{_A},{_A}]}}', "one name"),
        ('{"type":"enum","name":"E","symbols":[1]}', "list of texts"),
        ('{"type":"fixed","name":"F","size":-1}', "no whole number"),
        ('{"type":"fixed","name":"F","size":true}', "no whole number"),
        ('{"type":"array"}', "no `items`"),
        ('[["int"]]', "a union stands directly in a union"),
        (f"[{_F},{_F.replace('1', '2')}]", "defined twice"),
        ("[" * 100_000, "not JSON|too deep"),
        ('{"type":"array","items":' * 200 + '"int"' + "}" * 200, "too deep"),
    ],
    ids=range(16),
)  # fmt: skip
def test_text_that_is_no_schema_is_refused(text: str, told: str) -> None:
    with pytest.raises(AvroSchemaError, match=told):
        parse_schema(text)


_COLOR = '{"type":"enum","name":"x.Color","symbols":["RED","BLUE"]}'


def _record(name: str, *fields: tuple[str, str]) -> str:
    held = ",".join(f'{{"name":"{field}","type":{of}}}' for field, of in fields)
    return f'{{"type":"record","name":"x.{name}","fields":[{held}]}}'


def test_type_that_two_references_embed_alike_is_one() -> None:
    inner = _record("Inner", ("color", _COLOR))
    first, second = _record("A", ("c", _COLOR), ("i", inner)), _record("B", ("i", inner))
    text = _record("R", ("a", '"x.A"'), ("b", '"x.B"'), ("c", '"x.Color"'))
    found = parse_schema(text, [first, second])
    assert isinstance(found, AvroRecord)
    (_, a), (_, b), (_, color) = found.fields
    assert isinstance(a, AvroRecord)
    assert isinstance(b, AvroRecord)
    assert a.fields[1][1] is b.fields[0][1]
    assert color == Enum(("RED", "BLUE"))
    # A schema that embeds what it refers to, or refers to itself by two names, is the same.
    assert isinstance(parse_schema(_record("R", ("a", first)), [first, first]), AvroRecord)


@pytest.mark.parametrize(
    "other",
    [
        '{"type":"enum","name":"x.Color","symbols":["BLUE","RED"]}',
        '{"type":"fixed","name":"x.Color","size":1}',
        '{"type":"record","name":"x.Color","fields":[]}',
    ],
)
def test_type_that_two_references_embed_otherwise_is_refused(other: str) -> None:
    told = r"the type x\.Color is defined twice, and not alike"
    with pytest.raises(AvroSchemaError, match=told):
        parse_schema('"x.A"', [_record("A", ("c", _COLOR)), _record("B", ("c", other))])


def test_byte_order_mark_before_a_schema_is_passed_over() -> None:
    assert parse_schema("\ufeff" + _COLOR) == Enum(("RED", "BLUE"))
    assert parse_schema('\ufeff"long"') == Primitive("long")


def test_decimals_of_kafka_connect_have_scales_that_avro_has_not() -> None:
    def logical(**more: object) -> Logical | None:
        found = parse_schema(json.dumps({"type": "bytes", **more}))
        assert isinstance(found, Primitive)
        return found.logical

    name = {"connect.name": "org.apache.kafka.connect.data.Decimal"}
    told = {**name, "logicalType": "decimal", "scale": 127, "precision": 64}
    assert logical(**told) == Logical("decimal", 127, 127)
    assert logical(**name, scale=-3, precision=38) == Logical("decimal", -3, 38)
    old = {"connect.parameters": {"scale": "4", "connect.decimal.precision": "9"}}
    assert logical(**name, **old) == Logical("decimal", 4, 64)
    assert logical(**name) is None
    assert logical(**name, scale="x") is None
    assert logical(logicalType="decimal", scale=127, precision=64) is None
    assert logical(logicalType="big-decimal") == Logical("big-decimal")
