"""Which expressions fit which columns, and which comparisons are never true."""

import pytest

from sluiceway.expressions.evaluate import compile_condition, compile_expression
from sluiceway.expressions.function_rules import RULES
from sluiceway.expressions.functions import FUNCTIONS
from sluiceway.expressions.null_comparisons import comparisons_with_null
from sluiceway.expressions.tree import ExpressionError
from sluiceway.types.hive_types import format_hive_type, parse_hive_type
from sluiceway.types.schema import Field, Schema

COLUMNS = {
    "tiny": "tinyint",
    "n": "bigint",
    "qty": "int",
    "d": "decimal(10,2)",
    "wide": "decimal(38,0)",
    "deep": "decimal(38,38)",
    "f": "double",
    "g": "float",
    "s": "string",
    "ok": "boolean",
    "day": "date",
    "at": "timestamp",
    "raw": "binary",
    "tags": "array<string>",
    "geo": "struct<City:string,pos:struct<lat:double>,a:int>",
}
SCHEMA = Schema(tuple(Field(name, parse_hive_type(kind)) for name, kind in COLUMNS.items()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", "tinyint"),
        ("-129", "smallint"),
        ("9223372036854775808", "decimal(19,0)"),
        ("0.10", "decimal(2,2)"),
        ("tiny + 1", "bigint"),
        ("-tiny", "bigint"),
        ("d + 1", "decimal(11,2)"),
        ("d * d", "decimal(21,4)"),
        ("d - 0.12345", "decimal(14,5)"),
        ("wide + 1", "decimal(38,0)"),
        ("n * d", "decimal(30,2)"),
        ("if(ok, tiny, qty)", "int"),
        ("coalesce(qty, d, null)", "decimal(12,2)"),
        ("coalesce(f, 0)", "double"),
        ("if(ok, null, s)", "string"),
        ("S || geo.CITY", "string"),
        ("geo.pos.lat", "double"),
        ("geo.A", "int"),
        ("tags", "array<string>"),
        ("cast(g AS double)", "double"),
        ("year(at, 'UTC')", "int"),
        ("f > 0.1 and 1 < f and f between 0 and 9.5 and f in (1, 0.5)", "boolean"),
        ("wide = deep", "boolean"),
        ("n = 0.5", "boolean"),
        ("tags is null", "boolean"),
        ("null = null", "boolean"),
        ("day < cast('2026-01-01' AS date)", "boolean"),
    ],
)
def test_types_of_expressions_follow_from_their_parts(text: str, expected: str) -> None:
    assert format_hive_type(compile_expression(text, SCHEMA).type) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nope = 1", "character 1: there is no column nope here; there are tiny, n, qty"),
        ("geo.nope", "has no field nope"),
        ("s.x", "string has no field x"),
        ("s.__class__", "string has no field __class__"),
        ("__import__('os')", "there is no function __import__"),
        ("s = 1", "character 3: = compares values of one plain type, got string and tinyint"),
        ("s || 1", r"\|\| takes string, got tinyint"),
        ("ok = 1", "got boolean and tinyint"),
        ("ok < true", "got boolean and boolean"),
        ("f = n", "expected values of one type|expected double"),
        ("f = g", "expected"),
        ("f + 1", r"\+ takes integers and decimals, got double"),
        ("f = 9007199254740993", "a number that double can hold"),
        ("at = '2026-01-01T00:00:00Z'", "got timestamp and string"),
        ("day = at", "got date and timestamp"),
        ("tags = tags", "got array<string>"),
        ("raw = raw", "got binary"),
        ("coalesce(tags, tags)", "expected one plain value"),
        ("coalesce(null, null)", "nulls only"),
        ("if(n, 1, 2)", "the condition of if takes boolean, got bigint"),
        ("if(ok, 1)", "if takes 3 arguments, got 2"),
        ("if(ok, 1, 's')", "expected values of one type, got tinyint and string"),
        ("s and ok", "AND takes boolean, got string"),
        ("not n", "NOT takes boolean, got bigint"),
        ("n like 'a'", "LIKE takes string, got bigint"),
        (r"s like 'a\b'", "a backslash"),
        ("s like 'a\\'", "a backslash"),
        ("substring(s, n, 1)", "literal integer from 1 as argument 2"),
        ("substring(s, 0, 1)", "literal integer from 1"),
        ("substring(s, 1, -1)", "literal integer from 0"),
        ("replace(s, '', 'x')", "a text to search for"),
        ("replace(s, s, 'x')", "a literal text as argument 2"),
        ("hour(at)", "takes 2 arguments"),
        ("hour(n, 'UTC')", "hour takes timestamp"),
        ("hour(at, 'Mars/Olympus')", "there is no time zone 'Mars/Olympus'"),
        ("hour(at, '../../etc/passwd')", "there is no time zone"),
        ("cast(f AS bigint)", "no exact cast from double to bigint"),
        ("cast(at AS string)", "no exact cast"),
        ("cast(tags AS string)", "no exact cast"),
        ("deep * deep", "too many digits"),
        ("wide * wide", "too many digits"),
        ("0." + "1" * 39, "at most 38 digits"),
        ("9" * 4000, "at most 38 digits"),
        ("concat()", "1 argument or more"),
        ("null", "a value with a type"),
    ],
)
def test_types_that_do_not_fit_are_refused_with_what_came(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        compile_expression(text, SCHEMA)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("tiny", "bigint"),
        ("n", "decimal(19,0)"),
        ("d", "decimal(12,3)"),
        ("null", "array<string>"),
        ("0.5", "float"),
        ("if(ok, 1, 0)", "smallint"),
    ],
)
def test_expression_is_widened_to_its_column(text: str, wanted: str) -> None:
    kind = parse_hive_type(wanted)
    assert compile_expression(text, SCHEMA, kind).type == kind


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("n", "int"),
        ("n", "decimal(18,0)"),
        ("d", "decimal(10,1)"),
        ("d", "double"),
        ("n", "string"),
        ("s", "bigint"),
        ("n + 1", "int"),
        ("g", "double"),
        ("at", "date"),
    ],
)
def test_expression_that_could_change_a_value_needs_a_cast(text: str, wanted: str) -> None:
    with pytest.raises(ExpressionError, match=r"expected .*, got .*; write cast\(\.\.\. AS "):
        compile_expression(text, SCHEMA, parse_hive_type(wanted))


