"""Exact arithmetic and comparison of integers and decimals, vectorised."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.expressions.steps import Codes, Evaluated, either, failures_where, first_failures
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.schema import DecimalType, IntegerType

MAX_PRECISION = 38
MAX_WIDE_PRECISION = 76
INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
Exact = IntegerType | DecimalType

_INT64 = IntegerType(64)
_CHECKED: dict[str, Callable[..., Any]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}


def digits_of(kind: Exact) -> tuple[int, int]:
    """Digits before and after the point that hold any value of the type."""
    if isinstance(kind, IntegerType):
        return INTEGER_DIGITS[kind.bits], 0
    return kind.precision - kind.scale, kind.scale


def wide_decimal(whole_digits: int, scale: int) -> pa.DataType:
    """Arrow's decimal of so many digits; at most 76 in all."""
    precision = max(whole_digits + scale, 1)
    wide = pa.decimal256 if precision > MAX_PRECISION else pa.decimal128
    return wide(precision, scale)


def result_digits(name: str, left: Exact, right: Exact) -> tuple[int, int]:
    """Digits before and after the point of an exact `+`, `-` or `*`, as SQL has them."""
    (left_whole, left_scale), (right_whole, right_scale) = digits_of(left), digits_of(right)
    if name == "*":
        return left_whole + right_whole + 1, left_scale + right_scale
    return max(left_whole, right_whole) + 1, max(left_scale, right_scale)


def calculate_integers(name: str, rows: int, operands: Sequence[Evaluated]) -> Evaluated:
    """`+`, `-`, `*` of integers as int64. A kernel once `name` is given."""
    left, right = (operand.value.cast(pa.int64()) for operand in operands)
    failed = first_failures(operands)
    try:
        return Evaluated(_CHECKED[name](left, right), failed)
    except pa.ArrowInvalid:
        # Some row overflows; the exact result finds it, and always fits into 39 digits.
        exact = _calculate(name, _INT64, _INT64, left, right)
    found = fit_integer(exact, 64)
    return Evaluated(found.value, either(failed, found.failed))


def calculate_decimals(
    name: str, kinds: tuple[Exact, Exact], rows: int, operands: Sequence[Evaluated]
) -> Evaluated:
    """`+`, `-`, `*` with a decimal. A kernel once the first two are given."""
    whole, scale = result_digits(name, *kinds)
    exact = _calculate(name, *kinds, *(operand.value for operand in operands))
    found = fit_decimal(exact, min(whole + scale, MAX_PRECISION), scale)
    return Evaluated(found.value, either(first_failures(operands), found.failed))


def _calculate(name: str, left_kind: Exact, right_kind: Exact, left: Any, right: Any) -> Any:
    whole, scale = result_digits(name, left_kind, right_kind)
    wide = whole + scale > MAX_PRECISION
    sides = []
    for kind, value in ((left_kind, left), (right_kind, right)):
        own = digits_of(kind)
        target = pa.decimal256(sum(own), own[1]) if wide else wide_decimal(*own)
        sides.append(value.cast(target))
    return _CHECKED[name](*sides)


def compare_exactly(
    name: str, kinds: tuple[Exact, Exact], rows: int, operands: Sequence[Evaluated]
) -> Evaluated:
    """Compare integers and decimals of any two types. A kernel once the first two are given."""
    whole = max(digits_of(kind)[0] for kind in kinds)
    common = wide_decimal(whole, max(digits_of(kind)[1] for kind in kinds))
    if all(isinstance(kind, IntegerType) for kind in kinds):
        common = pa.int64()
    left, right = (operand.value.cast(common) for operand in operands)
    return Evaluated(COMPARISONS[name](left, right), first_failures(operands))


COMPARISONS: dict[str, Callable[..., Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def fit_integer(values: Any, bits: int) -> Evaluated:
    """Whole numbers as integers of `bits` bits; OVERFLOW where they do not fit.

    Args:
        values: Integers, or decimals without places.
        bits: 8, 16, 32 or 64.
    """
    target = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits]
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    kind = values.type
    if pa.types.is_decimal(kind):
        # The values' type has to hold the bounds.
        kind = wide_decimal(max(kind.precision, INTEGER_DIGITS[64]), 0)
        values = values.cast(kind)
        low, high = Decimal(low), Decimal(high)  # type: ignore[assignment]
    return _inside(values, pa.scalar(low, kind), pa.scalar(high, kind), target)


def fit_decimal(values: Any, precision: int, scale: int) -> Evaluated:
    """Decimals of `scale` places with at most `precision` digits; OVERFLOW where there are more.

    Args:
        values: Decimals of exactly `scale` places.
        precision: At most 38.
        scale: Places.
    """
    target = pa.decimal128(precision, scale)
    if values.type.precision <= precision:
        return Evaluated(values.cast(target))
    greatest = Decimal((0, (9,) * precision, -scale))
    return _inside(
        values,
        pa.scalar(greatest.copy_negate(), values.type),
        pa.scalar(greatest, values.type),
        target,
    )


def _inside(values: Any, low: pa.Scalar, high: pa.Scalar, target: pa.DataType) -> Evaluated:
    outside = pc.or_(pc.less(values, low), pc.greater(values, high))
    failed = failures_where(outside, DirtyReason.OVERFLOW)
    if failed is not None:
        values = pc.if_else(outside, pa.scalar(None, values.type), values)
    return Evaluated(values.cast(target), failed)


def narrow_integer(bits: int, rows: int, operands: Sequence[Evaluated]) -> Evaluated:
    """An integer as one of fewer bits. A kernel once `bits` is given."""
    found = fit_integer(operands[0].value, bits)
    return Evaluated(found.value, either(operands[0].failed, found.failed))


def integer_to_decimal(kind: DecimalType, rows: int, operands: Sequence[Evaluated]) -> Evaluated:
    """An integer as a decimal. A kernel once `kind` is given."""
    wide = operands[0].value.cast(wide_decimal(INTEGER_DIGITS[64], kind.scale))
    found = fit_decimal(wide, kind.precision, kind.scale)
    return Evaluated(found.value, either(operands[0].failed, found.failed))


def decimal_to_integer(bits: int, rows: int, operands: Sequence[Evaluated]) -> Evaluated:
    """A decimal without fraction as an integer. A kernel once `bits` is given."""
    whole, failed = _without_places(operands[0].value, 0, DirtyReason.NOT_INTEGRAL)
    found = fit_integer(whole, bits)
    return Evaluated(found.value, either(operands[0].failed, either(failed, found.failed)))


def decimal_to_decimal(kind: DecimalType, rows: int, operands: Sequence[Evaluated]) -> Evaluated:
    """A decimal with other digits. A kernel once `kind` is given."""
    values, failed = _without_places(operands[0].value, kind.scale, DirtyReason.SCALE)
    found = fit_decimal(values, kind.precision, kind.scale)
    return Evaluated(found.value, either(operands[0].failed, either(failed, found.failed)))


def _without_places(values: Any, scale: int, reason: DirtyReason) -> tuple[Any, Codes | None]:
    """Values at another scale; `reason` where places would be lost."""
    own = values.type
    failed = None
    if own.scale > scale:
        # One digit more in front: Arrow does not round a type of places only.
        values = values.cast(wide_decimal(own.precision - own.scale + 1, own.scale))
        cut = pc.round(values, ndigits=scale, round_mode="towards_zero")
        lossy = pc.not_equal(cut, values)
        failed = failures_where(lossy, reason)
        values = cut
    return values.cast(wide_decimal(own.precision - own.scale, scale)), failed
