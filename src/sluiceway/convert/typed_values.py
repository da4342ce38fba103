"""Values of binary formats that JSON does not have: bytes, days, times, floats, whole numbers.

Numbers are Python's: `int`, `float`, `Float32`, `decimal.Decimal`; text is `str`, bytes `bytes`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Self

import numpy as np

from sluiceway.types.iso_time import EPOCH_ORDINAL, ImpossibleTimeError, WallTime

NS_PER_S = 1_000_000_000
NS_PER_US = 1000
_DAY_S = 86_400
_MIN_S = (date.min.toordinal() - EPOCH_ORDINAL) * _DAY_S
_END_S = (date.max.toordinal() + 1 - EPOCH_ORDINAL) * _DAY_S
MIN_DAY = date.min.toordinal() - EPOCH_ORDINAL
MAX_DAY = date.max.toordinal() - EPOCH_ORDINAL


class Float32(float):
    """A float that came with 32 bits."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Day:
    """A day, as days since 1970-01-01."""

    number: int


@dataclass(frozen=True, slots=True)
class Instant:
    """An instant, as nanoseconds since 1970-01-01T00:00:00 UTC."""

    ns: int


@dataclass(frozen=True, slots=True)
class LocalTime:
    """Day and time in an unknown zone, as nanoseconds as if it were UTC."""

    ns: int


@dataclass(frozen=True, slots=True)
class TimeOfDay:
    """Time of a day, as nanoseconds since midnight."""

    ns: int


TypedTime = Day | Instant | LocalTime | TimeOfDay


class TimedNumber(int):
    """A number that its schema means as a time; the column decides which of the two it uses.

    Args:
        number: The number in the payload.
        make: Turns the number into the time.
    """

    def __new__(cls, number: int, make: Callable[[int], TypedTime]) -> Self:
        """Make the number, and keep how it becomes a time."""
        made = super().__new__(cls, number)
        made._make = make
        return made

    _make: Callable[[int], TypedTime]

    @property
    def time(self) -> TypedTime:
        """The time of the number."""
        return self._make(int(self))


class MeantRecord(dict[str, object]):
    """A record that its schema means as one value; the column decides which of the two it uses.

    Args:
        held: Fields of the record.
        make: Returns the value; raises when there is none.
    """

    __slots__ = ("_make",)

    def __init__(
        self, held: Mapping[str, object], make: Callable[[Mapping[str, object]], object]
    ) -> None:
        super().__init__(held)
        self._make = make

    @property
    def meant(self) -> object:
        """The value of the record."""
        return self._make(self)


class WallText(str):
    """A text that its schema means as local time, though it ends with Z."""

    __slots__ = ()

    @property
    def wall(self) -> str:
        """The time without the apparent zone."""
        return str(self.removesuffix("Z"))


def exact_text(value: float | Decimal) -> str:
    """All digits of a number, as JSON writes one. The value is finite."""
    return format(Decimal(value) if isinstance(value, float) else value, "f")


def shortest_text(value: float) -> str:
    """The fewest digits that read back as the same float. The value is finite."""
    return str(np.float32(value)) if isinstance(value, Float32) else repr(float(value))


def number_text(value: float | Decimal) -> str | None:
    """A number as text for people and JSON; None for NaN and infinities."""
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Decimal):
        return exact_text(value)
    return shortest_text(value) if math.isfinite(value) else None


def wall_time(value: LocalTime | Instant) -> WallTime:
    """Whole seconds, and the digits after them.

    Raises:
        ValueError: It is outside the years 0001 to 9999.
    """
    second, fraction_ns = divmod(value.ns, NS_PER_S)
    if not _MIN_S <= second < _END_S:
        raise ImpossibleTimeError("it is outside of the years 0001 to 9999")
    moment = datetime.fromordinal(EPOCH_ORDINAL + second // _DAY_S).replace(tzinfo=UTC)
    clock = second % _DAY_S
    moment = moment.replace(hour=clock // 3600, minute=clock // 60 % 60, second=clock % 60)
    return WallTime(moment, f"{fraction_ns:09}".rstrip("0"))


def time_text(value: TypedTime) -> str:
    """A time in ISO 8601, with only the digits that it has.

    Raises:
        ValueError: It is outside the years 0001 to 9999, or outside a day.
    """
    match value:
        case Day(number):
            if not MIN_DAY <= number <= MAX_DAY:
                raise ImpossibleTimeError("it is outside of the years 0001 to 9999")
            return date.fromordinal(EPOCH_ORDINAL + number).isoformat()
        case TimeOfDay(ns):
            if not 0 <= ns < _DAY_S * NS_PER_S:
                raise ValueError("a day has no such time")
            wall = wall_time(Instant(ns))
            return wall.second.strftime("%H:%M:%S") + _fraction(wall)
        case Instant() | LocalTime():
            wall = wall_time(value)
            text = wall.second.replace(tzinfo=None).isoformat() + _fraction(wall)
            return f"{text}Z" if isinstance(value, Instant) else text


def _fraction(wall: WallTime) -> str:
    return f".{wall.fraction}" if wall.fraction else ""
