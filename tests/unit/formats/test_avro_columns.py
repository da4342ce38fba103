"""Columns that an Avro schema says."""

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from sluiceway.formats.avro.columns import avro_columns
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.formats.schema_columns import MAX_DEPTH, MOST_FIELDS, NoColumnsError
from sluiceway.types.hive_types import format_hive_type
from sluiceway.types.schema import Field, Schema


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    shown = [{"name": field, "type": of} for field, of in fields]
    return {"type": "record", "name": name, "fields": shown}


def logical(of: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": of, "logicalType": kind, **more}


def types(schema: Any, *referenced: str) -> dict[str, str]:
    """Type of each column, or why it has none."""
    columns = avro_columns(json.dumps(schema), referenced)
    return {
        each.name: each.refused if each.type is None else format_hive_type(each.type)
        for each in columns
    }


@pytest.mark.parametrize(
    ("of", "hive"),
    [
        ("boolean", "boolean"),
        ("int", "int"),
        ("long", "bigint"),
        ("float", "float"),
        ("double", "double"),
        ("string", "string"),
        ("bytes", "binary"),
        ({"type": "fixed", "name": "F", "size": 3}, "binary"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        (logical("string", "uuid"), "string"),
        (logical("bytes", "decimal", precision=38, scale=38), "decimal(38,38)"),
        (logical("fixed", "decimal", name="D", size=16, precision=9), "decimal(9,0)"),
        (logical("int", "date"), "date"),
        (logical("long", "timestamp-millis"), "timestamp"),
        (logical("long", "timestamp-micros"), "timestamp"),
        (logical("long", "timestamp-nanos"), "timestamp"),
        # A logical type that is not allowed where it stands is ignored, as for payloads.
        (logical("long", "date"), "bigint"),
        (logical("bytes", "decimal", precision=2, scale=3), "binary"),
        (["null", "long"], "bigint"),
        (["string", "null"], "string"),
        (["long"], "bigint"),
        (["null", "int", "long"], "bigint"),
        (["string", {"type": "enum", "name": "E", "symbols": ["A"]}], "string"),
        ({"type": "array", "items": ["null", "int"]}, "array<int>"),
        ({"type": "map", "values": "bytes"}, "map<string,binary>"),
        (
            record(
                ("a", "int"),
                ("b", {"type": "array", "items": record(("c", "string"), name="I")}),
                name="S",
            ),
            "struct<a:int,b:array<struct<c:string>>>",
        ),
    ],
)
def test_type_holds_every_value(of: Any, hive: str) -> None:
    assert types(record(("x", of))) == {"x": hive}


@pytest.mark.parametrize(
    ("of", "why", "as_text"),
    [
        ("null", "x: it is never anything but null", False),
        (["null"], "x: it is never anything but null", False),
        (["int", "string"], "x: a union of 2 kinds of values", True),
        (["null", "float", "double"], "x: a union of 2 kinds of values", True),
        (
            logical("bytes", "decimal", precision=39, scale=2),
            "x: a decimal of 39 digits; a column has 38",
            True,
        ),
        (logical("int", "time-millis"), "x: a time of day, and Hive has no such type", True),
        (
            logical("long", "local-timestamp-micros"),
            "x: a local time, and the schema does not say of which zone",
            True,
        ),
        (record(name="S"), "x: it has no fields, and a struct has one at least", True),
        (
            record(("k", {"type": "map", "values": {"type": "array", "items": "null"}}), name="S"),
            "x.k{}[]: it is never anything but null",
            False,
        ),
        (
            record(("up", ["null", "S"]), name="S"),
            "x.up: the record S holds itself",
            True,
        ),
        (
            record(("a", "int"), ("A", "int"), name="S"),
            "x: its field 'a' differs from another in case only, which Hive does not see",
            True,
        ),
    ],
)
def test_field_that_no_type_holds_is_refused_with_its_path(
    of: Any, why: str, as_text: object
) -> None:
    (column,) = avro_columns(json.dumps(record(("x", of))))
    assert (column.type, column.refused, column.as_text) == (None, why, as_text)


def test_names_that_no_column_can_have_are_refused_and_the_others_stay() -> None:
    of = record(("id", "int"), ("Id", "int"), ("été", "int"), ("ok", "int"))
    # They keep their types: a job file may give them other names.
    assert types(of) == dict.fromkeys(("id", "Id", "été", "ok"), "int")
    found = {each.name: each.misnamed for each in avro_columns(json.dumps(of))}
    assert found["ok"] == ""
    assert "in case only" in found["id"]
    assert "in case only" in found["Id"]
    assert found["été"] == "its name is no name of a column"


def test_record_that_holds_itself_through_a_union_at_the_top_is_refused() -> None:
    assert "holds itself" in types(record(("next", ["null", "R"]), ("id", "int")))["next"]


def test_type_that_is_used_twice_side_by_side_is_no_record_that_holds_itself() -> None:
    found = types(record(("a", record(("v", "int"), name="P")), ("b", "P")))
    assert found == {"a": "struct<v:int>", "b": "struct<v:int>"}


def test_schema_that_doubles_at_each_level_is_refused_before_it_fills_the_memory() -> None:
    of: Any = "int"
    for level in range(MAX_DEPTH - 2):
        of = record(("l", of), ("r", "int" if of == "int" else f"N{level - 1}"), name=f"N{level}")
    assert f"more than {MOST_FIELDS:,} fields" in types(record(("x", of)))["x"]


def test_column_that_is_nested_too_deep_is_refused() -> None:
    of: Any = "int"
    for _ in range(MAX_DEPTH):
        of = {"type": "array", "items": of}
    assert f"deeper than {MAX_DEPTH} levels" in types(record(("x", of)))["x"]


def test_finer_times_are_noted() -> None:
    schema = record(("x", record(("at", logical("long", "timestamp-nanos")), name="S")))
    (column,) = avro_columns(json.dumps(schema))
    assert column.notes == ("x.at: an instant finer than a microsecond is dirty, or by `on_lossy`",)


def test_schemas_that_it_refers_to_are_put_together() -> None:
    geo = json.dumps({**record(("lat", "double"), name="Geo"), "namespace": "shop"})
    assert types(record(("at", "shop.Geo")), geo) == {"at": "struct<lat:double>"}


@pytest.mark.parametrize("text", ['"int"', "{", '{"type":"array","items":"int"}', '["null","int"]'])
def test_schema_of_no_record_says_no_columns(text: str) -> None:
    with pytest.raises(NoColumnsError):
        avro_columns(text)


def test_extremes_of_every_kind_come_through_unchanged_in_the_types_that_are_said() -> None:
    """Another implementation writes them; the columns are the schema's own."""
    schema = record(
        ("i", "int"), ("l", "long"), ("f", "float"), ("d", "double"), ("s", "string"),
        ("b", "bytes"),
        ("t", "boolean"), ("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
        ("m", logical("bytes", "decimal", precision=38, scale=9)), ("day", logical("int", "date")),
        ("ts", logical("long", "timestamp-micros")), ("ms", logical("long", "timestamp-millis")),
        ("u", ["null", "int", "long"]), ("a", {"type": "array", "items": ["null", "long"]}),
        ("r", {"type": "map", "values": record(("x", ["null", "string"]), name="S")}),
    )  # fmt: skip
    big = Decimal("9" * 29 + "." + "9" * 9)
    rows: list[dict[str, Any]] = [
        {
            "i": -(2**31), "l": -(2**63), "f": 1.5, "d": 5e-324, "s": "", "b": b"\0\xff", "t": True,
            "e": "A", "m": big.copy_negate(),
            "day": date(1, 1, 1), "ts": datetime(1, 1, 1, tzinfo=UTC),
            "ms": datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC), "u": 2**63 - 1,
            "a": [None, 2**63 - 1], "r": {"北": {"x": None}},
        },
        {
            "i": 2**31 - 1, "l": 2**63 - 1, "f": -0.0, "d": 1.7976931348623157e308,
            "s": "\U0001f600",
            "b": b"", "t": False, "e": "B", "m": big, "day": date(9999, 12, 31),
            "ts": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            "ms": datetime(2026, 11, 20, tzinfo=UTC), "u": None, "a": [], "r": {},
        },
    ]  # fmt: skip
    columns = avro_columns(json.dumps(schema))
    fields = [Field(each.name, each.type) for each in columns if each.type is not None]
    assert len(fields) == len(columns)
    parsed = fastavro.parse_schema(schema)
    payloads = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        payloads.append(out.getvalue())
    choice = FormatChoice("avro", (("schema", json.dumps(schema)),))
    found = open_decoder(choice, Schema(tuple(fields))).decode(payloads)
    assert found.dirty == ()
    wanted = [
        {**row, "ts": row["ts"].replace(tzinfo=None), "ms": row["ms"].replace(tzinfo=None),
         "r": list(row["r"].items())}
        for row in rows
    ]  # fmt: skip
    assert found.rows.to_pylist() == wanted


def test_decimals_that_no_column_has_are_refused_and_those_with_zeros_behind_them_are_not() -> None:
    def connect(scale: int, precision: int) -> dict[str, Any]:
        told = {"connect.name": "org.apache.kafka.connect.data.Decimal", "scale": scale}
        return {"type": "bytes", "logicalType": "decimal", "precision": precision, **told}

    assert types(record(("d", connect(-3, 20)))) == {"d": "decimal(23,0)"}
    schema = record(("a", connect(127, 64)), ("b", logical("bytes", "big-decimal")))
    found = avro_columns(json.dumps(schema))
    assert [each.refused for each in found] == [
        "a: a decimal of 127 digits; a column has 38",
        "b: a decimal of any scale: say decimal(p,s) or string",
    ]
    assert all(each.as_text for each in found)
