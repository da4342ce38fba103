"""Patterns of times as text: `yyyyMMdd HH:mm:ss.SSS`, from a column's `format`."""

import re
from dataclasses import dataclass

from sluiceway.types.iso_time import WallTime, day_of, parse_iso_wall_time, unread_time

_MAX_PATTERN = 60
_MAX_FRACTION = 9
_FIELDS = {
    "yyyy": ("year", r"(?P<year>[0-9]{4})"),
    "MM": ("month", r"(?P<month>[0-9]{2})"),
    "dd": ("day", r"(?P<day>[0-9]{2})"),
    "HH": ("hour", r"(?P<hour>[0-9]{2})"),
    "mm": ("minute", r"(?P<minute>[0-9]{2})"),
    "ss": ("second", r"(?P<second>[0-9]{2})"),
    "XXX": ("offset", r"(?P<offset>Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"),
}
_TOKEN = re.compile(r"yyyy|MM|dd|HH|mm|ss|S+|XXX|'(?:[^']|'')*'|[^A-Za-z']")
_DATE = frozenset({"year", "month", "day"})
_TIME = ("hour", "minute", "second", "fraction")


@dataclass(frozen=True, slots=True)
class PatternReader:
    """Reads texts of one pattern, to the letter.

    Attributes:
        pattern: Pattern as in the job file.
        shape: Shape of a text, with a group for each part.
        has_time: Texts say more than a day.
        has_offset: Texts say their offset.
    """

    pattern: str
    shape: re.Pattern[str]
    has_time: bool
    has_offset: bool

    @property
    def needs_zone(self) -> bool:
        """Whether texts lack an offset."""
        return not self.has_offset

    def read(self, text: str) -> WallTime:
        """Read one text.

        Raises:
            ValueError: It is written in another way, or there is no such time.
        """
        found = self.shape.fullmatch(text)
        if found is None:
            raise unread_time(text, f"a time is written {self.pattern} here")
        parts = found.groupdict()
        hour, minute, second = (int(parts.get(name) or 0) for name in _TIME[:3])
        day = day_of(int(parts["year"]), int(parts["month"]), int(parts["day"]))
        moment = day.replace(hour=hour, minute=minute, second=second)
        return WallTime(moment, parts.get("fraction") or "", _offset_us(parts.get("offset")))


@dataclass(frozen=True, slots=True)
class IsoReader:
    """Reads ISO 8601, as without a pattern; it has the attributes of `PatternReader`."""

    has_time: bool = True
    has_offset: bool = True
    needs_zone: bool = True

    def read(self, text: str) -> WallTime:
        """Read one text; see `PatternReader.read`."""
        return parse_iso_wall_time(text)


TimeReader = PatternReader | IsoReader


def compile_time_format(pattern: str) -> TimeReader:
    """Make the reading of texts that a pattern describes. Called once a column.

    Args:
        pattern: `iso8601`, or a pattern. It has `yyyy`, `MM`, `dd` once each, then `HH`, `mm`,
            `ss`, one to nine `S` for the fraction, `XXX` for `Z` or `+08:00`. Letters in quotes and
            all else stand for themselves.

    Raises:
        ValueError: It is no such pattern; says why.
    """
    if pattern == "iso8601":
        return IsoReader()
    if len(pattern) > _MAX_PATTERN:
        raise ValueError(f"a format has at most {_MAX_PATTERN} characters")
    names, shape, place = [], "", 0
    while place < len(pattern):
        found = _TOKEN.match(pattern, place)
        if found is None:
            raise ValueError(
                f"a format is made of yyyy MM dd HH mm ss S XXX, not {pattern[place]!r}"
            )
        name, piece = _piece(found[0])
        names += [name] if name else []
        shape, place = shape + piece, found.end()
    _check_fields(names)
    return PatternReader(pattern, re.compile(shape), "hour" in names, "offset" in names)


def _piece(token: str) -> tuple[str, str]:
    if token in _FIELDS:
        return _FIELDS[token]
    if token.startswith("S"):
        if len(token) > _MAX_FRACTION:
            raise ValueError(f"a fraction has at most {_MAX_FRACTION} digits")
        return "fraction", rf"(?P<fraction>[0-9]{{{len(token)}}})"
    if token.startswith("'"):
        return "", re.escape(token[1:-1].replace("''", "'") or "'")
    return "", re.escape(token)


def _check_fields(names: list[str]) -> None:
    if len(set(names)) != len(names):
        raise ValueError("a format has each of its parts once")
    if not set(names) >= _DATE:
        raise ValueError("a format has yyyy, MM and dd")
    present = [name in names for name in _TIME]
    if sorted(present, reverse=True) != present:
        raise ValueError("a format with mm has HH, one with ss has mm, one with S has ss")
    if "offset" in names and "hour" not in names:
        raise ValueError("a format with XXX has HH")


def _offset_us(text: str | None) -> int | None:
    if text is None:
        return None
    if text == "Z":
        return 0
    minutes = int(text[1:3]) * 60 + int(text[4:6])
    return minutes * (-60_000_000 if text[0] == "-" else 60_000_000)
