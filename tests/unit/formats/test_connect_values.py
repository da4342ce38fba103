"""Debezium's messages whose schema says what their values are: decimals in base64, and times."""

import base64
import json
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pytest

from sluiceway.convert.schema_values import meaning_of
from sluiceway.convert.typed_values import Day
from sluiceway.formats.changes.decoder import ChangeLogDecoder
from sluiceway.formats.changes.envelopes import DEBEZIUM
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import Field, Schema

DECIMAL = "org.apache.kafka.connect.data.Decimal"
ODD = {
    "fields": [
        {"field": []},
        {"field": "after", "name": [], "fields": [{"field": "v", "name": {}, "type": []}]},
    ]
}
VARIABLE = "io.debezium.data.VariableScaleDecimal"


def decimal_of(field: str, scale: object) -> dict[str, Any]:
    """A decimal's schema, as the JSON converter writes it."""
    parameters = {"scale": scale, "connect.decimal.precision": "18"}
    named = {"name": DECIMAL, "version": 1, "parameters": parameters}
    return {"type": "bytes", "optional": True, **named, "field": field}


def named(field: str, kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "optional": True, "name": name, "version": 1, "field": field}


def struct(field: str, *fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields), "optional": True, "field": field, **more}


def message(row: Any, *fields: dict[str, Any], **more: Any) -> bytes:
    """A change with its schema."""
    schema = struct("", struct("before", *fields), struct("after", *fields))
    payload = {"before": None, "after": row, "op": "c", **more}
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()


def encoded(unscaled: int) -> str:
    size = unscaled.bit_length() // 8 + 1
    return base64.b64encode(unscaled.to_bytes(size, "big", signed=True)).decode()


def column(name: str, kind: str, path: str = "", **more: Any) -> Field:
    keys = tuple(path.split(".")) if path else ()
    unit = more.pop("unit", None)
    policy = Policy(**more)
    return Field(name, parse_hive_type(kind), path=keys, time_unit=unit, policy=policy)


def read(payloads: list[bytes], *columns: Field) -> list[Any]:
    """Rows, and reasons with paths of those that are dirty; the same on both paths."""
    found = []
    for exact_only in (False, True):
        decoder = ChangeLogDecoder(DEBEZIUM, Schema(columns), {}, exact_only=exact_only)
        decoded = decoder.decode(list[bytes | None](payloads))
        rows: list[Any] = [None] * len(payloads)
        clean = decoded.rows.to_pylist()
        for place, row in zip(decoded.indices.to_pylist(), clean, strict=True):
            rows[place] = tuple(row.values())
        for dirty in decoded.dirty:
            rows[dirty.index] = (dirty.reason.value, dirty.path)
        found.append(rows)
    assert found[0] == found[1]
    return found[0]


def one(payload: bytes, *columns: Field) -> Any:
    (row,) = read([payload], *columns)
    return row


@pytest.mark.parametrize("scale", [0, 2, 9, 38])
def test_decimals_are_the_numbers_that_the_database_had(scale: int) -> None:
    pick = random.Random(scale)  # noqa: S311 - no secret
    wanted = [pick.choice((-1, 1)) * pick.randrange(10 ** pick.randrange(39)) for _ in range(300)]
    wanted += [0, -1, 127, 128, -128, -129, 10**38 - 1, 1 - 10**38]
    payloads = [message({"v": encoded(each)}, decimal_of("v", str(scale))) for each in wanted]
    exact = Context(prec=50)
    rows = [(Decimal(each).scaleb(-scale, context=exact),) for each in wanted]
    assert read(payloads, column("v", f"decimal(38,{scale})")) == rows


@pytest.mark.parametrize("text", ["1234", "12345678", "+123", "1e11", "0000", "NaNN"])
def test_base64_that_looks_like_a_number_is_not_read_as_that(text: str) -> None:
    unscaled = int.from_bytes(base64.b64decode(text), "big", signed=True)
    payloads = [message({"v": text}, decimal_of("v", "2"))] * 3
    wanted = [(Decimal(unscaled) / 100,)] * 3
    assert read(payloads, column("v", "decimal(38,2)")) == wanted
    # Without a schema nobody can know.
    plain = json.dumps({"payload": {"after": {"v": text}, "op": "c"}}).encode()
    assert one(plain, column("v", "decimal(38,2)")) != wanted[0]


