"""From a parsed tree to steps: types are resolved and implicit changes of values refused."""

from collections.abc import Sequence
from decimal import Decimal
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.expressions import exact_numbers, texts
from sluiceway.expressions.exact_numbers import COMPARISONS, INTEGER_DIGITS, MAX_PRECISION
from sluiceway.expressions.function_rules import call_function, typed_step
from sluiceway.expressions.logic import all_true, any_equal, any_true, between
from sluiceway.expressions.steps import (
    ColumnStep,
    Constant,
    Kernel,
    Step,
    operation,
    per_row,
)
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
from sluiceway.expressions.widening import common_type, is_plain, shown_type, typed, widened
from sluiceway.types.arrow_types import arrow_type
from sluiceway.types.schema import (
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    LocalTimestampType,
    Schema,
    StringType,
    StructType,
    TimestampType,
    VarcharType,
)

_BOOLEAN = BooleanType()
_TEXT = StringType()
_INT64 = IntegerType(64)
_SHOWN_COLUMNS = 20


def check_types(node: Node, schema: Schema) -> Step:
    """Resolve columns and types of a tree.

    Called once per expression. The tree's depth is bounded by the parser.

    Args:
        node: The tree, as parsed.
        schema: Columns of the batches that it will be evaluated over, in their order.

    Raises:
        ExpressionError: There is no such column or function, or types do not fit.
    """
    operands = tuple(check_types(child, schema) for child in children(node))
    match node:
        case Literal():
            return _literal(node)
        case Column():
            return _column(node, schema)
        case Operator():
            return _operator(node, operands)
        case Like():
            return _like(node, operands[0])
        case Cast():
            return _cast(node, operands[0])
        case Call():
            return call_function(node, operands)


def _literal(node: Literal) -> Step:
    kind: DataType | None
    match node.value:
        case None:
            return Constant(None, pa.scalar(None))
        case bool():
            kind = _BOOLEAN
        case str():
            kind = _TEXT
        case int(value):
            kind = next((k for k in _INTEGERS if _fits(value, k.bits)), None)
        case Decimal():
            kind = None
    if kind is not None:
        return Constant(kind, pa.scalar(node.value, arrow_type(kind)))
    number = Decimal(node.value)
    _, digits, exponent = number.as_tuple()
    scale = -int(exponent)
    precision = max(len(digits), scale)
    if precision > MAX_PRECISION:
        text = f"expected a number of at most {MAX_PRECISION} digits, got {precision}"
        raise ExpressionError(text, node.at)
    kind = DecimalType(precision, scale)
    return Constant(kind, pa.scalar(number, arrow_type(kind)))


_INTEGERS = tuple(IntegerType(bits) for bits in INTEGER_DIGITS)


def _fits(value: int, bits: int) -> bool:
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def _column(node: Column, schema: Schema) -> Step:
    first, *rest = node.path
    field = _find(schema.fields, first)
    if field is None:
        known = ", ".join(field.name for field in schema.fields[:_SHOWN_COLUMNS])
        raise ExpressionError(f"there is no column {first[:60]} here; there are {known}", node.at)
    index, kind, inner = schema.fields.index(field), field.type, list[str]()
    for name in rest:
        found = _find(kind.fields, name) if isinstance(kind, StructType) else None
        if found is None:
            raise ExpressionError(f"{shown_type(kind)} has no field {name[:60]}", node.at)
        inner.append(found.name)
        kind = found.type
    return ColumnStep(_value_type(kind), index, tuple(inner))


def _value_type(kind: DataType) -> DataType:
    """The type of a column's values in expressions: length and zone do not matter."""
    match kind:
        case VarcharType() | CharType():
            return _TEXT
        case LocalTimestampType():
            return TimestampType()
        case _:
            return kind


def _find(fields: Sequence[Field], name: str) -> Field | None:
    """A field by its name; in other letter case too, when only one matches."""
    exact = [field for field in fields if field.name == name]
    alike = [field for field in fields if field.name.lower() == name.lower()]
    return exact[0] if exact else alike[0] if len(alike) == 1 else None


def _operator(node: Operator, operands: tuple[Step, ...]) -> Step:
    match node.name:
        case "and" | "or":
            sides = [
                typed_step(step, _BOOLEAN, child.at, node.name.upper())
                for child, step in zip(node.operands, operands, strict=True)
            ]
            return operation(_BOOLEAN, all_true if node.name == "and" else any_true, *sides)
        case "not":
            side = typed_step(operands[0], _BOOLEAN, node.operands[0].at, "NOT")
            return operation(_BOOLEAN, per_row(pc.invert), side)
        case "is null":
            return operation(_BOOLEAN, per_row(pc.is_null), typed(operands[0], _BOOLEAN))
        case "+" | "-" | "*":
            return _arithmetic(node, operands)
        case "negate":
            return _arithmetic(node, (_literal(Literal(node.at, 0)), operands[0]))
        case _:
            return _comparison(node, operands)


