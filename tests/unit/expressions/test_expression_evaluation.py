"""What expressions yield, row by row, and which rows have no exact value."""

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from sluiceway.expressions.evaluate import compile_expression, dirty_row
from sluiceway.expressions.steps import REASONS
from sluiceway.types.arrow_types import arrow_type
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema

Why = DirtyReason
MAX = 2**63 - 1


def utc(text: str) -> datetime:
    """An instant as Arrow gives it: without a zone, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=None)


NINES = Decimal("9" * 38)
# A minus sign before NINES would round it to the 28 digits of Python's context.
MINUS_NINES = Decimal("-" + "9" * 38)


def run(text: str, **columns: tuple[str, Sequence[object]]) -> list[object]:
    """Values, with the reason in the place of those that there are none of."""
    columns = columns or {"row": ("int", [0])}
    fields = [Field(name, parse_hive_type(kind)) for name, (kind, _) in columns.items()]
    arrays = [
        pa.array(values, arrow_type(field.type))
        for field, (_, values) in zip(fields, columns.values(), strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
    found = compile_expression(text, Schema(tuple(fields))).evaluate(batch)
    assert len(found.value) == batch.num_rows
    failed = np.zeros(batch.num_rows, np.uint8) if found.failed is None else found.failed
    return [
        REASONS[code] or value
        for value, code in zip(found.value.to_pylist(), failed.tolist(), strict=True)
    ]


BOOLEANS = [True, False, None]
PAIRS = list(product(BOOLEANS, BOOLEANS))


@pytest.mark.parametrize(
    ("operator", "table"),
    [
        ("and", [True, False, None, False, False, False, None, False, None]),
        ("or", [True, True, True, True, False, None, True, None, None]),
        ("=", [True, False, None, False, True, None, None, None, None]),
        ("!=", [False, True, None, True, False, None, None, None, None]),
    ],
)
def test_logic_follows_the_truth_table(operator: str, table: list[bool | None]) -> None:
    a, b = [pair[0] for pair in PAIRS], [pair[1] for pair in PAIRS]
    assert run(f"a {operator} b", a=("boolean", a), b=("boolean", b)) == table
    # The same with literals, which are computed before any row comes.
    texts = {True: "true", False: "false", None: "null"}
    assert [run(f"{texts[x]} {operator} {texts[y]}")[0] for x, y in PAIRS] == table


def test_not_is_null_in_and_between_are_three_valued() -> None:
    column = ("int", [1, 5, None])
    assert run("not a = 1", a=column) == [False, True, None]
    assert run("a is null", a=column) == [False, False, True]
    assert run("a is not null", a=column) == [True, True, False]
    assert run("a in (1, 2)", a=column) == [True, False, None]
    assert run("a in (1, null)", a=column) == [True, None, None]
    assert run("a not in (1, null)", a=column) == [False, None, None]
    assert run("a between 1 and 4", a=column) == [True, False, None]
    assert run("a between 2 and null", a=column) == [False, None, None]
    assert run("a not between null and 4", a=column) == [None, True, None]
    assert run("a < 5.5", a=column) == [True, True, None]


def test_integers_that_overflow_have_no_value_and_never_wrap() -> None:
    a = ("bigint", [MAX, -MAX - 1, 3, None])
    assert run("a + 1", a=a) == [Why.OVERFLOW, -MAX, 4, None]
    assert run("a - 1", a=a) == [MAX - 1, Why.OVERFLOW, 2, None]
    assert run("a * 2", a=a) == [Why.OVERFLOW, Why.OVERFLOW, 6, None]
    assert run("a * a", a=a) == [Why.OVERFLOW, Why.OVERFLOW, 9, None]
    assert run("-a", a=a) == [-MAX, Why.OVERFLOW, -3, None]
    assert run("a + 1 - 1", a=a) == [Why.OVERFLOW, -MAX - 1, 3, None]
    assert run("a + 1 is null", a=a)[0] is Why.OVERFLOW
    small = ("tinyint", [127, -128])
    assert run("a + a", a=small) == [254, -256]


def test_decimals_are_exact_to_38_digits() -> None:
    d = ("decimal(38,0)", [NINES, MINUS_NINES, Decimal(7), None])
    assert run("d + 1", d=d) == [Why.OVERFLOW, Decimal("-" + "9" * 37 + "8"), 8, None]
    assert run("d * 10", d=d) == [Why.OVERFLOW, Why.OVERFLOW, 70, None]
    assert run("-d", d=d) == [MINUS_NINES, NINES, -7, None]
    assert run("d = 7.0", d=d) == [False, False, True, None]
    fine = ("decimal(38,38)", [Decimal("1E-38"), None])
    assert run("d < 0.5", d=fine) == [True, None]
    assert run("d + 9223372036854775807", d=fine) == [Why.OVERFLOW, None]
    assert run("0.1 + 0.2 = 0.3") == [True]
    money = ("decimal(18,2)", [Decimal("12345678901234.56")])
    assert run("m * 1.19", m=money) == [Decimal("14691357892469.1264")]


def test_floats_compare_with_numbers_as_a_payload_would_write_them() -> None:
    assert run("f = 0.1", f=("double", [0.1, None])) == [True, None]
    assert run("f = 0.1", f=("float", [0.1])) == [True]
    assert run("f in (0.1, -2)", f=("double", [0.1, -2.0, 3.0])) == [True, True, False]
    assert run("cast(f as double) = 0.5", f=("float", [0.5])) == [True]


def test_branches_that_are_not_taken_do_no_harm() -> None:
    a = ("bigint", [MAX, 1, None])
    assert run("if(a < 100, a * 4, 0)", a=a) == [0, 4, 0]
    assert run("if(a < 100, 0, a * 4)", a=a) == [Why.OVERFLOW, 0, None]
    assert run("a < 100 and a * 4 = 4", a=a) == [False, True, None]
    assert run("a * 4 = 4 and a < 100", a=a) == [Why.OVERFLOW, True, None]
    assert run("a > 100 or a * 4 = 4", a=a) == [True, True, None]
    assert run("coalesce(a, a * 4)", a=a) == [MAX, 1, None]
    assert run("coalesce(a * 4, a)", a=a) == [Why.OVERFLOW, 4, None]
    assert run("if(a * 4 > 0, 1, 2)", a=a) == [Why.OVERFLOW, 1, 2]
    assert run("coalesce('a', cast(s as string))", s=("string", ["x"])) == ["a"]
    assert run("if(a = 1, cast('x' as int), 5)", a=a) == [5, Why.BAD_TEXT, 5]


def test_text_functions_count_characters() -> None:
    s = ("string", ["  Né😀é ", "", None])
    assert run("lower(s)", s=s) == ["  né😀é ", "", None]
    assert run("upper(s)", s=s) == ["  NÉ😀É ", "", None]
    assert run("trim(s)", s=s) == ["Né😀é", "", None]
    assert run("trim(s)", s=("string", [" \t a\u3000"])) == ["\t a\u3000"]
    assert run("length(s)", s=s) == [7, 0, None]
    assert run("substring(s, 3, 3)", s=s) == ["Né😀", "", None]
    assert run("substring(s, 3, 0)", s=s) == ["", "", None]
    assert run("substring(s, 2147483647, 2147483647)", s=s) == ["", "", None]
    assert run("replace(s, 'é', 'ee')", s=s) == ["  Nee😀ee ", "", None]
    assert run("concat(s, '|', s)", s=s) == ["  Né😀é |  Né😀é ", "|", None]
    assert run("s || null || 'a'", s=s) == [None, None, None]


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("a%", ["a", "ab", "a\nb", "a%b", "a.c"]),
        ("%b", ["ab", "a\nb", "a%b"]),
        ("a_b", ["a\nb", "a%b"]),
        (r"a\%b", ["a%b"]),
        ("a.c", ["a.c"]),
        ("_", ["a", "😀", "A"]),
        ("%", ["a", "ab", "a\nb", "a%b", "a.c", "😀", "", "A"]),
        ("", [""]),
        (r"\\", []),
        ("(a|b)*", []),
        ("_" * 3000, []),
    ],
)
def test_like_matches_whole_texts(pattern: str, matching: list[str]) -> None:
    texts: list[object] = ["a", "ab", "a\nb", "a%b", "a.c", "😀", "", "A", None]
    found = run(f"s like '{pattern}'", s=("string", texts))
    assert [text for text, match in zip(texts, found, strict=True) if match] == matching
    assert found[-1] is None


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (
            "bigint",
            {"12": 12, "-007": -7, "+5": 5, "12.0": 12, "1.2e1": 12, str(MAX): MAX, "-0": 0},
            {
                "": Why.BAD_TEXT,
                " 1": Why.BAD_TEXT,
                "1_000": Why.BAD_TEXT,
                "0x10": Why.BAD_TEXT,
                "٣": Why.BAD_TEXT,
                "12.5": Why.NOT_INTEGRAL,
                "1e-9999999": Why.NOT_INTEGRAL,
                str(MAX + 1): Why.OVERFLOW,
                "1e400": Why.OVERFLOW,
                "1e99999999999999999999": Why.OVERFLOW,
            },
        ),
        ("tinyint", {"127": 127, "-128": -128}, {"128": Why.OVERFLOW, "1e3": Why.OVERFLOW}),
        (
            "decimal(5,2)",
            {"1.5": Decimal("1.50"), "-999.99": Decimal("-999.99"), "1.500": Decimal("1.50")},
            {"0.125": Why.SCALE, "1000": Why.OVERFLOW, "NaN": Why.BAD_TEXT, "inf": Why.BAD_TEXT},
        ),
        ("boolean", {"true": True, "false": False}, {"True": Why.BAD_TEXT, "1": Why.BAD_TEXT}),
        (
            "date",
            {"2026-11-20": date(2026, 11, 20), "0001-01-01": date(1, 1, 1)},
            {"2026-02-30": Why.BAD_TIME, "20261120": Why.BAD_TIME, "": Why.BAD_TIME},
        ),
        (
            "timestamp",
            {
                "2026-11-20T08:00:00+08:00": utc("2026-11-20T00:00Z"),
                "2026-11-20 08:00Z": utc("2026-11-20T08:00Z"),
            },
            {"2026-11-20T08:00:00": Why.BAD_TIME, "x": Why.BAD_TIME},
        ),
    ],
)
def test_cast_from_text_is_exact(
    kind: str, good: dict[str, object], bad: dict[str, DirtyReason]
) -> None:
    texts: list[object] = [*good, None, *bad, *good]
    expected = [*good.values(), None, *bad.values(), *good.values()]
    assert run(f"cast(s as {kind})", s=("string", texts)) == expected


@pytest.mark.parametrize(
    ("text", "kind", "values", "expected"),
    [
        ("cast(a as tinyint)", "bigint", [127, 128, -129, None], [127, "o", "o", None]),
        ("cast(a as decimal(3,1))", "int", [99, 100, -99], [99, "o", -99]),
        ("cast(a as decimal(38,38))", "bigint", [0, 1], [0, "o"]),
        ("cast(a as string)", "bigint", [-5, None], ["-5", None]),
        ("cast(a as string)", "boolean", [True, False], ["true", "false"]),
        ("cast(a as string)", "date", [date(1, 2, 3)], ["0001-02-03"]),
        (
            "cast(a as string)",
            "decimal(38,10)",
            [Decimal("1E-10"), Decimal("-1.5"), None],
            ["0.0000000001", "-1.5000000000", None],
        ),
        ("cast(a as int)", "decimal(12,2)", [Decimal("5.00"), Decimal("5.01")], [5, "i"]),
        ("cast(a as tinyint)", "decimal(38,38)", [Decimal(0), Decimal("0.5")], [0, "i"]),
        ("cast(a as bigint)", "decimal(38,0)", [Decimal(MAX), NINES], [MAX, "o"]),
        (
            "cast(a as decimal(4,1))",
            "decimal(12,2)",
            [Decimal("1.50"), Decimal("1.55"), Decimal("1000.00"), Decimal("-999.90")],
            [Decimal("1.5"), "s", "o", Decimal("-999.9")],
        ),
        ("cast(a as decimal(38,20))", "decimal(38,0)", [Decimal(7), NINES], [7, "o"]),
    ],
)
def test_cast_keeps_the_value_or_fails(
    text: str, kind: str, values: list[object], expected: list[object]
) -> None:
    reasons = {"o": Why.OVERFLOW, "i": Why.NOT_INTEGRAL, "s": Why.SCALE}
    wanted = [reasons.get(value, value) if isinstance(value, str) else value for value in expected]
    assert run(text, a=(kind, values)) == wanted


def test_parts_of_a_time_are_those_of_the_zone() -> None:
    times: list[object] = [
        utc("2026-03-29T00:59:59.999999Z"),
        utc("2026-03-29T01:00Z"),
        utc("2026-12-31T23:30Z"),
        None,
    ]
    at = ("timestamp", times)
    assert run("hour(at, 'UTC')", at=at) == [0, 1, 23, None]
    assert run("hour(at, 'Europe/Berlin')", at=at) == [1, 3, 0, None]
    assert run("day(at, 'Europe/Berlin')", at=at) == [29, 29, 1, None]
    assert run("month(at, 'Europe/Berlin')", at=at) == [3, 3, 1, None]
    assert run("year(at, 'Europe/Berlin')", at=at) == [2026, 2026, 2027, None]


def test_time_that_a_zone_shifts_out_of_the_calendar_has_no_parts() -> None:
    ends: list[object] = [
        utc("0001-01-01T00:00Z"),
        utc("9999-12-31T23:00Z"),
    ]
    at = ("timestamp", ends)
    assert run("year(at, 'UTC')", at=at) == [1, 9999]
    assert run("year(at, 'Asia/Shanghai')", at=at) == [1, Why.BAD_TIME]
    assert run("year(at, 'America/New_York')", at=at) == [Why.BAD_TIME, 9999]


def test_structs_give_null_for_fields_of_null() -> None:
    kind = "struct<city:string,pos:struct<lat:double>>"
    geo: list[object] = [{"city": "Köln", "pos": {"lat": 50.9}}, {"city": None, "pos": None}, None]
    assert run("geo.city", geo=(kind, geo)) == ["Köln", None, None]
    assert run("geo.pos.lat > 50", geo=(kind, geo)) == [True, None, None]
    assert run("geo is null", geo=(kind, geo)) == [False, False, True]


def test_literals_and_empty_batches_give_as_many_values_as_rows() -> None:
    assert run("'a'", n=("int", [1, 2, 3])) == ["a", "a", "a"]
    assert run("cast('x' as int)", n=("int", [1, 2])) == [Why.BAD_TEXT, Why.BAD_TEXT]
    for text in ("n + 1", "'a'", "cast(cast(n as string) as int)", "n in (1)", "if(n = 1, 1, 2)"):
        assert run(text, n=("int", [])) == []


def test_failures_of_columns_travel_through_the_expression() -> None:
    batch = pa.record_batch([pa.array([1, 2], pa.int64())], names=["n"])
    schema = Schema((Field("n", parse_hive_type("bigint")),))
    failures = {0: np.array([0, 1], np.uint8)}
    found = compile_expression("n + 1", schema).evaluate(batch, failures)
    assert found.failed is not None
    assert found.failed.tolist() == [0, 1]
    skipped = compile_expression("if(true, 5, n)", schema).evaluate(batch, failures)
    assert (skipped.value.to_pylist(), skipped.failed) == ([5, 5], None)
    row = dirty_row(1, 1, "total")
    assert (row.index, row.stage, row.reason, row.path) == (1, "convert", Why.OVERFLOW, "total")
