"""Columns that a JSON Schema says."""

import json
from typing import Any

import pytest

from sluiceway.formats.json.schema_columns import json_schema_columns
from sluiceway.formats.schema_columns import NoColumnsError, name_problems
from sluiceway.types.hive_types import format_hive_type

NULL = {"type": "null"}


def types(schema: Any, *others: tuple[str, str]) -> dict[str, str]:
    """Type of each column, or why it has none."""
    return {
        each.name: each.refused if each.type is None else format_hive_type(each.type)
        for each in json_schema_columns(json.dumps(schema), others)
    }


def one(node: Any, **more: Any) -> str:
    return types({"type": "object", "properties": {"x": node}, **more})["x"]


@pytest.mark.parametrize(
    ("node", "hive"),
    [
        ({"type": "boolean"}, "boolean"),
        ({"type": "integer"}, "bigint"),
        ({"type": "integer", "maximum": 2**63 - 1}, "bigint"),
        ({"type": "integer", "maximum": 2**64 - 1}, "decimal(38,0)"),
        ({"type": "integer", "connect.type": "int16"}, "smallint"),
        ({"type": "number"}, "double"),
        ({"type": "number", "connect.type": "float32"}, "float"),
        (
            {
                "type": "number",
                "title": "org.apache.kafka.connect.data.Decimal",
                "connect.type": "bytes",
                "connect.parameters": {"scale": "2"},
            },
            "decimal(38,2)",
        ),
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "email"}, "string"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"type": "string", "contentEncoding": "base64"}, "string"),
        ({"enum": ["a", "b", None]}, "string"),
        ({"const": "a"}, "string"),
        ({"type": ["null", "integer"]}, "bigint"),
        ({"oneOf": [NULL, {"type": "string"}]}, "string"),
        ({"anyOf": [{"type": "boolean"}, NULL]}, "boolean"),
        ({"allOf": [{"type": "integer"}]}, "bigint"),
        ({"type": "array", "items": {"type": ["integer", "null"]}}, "array<bigint>"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "map<string,string>"),
        (
            {
                "type": "object",
                "properties": {
                    "a": {"type": "string"},
                    "b": {"properties": {"c": {"type": "boolean"}}},
                },
            },
            "struct<a:string,b:struct<c:boolean>>",
        ),
    ],
)
def test_type_of_a_schema(node: Any, hive: str) -> None:
    assert one(node) == hive


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (True, "x: its schema takes any value, or none"),
        ({}, "x: its schema does not say a type"),
        (NULL, "x: it is never anything but null"),
        ({"type": ["integer", "string"]}, "x: 2 kinds of values"),
        (
            {"oneOf": [{"type": "integer"}, {"type": "string"}, NULL]},
            "x: 2 kinds of values by oneOf",
        ),
        ({"allOf": [{}, {}]}, "x: schemas that are put together by allOf are not read"),
        ({"enum": [1, "a"]}, "x: its schema does not say a type"),
        ({"type": "array"}, "x: an array whose items have no schema"),
        ({"type": "array", "items": [{"type": "string"}]}, "x: an array whose places have schemas"),
        (
            {"type": "array", "prefixItems": [], "items": {"type": "string"}},
            "x: an array whose places",
        ),
        (
            {"type": "array", "items": {"type": "array", "items": True}},
            "x[][]: its schema takes any",
        ),
        ({"type": "object"}, "x: an object whose schema names no properties"),
        ({"$ref": "#/$defs/nope"}, "x: its reference '#/$defs/nope' leads nowhere"),
        ({"$ref": "#"}, "x: its schema refers to itself"),
        (
            {"type": "object", "properties": {"a b": {"type": "string"}}},
            "x: its field 'a b' is no name of a column",
        ),
        (
            {"type": "number", "title": "org.apache.kafka.connect.data.Decimal"},
            "x: a decimal of Kafka Connect without a scale of a column",
        ),
    ],
)
def test_schema_without_a_type_is_refused_with_its_path(node: Any, why: str) -> None:
    assert why in one(node)