def test_condition_has_to_be_boolean() -> None:
    assert compile_condition("ok and null", SCHEMA).text == "ok and null"
    with pytest.raises(ExpressionError, match="expected boolean, got bigint"):
        compile_condition("n", SCHEMA)


def test_names_that_differ_in_case_only_are_told_apart_or_refused() -> None:
    twice = Schema((Field("a", parse_hive_type("int")), Field("A", parse_hive_type("string"))))
    assert format_hive_type(compile_expression("A", twice).type) == "string"
    alike = Schema((Field("Ab", parse_hive_type("int")), Field("aB", parse_hive_type("int"))))
    with pytest.raises(ExpressionError, match="there is no column ab"):
        compile_expression("ab", alike)


def test_every_function_is_documented() -> None:
    assert {function.name for function in FUNCTIONS} == RULES.keys() - {"||"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "country <> null",
            "`country <> null` is null for every row, never true: write",
        ),
        ("a.b = NULL", "`a.b = null` is null for every row, never true: write `a.b IS NULL`"),
        ("null != a", "`a <> null` is null for every row, never true: write `a IS NOT NULL`"),
        ("n > 1 AND NOT (n >= null)", "`n >= null` is null for every row, never true: compare"),
        ("upper(a) = null", "`the value = null` is null"),
        ("a NOT IN ('x', null)", "`a IN (..., null)` is never false, and `NOT IN` never true"),
        ("n BETWEEN null AND 3", "`n BETWEEN` a null is null for every row"),
        ("if(a = null, 'x', 'y') = 'y'", "`a = null`"),
    ],
)
def test_each_is_told_with_what_to_write(text: str, told: str) -> None:
    (found,) = comparisons_with_null(text)
    assert told in found


@pytest.mark.parametrize("text", ["a IS NULL", "a <> 'null'", "coalesce(a, null) = 'x'", "n > 0"])
def test_nothing_is_said_of_others(text: str) -> None:
    assert comparisons_with_null(text) == ()


def test_each_of_several_is_told() -> None:
    assert len(comparisons_with_null("a = null OR b = null OR c <> null")) == 3
