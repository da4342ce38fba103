"""Random expressions yield what a plain evaluator, one row at a time, says of them."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sluiceway.expressions.evaluate import compile_expression
from sluiceway.expressions.tree import ExpressionError
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema

Row = Mapping[str, Any]
EXACT = Context(prec=400)
SCHEMA = Schema(
    tuple(
        Field(name, parse_hive_type(kind))
        for name, kind in {
            "n": "bigint",
            "i": "int",
            "d": "decimal(10,2)",
            "w": "decimal(38,10)",
            "s": "string",
            "b": "boolean",
        }.items()
    )
)
TEXTS = (
    "",
    "a",
    "B",
    "ab%",
    "né",
    "a_b",
    " x ",
    "12",
    "-7.0",
    "12.5",
    "1e2",
    "99999999999999999999",
)
INTEGERS = (0, 1, -1, 7, 127, 128, -129, 2**31 - 1, 2**31, 2**63 - 1, -(2**63))
DECIMALS = ("0", "0.01", "-1.50", "99999999.99", "12.00")
WIDE = ("0", "9999999999999999999999999999.9999999999", "-0.0000000001", "12.0000000000")
ROWS = st.fixed_dictionaries(
    {
        "n": st.none() | st.sampled_from(INTEGERS),
        "i": st.none() | st.sampled_from([n for n in INTEGERS if -(2**31) <= n < 2**31]),
        "d": st.none() | st.sampled_from([Decimal(text) for text in DECIMALS]),
        "w": st.none() | st.sampled_from([Decimal(text) for text in WIDE]),
        "s": st.none() | st.sampled_from(TEXTS),
        "b": st.none() | st.booleans(),
    }
)


class Inexact(Exception):  # noqa: N818
    """There is no exact value."""


@dataclass(frozen=True)
class Made:
    """An expression's text, its value for a row, and, of numbers, digits (before, after)."""

    text: str
    value: Callable[[Row], Any]
    digits: tuple[int, int] = (0, 0)
    integer: bool = False


def strict(function: Callable[..., Any], *parts: Made) -> Callable[[Row], Any]:
    """Null when a part is null; every part is looked at first."""

    def value(row: Row) -> Any:
        values = [part.value(row) for part in parts]
        return None if None in values else function(*values)

    return value


def leaf(name: str, digits: tuple[int, int] = (0, 0), *, integer: bool = False) -> Made:
    return Made(name, lambda row: row[name], digits, integer)


def literal(
    text: str, value: Any, digits: tuple[int, int] = (0, 0), *, integer: bool = False
) -> Made:
    return Made(text, lambda _: value, digits, integer)


def integer_literal(value: int) -> Made:
    limits = ((3, 7), (5, 15), (10, 31))
    digits = next((d for d, bits in limits if -(1 << bits) <= value < 1 << bits), 19)
    return literal(str(value), value, (digits, 0), integer=True)


def checked(result: Decimal, digits: tuple[int, int], *, integer: bool) -> Any:
    if integer:
        if not -(2**63) <= result < 2**63:
            raise Inexact
        return int(result)
    whole = 38 - digits[1] if sum(digits) > 38 else digits[0]
    limit = Decimal(10) ** whole
    # abs() would round to the 28 digits of Python's context.
    if not limit.copy_negate() < result < limit:
        raise Inexact
    return result


def arithmetic(operator: str, left: Made, right: Made) -> Made | None:
    integer = left.integer and right.integer
    if operator == "*":
        digits = (left.digits[0] + right.digits[0] + 1, left.digits[1] + right.digits[1])
    else:
        digits = tuple(max(pair) for pair in zip(left.digits, right.digits, strict=True))  # type: ignore[assignment]
        digits = (digits[0] + 1, digits[1])
    if not integer and (sum(digits) > 76 or digits[1] > 38):
        return None
    work = {"+": EXACT.add, "-": EXACT.subtract, "*": EXACT.multiply}[operator]

    def calculate(a: Any, b: Any) -> Any:
        return checked(work(Decimal(a), Decimal(b)), digits, integer=integer)

    kept = (19, 0) if integer else (min(digits[0], 38 - digits[1]), digits[1])
    text = f"({left.text} {operator} {right.text})"
    return Made(text, strict(calculate, left, right), kept, integer)


def common(left: Made, right: Made) -> tuple[int, int] | None:
    if left.integer != right.integer or not left.integer:
        digits = max(left.digits[0], right.digits[0]), max(left.digits[1], right.digits[1])
        return digits if sum(digits) <= 38 else None
    return max(left.digits, right.digits)