def test_schema_whose_letters_are_escaped_says_the_same() -> None:
    payload = message({"v": "1234"}, decimal_of("v", "2"))
    escaped = payload.replace(b"Decimal", b"\\u0044ecimal")
    assert one(escaped, column("v", "decimal(38,2)")) == one(payload, column("v", "decimal(38,2)"))


def test_what_a_decimal_becomes_is_what_a_number_does() -> None:
    payload = message({"v": encoded(1250)}, decimal_of("v", "2"))
    assert one(payload, column("v", "decimal(9,1)")) == (Decimal("12.5"),)
    assert one(payload, column("v", "double")) == (12.5,)
    assert one(payload, column("v", "bigint")) == ("not_integral", "payload.after.v")
    assert one(payload, column("v", "decimal(3,2)")) == ("overflow", "payload.after.v")
    assert one(payload, column("v", "string")) == ("wrong_type", "payload.after.v")
    assert one(payload, column("v", "string", on_lossy="text")) == ("12.50",)
    # Who asks for the bytes gets them.
    assert one(payload, column("v", "binary", format="base64")) == (b"\x04\xe2",)


def test_numbers_and_nulls_under_a_decimal_stay_what_they_are() -> None:
    fields = decimal_of("v", "2")
    payloads = [message({"v": 12.5}, fields), message({"v": None}, fields), message({}, fields)]
    assert read(payloads, column("v", "decimal(9,2)")) == [(Decimal("12.50"),), (None,), (None,)]


@pytest.mark.parametrize("text", ["", "A", "AfQ", "Af Q=", "AfR=", "*fQ=", "A" * 684])
def test_text_that_is_no_base64_of_a_number_is_dirty(text: str) -> None:
    payload = message({"v": text}, decimal_of("v", "2"))
    assert one(payload, column("v", "decimal(9,2)")) == ("bad_text", "payload.after.v")


@pytest.mark.parametrize("scale", [None, "", "two", "1001", "2.0"])
def test_decimal_without_a_scale_is_dirty(scale: object) -> None:
    payload = message({"v": "AfQ="}, decimal_of("v", scale))
    assert one(payload, column("v", "decimal(9,2)")) == ("broken", "payload.after.v")


def test_decimals_inside_of_structs_arrays_and_maps_are_found() -> None:
    items = {"type": "array", "items": decimal_of("", "1"), "field": "list"}
    values = {
        "type": "map",
        "keys": {"type": "string"},
        "values": decimal_of("", "3"),
        "field": "map",
    }
    inner = struct("in", decimal_of("v", "2"), items, values)
    row = {"in": {"v": "AfQ=", "list": ["AfQ=", None], "map": {"k": "AfQ="}}}
    payload = message(row, inner)
    kind = "struct<v:decimal(9,2),list:array<decimal(9,2)>,map:map<string,decimal(9,3)>>"
    wanted = {
        "v": Decimal("5.00"),
        "list": [Decimal("50.00"), None],
        "map": [("k", Decimal("0.500"))],
    }
    assert one(payload, column("x", kind, "in")) == (wanted,)
    assert one(payload, column("x", "decimal(9,3)", "in.map.k")) == (Decimal("0.500"),)
    assert one(payload, column("x", kind, "$.after.in")) == (wanted,)
    text = '{"v":5.00,"list":[50.0,null],"map":{"k":0.500}}'
    assert one(payload, column("x", "string", "in", on_lossy="text")) == (text,)
    bad = message({"in": {"list": ["AfQ=", "?"]}}, inner)
    assert one(bad, column("x", kind, "in")) == ("bad_text", "payload.after.in.list[1]")


def test_decimal_with_a_scale_of_its_own() -> None:
    parts = ({"type": "int32", "field": "scale"}, {"type": "bytes", "field": "value"})
    schema = struct("v", *parts, name=VARIABLE)
    payload = message({"v": {"scale": 3, "value": "AfQ="}}, schema)
    assert one(payload, column("v", "decimal(9,3)")) == (Decimal("0.500"),)
    raw = one(payload, column("v", "struct<scale:int,value:string>"))
    assert raw == ({"scale": 3, "value": "AfQ="},)
    negative = message({"v": {"scale": -2, "value": "AfQ="}}, schema)
    assert one(negative, column("v", "bigint")) == (50_000,)
    assert one(message({"v": {"value": "AfQ="}}, schema), column("v", "bigint"))[0] == "broken"


