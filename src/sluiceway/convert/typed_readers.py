"""Conversions of values that JSON does not have; the slow path's readers handle JSON's own.

The matrix (`types.typed_matrix`) says which of them a column accepts.
"""

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from sluiceway.convert.dirty_value import DirtyValueError, ImpossibleValueError
from sluiceway.convert.exact_numbers import DOUBLE_BITS, greatest_float, to_time_us
from sluiceway.convert.number_policy import changes_numbers, time_by_policy
from sluiceway.convert.time_values import compile_day_of_instant
from sluiceway.convert.typed_values import (
    MAX_DAY,
    MIN_DAY,
    NS_PER_US,
    Day,
    Float32,
    Instant,
    LocalTime,
    TimeOfDay,
    exact_text,
    number_text,
    time_text,
    wall_time,
)
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.iso_time import ImpossibleTimeError, TooFineError, instant_us
from sluiceway.types.matrix import JsonKind, kind_of_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import (
    CharType,
    DataType,
    DateType,
    FloatType,
    IntegerType,
    StringType,
    VarcharType,
)
from sluiceway.types.typed_matrix import TypedKind, accepted_typed_kinds

Convert = Callable[[Any], object]

TYPED_KINDS: dict[type, TypedKind] = {
    bytes: TypedKind.BYTES,
    Day: TypedKind.DAY,
    Instant: TypedKind.INSTANT,
    LocalTime: TypedKind.LOCAL_TIME,
    TimeOfDay: TypedKind.TIME_OF_DAY,
}
_TEXTS = StringType | VarcharType | CharType


def typed_readers(
    data_type: DataType, policy: Policy, json: Mapping[JsonKind, Convert]
) -> dict[type, Convert]:
    """Readers of typed formats' values for a column.

    Called once a column, when a decoder is made.

    Args:
        data_type: Type of the result.
        policy: Handles values that do not fit.
        json: Readers of JSON's kinds that the column accepts.

    Returns:
        Readers by the values' Python type; each raises DirtyValueError.
    """
    readers = _number_readers(data_type, policy, json)
    for kind in accepted_typed_kinds(kind_of_type(data_type), policy):
        of = next(of for of, one in TYPED_KINDS.items() if one is kind)
        readers[of] = _time_or_bytes(of, data_type, policy, json)
    return readers


def _number_readers(
    data_type: DataType, policy: Policy, json: Mapping[JsonKind, Convert]
) -> dict[type, Convert]:
    read = json.get(JsonKind.NUMBER)
    if read is None:
        return {}
    if isinstance(data_type, _TEXTS):
        texts = _as_text(read)
        return {int: texts, Decimal: texts, float: texts, Float32: texts}
    if isinstance(data_type, FloatType):
        floats = _float_reader(data_type.bits, policy)
        return {**_exact_readers(data_type, read), float: floats, Float32: floats}
    return _exact_readers(data_type, read)


def _exact_readers(data_type: DataType, read: Convert) -> dict[type, Convert]:
    def read_float(value: float) -> object:
        if not math.isfinite(value):
            raise DirtyValueError(DirtyReason.WRONG_TYPE, "a finite number is expected")
        return read(exact_text(value))

    def read_int(value: int) -> object:
        return read(str(value))

    if isinstance(data_type, IntegerType):
        end = 1 << (data_type.bits - 1)

        def read_int(value: int) -> object:
            return value if -end <= value < end else read(str(value))

    return {
        int: read_int,
        Decimal: lambda value: read(exact_text(value)),
        float: read_float,
        Float32: read_float,
    }


def _float_reader(bits: int, policy: Policy) -> Callable[[float], float | None]:
    greatest = greatest_float(bits)

    def read(value: float) -> float | None:
        if not math.isfinite(value):
            if policy.non_finite == "dirty":
                message = "NaN and infinities need `non_finite`"
                raise DirtyValueError(DirtyReason.WRONG_TYPE, message)
            return float(value) if policy.non_finite == "keep" else None
        if bits == DOUBLE_BITS or isinstance(value, Float32):
            return float(value)
        with np.errstate(over="ignore", under="ignore"):
            nearest = float(np.float32(value))
        if math.isinf(nearest):
            return _beyond(value, greatest, policy)
        if nearest != value:
            if policy.on_lossy == "null":
                return None
            if policy.rounding is None:
                message = "it has digits that a float of 32 bits has no room for"
                raise DirtyValueError(DirtyReason.SCALE, message)
        return nearest

    return read


def _beyond(value: float, greatest: float, policy: Policy) -> float | None:
    match policy.on_overflow:
        case "null":
            return None
        case "clamp":
            return math.copysign(greatest, value)
        case _:
            raise DirtyValueError(DirtyReason.OVERFLOW, "it is beyond float32")


def _as_text(read: Convert) -> Convert:
    def read_text(value: float | Decimal) -> object:
        text = number_text(value)
        if text is None:
            raise DirtyValueError(DirtyReason.WRONG_TYPE, "a finite number is expected")
        return read(text)

    return read_text


def _time_or_bytes(
    of: type, data_type: DataType, policy: Policy, json: Mapping[JsonKind, Convert]
) -> Convert:
    if of is bytes:
        return lambda value: value
    if isinstance(data_type, _TEXTS):
        read = json[JsonKind.STRING]
        return _explained(lambda value: read(time_text(value)))
    if of is Day:
        return _day
    if isinstance(data_type, DateType):
        read_day = compile_day_of_instant(policy, int)
        return _explained(lambda value: read_day(str(value.ns // NS_PER_US)))
    return _instant_reader(policy) if of is Instant else _local_reader(policy)


def _day(value: Day) -> int:
    if not MIN_DAY <= value.number <= MAX_DAY:
        raise ImpossibleValueError("it is outside of the years 0001 to 9999")
    return value.number


def _instant_reader(policy: Policy) -> Convert:
    if changes_numbers(policy):
        by_policy = time_by_policy(policy, "ns")
        return lambda value: by_policy(str(value.ns))
    return lambda value: to_time_us(str(value.ns), "ns")


def _local_reader(policy: Policy) -> Convert:
    zone, rounding = ZoneInfo(policy.timezone or "UTC"), policy.rounding

    def read(value: LocalTime) -> int | None:
        try:
            return instant_us(wall_time(value), zone, rounding)
        except TooFineError as error:
            if policy.on_lossy == "null":
                return None
            raise DirtyValueError(DirtyReason.SCALE, str(error)) from error

    return _explained(read)


def _explained(read: Convert) -> Convert:
    def explained(value: Any) -> object:
        try:
            return read(value)
        except ImpossibleTimeError as error:
            raise ImpossibleValueError(str(error)) from error
        except ValueError as error:
            raise DirtyValueError(DirtyReason.BAD_TIME, str(error)) from error

    return explained
