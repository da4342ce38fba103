"""Types that can stand for other types without a change of values, and the step that converts."""

from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sluiceway.expressions.exact_numbers import MAX_PRECISION, digits_of, integer_to_decimal
from sluiceway.expressions.steps import Constant, Evaluated, Step, first_failures, operation
from sluiceway.expressions.tree import ExpressionError
from sluiceway.types.arrow_types import arrow_type
from sluiceway.types.hive_types import format_hive_type
from sluiceway.types.schema import (
    BinaryType,
    DataType,
    DecimalType,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    StructType,
)

# Above these the floats are further apart than 1: whole numbers would change.
_FLOAT_EXACT_LIMIT = {64: 2.0**53, 32: 2.0**24}
_OPAQUE = ListType | MapType | StructType | BinaryType


def shown_type(data_type: DataType | None) -> str:
    """A type for a message."""
    return "null" if data_type is None else format_hive_type(data_type)[:80]


def is_plain(data_type: DataType | None) -> bool:
    """Whether values of the type can be compared and chosen between."""
    return not isinstance(data_type, _OPAQUE)


def typed(step: Step, data_type: DataType) -> Step:
    """A null without a type as one of `data_type`; any other step as it is."""
    if isinstance(step, Constant) and step.type is None:
        return Constant(data_type, pa.scalar(None, arrow_type(data_type)))
    return step


def common_type(steps: Sequence[Step], at: int) -> DataType:
    """The one type that all steps can be widened to without changing a value.

    Raises:
        ExpressionError: There is none.
    """
    kinds = [step.type for step in steps if step.type is not None]
    if not kinds:
        raise ExpressionError("expected a value with a type, got nulls only", at)
    if odd := [kind for kind in kinds if not is_plain(kind)]:
        raise ExpressionError(f"expected one plain value, got {shown_type(odd[0])}", at)
    floats = [kind for kind in kinds if isinstance(kind, FloatType)]
    if floats and all(_widens(step, floats[0]) for step in steps):
        return floats[0]
    found = kinds[0]
    for one, other in pairwise([found, *kinds[1:]]):
        merged = _merged(found, other)
        if merged is None:
            text = f"expected values of one type, got {shown_type(one)} and {shown_type(other)}"
            raise ExpressionError(f"{text}; write a cast", at)
        found = merged
    return found


def _merged(one: DataType, other: DataType) -> DataType | None:
    if one == other:
        return one
    if isinstance(one, IntegerType) and isinstance(other, IntegerType):
        return max(one, other, key=lambda kind: kind.bits)
    exact = IntegerType | DecimalType
    if not isinstance(one, exact) or not isinstance(other, exact):
        return None
    digits = [digits_of(kind) for kind in (one, other)]
    whole, scale = max(pair[0] for pair in digits), max(pair[1] for pair in digits)
    return DecimalType(whole + scale, scale) if whole + scale <= MAX_PRECISION else None


def _widens(step: Step, wanted: DataType) -> bool:
    kind = step.type
    if kind is None or kind == wanted:
        return True
    match wanted:
        case FloatType():
            # A number literal is read as the float that a payload's number would be.
            return isinstance(step, Constant) and isinstance(kind, IntegerType | DecimalType)
        case IntegerType() | DecimalType() if isinstance(kind, IntegerType | DecimalType):
            return _merged(kind, wanted) == wanted
        case _:
            return False


def widened(step: Step, wanted: DataType, at: int) -> Step:
    """A step as one of another type, when no value changes by it.

    Raises:
        ExpressionError: Values might change.
    """
    step = typed(step, wanted)
    if step.type == wanted:
        return step
    if not _widens(step, wanted):
        text = f"expected {shown_type(wanted)}, got {shown_type(step.type)}"
        castable = is_plain(wanted) and is_plain(step.type)
        todo = f"; write cast(... AS {shown_type(wanted)}) if that is meant" if castable else ""
        raise ExpressionError(text + todo, at)
    if isinstance(wanted, FloatType) and isinstance(step, Constant):
        return _float_constant(step, wanted, at)
    if isinstance(wanted, DecimalType) and isinstance(step.type, IntegerType):
        return operation(wanted, partial(integer_to_decimal, wanted), step)
    return operation(wanted, partial(_cast, arrow_type(wanted)), step)


def _cast(target: pa.DataType, rows: int, operands: Sequence[Evaluated]) -> Evaluated:
    return Evaluated(operands[0].value.cast(target), first_failures(operands))


def _float_constant(constant: Constant, wanted: FloatType, at: int) -> Constant:
    number = constant.value.as_py()
    if constant.failure or number is None:
        return Constant(wanted, pa.scalar(None, arrow_type(wanted)), constant.failure)
    value: Any = pa.scalar(format(Decimal(number), "f")).cast(arrow_type(wanted))
    nearest = value.as_py()
    printed = repr(nearest) if wanted.bits == 64 else str(np.float32(nearest))  # noqa: PLR2004
    too_far = abs(nearest) >= _FLOAT_EXACT_LIMIT[wanted.bits]
    if (too_far and Decimal(printed) != number) or (nearest == 0 and number != 0):
        text = f"expected a number that {shown_type(wanted)} can hold, got {number}"
        raise ExpressionError(text, at)
    return Constant(wanted, value)