def test_references_lead_into_the_schema_and_to_others() -> None:
    defs = {"$defs": {"a/b": {"type": "string"}, "loop": {"$ref": "#/$defs/loop"}}}
    assert one({"$ref": "#/$defs/a~1b"}, **defs) == "string"
    assert "refers to itself" in one({"$ref": "#/$defs/loop"}, **defs)
    geo = {
        "$id": "https://shop.example/geo.json",
        "type": "object",
        "properties": {"lat": {"$ref": "#/definitions/degrees"}},
        "definitions": {"degrees": {"type": "number"}},
    }
    other = ("geo.json", json.dumps(geo))
    by_name = {"type": "object", "properties": {"at": {"$ref": "geo.json"}}}
    assert types(by_name, other) == {"at": "struct<lat:double>"}
    by_address = {"$id": "https://shop.example/order.json", **by_name}
    assert types(by_address, other) == {"at": "struct<lat:double>"}
    assert types({"$ref": "geo.json"}, other) == {"lat": "double"}


def test_what_may_be_decided_otherwise_is_noted() -> None:
    nodes = {
        "price": {"type": "number"},
        "at": {"type": "string", "format": "date-time"},
        "raw": {"type": "string", "contentEncoding": "base64"},
        "id": {"type": "integer"},
    }
    found = json_schema_columns(json.dumps({"type": "object", "properties": nodes}))
    assert [bool(each.notes) for each in found] == [True, True, True, False]


@pytest.mark.parametrize(
    "text", ["{", "true", "{}", '{"type":"string"}', '{"$ref":"#"}', '{"properties":{}}']
)
def test_schema_of_no_object_says_no_columns(text: str) -> None:
    with pytest.raises(NoColumnsError):
        json_schema_columns(text)


BASE = {"type": "object", "properties": {"y": {"type": "string"}}}


@pytest.mark.parametrize(
    ("beside", "words"),
    [
        ({"allOf": [BASE]}, "properties and allOf"),
        ({"anyOf": [{"$ref": "#/definitions/base"}]}, "properties and anyOf"),
        ({"oneOf": [BASE, NULL]}, "properties and oneOf"),
        ({"$ref": "#/definitions/base"}, r"properties and \$ref"),
        ({"if": {}, "then": BASE}, "properties and then"),
    ],
)
def test_no_property_is_left_out_that_stands_elsewhere(beside: Any, words: str) -> None:
    whole = {"type": "object", "properties": {"x": {"type": "string"}}}
    with pytest.raises(NoColumnsError, match=words):
        types({**whole, **beside, "definitions": {"base": BASE}})
    inner = types(
        {"properties": {"a": {**whole, **beside}}, "type": "object", "definitions": {"base": BASE}}
    )
    assert "which are not put together" in inner["a"]


def test_conditions_that_name_no_property_may_stand_beside_them() -> None:
    either = [{"required": ["x"]}, {"required": ["y"]}]
    assert one({"type": "string"}, oneOf=either) == "string"


@pytest.mark.parametrize("reference", ["http://[x#a", "//[x"])
def test_reference_that_is_no_address_leads_nowhere(reference: str) -> None:
    told = one({"$ref": reference}, **{"$id": "http://a/b"})
    assert told == f"x: its reference {reference!a} leads nowhere"
    assert "leads nowhere" in one({"$ref": "b"}, **{"$id": "http://[a"})


def test_scale_of_many_digits_is_refused() -> None:
    node = {
        "type": "number",
        "title": "org.apache.kafka.connect.data.Decimal",
        "connect.parameters": {"scale": "1" * 5000},
    }
    assert "without a scale" in one(node)


def test_references_in_a_row_have_a_bound() -> None:
    chain = {f"{n}": {"$ref": f"#/chain/{n + 1}"} for n in range(200)}
    end = {"200": {"type": "string"}}
    assert one({"$ref": "#/chain/150"}, chain=chain | end) == "string"
    assert "more than 100 references" in one({"$ref": "#/chain/0"}, chain=chain | end)


def test_many_names_are_compared_at_once() -> None:
    names = [f"a{n}" for n in range(200_000)]
    assert name_problems([*names, "A7"]).keys() == {"a7", "A7"}