def _comparison(node: Operator, operands: tuple[Step, ...]) -> Step:
    sides = _comparable(node, operands)
    names = {"in": ["="] * len(sides), "between": [">=", "<="]}.get(node.name, [node.name])
    kernels = [
        _compare(node, name, sides[0].type, side.type)
        for name, side in zip(names, sides[1:], strict=False)
    ]
    match node.name:
        case "in":
            return operation(_BOOLEAN, partial(any_equal, kernels), *sides)
        case "between":
            return operation(_BOOLEAN, partial(between, kernels), *sides)
        case _:
            return operation(_BOOLEAN, kernels[0], *sides)


def _comparable(node: Operator, operands: tuple[Step, ...]) -> list[Step]:
    """The operands, with a type for nulls; numbers that are compared with floats become floats."""
    kinds = [step.type for step in operands if step.type is not None]
    if any(isinstance(kind, FloatType) for kind in kinds):
        kind = common_type(operands, node.at)
        return [
            widened(step, kind, child.at)
            for child, step in zip(node.operands, operands, strict=True)
        ]
    return [typed(step, kinds[0] if kinds else _INT64) for step in operands]


def _compare(node: Operator, name: str, left: DataType | None, right: DataType | None) -> Kernel:
    if isinstance(left, exact_numbers.Exact) and isinstance(right, exact_numbers.Exact):
        return partial(exact_numbers.compare_exactly, name, (left, right))
    ordered = name in ("=", "!=") or left != _BOOLEAN
    if left == right and is_plain(left) and ordered:
        return per_row(COMPARISONS[name])
    text = f"{name} compares values of one plain type, got {shown_type(left)}"
    raise ExpressionError(f"{text} and {shown_type(right)}", node.at)


def _arithmetic(node: Operator, operands: tuple[Step, ...]) -> Step:
    name = "-" if node.name == "negate" else node.name
    left, right = (typed(step, _INT64) for step in operands)
    kinds = _exact(name, left, node.at), _exact(name, right, node.at)
    if all(isinstance(kind, IntegerType) for kind in kinds):
        return operation(_INT64, partial(exact_numbers.calculate_integers, name), left, right)
    whole, scale = exact_numbers.result_digits(name, *kinds)
    if scale > MAX_PRECISION or whole + scale > exact_numbers.MAX_WIDE_PRECISION:
        text = f"the result of {shown_type(kinds[0])} {name} {shown_type(kinds[1])} may have"
        raise ExpressionError(f"{text} too many digits; cast one of them to fewer", node.at)
    kind = DecimalType(min(whole + scale, MAX_PRECISION), scale)
    return operation(kind, partial(exact_numbers.calculate_decimals, name, kinds), left, right)


def _exact(name: str, step: Step, at: int) -> exact_numbers.Exact:
    if not isinstance(step.type, IntegerType | DecimalType):
        text = f"{name} takes integers and decimals, got {shown_type(step.type)}"
        raise ExpressionError(text, at)
    return step.type


def _like(node: Like, operand: Step) -> Step:
    text = typed_step(operand, _TEXT, node.operand.at, "LIKE")
    try:
        regex = texts.like_regex(node.pattern)
    except ValueError as error:
        raise ExpressionError(str(error), node.at) from error
    return operation(_BOOLEAN, partial(texts.match_like, regex), text)


def _cast(node: Cast, operand: Step) -> Step:
    operand = typed(operand, node.type)
    if operand.type == node.type:
        return operand
    kernel = _cast_kernel(operand.type, node.type)
    if kernel is None:
        text = f"there is no exact cast from {shown_type(operand.type)} to {shown_type(node.type)}"
        raise ExpressionError(text, node.at)
    return operation(node.type, kernel, operand)


def _cast_kernel(of: DataType | None, to: DataType) -> Kernel | None:
    match of, to:
        case IntegerType(), IntegerType(bits):
            return partial(exact_numbers.narrow_integer, bits)
        case IntegerType(), DecimalType():
            return partial(exact_numbers.integer_to_decimal, to)
        case DecimalType(), IntegerType(bits):
            return partial(exact_numbers.decimal_to_integer, bits)
        case DecimalType(), DecimalType():
            return partial(exact_numbers.decimal_to_decimal, to)
        case FloatType(32), FloatType(64):
            return per_row(partial(pc.cast, target_type=pa.float64()))
        case StringType(), _ if isinstance(to, texts.TextTarget):
            return partial(texts.from_text, to)
        case BooleanType() | IntegerType() | DecimalType() | DateType(), StringType():
            return texts.to_text
        case _:
            return None
