"""Number texts -> exact values. Nothing passes through a double on its way to an exact type.

All functions take single values, on the slow path and for the proof of the fast one.
"""

import re
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact, InvalidOperation
from functools import cache

import numpy as np
import pyarrow as pa

from sluiceway.convert.dirty_value import DirtyValueError, ImpossibleValueError
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.iso_time import MAX_TIME_US, MIN_TIME_US

# Above these the doubles (floats) are further apart than 1: whole numbers would change.
DOUBLE_BITS = 64
FLOAT_EXACT_LIMIT = {64: 2.0**53, 32: 2.0**24}
# Decimal places between a unit of time and the microsecond.
TIME_UNIT_PLACES = {"s": 6, "ms": 3, "us": 0, "ns": -3}

# Most digits before the point of a number that is still read as a time of a finer unit.
EXACT_DIGITS = 60

_GRAMMAR = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INTEGER_CHARACTERS = 26
_PLAIN_INTEGER = re.compile(r"-?[0-9]{1,25}")
_MANTISSA_NOT_ZERO = re.compile(r"[0.+-]*[1-9]")
_ONE = Decimal(1)
_QUANTA = [_ONE.scaleb(-scale) for scale in range(39)]


def _exact_context(precision: int) -> Context:
    return Context(prec=precision, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[Inexact, InvalidOperation])


_WIDE = _exact_context(EXACT_DIGITS)
_DECIMAL_CONTEXTS = [_exact_context(max(precision, 1)) for precision in range(39)]


@cache
def _rounding_context(mode: str, digits: int) -> Context:
    return Context(
        prec=digits, rounding=mode, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[InvalidOperation]
    )


def is_number_text(text: str) -> bool:
    """True for a decimal number with optional sign, point and exponent, and nothing around it."""
    return _GRAMMAR.fullmatch(text) is not None


def exact_number(text: str) -> Decimal:
    """The number itself, however many digits it has.

    Raises:
        DirtyValueError: OVERFLOW when its exponent has more than 18 digits.
    """
    try:
        return Decimal(text)
    except InvalidOperation as error:
        message = "its exponent is out of reach"
        raise DirtyValueError(DirtyReason.OVERFLOW, message) from error


def rounded(text: str, scale: int, digits: int, mode: str) -> Decimal:
    """A number with `scale` places, by a mode of `decimal`.

    Raises:
        DirtyValueError: OVERFLOW when it then has more than `digits` digits.
    """
    context = _rounding_context(mode, digits)
    return _quantize(text, _ONE.scaleb(-scale), context, DirtyReason.SCALE)


def to_integer(text: str, bits: int) -> int:
    """Read an integer of `bits` bits; `12.0` and `1.2e1` are 12.

    Raises:
        DirtyValueError: NOT_INTEGRAL or OVERFLOW.
    """
    if (len(text) < _INTEGER_CHARACTERS and text.isdigit()) or _PLAIN_INTEGER.fullmatch(text):
        value = int(text)
    else:
        value = int(_quantize(text, _ONE, _WIDE, DirtyReason.NOT_INTEGRAL))
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise DirtyValueError(DirtyReason.OVERFLOW, f"it does not fit into {bits} bits")
    return value


def to_decimal(text: str, precision: int, scale: int) -> Decimal:
    """Read a decimal with exactly `scale` places; zeros beyond them are dropped.

    Raises:
        DirtyValueError: SCALE when places would be lost, OVERFLOW when digits before the point.
    """
    return _quantize(text, _QUANTA[scale], _DECIMAL_CONTEXTS[precision], DirtyReason.SCALE)


def to_time_us(text: str, unit: str) -> int:
    """Read a number of `unit` since the epoch as microseconds.

    Raises:
        DirtyValueError: SCALE when it is finer than a microsecond, BAD_TIME when it is outside the
            years 0001 to 9999.
    """
    return time_us_of(text, unit, None)


def time_us_of(text: str, unit: str, rounding: str | None) -> int:
    """As `to_time_us`; with a mode of `decimal`, digits below a microsecond are rounded.

    Raises:
        DirtyValueError: As `to_time_us`; SCALE only without a mode.
    """
    places = TIME_UNIT_PLACES[unit]
    quantum = _ONE.scaleb(-places)
    context = _WIDE if rounding is None else _rounding_context(rounding, EXACT_DIGITS)
    try:
        exact = _quantize(text, quantum, context, DirtyReason.SCALE)
        time_us = int(exact.scaleb(places, context=_WIDE))
    except DirtyValueError as error:
        if error.reason is not DirtyReason.OVERFLOW:
            raise
        time_us = MAX_TIME_US + 1
    if not MIN_TIME_US <= time_us <= MAX_TIME_US:
        raise ImpossibleValueError(f"in {unit} it is outside of the years 0001 to 9999")
    return time_us


def to_float(text: str, bits: int) -> float:
    """Read the nearest float of `bits` bits.

    Below 2^53 (2^24 for 32 bits) the nearest float is correct by the type. Above, floats are
    further apart than whole numbers, so the float must print as the number that came.

    Raises:
        DirtyValueError: OVERFLOW for infinity or a changed number, SCALE for a number that becomes
            zero.
    """
    value = nearest_float(text, bits)
    if 0 < abs(value) < FLOAT_EXACT_LIMIT[bits]:
        return value
    if value in (float("inf"), float("-inf")):
        raise DirtyValueError(DirtyReason.OVERFLOW, f"it is beyond float{bits}")
    if value == 0 and _MANTISSA_NOT_ZERO.match(text):
        raise DirtyValueError(DirtyReason.SCALE, f"it would become zero in float{bits}")
    if abs(value) >= FLOAT_EXACT_LIMIT[bits]:
        printed = repr(value) if bits == DOUBLE_BITS else str(np.float32(value))
        if exact_number(text) != Decimal(printed):
            message = f"it would become another number in float{bits}"
            raise DirtyValueError(DirtyReason.OVERFLOW, message)
    return value


def nearest_float(text: str, bits: int) -> float:
    """The float of `bits` bits nearest to a number; infinite beyond the greatest."""
    if bits == DOUBLE_BITS:
        return float(text)
    # Through a double it would be rounded twice.
    return float(pa.scalar(_canonical(text)).cast(pa.float32()).as_py())


def greatest_float(bits: int) -> float:
    """The greatest finite float of `bits` bits."""
    return float(np.finfo(np.float64 if bits == DOUBLE_BITS else np.float32).max)


def _canonical(text: str) -> str:
    """Write a number so that Arrow's float parser accepts it: no plus, digits around the point."""
    body = text.lstrip("+")
    sign, body = ("-", body[1:]) if body.startswith("-") else ("", body)
    mantissa, mark, exponent = body.replace("E", "e").partition("e")
    whole, _, fraction = mantissa.partition(".")
    return f"{sign}{whole or '0'}.{fraction or '0'}{mark}{exponent.lstrip('+')}"


def _quantize(text: str, quantum: Decimal, context: Context, inexact: DirtyReason) -> Decimal:
    try:
        return exact_number(text).quantize(quantum, context=context)
    except Inexact as error:
        message = (
            "not a whole number"
            if inexact is DirtyReason.NOT_INTEGRAL
            else "it has digits beyond the type's scale"
        )
        raise DirtyValueError(inexact, message) from error
    except InvalidOperation as error:
        message = "it has more digits than the type"
        raise DirtyValueError(DirtyReason.OVERFLOW, message) from error
