"""The operators and functions of the language, as data: the source of their documentation."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Function:
    """One function or operator.

    Attributes:
        name: Name in a call; operators have their symbols.
        form: Syntax, for the documentation.
        result: Type of its result, in words.
        meaning: Description of its value.
        example: An expression without columns.
        gives: The example's value, as an expression of the same type.
    """

    name: str
    form: str
    result: str
    meaning: str
    example: str
    gives: str


OPERATORS: tuple[Function, ...] = (
    Function(
        "compare",
        "`=` `!=` `<>` `<` `<=` `>` `>=`",
        "boolean",
        "Both sides are of one kind: exact numbers, texts (by code point), dates, timestamps, "
        "booleans (`=`, `!=` only) or floats of one width.",
        "2.50 = 2.5",
        "true",
    ),
    Function(
        "logic",
        "`a AND b`, `a OR b`, `NOT a`",
        "boolean",
        "Three-valued logic of SQL. `b` does no harm where `a` decides.",
        "null OR true",
        "true",
    ),
    Function(
        "in",
        "`a [NOT] IN (literal, ...)`",
        "boolean",
        "Equal to one of them; null when it is to none and one of them, or `a`, is null.",
        "'b' IN ('a', 'b')",
        "true",
    ),
    Function(
        "between",
        "`a [NOT] BETWEEN b AND c`",
        "boolean",
        "`a >= b AND a <= c`.",
        "5 BETWEEN 1 AND 5",
        "true",
    ),
    Function("is null", "`a IS [NOT] NULL`", "boolean", "Never null.", "null IS NULL", "true"),
    Function(
        "like",
        "`a [NOT] LIKE 'pattern'`",
        "boolean",
        "`%` is any text, `_` one character, after a backslash themselves. The whole text has to "
        "match, in its case.",
        "'web-7' LIKE 'web-_'",
        "true",
    ),
    Function(
        "calculate",
        "`a + b`, `a - b`, `a * b`, `-a`",
        "bigint, or decimal when one side is",
        "Exact; a result that does not fit (64 bits, 38 digits) makes the row dirty. No floats, "
        "no division.",
        "0.1 + 0.2",
        "0.3",
    ),
    Function(
        "||",
        "`a || b`",
        "string",
        "Texts one after the other.",
        "'a' || 'b'",
        "'ab'",
    ),
    Function(
        "cast",
        "`cast(a AS type)`",
        "the type",
        "A value that the type has not makes the row dirty. Integer and decimal to integer, "
        "decimal and string; string to integer, decimal, boolean, date (`yyyy-MM-dd`) and "
        "timestamp (ISO 8601 with `Z` or an offset); boolean and date to string; float to double.",
        "cast('12.0' AS int)",
        "12",
    ),
)

FUNCTIONS: tuple[Function, ...] = (
    Function(
        "coalesce",
        "`coalesce(a, b, ...)`",
        "their common type",
        "The first of them that is not null.",
        "coalesce(null, 'b', 'c')",
        "'b'",
    ),
    Function(
        "concat",
        "`concat(a, b, ...)`",
        "string",
        "The same as `||`.",
        "concat('a', 'b', 'c')",
        "'abc'",
    ),
    Function(
        "day",
        "`day(timestamp, 'zone')`",
        "int",
        "Day of the month in the zone, from 1.",
        "day(cast('2026-11-20T23:30:00Z' AS timestamp), 'Asia/Shanghai')",
        "21",
    ),
    Function(
        "hour",
        "`hour(timestamp, 'zone')`",
        "int",
        "Hour of the day in the zone, from 0.",
        "hour(cast('2026-11-20T23:30:00Z' AS timestamp), 'Asia/Shanghai')",
        "7",
    ),
    Function(
        "if",
        "`if(condition, a, b)`",
        "their common type",
        "`a` where the condition is true; `b` where it is false or null.",
        "if(1 < 2, 'yes', 'no')",
        "'yes'",
    ),
    Function("length", "`length(a)`", "int", "Characters of a text.", "length('né')", "2"),
    Function(
        "lower",
        "`lower(a)`",
        "string",
        "The text in lower case, letter by letter: its length stays.",
        "lower('AbÉ')",
        "'abé'",
    ),
    Function(
        "mask",
        "`mask(a, keep)`",
        "string",
        "The text with `*` for each character but the last `keep`, a literal from 0. A text of "
        "at most so many characters is covered whole.",
        "mask('13800001234', 4)",
        "'*******1234'",
    ),
    Function(
        "month",
        "`month(timestamp, 'zone')`",
        "int",
        "Month in the zone, from 1.",
        "month(cast('2026-12-31T23:30:00Z' AS timestamp), 'Asia/Shanghai')",
        "1",
    ),
    Function(
        "null_if",
        "`null_if(a, b)`",
        "the type of `a`",
        "Null where `a = b`, else `a`.",
        "null_if('-', 'n/a')",
        "'-'",
    ),
    Function(
        "replace",
        "`replace(a, 'search', 'by')`",
        "string",
        "Every `search` replaced, left to right. Both are literals; `search` is not empty.",
        "replace('a-b-c', '-', '')",
        "'abc'",
    ),
    Function(
        "sha256",
        "`sha256(a, salt)`",
        "string",
        "SHA-256 of the salt and the text after it, both in UTF-8, as 64 hex digits. The column's "
        "key `salt` has the salt, from a reference; here it is `pepper`.",
        "sha256('a', salt)",
        "'fb8da7c36f20f5b8ba6d0bc9a48de23ded12995435364e39efb226ed8e81cce6'",
    ),
    Function(
        "substring",
        "`substring(a, from, count)`",
        "string",
        "At most `count` characters, counted from 1. Both are literals.",
        "substring('sluice', 2, 3)",
        "'lui'",
    ),
    Function(
        "trim",
        "`trim(a)`",
        "string",
        "The text without spaces (U+0020) at its ends.",
        "trim('  a b ')",
        "'a b'",
    ),
    Function(
        "upper",
        "`upper(a)`",
        "string",
        "The text in upper case, letter by letter: its length stays.",
        "upper('abé')",
        "'ABÉ'",
    ),
    Function(
        "year",
        "`year(timestamp, 'zone')`",
        "int",
        "Year in the zone.",
        "year(cast('2026-12-31T23:30:00Z' AS timestamp), 'Asia/Shanghai')",
        "2027",
    ),
)


def documentation_table() -> str:
    """The operators and functions as Markdown tables.

    Called by a test, which compares it with the documentation.

    Returns:
        Two tables with a blank line between, each line ended by a line feed.
    """
    return f"{_table('Operator', OPERATORS)}\n{_table('Function', FUNCTIONS)}"


def _table(title: str, functions: tuple[Function, ...]) -> str:
    lines = [f"| {title} | Result | Meaning | Example |", "|---|---|---|---|"]
    for of in functions:
        example = f"`{of.example}` is `{of.gives}`"
        row = [of.form, of.result, of.meaning, example]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
    return "\n".join(lines) + "\n"