@pytest.mark.parametrize(
    ("name", "number", "kind", "wanted"),
    [
        ("org.apache.kafka.connect.data.Date", 20_000, "date", date(2024, 10, 4)),
        ("io.debezium.time.Date", -1, "date", date(1969, 12, 31)),
        ("io.debezium.time.Date", 2_932_897, "date", "bad_time"),
        (
            "org.apache.kafka.connect.data.Timestamp",
            1_795_161_600_001,
            "timestamp",
            datetime(2026, 11, 20, 8, 0, 0, 1000),  # noqa: DTZ001 - as Arrow gives it
        ),
        ("io.debezium.time.Timestamp", 1, "timestamp", "wrong_type"),
        ("io.debezium.time.Date", 1, "timestamp", "wrong_type"),
        # What says nothing of times stays a number, and a number stays one elsewhere.
        ("some.Name", 1, "timestamp", "wrong_type"),
        ("io.debezium.time.Date", 20_000, "int", 20_000),
        ("io.debezium.time.MicroTimestamp", 10**15, "bigint", 10**15),
        ("org.apache.kafka.connect.data.Timestamp", 1, "string", "wrong_type"),
    ],
)
def test_number_is_a_time_in_a_column_of_times_when_the_schema_says_so(
    name: str, number: int, kind: str, wanted: object
) -> None:
    payload = message({"t": number}, named("t", "int64", name))
    assert one(payload, column("t", kind))[0] == wanted


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("io.debezium.time.Timestamp", 1_795_161_600_123),
        ("io.debezium.time.MicroTimestamp", 1_795_161_600_123_000),
        ("io.debezium.time.NanoTimestamp", 1_795_161_600_123_000_000),
    ],
)
def test_time_of_a_wall_clock_is_an_instant_where_the_column_names_the_zone(
    name: str, number: int
) -> None:
    payload = message({"t": number}, named("t", "int64", name))
    (found,) = one(payload, column("t", "timestamp", timezone="Asia/Shanghai"))
    assert found == datetime(2026, 11, 20, 0, 0, 0, 123_000, tzinfo=UTC).replace(tzinfo=None)


def test_unit_of_a_column_counts_more_than_the_schema() -> None:
    payload = message({"t": 5}, named("t", "int64", "org.apache.kafka.connect.data.Timestamp"))
    (found,) = one(payload, column("t", "timestamp", unit="s"))
    assert found.timestamp() == datetime(1970, 1, 1, 0, 0, 5).timestamp()  # noqa: DTZ001


def test_two_columns_of_one_field_are_told_apart() -> None:
    payload = message({"t": 20_000}, named("t", "int32", "io.debezium.time.Date"))
    assert one(payload, column("day", "date", "t"), column("t", "int")) == (
        date(2024, 10, 4),
        20_000,
    )


def test_keys_that_came_twice_stay_dirty() -> None:
    payload = message({"v": "AfQ="}, decimal_of("v", "2"))
    twice = payload.replace(b'"v":"AfQ="', b'"v":"AfQ=","v":"AfQ="')
    assert one(twice, column("v", "decimal(9,2)"))[0] == "duplicate_key"
    inner = struct("in", decimal_of("v", "2"))
    nested = message({"in": {"v": "AfQ="}}, inner).replace(b'"v":"AfQ="', b'"v":"AfQ=","v":"AfQ="')
    assert one(nested, column("in", "struct<v:decimal(9,2)>"))[0] == "duplicate_key"
    schemas = payload.replace(b'{"schema":', b'{"schema":{},"schema":', 1)
    assert one(schemas, column("v", "decimal(9,2)")) == ("duplicate_key", "schema")


@pytest.mark.parametrize("schema", [None, 1, [], {}, {"fields": 1}, {"fields": [None, {}]}, ODD])
def test_schema_that_is_none_changes_nothing(schema: object) -> None:
    whole = {"schema": schema, "payload": {"after": {"v": "12.50"}, "op": "c"}}
    assert one(json.dumps(whole).encode(), column("v", "decimal(9,2)")) == (Decimal("12.50"),)


