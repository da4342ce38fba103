"""Values that JSON has none of, as the oracle has them, and what they have to become."""

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from . import rules
from .model import Column, NonFinite, Num
from .numbers import greatest, nearest_float, read_number
from .rules import DirtyError, Rule
from .times import BadTimeError, ImpossibleError, Written, day_in_zone, instant_us
from .type_text import split_type

TEXTS = ("string", "varchar", "char")
TIMESTAMPS = ("timestamp", "timestamp with local time zone")
DAY_NS = 86_400 * 10**9
FIRST_DAY, LAST_DAY = -719_162, 2_932_896


@dataclass(frozen=True, slots=True)
class Flt:
    """A float of 32 or 64 bits."""

    value: float
    bits: int


@dataclass(frozen=True, slots=True)
class Moment:
    """A time: `day`, `instant`, `local` or `clock`, in nanoseconds, or days."""

    kind: str
    number: int


class Wall(str):
    """A text that its schema means as local time, though it ends with Z."""

    __slots__ = ()


def typed_outcome(rule: Rule, column: Column, value: Any) -> tuple[Any, str, str]:
    """As `rules.outcome`, for a value of any kind."""
    try:
        found = _convert(rule, column, value)
    except DirtyError as error:
        error.under("v")
        return None, error.reason, error.path
    return (None, "null", "v") if found is None and column.required else (found, "", "")


def _convert(rule: Rule, column: Column, value: Any) -> Any:
    name = split_type(column.hive)[0]
    if name == "binary" and "format" not in column.policy and not isinstance(value, bytes):
        raise DirtyError("wrong_type")
    if isinstance(value, Flt):
        return _float(rule, column, value)
    if isinstance(value, bytes):
        if name != "binary":
            raise DirtyError("wrong_type")
        return value
    if isinstance(value, Moment):
        return _moment(rule, column, value)
    if isinstance(value, Wall):
        return _wall(rule, column, value)
    return rule.convert(value)


def _float(rule: Rule, column: Column, value: Flt) -> Any:
    name, number = split_type(column.hive)[0], value.value
    if not math.isfinite(number):
        word = "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
        return rule.convert(NonFinite(word))
    if name in TEXTS:
        text = repr(number) if value.bits == 64 else str(np.float32(number))
        return rule.convert(Num(text))
    if name == "double" or (name == "float" and value.bits == 32):
        return number
    exact = format(Decimal(number), "f")
    return _narrowed(exact, number, column.policy) if name == "float" else rule.convert(Num(exact))


def _narrowed(exact: str, number: float, policy: dict[str, Any]) -> float | None:
    parsed = read_number(exact)
    assert parsed is not None
    nearest = nearest_float(parsed, 32)
    if math.isinf(nearest):
        match policy.get("on_overflow"):
            case "null":
                return None
            case "clamp":
                return math.copysign(greatest(32), number)
            case _:
                raise DirtyError("overflow")
    if nearest != number:
        lossy = policy.get("on_lossy", "dirty")
        if lossy == "null":
            return None
        if lossy == "dirty":
            raise DirtyError("scale")
    return math.copysign(nearest, number)


def _moment(rule: Rule, column: Column, value: Moment) -> Any:
    name, policy = split_type(column.hive)[0], column.policy
    if name in TEXTS and policy.get("on_lossy") == "text":
        return rule.convert(iso_text(value))
    if value.kind == "day" and name == "date":
        if not FIRST_DAY <= value.number <= LAST_DAY:
            return rules.impossible(policy)
        return value.number
    if value.kind == "instant" and name in TIMESTAMPS:
        return rules._unit_us(str(value.number), "ns", policy)
    if value.kind == "instant" and name == "date" and "timezone" in policy:
        time_us = value.number // 1000
        if not rules.read_bounds(time_us):
            return rules.impossible(policy)
        try:
            return day_in_zone(time_us, policy["timezone"])
        except ImpossibleError:
            return rules.impossible(policy)
    if value.kind == "local" and name in TIMESTAMPS and "timezone" in policy:
        return _local_us(value.number, policy)
    raise DirtyError("wrong_type")


def _wall(rule: Rule, column: Column, value: Wall) -> Any:
    if column.policy.get("format", "iso8601") != "iso8601":
        return rule.convert(str(value))
    if column.hive != "date" and "timezone" not in column.policy:
        raise DirtyError("wrong_type")
    return rule.convert(str(value.removesuffix("Z")))


def _local_us(number: int, policy: dict[str, Any]) -> int | None:
    wall_s, rest = divmod(number, 10**9)
    if not FIRST_DAY * 86_400 <= wall_s < (LAST_DAY + 1) * 86_400:
        return rules.impossible(policy)
    zone, is_fine = policy["timezone"], rest % 1000 and rules._mode(policy) is None
    try:
        # A time that the zone has not, or twice, is told before digits without room.
        written = Written(wall_s, "" if is_fine else f"{rest:09}", None)
        found = instant_us(written, zone, lambda digits: rules._micros(digits, policy))
    except ImpossibleError:
        return rules.impossible(policy)
    except BadTimeError:
        raise DirtyError("bad_time") from None
    if not is_fine:
        return found
    if policy.get("on_lossy") == "null":
        return None
    raise DirtyError("scale")


def iso_text(value: Moment) -> str:
    """A time as text, by the calendar's arithmetic."""
    if value.kind == "day":
        return _day_text(value.number)
    wall_s, rest = divmod(value.number, 10**9)
    fraction = re.sub("0+$", "", f"{rest:09}")
    second = wall_s % 86_400
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    clock += f".{fraction}" if fraction else ""
    if value.kind == "clock":
        if not 0 <= value.number < DAY_NS:
            raise DirtyError("bad_time")
        return clock
    return f"{_day_text(wall_s // 86_400)}T{clock}{'Z' if value.kind == 'instant' else ''}"


def _day_text(number: int) -> str:
    if not FIRST_DAY <= number <= LAST_DAY:
        raise DirtyError("bad_time")
    days = number + 719_162
    cycles, days = divmod(days, 146_097)
    centuries = min(days // 36_524, 3)
    days -= centuries * 36_524
    fours, days = divmod(days, 1461)
    years = min(days // 365, 3)
    days -= years * 365
    year = cycles * 400 + centuries * 100 + fours * 4 + years + 1
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    month = 1
    for length in (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31):
        if days < length:
            break
        days -= length
        month += 1
    return f"{year:04}-{month:02}-{days + 1:02}"
