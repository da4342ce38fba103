"""Numbers that do not fit, by the column's policy. Numbers that fit never get here."""

from collections.abc import Callable
from decimal import (
    ROUND_CEILING,
    ROUND_DOWN,
    ROUND_FLOOR,
    ROUND_HALF_DOWN,
    ROUND_HALF_EVEN,
    ROUND_HALF_UP,
    ROUND_UP,
    Decimal,
)
from typing import TypeVar

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.exact_numbers import (
    EXACT_DIGITS,
    exact_number,
    greatest_float,
    nearest_float,
    rounded,
    time_us_of,
    to_decimal,
    to_float,
    to_integer,
    to_time_us,
)
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.policy import Policy

Number = TypeVar("Number", int, Decimal, float)
# Modes with a direction in time: `decimal` rounds by magnitude, so before the epoch they turn.
_FORWARD = {
    ROUND_HALF_UP: (ROUND_HALF_UP, ROUND_HALF_DOWN),
    ROUND_HALF_DOWN: (ROUND_HALF_DOWN, ROUND_HALF_UP),
    ROUND_HALF_EVEN: (ROUND_HALF_EVEN, ROUND_HALF_EVEN),
    ROUND_UP: (ROUND_CEILING, ROUND_CEILING),
    ROUND_CEILING: (ROUND_CEILING, ROUND_CEILING),
    ROUND_DOWN: (ROUND_FLOOR, ROUND_FLOOR),
    ROUND_FLOOR: (ROUND_FLOOR, ROUND_FLOOR),
}


def changes_numbers(policy: Policy) -> bool:
    """Whether a policy has a rule for numbers. Called once a column."""
    return policy.on_overflow != "dirty" or policy.on_lossy != "dirty"


def integer_by_policy(policy: Policy, bits: int) -> Callable[[str], int | None]:
    """Make the reading of integers. Called once a column.

    Returns:
        A function from a number's text to an integer of `bits` bits or None; it raises
        DirtyValueError.
    """
    ends = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)

    def read(text: str) -> int | None:
        try:
            return to_integer(text, bits)
        except DirtyValueError as error:
            if error.reason is DirtyReason.NOT_INTEGRAL:
                if policy.on_lossy == "null":
                    return None
                if policy.rounding is None:
                    raise
                whole = int(rounded(text, 0, EXACT_DIGITS, policy.rounding))
                if ends[0] <= whole <= ends[1]:
                    return whole
            return _beyond(text, policy, ends, error)

    return read


def decimal_by_policy(
    policy: Policy, precision: int, scale: int
) -> Callable[[str], Decimal | None]:
    """Make the reading of decimals. Called once a column; as `integer_by_policy`."""
    # By a minus it would be rounded to the 28 digits of Python's own context.
    ends = (Decimal((1, (9,) * precision, -scale)), Decimal((0, (9,) * precision, -scale)))

    def read(text: str) -> Decimal | None:
        try:
            return to_decimal(text, precision, scale)
        except DirtyValueError as error:
            if policy.rounding is not None:
                try:
                    return rounded(text, scale, precision, policy.rounding)
                except DirtyValueError as beyond:
                    return _beyond(text, policy, ends, beyond)
            if error.reason is DirtyReason.SCALE:
                if policy.on_lossy == "null":
                    return None
                raise
            return _beyond(text, policy, ends, error)

    return read


def float_by_policy(policy: Policy, bits: int) -> Callable[[str], float | None]:
    """Make the reading of floats. Called once a column; as `integer_by_policy`."""
    greatest = greatest_float(bits)

    def read(text: str) -> float | None:
        try:
            return to_float(text, bits)
        except DirtyValueError as error:
            nearest = nearest_float(text, bits)
            if abs(nearest) > greatest:
                return _beyond(text, policy, (-greatest, greatest), error)
            if policy.on_lossy == "null":
                return None
            if policy.rounding is None:
                raise
            return nearest

    return read


def time_by_policy(policy: Policy, unit: str) -> Callable[[str], int | None]:
    """Make the reading of times that are numbers. Called once a column.

    Returns:
        A function from a number's text to microseconds since the epoch or None; it raises
        DirtyValueError.
    """

    def read(text: str) -> int | None:
        try:
            return to_time_us(text, unit)
        except DirtyValueError as error:
            if error.reason is DirtyReason.SCALE:
                if policy.on_lossy == "null":
                    return None
                if policy.rounding is not None:
                    mode = _FORWARD[policy.rounding][text.startswith("-")]
                    return time_us_of(text, unit, mode)
            raise

    return read


def _beyond(
    text: str, policy: Policy, ends: tuple[Number, Number], error: DirtyValueError
) -> Number | None:
    if policy.on_overflow != "dirty" and not isinstance(ends[0], float):
        # A number with an exponent that is too large for all types here may still be a tiny one.
        exact_number(text)
    if policy.on_overflow == "null":
        return None
    if policy.on_overflow == "clamp":
        return ends[0] if text.startswith("-") else ends[1]
    if error.reason is DirtyReason.OVERFLOW:
        raise error
    raise DirtyValueError(DirtyReason.OVERFLOW, "rounded, it is beyond the type") from error
