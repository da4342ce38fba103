"""The examples that have to hold, one by one, by both paths of the decoder."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from sluiceway.formats.json.decoder import JsonDecoder
from sluiceway.types.dirty import DirtyReason as Why
from sluiceway.types.dirty import DirtyRow
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import Field, Schema

ROWS = 20  # So many that a block goes to the fast path.


def field_of(hive: str, **policy: Any) -> Field:
    unit = policy.pop("unit", None)
    required = policy.pop("required", False)
    return Field("v", parse_hive_type(hive), required, (), unit, Policy(**policy))


def decode(payload: bytes, field: Field) -> tuple[list[object], list[DirtyRow]]:
    """Values and dirty rows of a payload, equal on both paths and among equals."""
    schema = Schema((field,))
    slow = JsonDecoder(schema, engine="exact").decode([payload])
    fast = JsonDecoder(schema).decode([payload] * ROWS)
    values = slow.rows.column(0).to_pylist()
    assert list(map(repr, fast.rows.column(0).to_pylist())) == list(map(repr, values * ROWS))
    assert [row.message for row in fast.dirty] == [row.message for row in slow.dirty] * ROWS
    return values, list(slow.dirty)


def becomes(text: str, hive: str, **policy: Any) -> object:
    payload = f'{{"v":{text}}}'.encode("utf-8", "surrogateescape")
    values, dirty = decode(payload, field_of(hive, **policy))
    assert [row.path for row in dirty] in ([], ["v"], [""])
    return dirty[0].reason if dirty else values[0]


def test_whole_number_with_a_point_becomes_an_integer() -> None:
    assert becomes("12.0", "bigint") == 12


@pytest.mark.parametrize(
    ("text", "reason"),
    [("12.5", Why.NOT_INTEGRAL), ("true", Why.WRONG_TYPE), ('"abc"', Why.BAD_TEXT)],
)
def test_what_is_no_whole_number_is_dirty_for_an_integer(text: str, reason: Why) -> None:
    assert becomes(text, "bigint") is reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"12"', 12),
        ('"12.5"', Why.NOT_INTEGRAL),
        ('""', Why.BAD_TEXT),
        ('" 12"', Why.BAD_TEXT),
    ],
)
def test_text_of_a_number_becomes_an_integer_to_the_letter(text: str, expected: object) -> None:
    assert becomes(text, "bigint") == expected


def test_policy_trims_blanks_around_a_number_and_nothing_else() -> None:
    assert becomes('" 12\\t"', "bigint", trim=True) == 12
    assert becomes('"1 2"', "bigint", trim=True) is Why.BAD_TEXT


def test_integer_beyond_2_to_53_never_passes_through_a_double() -> None:
    assert becomes("9007199254740993", "bigint") == 9007199254740993


@pytest.mark.parametrize(("text", "hive"), [(str(2**63), "bigint"), ("300", "tinyint")])
def test_number_beyond_the_type_is_dirty_unless_a_policy_says_otherwise(
    text: str, hive: str
) -> None:
    assert becomes(text, hive) is Why.OVERFLOW
    assert becomes(text, hive, on_overflow="null") is None
    bits = {"bigint": 64, "tinyint": 8}[hive]
    assert becomes(text, hive, on_overflow="clamp") == 2 ** (bits - 1) - 1
    assert becomes(f"-{text}.0", hive, on_overflow="clamp") == -(2 ** (bits - 1))


def test_decimal_is_exact_from_its_text_or_dirty() -> None:
    assert becomes("0.125", "decimal(18,2)") is Why.SCALE
    assert becomes("0.10", "decimal(18,2)") == Decimal("0.10")
    assert becomes("0.125", "decimal(18,2)", on_lossy="round(half_up)") == Decimal("0.13")
    assert becomes("0.125", "decimal(18,2)", on_lossy="round(half_even)") == Decimal("0.12")
    assert becomes("0.129", "decimal(18,2)", on_lossy="truncate") == Decimal("0.12")
    assert becomes("0.125", "decimal(18,2)", on_lossy="null") is None


def test_number_beyond_a_double_is_dirty() -> None:
    assert becomes("1.8e309", "double") is Why.OVERFLOW
    assert becomes("1.8e309", "double", on_overflow="clamp") == 1.7976931348623157e308


@pytest.mark.parametrize("text", ["NaN", '"NaN"', "Infinity", '"-Infinity"'])
def test_nan_and_infinity_are_dirty_unless_a_policy_keeps_them(text: str) -> None:
    assert becomes(text, "double") in (Why.WRONG_TYPE, Why.BAD_TEXT)
    assert becomes(text, "double", non_finite="null") is None
    assert repr(becomes(text, "double", non_finite="keep")) == repr(float(text.strip('"')))


@pytest.mark.parametrize(
    ("text", "hive", "policy", "expected"),
    [
        ('"2026-11-20"', "date", {}, date(2026, 11, 20)),
        ('"20.11.2026"', "date", {}, Why.BAD_TIME),
        ('"20.11.2026"', "date", {"format": "dd.MM.yyyy"}, date(2026, 11, 20)),
        ('"2026-11-20"', "date", {"format": "dd.MM.yyyy"}, Why.BAD_TIME),
        ('"2026-11-20T08:00:00+08:00"', "timestamp", {}, datetime(2026, 11, 20)),  # noqa: DTZ001
        ('"2026-11-20T08:00:00"', "timestamp", {}, Why.BAD_TIME),
        (
            '"2026-11-20T08:00:00"',
            "timestamp",
            {"timezone": "Asia/Shanghai"},
            datetime(2026, 11, 20),  # noqa: DTZ001
        ),
        (
            '"20261120 080000"',
            "timestamp with local time zone",
            {"format": "yyyyMMdd HHmmss", "timezone": "Asia/Shanghai"},
            datetime(2026, 11, 20),  # noqa: DTZ001
        ),
        ("1795161600000", "timestamp", {}, Why.WRONG_TYPE),
        ("1795161600000", "timestamp", {"unit": "ms"}, datetime(2026, 11, 20, 8)),  # noqa: DTZ001
        ("1795161600", "timestamp", {"unit": "s"}, datetime(2026, 11, 20, 8)),  # noqa: DTZ001
        ("1795161600000", "timestamp", {"unit": "s"}, Why.BAD_TIME),
        ("1795190400000", "date", {"unit": "ms", "timezone": "UTC"}, date(2026, 11, 20)),
        ("1795190400000", "date", {"unit": "ms", "timezone": "Asia/Shanghai"}, date(2026, 11, 21)),
        ("1795161600000", "date", {}, Why.WRONG_TYPE),
    ],
)
def test_time_is_read_by_its_declared_format_unit_and_zone(
    text: str, hive: str, policy: dict[str, Any], expected: object
) -> None:
    assert becomes(text, hive, **policy) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"0001-01-01"', date.min),
        ('"9999-12-31"', date.max),
        ('"0000-12-31"', Why.BAD_TIME),
        ('"1582-10-10"', date(1582, 10, 10)),
        ('"1500-02-29"', Why.BAD_TIME),
    ],
)
def test_days_are_proleptic_gregorian_from_year_1_to_9999(text: str, expected: object) -> None:
    assert becomes(text, "date") == expected


def test_leap_second_is_dirty() -> None:
    assert becomes('"2016-12-31T23:59:60Z"', "timestamp") is Why.BAD_TIME


def test_missing_and_null_are_null_and_dirty_for_different_reasons_when_required() -> None:
    for payload, reason in ((b"{}", Why.MISSING), (b'{"v":null}', Why.NULL)):
        assert decode(payload, field_of("int")) == ([None], [])
        (dirty,) = decode(payload, field_of("int", required=True))[1]
        assert dirty.reason is reason


def test_unknown_key_is_ignored() -> None:
    assert decode(b'{"v":1,"w":{"x":[1]}}', field_of("int")) == ([1], [])


def test_duplicate_key_is_dirty() -> None:
    (dirty,) = decode(b'{"v":1,"v":1}', field_of("int"))[1]
    assert dirty.reason is Why.DUPLICATE_KEY


@pytest.mark.parametrize("text", ['"a\udcff"', '"a\\ud800"', '"a\\u0000"'])
def test_what_is_no_text_is_dirty_unless_replaced(text: str) -> None:
    assert becomes(text, "string") is Why.ENCODING
    assert becomes(text, "string", on_bad_text="replace") == "a\ufffd"


def test_bytes_that_are_no_utf8_are_themselves_in_a_binary_column() -> None:
    assert becomes('"a\udcff\\u0000"', "binary", format="utf8") == b"a\xff\0"


def test_wrong_inner_value_makes_the_row_dirty_with_its_path() -> None:
    kind = parse_hive_type("struct<tags:array<int>>")
    field = Field("geo", kind, path=("geo",))
    schema = Schema((field,))
    (dirty,) = JsonDecoder(schema).decode([b'{"geo":{"tags":[1,2,3,"x"]}}']).dirty
    assert (dirty.reason, dirty.path) == (Why.BAD_TEXT, "geo.tags[3]")
    assert dirty.message == "the string 'x' -> int: it is not a number"


def test_number_as_text_only_by_policy_and_digit_by_digit() -> None:
    assert becomes("1.50", "string") is Why.WRONG_TYPE
    assert becomes("1.50", "string", on_lossy="text") == "1.50"
    assert becomes("true", "string", on_lossy="text") == "true"
    assert becomes('{"a":[1.50,null]}', "string", on_lossy="text") == '{"a":[1.50,null]}'


def test_text_longer_than_its_type_is_dirty_unless_cut() -> None:
    assert becomes('"abcd"', "varchar(3)") is Why.TOO_LONG
    assert becomes('"abcd"', "varchar(3)", on_lossy="truncate") == "abc"
    assert becomes('"a "', "char(3)") is Why.TRAILING_BLANKS
    assert becomes('"a  "', "char(3)") == "a"
    assert becomes('"\U0001f600\U0001f600\U0001f600"', "varchar(3)") == "\U0001f600" * 3


def test_redacted_column_shows_no_value_and_no_key() -> None:
    field = field_of("map<string,array<int>>", redact=True)
    (dirty,) = decode(b'{"v":{"secret":[1,"41 11"]}}', field)[1]
    assert (dirty.reason, dirty.path) == (Why.BAD_TEXT, "v.*[1]")
    assert dirty.message == "a string -> int: bad_text"


def test_policy_that_gives_null_never_fills_a_required_column() -> None:
    payload = b'{"v":300}'
    (dirty,) = decode(payload, field_of("tinyint", required=True, on_overflow="null"))[1]
    assert dirty.reason is Why.NULL


def test_column_with_a_policy_leaves_the_other_columns_strict() -> None:
    lenient = field_of("string", on_bad_text="replace")
    strict = Field("s", parse_hive_type("string"))
    found = JsonDecoder(Schema((lenient, strict))).decode(
        [b'{"v":"\xff","s":"a"}', b'{"v":"a","s":"\xff"}', b'{"v":"a","s":"a","x":"\xff"}']
    )
    assert found.rows.to_pylist() == [{"v": "\ufffd", "s": "a"}, {"v": "a", "s": "a"}]
    assert [(row.index, row.reason, row.path) for row in found.dirty] == [(1, Why.ENCODING, "s")]


@pytest.mark.parametrize(
    ("text", "hive", "expected"),
    [
        ('"2026-11-20t08:00:00z"', "timestamp", datetime(2026, 11, 20, 8)),  # noqa: DTZ001
        ('"2026-11-20t08:00:00.5+01:00"', "timestamp", datetime(2026, 11, 20, 7, 0, 0, 500_000)),  # noqa: DTZ001
        ('"2026-11-20Z"', "date", date(2026, 11, 20)),
        ('"2026-11-20+01:00"', "date", Why.BAD_TIME),
        ('"2026-02-29Z"', "date", Why.BAD_TIME),
    ],
)
def test_times_as_rfc_3339_and_debezium_write_them(text: str, hive: str, expected: object) -> None:
    assert becomes(text, hive) == expected


@pytest.mark.parametrize(
    "text",
    [
        '"2026-04-24T00:00:00"',
        '"2026-04-24 00:30:00.1234567"',
        '"2026-04-24T01:00:00"',
        '"2026-04-23T22:00:00Z"',
    ],
)
def test_the_day_of_a_text_needs_no_midnight(text: str) -> None:
    found = becomes(text, "date", format="iso8601", timezone="Africa/Cairo")
    assert found == date(2026, 4, 24)


# In each column: what no calendar has, and what is no time for another reason.
IMPOSSIBLE: list[tuple[str, dict[str, Any], list[str], list[str]]] = [
    (
        "date",
        {},
        [
            *('"0000-00-00"', '"2026-00-00"', '"2026-02-30"', '"0000-12-31"', '"infinity"'),
            *('"-infinity"', '"Infinity"', '"-290308-12-21"', '"5874897-12-31"', '"4713-01-01 BC"'),
        ],
        ['"soon"', '""', '"2026-1-1"', '"20260230"', '"infinite"', "5", "true"],
    ),
    (
        "timestamp",
        {},
        [
            *('"0000-00-00 00:00:00"', '"0000-00-00"', '"2026-13-01T00:00:00Z"', '"+infinity"'),
            *('"+294247-01-10T04:00:25.2Z"', '"9999-12-31T23:59:59-01:00"', '"-0044-03-15 00:00"'),
            '"0044-03-15T00:00:00 BC"',
        ],
        ['"2026-11-20T24:00:00Z"', '"2026-11-20T08:00:00"', '"2016-12-31T23:59:60Z"', "5"],
    ),
    (
        "timestamp",
        {"timezone": "Europe/Berlin"},
        ['"0000-00-00 00:00:00"', '"infinity"'],
        ['"2026-03-29T02:30:00"', '"2026-10-25T02:30:00"'],
    ),
    ("timestamp", {"format": "dd.MM.yyyy HH:mm:ss", "timezone": "UTC"},
     ['"00.00.0000 00:00:00"', '"infinity"'], ['"01.01.2026 24:00:00"', '"01.01.2026"']),
    ("date", {"format": "yyyyMMdd"}, ['"00000000"', '"20260230"', '"infinity"'], ['"2026-01-01"']),
    ("timestamp", {"unit": "us"},
     ["9223372036825200000", "-9223372036832400000", '"9223372036825200000"', "1e400"],
     ['"infinity"', '"soon"', "0.5"]),
    ("date", {"unit": "ms", "timezone": "UTC"}, ["9223372036825200"], ['"soon"']),
]  # fmt: skip


@pytest.mark.parametrize(("hive", "policy", "impossible", "others"), IMPOSSIBLE)
def test_a_time_that_no_calendar_has_is_dirty_or_by_policy_null(
    hive: str, policy: dict[str, Any], impossible: list[str], others: list[str]
) -> None:
    nulls = {**policy, "on_impossible_time": "null"}
    for text in impossible:
        assert becomes(text, hive, **policy) is Why.BAD_TIME
        assert becomes(text, hive, **nulls) is None
        if hive == "timestamp":
            assert becomes(text, hive, **{**policy, "on_lossy": "null"}) is Why.BAD_TIME
        assert becomes(f"[{text}]", f"array<{hive}>", **nulls) == [None]
    for text in others:
        reason = becomes(text, hive, **policy)
        assert isinstance(reason, Why)
        assert becomes(text, hive, **nulls) is reason


MAPS: list[tuple[str, str, object]] = [
    ("map<int,string>", '[[1,"a"],[-2,null]]', [(1, "a"), (-2, None)]),
    ("map<int,string>", '[{"key":1,"value":"a"},{"value":"b","key":"2"}]', [(1, "a"), (2, "b")]),
    ("map<int,string>", "[]", []),
    ("map<bigint,array<int>>", "[[9007199254740993,[1]]]", [(9007199254740993, [1])]),
    ("map<string,string>", '[["a","b"]]', [("a", "b")]),
    ("map<boolean,int>", '[[true,1],["false",2]]', [(True, 1), (False, 2)]),
    ("map<boolean,int>", '{"true":1}', [(True, 1)]),
    ("map<decimal(5,2),int>", "[[1.5,1]]", [(Decimal("1.50"), 1)]),
    ("map<date,int>", '[["2026-11-20",1]]', [(date(2026, 11, 20), 1)]),
    ("map<date,int>", '{"2026-11-20":1}', [(date(2026, 11, 20), 1)]),
    ("map<int,map<int,int>>", "[[1,[[2,3]]]]", [(1, [(2, 3)])]),
    ("map<int,string>", '[[1,"a"],[1,"b"]]', Why.DUPLICATE_KEY),
    ("map<int,string>", '[[1,"a"],["1","b"]]', Why.DUPLICATE_KEY),
]


@pytest.mark.parametrize(("hive", "text", "expected"), MAPS)
def test_a_map_may_come_as_its_entries(hive: str, text: str, expected: object) -> None:
    assert becomes(text, hive) == expected


@pytest.mark.parametrize(
    ("text", "reason", "path"),
    [
        ('[[null,"a"]]', Why.WRONG_TYPE, "v[0]"),
        ('[[1,"a"],[2]]', Why.WRONG_TYPE, "v[1]"),
        ('[[1,"a","b"]]', Why.WRONG_TYPE, "v[0]"),
        ('[1,"a"]', Why.WRONG_TYPE, "v[0]"),
        ('[[1.5,"a"]]', Why.NOT_INTEGRAL, "v[0]"),
        ('[[1,"a"],[2,3]]', Why.WRONG_TYPE, "v[1]"),
        ('[{"key":1,"value":"a","more":1}]', Why.WRONG_TYPE, "v[0]"),
        ('[{"key":1,"value":"a","value":"b"}]', Why.WRONG_TYPE, "v[0]"),
    ],
)
def test_an_entry_that_is_none_is_dirty_in_its_place(text: str, reason: Why, path: str) -> None:
    _, (dirty,) = decode(f'{{"v":{text}}}'.encode(), field_of("map<int,string>"))
    assert (dirty.reason, dirty.path) == (reason, path)
