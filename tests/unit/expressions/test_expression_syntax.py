"""Which texts are expressions, and where the others are told to be wrong."""

import pickle
from decimal import Decimal

import pytest

from sluiceway.errors import JobFileError
from sluiceway.expressions.syntax import parse_expression
from sluiceway.expressions.tree import (
    Call,
    Cast,
    Column,
    ExpressionError,
    Like,
    Literal,
    Node,
    Operator,
    children,
)
from sluiceway.types.schema import DecimalType


def shape(node: Node) -> str:
    """The tree with parentheses around every operation."""
    match node:
        case Literal(_, value):
            return repr(value)
        case Column(_, path):
            return ".".join(path)
        case Operator(_, name, operands):
            return f"({name} {' '.join(map(shape, operands))})"
        case Like(_, operand, pattern):
            return f"(like {shape(operand)} {pattern})"
        case Cast(_, operand, _):
            return f"(cast {shape(operand)})"
        case Call(_, name, arguments):
            return f"{name}({', '.join(map(shape, arguments))})"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a OR b AND NOT c = 1", "(or a (and b (not (= c 1))))"),
        ("a or b or c", "(or a b c)"),
        ("1 + 2 * 3 - 4", "(- (+ 1 (* 2 3)) 4)"),
        ("(1 + 2) * -x", "(* (+ 1 2) (negate x))"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("a - -1", "(- a -1)"),
        ("a = 1 -- b", "(= a (- 1 (negate b)))"),
        ("a || 'it''s' || b = 'x'", "(= ||(a, \"it's\", b) 'x')"),
        ("a NOT BETWEEN 1 AND 2 AND b", "(and (not (between a 1 2)) b)"),
        ("a not in (1, null, -2.50)", "(not (in a 1 None Decimal('-2.50')))"),
        ("a IS NOT NULL AND b is null", "(and (not (is null a)) (is null b))"),
        ("a NOT LIKE '%''_'", "(not (like a %'_))"),
        ("geo.city <> `odd ``name`.`x y`", "(!= geo.city odd `name.x y)"),
        ("cast(a AS decimal(10, 2))", "(cast a)"),
        ("If(TRUE, Coalesce(a, 1), null)", "if(True, coalesce(a, 1), None)"),
        ("  a\n  =\t1 ", "(= a 1)"),
        ("geo.null", "geo.null"),
    ],
)
def test_parser_reads_text_by_precedence(text: str, expected: str) -> None:
    assert shape(parse_expression(text)) == expected


def test_parser_keeps_decimals_exact_and_reads_types() -> None:
    literal = parse_expression("0.10000000000000000000000000000000000001")
    assert literal == Literal(0, Decimal("0.10000000000000000000000000000000000001"))
    cast = parse_expression("cast(a as DECIMAL(12,3))")
    assert isinstance(cast, Cast)
    assert cast.type == DecimalType(12, 3)


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("", 0, "expected a value, got the end"),
        ("a = ", 4, "expected a value"),
        ("a b", 2, "expected an operator or the end, got `b`"),
        ("(a", 2, r"expected \), got the end"),
        ("1 = 1 = 1", 6, "comparisons do not chain"),
        ("1 < 2 IS NULL", 6, "comparisons do not chain"),
        ("a IN ()", 6, "expected a value"),
        ("a IN (b)", 6, "expected literals"),
        ("a LIKE b", 7, "expected a pattern"),
        ("a NOT b", 6, "expected IN, BETWEEN or LIKE"),
        ("a IS 1", 5, "expected NULL"),
        ("'abc", 0, "closing '"),
        ("`abc", 0, "closing `"),
        ('a = "x"', 4, "single quotes"),
        ("a / 2", 2, "no division"),
        ("1.", 0, "expected a number"),
        ("12abc", 0, "expected a number"),
        ("1e5", 0, "expected a number"),
        ("a; b", 1, "no expression has ';'"),
        ("f(a)(b)", 4, "expected an operator"),
        ("a.", 2, "expected a field's name"),
        ("a[0]", 1, "no expression has"),
        ("lambda: 1", 6, "no expression has ':'"),
        ("cast(a AS void)", 10, "not in this version"),
        ("cast(a AS 'int')", 10, "expected a type's name"),
        ("cast(a AS decimal(39,0))", 10, "expected a type"),
        ("cast(a AS decimal(1.5))", 18, "expected a whole number"),
        ("a = \x00", 4, "no expression has"),
        ("a = \ud800", 4, "half a character"),
        ("ä = 1", 0, "no expression has"),
    ],
)
def test_parser_refuses_with_the_place(text: str, at: int, message: str) -> None:
    with pytest.raises(ExpressionError, match=message) as caught:
        parse_expression(text)
    assert caught.value.at == at


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(" * 2000, "deeper than 50"),
        ("(" * 60 + "1" + ")" * 60, "deeper than 50"),
        ("NOT " * 1000 + "a", "deeper than 50"),
        ("-" * 4000 + "a", "deeper than 50"),
        ("+".join("a" * 60), "deeper than 50"),
        ("if(" * 500, "deeper than 50"),
        (" or ".join("a" * 250), "more than 200"),
        (f"a in ({','.join('1' * 300)})", "more than 200"),
        ("a" * 4097, "at most 4096 bytes"),
        ("'" + "€" * 1400 + "'", "at most 4096 bytes"),
    ],
)
def test_parser_bounds_depth_nodes_and_text(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        parse_expression(text)


def test_parser_takes_long_chains_of_and_or_and_concat() -> None:
    for operator in (" and ", " or ", " || "):
        nodes = [parse_expression(operator.join("a" * 150))]
        columns = 0
        while nodes:
            node = nodes.pop()
            columns += isinstance(node, Column)
            nodes.extend(children(node))
        assert columns == 150


def test_expression_error_survives_pickling_with_its_place() -> None:
    error = ExpressionError("expected a value, got the end", 4)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (str(again), again.at) == (str(error), 4)
    assert str(error) == "character 5: expected a value, got the end"
    assert isinstance(again, JobFileError)