def test_messages_that_kafka_connect_has_written_are_read_exactly() -> None:
    """Those of its own JsonConverter, 4.1.1; the numbers are what Java's BigDecimal printed."""
    path = Path(__file__).with_name("connect_messages.jsonl")
    columns = (
        column("price", "decimal(38,2)"),
        column("any", "decimal(38,8)"),
        column("day", "date"),
        column("day2", "date"),
        column("at", "timestamp"),
        column("local", "timestamp", timezone="UTC"),
        column("list", "array<decimal(9,1)>"),
        column("map", "map<string,decimal(9,3)>"),
    )
    written = [
        ("-184349.97", "-18434.997"),
        ("-2823545738800383152745286.59", "-282354573880038315274.528659"),
        ("-126513850443679046651930846970031.87", "-1265138504436790466519308469.7003187"),
    ]
    at = datetime(2026, 11, 20, 8)  # noqa: DTZ001 - as Arrow gives it
    wanted = []
    for number, (price, of_any) in enumerate(written, 1):
        day = date(1970, 1, 1) + timedelta(days=number * 37 - 500)
        milli, micro = timedelta(milliseconds=number), timedelta(microseconds=number)
        inner = ([Decimal("1.5"), None], [("k", Decimal("-0.125"))])
        wanted.append((Decimal(price), Decimal(of_any), day, day, at + milli, at + micro, *inner))
    assert read(path.read_bytes().splitlines(), *columns) == wanted


@pytest.mark.parametrize(
    "kind", ["map<string,decimal(9,2)>", "string", "struct<m:map<string,decimal(9,2)>>"]
)
def test_keys_of_a_map_stay_out_of_the_path_of_a_redacted_column(kind: str) -> None:
    values = {"type": "map", "values": decimal_of("", "2")}
    inner = struct("v", {**values, "field": "m"}) if "m:" in kind else {**values, "field": "v"}
    held: Any = {"ann@example.org": "!"}
    payload = message({"v": {"m": held} if "m:" in kind else held}, inner)
    place = "payload.after.v.m" if "m:" in kind else "payload.after.v"
    policy = {"on_lossy": "text"} if kind == "string" else {}
    hidden = column("v", kind, redact=True, **policy)
    assert one(payload, hidden) == ("bad_text", f"{place}.*")
    told = one(payload, column("v", kind, **policy))
    assert told[1].startswith(place)
    assert "ann" in told[1]


def test_a_field_that_no_column_reads_is_told_as_its_schema_means_it() -> None:
    decoder = ChangeLogDecoder(
        DEBEZIUM, Schema((column("id", "bigint"),)), {"unknown_fields": "evolve"}
    )
    day = named("day", "int32", "io.debezium.time.Date")
    row = {"id": 1, "price": encoded(-150), "day": 20_000, "count": 3}
    payload = message(row, decimal_of("price", "2"), day)
    (dirty,) = decoder.decode([payload]).dirty
    assert dirty.reason.value == "unexpected_field"
    fields = decoder.fields_of(payload)
    price, told_day = meaning_of(fields["price"]), meaning_of(fields["day"])
    assert price is not None
    assert told_day is not None
    assert (price.value, told_day.value) == (Decimal("-1.50"), Day(20_000))
    assert str(fields["count"]) == "3"


WALL = "2025-11-20T10:00:00"
SHANGHAI = datetime(2025, 11, 20, 2)  # noqa: DTZ001 - as Arrow


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("int64", "io.debezium.time.Timestamp", 1_763_632_800_000),
        ("int64", "io.debezium.time.MicroTimestamp", 1_763_632_800_000_000),
        ("int64", "io.debezium.time.NanoTimestamp", 1_763_632_800_000_000_000),
        ("string", "io.debezium.time.IsoTimestamp", f"{WALL}Z"),
        ("string", "io.debezium.time.IsoTimestamp", f"{WALL}.000000000Z"),
        ("string", "io.debezium.time.IsoTimestamp", WALL),
    ],
)
def test_one_wall_clock_is_one_instant_however_it_is_written(
    kind: str, name: str, value: object
) -> None:
    payloads = [message({"v": value}, named("v", kind, name))] * 40
    in_zone = column("v", "timestamp", timezone="Asia/Shanghai")
    assert read(payloads, in_zone) == [(SHANGHAI,)] * 40
    # Who names no zone is told to, whatever the letter at the end.
    assert read(payloads, column("v", "timestamp")) == [("wrong_type", "payload.after.v")] * 40
    inside = message({"v": [value]}, {"field": "v", "type": "array", "items": {"name": name}})
    in_zone = column("v", "array<timestamp>", timezone="Asia/Shanghai")
    assert one(inside, in_zone) == ([SHANGHAI],)


