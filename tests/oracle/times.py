"""Days and instants of the oracle, from the calendar's arithmetic."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

DAY_US = 86_400_000_000
LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATE = r"(?P<y>[0-9]{4})-(?P<m>[0-9]{2})-(?P<d>[0-9]{2})"
_OFFSET = r"(?P<o>[Zz]|[+-][0-9]{2}:?[0-9]{2}|[+-][0-9]{2})"
_CLOCK = r"(?P<h>[0-9]{2}):(?P<mi>[0-9]{2})(?::(?P<s>[0-9]{2})(?:\.(?P<f>[0-9]{1,18}))?)?"
SHAPES = {
    "": re.compile(rf"{_DATE}Z?", re.ASCII),
    "iso8601": re.compile(rf"{_DATE}[Tt ]{_CLOCK}{_OFFSET}?", re.ASCII),
    "dd.MM.yyyy": re.compile(r"(?P<d>[0-9]{2})\.(?P<m>[0-9]{2})\.(?P<y>[0-9]{4})", re.ASCII),
    "dd.MM.yyyy HH:mm:ss.SSSSSSSXXX": re.compile(
        r"(?P<d>\d\d)\.(?P<m>\d\d)\.(?P<y>\d{4}) (?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)"
        r"\.(?P<f>\d{7})(?P<o>Z|[+-]\d\d:\d\d)",
        re.ASCII,
    ),
    "yyyyMMdd HHmmss.SSSSSSS": re.compile(
        r"(?P<y>\d{4})(?P<m>\d\d)(?P<d>\d\d) (?P<h>\d\d)(?P<mi>\d\d)(?P<s>\d\d)\.(?P<f>\d{7})",
        re.ASCII,
    ),
}


_INFINITE = re.compile("[+-]?infinity", re.ASCII | re.IGNORECASE)
_FAR = re.compile(
    r"(?P<sign>[+-]?)(?P<y>[0-9]{4,12})-(?P<m>[0-9]{2})-(?P<d>[0-9]{2})(?:[Tt ](?P<rest>.*))?"
)


class BadTimeError(Exception):
    """There is no such time."""


class ImpossibleError(BadTimeError):
    """There is no such day in the years 0001 to 9999."""


class Written(NamedTuple):
    """A time as its text says it: whole seconds of the wall clock, a fraction, an offset."""

    wall_s: int
    fraction: str
    offset_s: int | None


def day_number(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01, by counting leap days."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    last = 29 if month == 2 and leap else LENGTHS[month - 1] if 1 <= month <= 12 else 0
    if not (1 <= year <= 9999 and 1 <= day <= last):
        raise ImpossibleError
    before = year - 1
    days = before * 365 + before // 4 - before // 100 + before // 400
    days += sum(LENGTHS[: month - 1]) + (1 if leap and month > 2 else 0) + day - 1
    return days - 719_162


MIN_US = day_number(1, 1, 1) * DAY_US
MAX_US = (day_number(9999, 12, 31) + 1) * DAY_US - 1


def read_written(text: str, shape: str) -> Written:
    """What a text of a shape says."""
    found = SHAPES[shape].fullmatch(text)
    if found is None:
        raise ImpossibleError if _is_of_no_day(text) else BadTimeError
    parts = found.groupdict()
    day = day_number(int(parts["y"]), int(parts["m"]), int(parts["d"]))
    hour, minute, second = (int(parts.get(name) or 0) for name in ("h", "mi", "s"))
    if hour > 23 or minute > 59 or second > 59:
        raise BadTimeError
    wall_s = day * 86_400 + hour * 3600 + minute * 60 + second
    return Written(wall_s, parts.get("f") or "", _offset_s(parts.get("o")))


def _is_of_no_day(text: str) -> bool:
    far = _FAR.fullmatch(text)
    if far is None:
        return _INFINITE.fullmatch(text) is not None
    long = len(far["y"]) > 4
    zero = not far["sign"] and (far["y"], far["m"], far["d"]) == ("0000", "00", "00")
    before = not far["sign"] and text.endswith(" BC")
    return long or far["sign"] == "-" or zero or before


def _offset_s(text: str | None) -> int | None:
    if text is None or text in "Zz":
        return None if text is None else 0
    hours, minutes = int(text[1:3]), int(text[3:].lstrip(":") or 0)
    if hours > 23 or minutes > 59:
        raise BadTimeError
    return (hours * 3600 + minutes * 60) * (-1 if text[0] == "-" else 1)


def instant_us(written: Written, zone: str | None, round_fraction: Callable[[str], int]) -> int:
    """The instant; `round_fraction` makes microseconds of the fraction's digits."""
    offset_s = written.offset_s
    if offset_s is None:
        if zone is None:
            raise BadTimeError
        offset_s = _only_offset_s(written.wall_s, zone)
    time_us = (written.wall_s - offset_s) * 1_000_000 + round_fraction(written.fraction)
    if not MIN_US <= time_us <= MAX_US:
        raise ImpossibleError
    return time_us


def _only_offset_s(wall_s: int, zone: str) -> int:
    """The one offset under which the zone's clocks show this time; none and two are no answer."""
    near = {offset_at_s(wall_s + shift, zone) for shift in (-90_000, 0, 90_000)}
    fitting = [one for one in near if offset_at_s(wall_s - one, zone) == one]
    if len(fitting) != 1:
        raise BadTimeError
    return fitting[0]


def offset_at_s(instant_s: int, zone: str) -> int:
    """How far a zone is ahead of UTC at an instant."""
    inside = min(max(instant_s, MIN_US // 1_000_000 + 90_000), MAX_US // 1_000_000 - 90_000)
    moment = (_EPOCH + timedelta(seconds=inside)).astimezone(ZoneInfo(zone))
    offset = moment.utcoffset()
    assert offset is not None
    return offset // timedelta(seconds=1)


def day_in_zone(time_us: int, zone: str) -> int:
    """The day that an instant falls on in a zone."""
    local_us = time_us + offset_at_s(time_us // 1_000_000, zone) * 1_000_000
    if not MIN_US <= local_us <= MAX_US:
        raise ImpossibleError
    return local_us // DAY_US
