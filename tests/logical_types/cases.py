"""The types: each with a value as a connector has it, and what that means."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE = "io.debezium.data.VariableScaleDecimal"
AT = datetime(2025, 11, 20, 10, 0, 0, 123456, UTC)
AT_MS = AT.replace(microsecond=123000)
DAY = date(2025, 11, 20)
_DAYS = DAY.toordinal() - date(1970, 1, 1).toordinal()
_US = int(AT.timestamp()) * 1_000_000 + AT.microsecond
_MORNING_MS = 36_000_000


@dataclass(frozen=True, slots=True)
class Case:
    """A type, with one value.

    Attributes:
        name: As schemas name it, and where it stands.
        schema: As Kafka Connect's JSON converter writes it.
        raw: The value as a connector hands it on: whole numbers, texts, bytes, floats, and lists
            and mappings of these.
        means: What it is: a number, a day, an instant, text, bytes, and what is in lists and
            structs. Of a clock on a wall what it shows, as if in UTC.
        column: The type of a column that a person would declare for it.
        settings: What stands beside that, as in a job file.
    """

    name: str
    schema: Mapping[str, Any]
    raw: Any
    means: Any
    column: str
    settings: Mapping[str, str]


def cases() -> list[Case]:
    """All types, and some of them inside of an array, a struct and a map."""
    plain = [*_connect(), *_times(), *_data()]
    inside = [
        each
        for each in plain
        if each.name.rpartition(".")[2]
        in ("Decimal", "Date", "Timestamp", "MicroTimestamp", "VariableScaleDecimal")
    ]
    return [
        *plain,
        *(_in_array(each) for each in inside),
        *(_in_struct(each) for each in inside),
        *(_in_map(each) for each in inside),
    ]


def _named(kind: str, name: str, raw: Any, means: Any, column: str, **settings: str) -> Case:
    return Case(name, {"type": kind, "name": name, "version": 1}, raw, means, column, settings)


def _connect() -> list[Case]:
    space = "org.apache.kafka.connect.data."
    parameters = {"scale": "2", "connect.decimal.precision": "10"}
    amount = Case(
        DECIMAL,
        {"type": "bytes", "name": DECIMAL, "version": 1, "parameters": parameters},
        # In base64 it looks like the whole number 1000.
        b"\xd7\x4d\x34",
        Decimal("-26672.12"),
        "decimal(10,2)",
        {},
    )
    return [
        amount,
        _named("int32", f"{space}Date", _DAYS, DAY, "date"),
        _named("int32", f"{space}Time", _MORNING_MS, _MORNING_MS, "bigint"),
        _named("int64", f"{space}Timestamp", _US // 1000, AT_MS, "timestamp"),
    ]


def _times() -> list[Case]:
    space, clock = "io.debezium.time.", {"timezone": "UTC"}
    return [
        _named("int32", f"{space}Date", _DAYS, DAY, "date"),
        _named("int32", f"{space}Time", _MORNING_MS, _MORNING_MS, "bigint"),
        _named("int64", f"{space}MicroTime", _MORNING_MS * 1000, _MORNING_MS * 1000, "bigint"),
        _named("int64", f"{space}NanoTime", _MORNING_MS * 10**6, _MORNING_MS * 10**6, "bigint"),
        _named("int64", f"{space}Timestamp", _US // 1000, AT_MS, "timestamp", **clock),
        _named("int64", f"{space}MicroTimestamp", _US, AT, "timestamp", **clock),
        _named("int64", f"{space}NanoTimestamp", _US * 1000, AT, "timestamp", **clock),
        _named("string", f"{space}ZonedTimestamp", "2025-11-20T10:00:00.123456Z", AT, "timestamp"),
        _named("string", f"{space}ZonedTime", "10:00:00Z", "10:00:00Z", "string"),
        _named("string", f"{space}IsoDate", "2025-11-20Z", DAY, "date"),
        _named("string", f"{space}IsoTime", "10:00:00Z", "10:00:00Z", "string"),
        _named(
            "string",
            f"{space}IsoTimestamp",
            "2025-11-20T10:00:00.123456Z",
            AT,
            "timestamp",
            **clock,
        ),
        _named("string", f"{space}Interval", "P1Y2M3DT4H5M6S", "P1Y2M3DT4H5M6S", "string"),
        _named("int64", f"{space}MicroDuration", 37_091_106_000_000, 37_091_106_000_000, "bigint"),
        _named("int64", f"{space}NanoDuration", 37_091_106 * 10**9, 37_091_106 * 10**9, "bigint"),
        _named("int32", f"{space}Year", 2025, 2025, "int"),
    ]


def _data() -> list[Case]:
    space = "io.debezium.data."
    return [
        Case(
            f"{space}Bits",
            {"type": "bytes", "name": f"{space}Bits", "parameters": {"length": "12"}},
            b"\x05\x0a",
            b"\x05\x0a",
            "binary",
            {},
        ),
        _text("Enum", "large"),
        _text("EnumSet", "a,b"),
        _text("Json", '{"a": [1, 2]}'),
        _text("Xml", "<a>1</a>"),
        _text("Uuid", "6b2f8d7c-51f0-4a3b-9c4e-0d1a2b3c4d5e"),
        _text("Ltree", "top.science"),
        _text("TsVector", "'cat':1"),
        _struct_case(
            VARIABLE,
            {"scale": "int32", "value": "bytes"},
            {"scale": 4, "value": b"\x01\xe2\x40"},
            Decimal("12.3456"),
            "decimal(20,4)",
        ),
        _struct_case(
            f"{space}geometry.Point",
            {"x": "float64", "y": "float64", "wkb": "bytes", "srid": "int32"},
            {"x": 1.5, "y": -2.25, "wkb": b"\x01\x02", "srid": 4326},
            {"x": 1.5, "y": -2.25, "wkb": b"\x01\x02", "srid": 4326},
            "struct<x:double,y:double,wkb:binary,srid:int>",
        ),
        *(
            _struct_case(
                f"{space}geometry.{name}",
                {"wkb": "bytes", "srid": "int32"},
                {"wkb": b"\x01\x02", "srid": 4326},
                {"wkb": b"\x01\x02", "srid": 4326},
                "struct<wkb:binary,srid:int>",
            )
            for name in ("Geometry", "Geography")
        ),
        _vector("DoubleVector", "float64", "array<double>"),
        _vector("FloatVector", "float32", "array<float>"),
        Case(
            f"{space}SparseDoubleVector",
            {
                "type": "struct",
                "name": f"{space}SparseDoubleVector",
                "fields": [
                    {"field": "dimensions", "type": "int16"},
                    {
                        "field": "vector",
                        "type": "map",
                        "keys": {"type": "int16"},
                        "values": {"type": "float64"},
                    },
                ],
            },
            {"dimensions": 25, "vector": {1: 0.5, 7: -1.25}},
            {"dimensions": 25, "vector": {1: 0.5, 7: -1.25}},
            "struct<dimensions:int,vector:map<int,double>>",
            {},
        ),
    ]


def _text(name: str, text: str) -> Case:
    return _named("string", f"io.debezium.data.{name}", text, text, "string")


def _vector(name: str, item: str, column: str) -> Case:
    full = f"io.debezium.data.{name}"
    schema = {"type": "array", "items": {"type": item}, "name": full}
    return Case(full, schema, [0.5, -1.25], [0.5, -1.25], column, {})


def _struct_case(
    name: str, fields: Mapping[str, str], raw: Mapping[str, Any], means: Any, column: str
) -> Case:
    listed = [{"field": field, "type": kind} for field, kind in fields.items()]
    return Case(name, {"type": "struct", "name": name, "fields": listed}, raw, means, column, {})


def _in_array(of: Case) -> Case:
    schema = {"type": "array", "items": of.schema}
    column = f"array<{of.column}>"
    return Case(f"array of {of.name}", schema, [of.raw], [of.means], column, of.settings)


def _in_struct(of: Case) -> Case:
    schema = {"type": "struct", "name": "x.Holder", "fields": [{**of.schema, "field": "v"}]}
    column = f"struct<v:{of.column}>"
    return Case(
        f"struct with {of.name}", schema, {"v": of.raw}, {"v": of.means}, column, of.settings
    )


def _in_map(of: Case) -> Case:
    schema = {"type": "map", "keys": {"type": "string"}, "values": of.schema}
    column = f"map<string,{of.column}>"
    return Case(f"map of {of.name}", schema, {"k": of.raw}, {"k": of.means}, column, of.settings)


def as_json(schema: Mapping[str, Any], raw: Any) -> Any:
    """A value as Kafka Connect's JSON converter writes it."""
    match schema["type"]:
        case "bytes":
            return base64.b64encode(raw).decode()
        case "array":
            return [as_json(schema["items"], each) for each in raw]
        case "map":
            pairs = [
                (as_json(schema["keys"], key), as_json(schema["values"], value))
                for key, value in raw.items()
            ]
            return dict(pairs) if schema["keys"]["type"] == "string" else [[*one] for one in pairs]
        case "struct":
            return {each["field"]: as_json(each, raw[each["field"]]) for each in schema["fields"]}
        case _:
            return raw