def test_a_text_of_a_wall_clock_is_a_text_a_day_or_what_its_format_says() -> None:
    payload = message({"v": f"{WALL}Z"}, named("v", "string", "io.debezium.time.IsoTimestamp"))
    assert one(payload, column("v", "string")) == (f"{WALL}Z",)
    late = payload.replace(b"T10:00", b"T23:00")
    day = column("v", "date", format="iso8601", timezone="Asia/Shanghai")
    assert one(late, day) == (date(2025, 11, 20),)
    assert one(payload, column("v", "date")) == ("bad_time", "payload.after.v")
    own = column("v", "timestamp", format="yyyy-MM-dd'T'HH:mm:ssXXX", timezone="Asia/Shanghai")
    assert one(payload, own) == (SHANGHAI + timedelta(hours=8),)


def test_other_texts_of_debezium_mean_what_they_say() -> None:
    zoned = message({"v": f"{WALL}Z"}, named("v", "string", "io.debezium.time.ZonedTimestamp"))
    in_zone = column("v", "timestamp", timezone="Asia/Shanghai")
    assert one(zoned, in_zone) == (SHANGHAI + timedelta(hours=8),)
    day = message({"v": "2025-11-20Z"}, named("v", "string", "io.debezium.time.IsoDate"))
    assert read([day] * 40, column("v", "date")) == [(date(2025, 11, 20),)] * 40


@pytest.mark.parametrize(
    ("kind", "name", "value", "type_text"),
    [
        ("int64", "io.debezium.time.MicroTimestamp", 9_223_372_036_825_200_000, "timestamp"),
        ("int64", "io.debezium.time.MicroTimestamp", -9_223_372_036_832_400_000, "timestamp"),
        ("int64", "org.apache.kafka.connect.data.Timestamp", 9_223_372_036_825_200, "timestamp"),
        ("int32", "io.debezium.time.Date", 2_147_483_647, "date"),
        ("int32", "io.debezium.time.Date", -2_147_483_648, "date"),
        ("string", "io.debezium.time.ZonedTimestamp", "infinity", "timestamp"),
        ("string", "io.debezium.time.IsoTimestamp", "+294247-01-10T04:00:25Z", "timestamp"),
        ("string", "io.debezium.time.IsoDate", "-infinity", "date"),
    ],
)
def test_infinity_is_dirty_or_by_policy_null(
    kind: str, name: str, value: object, type_text: str
) -> None:
    payloads = [message({"v": value}, named("v", kind, name))] * 40
    zone = {"timezone": "UTC"} if type_text == "timestamp" else {}
    dirty = ("bad_time", "payload.after.v")
    assert read(payloads, column("v", type_text, **zone)) == [dirty] * 40
    nulls = column("v", type_text, on_impossible_time="null", **zone)
    assert read(payloads, nulls) == [(None,)] * 40


def test_entries_of_a_map_are_what_the_schema_says_of_keys_and_values() -> None:
    of = {"field": "v", "type": "map", "values": decimal_of("", "2")}
    numbers = message({"v": [[1, encoded(1250)]]}, {**of, "keys": {"type": "int32"}})
    assert one(numbers, column("v", "map<int,decimal(9,2)>")) == ([(1, Decimal("12.50"))],)
    decimals = message({"v": [[encoded(-5), encoded(1250)]]}, {**of, "keys": decimal_of("", "1")})
    assert one(decimals, column("v", "map<decimal(3,1),decimal(9,2)>")) == (
        [(Decimal("-0.5"), Decimal("12.50"))],
    )
    days = {**of, "keys": {"type": "int32", "name": "io.debezium.time.Date"}}
    assert one(message({"v": [[3, encoded(1)]]}, days), column("v", "map<date,double>")) == (
        [(date(1970, 1, 4), 0.01)],
    )
    odd = message({"v": [[1]]}, {**of, "keys": {"type": "int32"}})
    assert one(odd, column("v", "map<int,double>")) == ("wrong_type", "payload.after.v[0]")
