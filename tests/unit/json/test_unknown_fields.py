"""Fields that a column could be made for: where they are, and of which types."""

import json
from typing import Any

import pytest

from sluiceway.convert.infer_types import UntypedError, common_type, is_field_name, type_of
from sluiceway.convert.json_values import NonFiniteText, NumberText
from sluiceway.formats.json.decoder import Engine, JsonDecoder
from sluiceway.types.evolution import VALUE
from sluiceway.types.hive_types import format_hive_type, parse_hive_type
from sluiceway.types.schema import Field, Schema
from sluiceway.worker.field_samples import UnknownFields

_PARSER = json.JSONDecoder(
    parse_int=NumberText, parse_float=NumberText, parse_constant=NonFiniteText
)
SCHEMA = Schema(
    (
        Field("id", parse_hive_type("bigint")),
        Field("geo", parse_hive_type("struct<city:string>")),
        Field("items", parse_hive_type("array<struct<sku:string>>")),
        Field("shops", parse_hive_type("map<string,struct<n:int>>")),
        Field("city2", parse_hive_type("string"), path=("wrap", "city")),
        Field("deep", parse_hive_type("struct<a:int>"), path=("wrap", "deep")),
    )
)


def type_text(value: Any) -> str | None:
    found = type_of(_PARSER.decode(json.dumps(value)))
    return None if found is None else format_hive_type(found)


@pytest.mark.parametrize("engine", ["library", "exact"])
@pytest.mark.parametrize(
    ("payload", "places"),
    [
        ({"id": 1, "x": 2}, [("", ("x",))]),
        ({"x": None}, []),
        ({"geo": {"x": 1, "city": "a"}}, [("geo", ("x",))]),
        ({"items": [{"sku": "a"}, {"y": 1}, {"y": 2}]}, [("items", ("[]", "y"))] * 2),
        ({"shops": {"a": {"z": 2}}}, [("shops", ("{}", "z"))]),
        ({"wrap": {"city": "a", "other": 1}}, []),
        ({"wrap": {"deep": {"b": 1}}}, [("deep", ("b",))]),
        ({"ID": 1, "new": {"a": 1}}, [("", ("ID",)), ("", ("new",))]),
    ],
)
def test_field_is_found_where_a_column_reads_the_whole_object(
    engine: Engine, payload: dict[str, Any], places: list[tuple[str, tuple[str, ...]]]
) -> None:
    raw = json.dumps(payload).encode()
    found = UnknownFields(SCHEMA).of(JsonDecoder(SCHEMA).fields_of(raw))
    assert [(each.column, each.path) for each in found] == places
    decoded = JsonDecoder(SCHEMA, extra="evolve", engine=engine).decode([b'{"id":7}'] * 20 + [raw])
    assert [row.reason for row in decoded.dirty] == ["unexpected_field"] * bool(places)
    assert decoded.rows.num_rows == 21 - bool(places)


@pytest.mark.parametrize("payload", [b"", b"{", b"[1]", b"\xff", b'{"a":' * 200])
def test_payload_that_cannot_be_read_has_no_fields(payload: bytes) -> None:
    assert UnknownFields(SCHEMA).of(JsonDecoder(SCHEMA).fields_of(payload)) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "boolean"),
        (1, "bigint"),
        (2**63 - 1, "bigint"),
        (-(2**63), "bigint"),
        (2**63, "decimal(38,0)"),
        (1.5, "double"),
        ("2026-11-20", "string"),
        (None, None),
        ([], None),
        ({}, None),
        ([None], None),
        ([1, None, 2.5], "array<double>"),
        ({"a": 1, "b": None, "c": [{"d": "x"}, {"e": 1}]}, None),
    ],
)
def test_value_has_the_type_that_takes_it(value: Any, expected: str | None) -> None:
    if isinstance(value, dict) and value:
        expected = "struct<a:bigint,c:array<struct<d:string,e:bigint>>>"
    assert type_text(value) == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (10**38, "38 digits"),
        ([1, "a"], "numbers and strings"),
        ([[1], {"a": 1}], "arrays and objects"),
        ({"a b": 1}, "no name of a field"),
        ({"a": 1, "A": 2}, "two spellings"),
        ([{"a": 1}, {"A": 1}], "two spellings"),
        (float("nan"), "NaN"),
    ],
)
def test_value_that_no_column_has_is_refused_with_the_reason(value: Any, reason: str) -> None:
    with pytest.raises(UntypedError, match=reason):
        type_text(value)


def test_common_type_takes_all_values() -> None:
    found = [type_of(_PARSER.decode(text)) for text in ("1", "null", "9223372036854775808", "0.5")]
    made = common_type(found)
    assert made is not None
    assert format_hive_type(made) == "double"
    assert common_type([None, None]) is None
    with pytest.raises(UntypedError, match="numbers and strings"):
        common_type([*found, type_of("a")])


def test_names_of_columns_are_plain() -> None:
    assert [key for key in ("a", "_b1", "1a", "a-b", "ä", "", "a" * 129) if is_field_name(key)] == [
        "a",
        "_b1",
    ]


def test_a_field_in_a_value_of_a_map_is_there_however_the_map_is_written() -> None:
    fields = UnknownFields(SCHEMA)
    for text in ('{"shops":{"a":{"z":2}}}', '{"shops":[["a",{"z":2}]]}'):
        (found,) = fields.of(_PARSER.decode(text))
        assert (found.column, found.path) == ("shops", (VALUE, "z"))
