import sys
from datetime import date, datetime
from decimal import Decimal
from functools import partial

import pyarrow as pa
import pytest

from sluiceway.formats.contract import Decoded
from sluiceway.formats.json.decoder import JsonDecoder
from sluiceway.types.dirty import DirtyReason as Why
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema
from tools.json_engines import ENGINES

# So many clean neighbours that the block goes to the fast path.
NEIGHBOURS = 40


@pytest.fixture(autouse=True, params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test here runs with each engine."""
    chosen = partial(JsonDecoder, engine=request.param)
    monkeypatch.setattr(sys.modules[__name__], "JsonDecoder", chosen)


def decoder(hive: str, unit: str | None = None, *, required: bool = False) -> JsonDecoder:
    kind = parse_hive_type(hive)
    return JsonDecoder(Schema((Field("v", kind, required=required, time_unit=unit),)))


def decode_among_clean(reader: JsonDecoder, clean: bytes, payload: bytes) -> Decoded:
    """Decode a payload in the middle of clean ones, of which none may be harmed."""
    found = reader.decode([clean] * NEIGHBOURS + [payload] + [clean] * NEIGHBOURS)
    assert [row.index for row in found.dirty] in ([], [NEIGHBOURS])
    assert len(found.rows) + len(found.dirty) == 2 * NEIGHBOURS + 1
    return found


def outcome(
    hive: str, text: str, unit: str | None = None, *, required: bool = False
) -> tuple[object, Why | None]:
    """The value that `{"v": text}` becomes, or why it is dirty; the same on both paths."""
    reader = decoder(hive, unit, required=required)
    payload = f'{{"v":{text}}}'.encode("utf-8", "surrogateescape")
    clean = b'{"v":null}' if not required else payload
    alone = reader.decode([payload])
    among = decode_among_clean(reader, clean, payload) if not required else alone
    if alone.dirty:
        assert [row.reason for row in among.dirty] == [alone.dirty[0].reason]
        return None, alone.dirty[0].reason
    value = alone.rows.column(0).to_pylist()[0]
    assert among.rows.column(0).to_pylist()[0 if required else NEIGHBOURS] == value
    return value, None


@pytest.mark.parametrize(
    ("hive", "text", "value"),
    [
        ("bigint", "12.0", 12),
        ("bigint", "1.2e1", 12),
        ("bigint", '"12"', 12),
        ("bigint", "-0", 0),
        ("bigint", "9007199254740993", 9007199254740993),
        ("bigint", "9223372036854775807", 2**63 - 1),
        ("bigint", "-9223372036854775808", -(2**63)),
        ("tinyint", "127", 127),
        ("decimal(18,2)", "0.10", Decimal("0.10")),
        ("decimal(18,2)", "0.100", Decimal("0.10")),
        ("decimal(18,2)", '"0.10"', Decimal("0.10")),
        ("decimal(18,2)", "1e2", Decimal("100.00")),
        ("decimal(5,2)", "999.99", Decimal("999.99")),
        ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
        ("decimal(38,18)", "12345678901234567890.5", Decimal("12345678901234567890.5")),
        ("double", "9007199254740992", 2.0**53),
        ("double", "1.7976931348623157e308", 1.7976931348623157e308),
        ("double", "4.9e-324", 5e-324),
        ("double", "0e-400", 0.0),
        ("double", "6.02e23", 6.02e23),
        ("double", '"1.5"', 1.5),
        ("float", "16777216", 2.0**24),
        ("boolean", "true", True),
        ("boolean", '"false"', False),
        ("string", '"a\\u4f60\\ud83d\\ude00"', "a\u4f60\U0001f600"),
        ("string", '""', ""),
        ("date", '"2026-11-20"', date(2026, 11, 20)),
        ("date", '"0001-01-01"', date(1, 1, 1)),
        ("date", '"1582-10-10"', date(1582, 10, 10)),
        ("timestamp", '"2026-11-20T08:00:00+08:00"', datetime(2026, 11, 20)),  # noqa: DTZ001
        ("timestamp", '"9999-12-31T23:59:59.999999Z"', datetime.max),  # noqa: DTZ901
        ("array<int>", "[1,null,2]", [1, None, 2]),
        ("struct<a:int,b:string>", '{"b":"x","c":[{}]}', {"a": None, "b": "x"}),
        ("map<string,int>", '{"a":1,"b":null}', [("a", 1), ("b", None)]),
        ("map<int,string>", '{"7":"x"}', [(7, "x")]),
    ],
)
def test_json_value_that_fits_is_exact(hive: str, text: str, value: object) -> None:
    assert outcome(hive, text) == (value, None)


@pytest.mark.parametrize(
    ("hive", "text", "reason"),
    [
        ("bigint", "12.5", Why.NOT_INTEGRAL),
        ("bigint", "1.00000000000000000000001", Why.NOT_INTEGRAL),
        ("bigint", "true", Why.WRONG_TYPE),
        ("bigint", '"abc"', Why.BAD_TEXT),
        ("bigint", '"12.5"', Why.NOT_INTEGRAL),
        ("bigint", '""', Why.BAD_TEXT),
        ("bigint", '" 12"', Why.BAD_TEXT),
        ("bigint", "9223372036854775808", Why.OVERFLOW),
        ("bigint", "9" * 100_000, Why.OVERFLOW),
        ("bigint", "1e1000000000", Why.OVERFLOW),
        ("bigint", "1e-10000000", Why.NOT_INTEGRAL),
        ("tinyint", "300", Why.OVERFLOW),
        ("smallint", "-32769", Why.OVERFLOW),
        ("bigint", "NaN", Why.WRONG_TYPE),
        ("bigint", "[1]", Why.WRONG_TYPE),
        ("decimal(18,2)", "0.125", Why.SCALE),
        ("decimal(18,2)", "1e-10000000", Why.SCALE),
        ("decimal(18,2)", '"1\\u0065-10000000"', Why.SCALE),
        ("decimal(5,2)", "1234", Why.OVERFLOW),
        ("decimal(1,0)", "1e-320", Why.SCALE),
        ("decimal(38,37)", "12345678912345", Why.OVERFLOW),
        ("decimal(38,18)", "12345678901234567890123456789012345678", Why.OVERFLOW),
        ("decimal(18,2)", '"1_0"', Why.BAD_TEXT),
        ("decimal(18,2)", '"NaN"', Why.BAD_TEXT),
        ("double", "1.8e309", Why.OVERFLOW),
        ("double", "-1.8e309", Why.OVERFLOW),
        ("double", "1e-400", Why.SCALE),
        ("double", "0." + "0" * 400 + "1", Why.SCALE),
        ("double", "9007199254740993", Why.OVERFLOW),
        ("double", "NaN", Why.WRONG_TYPE),
        ("double", "-Infinity", Why.WRONG_TYPE),
        ("double", '"NaN"', Why.BAD_TEXT),
        ("float", "16777217", Why.OVERFLOW),
        ("float", "1e39", Why.OVERFLOW),
        ("float", "1e-50", Why.SCALE),
        ("float", "0." + "0" * 46 + "1", Why.SCALE),
        ("boolean", "1", Why.WRONG_TYPE),
        ("boolean", '"yes"', Why.BAD_TEXT),
        ("string", "12", Why.WRONG_TYPE),
        ("string", '"a\\u0000b"', Why.ENCODING),
        ("string", '"\\ud800"', Why.ENCODING),
        ("string", '"\\udc00\\ud800"', Why.ENCODING),
        ("string", '"\udcff"', Why.ENCODING),
        ("string", '"\\x"', Why.BROKEN),
        ("string", '"a\nb"', Why.BROKEN),
        ("date", '"2026-02-29"', Why.BAD_TIME),
        ("date", '"2026-11-20T08:00:00Z"', Why.BAD_TIME),
        ("date", "20261120", Why.WRONG_TYPE),
        ("timestamp", '"2026-11-20T08:00:00"', Why.BAD_TIME),
        ("timestamp", '"2016-12-31T23:59:60Z"', Why.BAD_TIME),
        ("timestamp", '"2026-11-20T24:00:00Z"', Why.BAD_TIME),
        ("timestamp", '"0001-01-01T00:00:00+01:00"', Why.BAD_TIME),
        ("timestamp", "1795161600000", Why.WRONG_TYPE),
        ("array<int>", "[1,2.5]", Why.NOT_INTEGRAL),
        ("array<int>", "{}", Why.WRONG_TYPE),
        ("struct<a:int>", "[]", Why.WRONG_TYPE),
        ("struct<a:int>", '{"a":1,"a":1}', Why.DUPLICATE_KEY),
        ("map<string,int>", '{"a":1,"a":2}', Why.DUPLICATE_KEY),
        ("map<int,int>", '{"1":1,"01":2}', Why.DUPLICATE_KEY),
    ],
)
def test_json_value_that_would_change_is_dirty(hive: str, text: str, reason: Why) -> None:
    assert outcome(hive, text) == (None, reason)


@pytest.mark.parametrize(
    ("unit", "text", "expected"),
    [
        ("ms", "1795161600000", datetime(2026, 11, 20, 8)),  # noqa: DTZ001
        ("s", "1795161600", datetime(2026, 11, 20, 8)),  # noqa: DTZ001
        ("s", "1795161600.25", datetime(2026, 11, 20, 8, 0, 0, 250_000)),  # noqa: DTZ001
        ("us", "1795161600000001", datetime(2026, 11, 20, 8, 0, 0, 1)),  # noqa: DTZ001
        ("ns", "1795161600000001000", datetime(2026, 11, 20, 8, 0, 0, 1)),  # noqa: DTZ001
        ("ms", '"1795161600000"', datetime(2026, 11, 20, 8)),  # noqa: DTZ001
        ("s", "-62135596800", datetime.min),  # noqa: DTZ901
        ("s", "253402300799", datetime(9999, 12, 31, 23, 59, 59)),  # noqa: DTZ001
        ("ns", "1795161600000001001", Why.SCALE),
        ("us", "0.5", Why.SCALE),
        ("s", "-62135596801", Why.BAD_TIME),
        ("s", "253402300800", Why.BAD_TIME),
        ("s", "9223372036854775807", Why.BAD_TIME),
        ("ms", "1e30", Why.BAD_TIME),
        ("ms", '"2026-11-20T08:00:00Z"', Why.BAD_TEXT),
        ("ms", "true", Why.WRONG_TYPE),
    ],
)
def test_json_time_number_is_read_by_its_unit(unit: str, text: str, expected: object) -> None:
    value, reason = outcome("timestamp", text, unit)
    assert (reason or value) == expected


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"null", Why.NOT_AN_OBJECT),
        (b"5", Why.NOT_AN_OBJECT),
        (b"[{}]", Why.NOT_AN_OBJECT),
        (b'"x"', Why.NOT_AN_OBJECT),
        (b" \n", Why.EMPTY),
        (b'{"v":1}{"v":2}', Why.BROKEN),
        (b'{"v":1}\n{"v":2}', Why.BROKEN),
        (b'{"v":1}null{}', Why.BROKEN),
        (b'{"v":1}\x00}', Why.BROKEN),
        (b'{"v":1', Why.BROKEN),
        (b'{"v":01}', Why.BROKEN),
        (b'{"v":1,}', Why.BROKEN),
        (b'{"v":1,"x":Nan}', Why.BROKEN),
        (b'\xef\xbb\xbf{"v":1}', Why.ENCODING),
        (b'{"v":1,"x":"\xff"}', Why.ENCODING),
        (b'{"v":1,"x":"\\udc00"}', Why.ENCODING),
        (b'{"v":1,"\\ud800":0}', Why.ENCODING),
        (b'{"v":1,"v":1}', Why.DUPLICATE_KEY),
        (b'{"v":1,"\\u0076":1}', Why.DUPLICATE_KEY),
        (b'{"v":' + b"[" * 100_000, Why.TOO_DEEP),
        (b'{"v":1,"x":' + b"[" * 100 + b"]" * 100 + b"}", Why.TOO_DEEP),
    ],
)
def test_json_payload_that_is_no_row_is_dirty_for_its_own_reason(
    payload: bytes, reason: Why
) -> None:
    found = decode_among_clean(decoder("int"), b'{"v":7}', payload)
    assert [row.reason for row in found.dirty] == [reason]
    assert found.rows.column(0).to_pylist() == [7] * (2 * NEIGHBOURS)


@pytest.mark.parametrize(
    "payload",
    [
        b' {"v":7}',
        b'{"v":7}\r\n',
        b'{\n"v" : 7\n}',
        b'{"v":7,"x":NaN,"y":[-Infinity,Inf]}',
        b'{"v":7,"x":1,"x":2}',
        b'{"v":7,"x":' + b"[" * 99 + b"]" * 99 + b"}",
        b'{"v":7,"x":"' + b"[" * 500 + b'"}',
        b'{"v":7,"x":"\\u0000 }null{ ","y":1e400}',
        b'{"v":7,"x":' + b"9" * 100_000 + b"}",
        b'{"v":7,"x":1e-10000000}',
    ],
)
def test_json_payload_with_odd_things_beside_the_columns_is_clean(payload: bytes) -> None:
    found = decode_among_clean(decoder("int"), b'{"v":7}', payload)
    assert found.dirty == ()
    assert found.rows.column(0).to_pylist() == [7] * (2 * NEIGHBOURS + 1)


@pytest.mark.parametrize(
    ("payload", "reason"), [(b"{}", Why.MISSING), (b'{"v":null}', Why.NULL), (b'{"v":1}', None)]
)
def test_json_required_column_tells_missing_from_null(payload: bytes, reason: Why | None) -> None:
    found = decode_among_clean(decoder("int", required=True), b'{"v":1}', payload)
    assert [row.reason for row in found.dirty] == ([reason] if reason else [])


def test_json_dirty_row_names_the_place() -> None:
    schema = Schema(
        (
            Field("tags", parse_hive_type("array<struct<n:int>>"), path=("geo", "tags")),
            Field("lat", parse_hive_type("double"), path=("geo", "lat")),
        )
    )
    found = JsonDecoder(schema).decode([b'{"geo":{"lat":1.5,"tags":[{"n":1},null,{"n":"x"}]}}'])
    (row,) = found.dirty
    assert (row.index, row.stage, row.path) == (0, "convert", "geo.tags[2].n")
    assert row.message == "the string 'x' -> int: it is not a number"


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b'{"v":"one', "not JSON: Unterminated string starting at character 5"),
        (b'{"v":', "not JSON: Expecting value at character 5"),
    ],
)
def test_message_of_a_broken_payload_names_the_character(payload: bytes, message: str) -> None:
    (row,) = JsonDecoder(Schema((Field("v", parse_hive_type("int")),))).decode([payload]).dirty
    assert row.message == message


@pytest.mark.parametrize("text", ["{}", '{"a":null}', '{"a":{}}', '{"a":{"b":null}}'])
def test_json_missing_way_to_a_column_is_null(text: str) -> None:
    schema = Schema((Field("v", parse_hive_type("int"), path=("a", "b", "c")),))
    payloads = [text.encode(), b'{"a":{"b":{"c":5}}}'] * NEIGHBOURS
    found = JsonDecoder(schema).decode(payloads)
    assert found.rows.column(0).to_pylist() == [None, 5] * NEIGHBOURS


def test_json_two_columns_may_read_the_same_key() -> None:
    kinds = (("a", "struct<x:int>"), ("b", "int"), ("c", "string"))
    paths = {"a": ("g",), "b": ("g", "y"), "c": ("g", "z")}
    schema = Schema(tuple(Field(n, parse_hive_type(t), path=paths[n]) for n, t in kinds))
    found = JsonDecoder(schema).decode([b'{"g":{"x":1,"y":2,"z":"s"}}'] * NEIGHBOURS)
    assert found.rows.to_pylist() == [{"a": {"x": 1}, "b": 2, "c": "s"}] * NEIGHBOURS


@pytest.mark.parametrize("tombstones", ["skip", "dirty"])
def test_json_tombstones_are_skipped_or_dirty(tombstones: str) -> None:
    schema = Schema((Field("v", parse_hive_type("int")),))
    reader = JsonDecoder(schema, tombstones="skip" if tombstones == "skip" else "dirty")
    found = reader.decode([None, b'{"v":1}', b"", b"{"])
    reasons = [(row.index, row.reason) for row in found.dirty]
    assert found.indices.to_pylist() == [1]
    if tombstones == "skip":
        assert (found.skipped, reasons) == (2, [(3, Why.BROKEN)])
    else:
        assert found.skipped == 0
        assert reasons == [(0, Why.EMPTY), (2, Why.EMPTY), (3, Why.BROKEN)]


def test_json_empty_batch_has_the_columns() -> None:
    reader = decoder("map<string,array<int>>")
    found = reader.decode([])
    assert found.rows.schema == reader.arrow_schema
    assert (len(found.rows), found.indices.to_pylist(), found.dirty) == (0, [], ())


def test_json_rows_stay_in_payload_order_when_slow_rows_are_between() -> None:
    texts = [b"1", b"2.0", b'"3"', b'"x"', b"[]"] * 300
    found = decoder("bigint").decode([b'{"v":' + text + b"}" for text in texts])
    assert found.rows.column(0).to_pylist() == [1, 2, 3] * 300
    assert found.indices.to_pylist() == [row for row in range(1500) if row % 5 < 3]
    assert [row.index for row in found.dirty] == [row for row in range(1500) if row % 5 > 2]


def test_json_batch_larger_than_a_block_is_whole() -> None:
    payloads = [b'{"v":%d}' % number for number in range(10_000)]
    found = decoder("bigint").decode(payloads)
    assert found.rows.column(0).equals(pa.array(range(10_000)))
    assert found.indices.equals(pa.array(range(10_000)))


def test_json_long_payloads_are_read() -> None:
    text = b"x" * (20 * 1024 * 1024)
    found = decoder("string").decode([b'{"v":"' + text + b'"}', b'{"v":"y"}'])
    assert [len(value) for value in found.rows.column(0).to_pylist()] == [len(text), 1]


@pytest.mark.parametrize(
    "schema",
    [
        Schema(()),
        Schema((Field("v", parse_hive_type("binary")),)),
        Schema((Field("v", parse_hive_type("array<binary>")),)),
        Schema((Field("v", parse_hive_type("map<double,int>")),)),
        Schema((Field("v", parse_hive_type("int")), Field("v", parse_hive_type("int")))),
    ],
)
def test_json_schema_that_json_cannot_carry_is_refused(schema: Schema) -> None:
    with pytest.raises(ValueError, match=r"."):
        JsonDecoder(schema)


def test_number_for_a_timestamp_without_unit_says_what_is_missing() -> None:
    (dirty,) = decoder("timestamp").decode([b'{"v":1795161600000}']).dirty
    assert dirty.reason is Why.WRONG_TYPE
    assert "1795161600000" in dirty.message
    assert dirty.message.endswith("a number is a time only where the column has a `unit`")