def like(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return like(text, pattern[1:]) or (bool(text) and like(text[1:], pattern))
    return bool(text) and pattern[0] in ("_", text[0]) and like(text[1:], pattern[1:])


def to_bigint(text: str) -> int:
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        raise Inexact
    try:
        number = Decimal(text)
    except InvalidOperation as error:
        raise Inexact from error
    if EXACT.to_integral_value(number) != number or not -(2**63) <= number < 2**63:
        raise Inexact
    return int(number)


@st.composite
def numbers(draw: st.DrawFn, depth: int) -> Made:
    simple = (
        leaf("n", (19, 0), integer=True),
        leaf("i", (10, 0), integer=True),
        leaf("d", (8, 2)),
        leaf("w", (28, 10)),
        *map(integer_literal, (0, 3, -200, 2**62)),
        literal("0.25", Decimal("0.25"), (0, 2)),
        literal("-1.5", Decimal("-1.5"), (1, 1)),
    )
    kind = draw(
        st.sampled_from(["leaf", "math", "math", "if", "coalesce", "length", "cast", "minus"])
    )
    if depth == 0 or kind == "leaf":
        return draw(st.sampled_from(simple))
    if kind == "length":
        part = draw(texts(depth - 1))
        return Made(f"length({part.text})", strict(len, part), (10, 0), integer=True)
    if kind == "cast":
        part = draw(texts(depth - 1))
        return Made(f"cast({part.text} AS bigint)", strict(to_bigint, part), (19, 0), integer=True)
    left = draw(numbers(depth - 1))
    if kind == "minus":
        zero = literal("0", 0, (3, 0), integer=True)
        found = arithmetic("-", zero, left)
        return (
            Made(f"(-({left.text}))", found.value, found.digits, found.integer) if found else left
        )
    right = draw(numbers(depth - 1))
    if kind == "math":
        return arithmetic(draw(st.sampled_from("+-*")), left, right) or left
    digits, integer = common(left, right), left.integer and right.integer
    if digits is None:
        return left
    if kind == "coalesce":
        text = f"coalesce({left.text}, {right.text})"
        return Made(text, lambda row: first(left.value(row), right, row), digits, integer)
    return choice(draw(conditions(depth - 1)), left, right, digits, integer=integer)


def first(value: Any, other: Made, row: Row) -> Any:
    return other.value(row) if value is None else value


def choice(
    condition: Made,
    left: Made,
    right: Made,
    digits: tuple[int, int] = (0, 0),
    *,
    integer: bool = False,
) -> Made:
    text = f"if({condition.text}, {left.text}, {right.text})"
    return Made(
        text,
        lambda row: (left if condition.value(row) is True else right).value(row),
        digits,
        integer,
    )


@st.composite
def texts(draw: st.DrawFn, depth: int) -> Made:
    kind = draw(
        st.sampled_from(["leaf", "join", "change", "cut", "replace", "cast", "if", "coalesce"])
    )
    if depth == 0 or kind == "leaf":
        value = draw(st.sampled_from(TEXTS))
        return draw(st.sampled_from([leaf("s"), literal(f"'{value}'", value)]))
    part = draw(texts(depth - 1))
    if kind == "change":
        name, function = draw(
            st.sampled_from([("lower", str.lower), ("upper", str.upper), ("trim", trimmed)])
        )
        return Made(f"{name}({part.text})", strict(function, part))
    if kind == "cut":
        start, count = draw(st.integers(1, 4)), draw(st.integers(0, 3))
        cut = strict(lambda text: text[start - 1 : start - 1 + count], part)
        return Made(f"substring({part.text}, {start}, {count})", cut)
    if kind == "replace":
        changed = strict(lambda text: text.replace("a", "''"), part)
        return Made(f"replace({part.text}, 'a', '''''')", changed)
    if kind == "cast":
        whole = draw(st.sampled_from([leaf("n"), leaf("d"), leaf("i")]))
        return Made(f"cast({whole.text} AS string)", strict(written, whole))
    other = draw(texts(depth - 1))
    if kind == "join":
        return Made(f"({part.text} || {other.text})", strict(lambda a, b: a + b, part, other))
    if kind == "coalesce":
        text = f"coalesce({part.text}, {other.text})"
        return Made(text, lambda row: first(part.value(row), other, row))
    return choice(draw(conditions(depth - 1)), part, other)


def trimmed(text: str) -> str:
    return text.strip(" ")


def written(value: Any) -> str:
    return (
        format(value.quantize(Decimal("0.01")), "f") if isinstance(value, Decimal) else str(value)
    )


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@st.composite
def conditions(draw: st.DrawFn, depth: int) -> Made:
    kind = draw(
        st.sampled_from(
            ["leaf", "compare", "logic", "logic", "not", "null", "in", "between", "like"]
        )
    )
    if depth == 0 or kind == "leaf":
        constants = [
            literal("true", value=True),
            literal("false", value=False),
            literal("null", None),
        ]
        return draw(st.sampled_from([leaf("b"), *constants]))
    if kind == "like":
        part, pattern = draw(texts(depth - 1)), draw(st.text("ab%_é", max_size=4))
        return Made(
            f"({part.text} LIKE '{pattern}')", strict(lambda text: like(text, pattern), part)
        )
    if kind in ("logic", "not"):
        left, right = draw(conditions(depth - 1)), draw(conditions(depth - 1))
        if kind == "not":
            return Made(f"(NOT {left.text})", strict(lambda a: not a, left))
        decisive = draw(st.booleans())
        word = "OR" if decisive else "AND"
        text = f"({left.text} {word} {right.text})"
        return Made(text, lambda row: logic(left, right, row, decisive=decisive))
    side = draw(st.sampled_from([numbers, texts]))
    part = draw(side(depth - 1))
    if kind == "null":
        return Made(f"({part.text} IS NULL)", lambda row: part.value(row) is None)
    if kind == "in":
        pool = TEXTS if side is texts else (3, -200, "0.25")
        values = draw(st.lists(st.none() | st.sampled_from(pool), min_size=1, max_size=3))
        return membership(part, values, quote="'" if side is texts else "")
    other = draw(side(depth - 1))
    if kind == "compare":
        name = draw(st.sampled_from(sorted(COMPARISONS)))
        return Made(f"({part.text} {name} {other.text})", strict(COMPARISONS[name], part, other))
    third = draw(side(depth - 1))
    text = f"({part.text} BETWEEN {other.text} AND {third.text})"
    return Made(text, lambda row: between(part.value(row), other.value(row), third.value(row)))


def logic(left: Made, right: Made, row: Row, *, decisive: bool) -> bool | None:
    a: bool | None = left.value(row)
    if a is decisive:
        return decisive
    b: bool | None = right.value(row)
    if b is decisive:
        return decisive
    return None if a is None or b is None else not decisive


def membership(part: Made, values: list[Any], quote: str) -> Made:
    shown = ", ".join("null" if value is None else f"{quote}{value}{quote}" for value in values)
    wanted = [value if quote or value is None else Decimal(value) for value in values]

    def value(row: Row) -> bool | None:
        found = part.value(row)
        if found is None:
            return None
        if found in [each for each in wanted if each is not None]:
            return True
        return None if None in wanted else False

    return Made(f"({part.text} IN ({shown}))", value)


def between(value: Any, low: Any, high: Any) -> bool | None:
    above = None if value is None or low is None else bool(value >= low)
    below = None if value is None or high is None else bool(value <= high)
    if False in (above, below):
        return False
    return None if None in (above, below) else True


@settings(max_examples=250, deadline=None)
@given(numbers(3) | texts(3) | conditions(4), st.lists(ROWS, min_size=1, max_size=6))
def test_random_expression_equals_the_plain_evaluator(made: Made, rows: list[Row]) -> None:
    if made.text == "null":
        return
    batch = pa.RecordBatch.from_pylist([dict(row) for row in rows], schema=arrow_schema(SCHEMA))
    found = compile_expression(made.text, SCHEMA).evaluate(batch)
    for index, row in enumerate(rows):
        failed = found.failed is not None and found.failed[index] != 0
        try:
            expected = made.value(row)
        except Inexact:
            assert failed, (made.text, row)
            continue
        assert not failed, (made.text, row)
        assert found.value[index].as_py() == expected, (made.text, row)


WORDS = (
    *("n", "s", "d", "b", "geo.city", "1", "0.5", "'a'", "''", "null", "true", "and", "or", "not"),
    *("in", "between", "is", "like", "cast", "as", "int", "decimal", "(", ")", ",", "+", "-", "*"),
    *("||", "=", "<", ".", "`n`", "'", "`", "if", "coalesce", "length", "__import__", "'os'", "\\"),
    *("lambda", "hour", "'UTC'", "9" * 30, "😀", "\x00", "\u202e", ";", "{", "%"),
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join)
    | st.text(max_size=60)
    | st.sampled_from(WORDS).flatmap(lambda word: st.integers(1, 900).map(lambda n: word * n))
)
@example("(" * 100_000)
@example("'" * 4001)
@example("__import__('os').system('true')")
@example("n.__class__.__mro__")
@example("\ud800")
def test_hostile_text_is_an_expression_or_our_own_error(text: str) -> None:
    batch = pa.RecordBatch.from_pylist([{}], schema=arrow_schema(SCHEMA))
    with suppress(ExpressionError):
        expression = compile_expression(text, SCHEMA)
        assert len(expression.evaluate(batch).value) == 1
