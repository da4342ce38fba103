"""Event times written as text, a column at a time: a pattern, or ISO 8601 without an offset.

A text without an offset is local time of a zone. Where clocks are set back, the zone has an hour
twice: the first one is taken. It is never later than the true time, so no watermark runs ahead, and
both have the same partition. Where clocks are set forward, some times do not exist; a day or an
hour whose beginning they skip begins with its first moment. Digits below a microsecond are cut off,
as with numbers in nanoseconds.
"""

import re
from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.types.iso_time import (
    EPOCH,
    MAX_TIME_US,
    MICROSECOND_DIGITS,
    MIN_TIME_US,
    instant_us,
    read_iso_timestamps,
)
from sluiceway.types.time_format import PatternReader, compile_time_format

_MICROSECOND = timedelta(microseconds=1)
_SECOND = timedelta(seconds=1)
_SPANS = (("hour", timedelta(days=1)), ("minute", timedelta(hours=1)))
_QUARTER_US = 15 * 60 * 1_000_000
_FINE = re.compile(r"\(\?P<fraction>\[0-9\]\{([0-9])\}\)")
_CUT_FRACTION = (r"(\.[0-9]{6})[0-9]{1,12}", r"\1")


class TimeText:
    """Reads texts of one form. Created once per task, used by one thread.

    Args:
        form: `iso8601` or a pattern, as in a column's `format`.
        timezone: IANA name of the zone for texts without an offset.

    Raises:
        ValueError: The form is no pattern, or the zone is unknown.

    Attributes:
        form: As given.
    """

    def __init__(self, form: str, timezone: str) -> None:
        self.form = form
        self._reader = compile_time_format(form)
        self._zone = ZoneInfo(timezone)
        self._rewrite: tuple[str, str] | None = None
        self._span = timedelta(0)
        if isinstance(self._reader, PatternReader):
            self._rewrite = _iso_rewrite(self._reader)
            said = self._reader.shape.groupindex
            self._span = next((span for part, span in _SPANS if part not in said), self._span)

    def read(self, texts: pa.StringArray) -> pa.Array:
        """Event times of a column.

        Returns:
            int64 microseconds since the epoch, UTC; null where the text is no time, or is null.
        """
        if self._rewrite is None:
            micros = self._read_iso(texts)
        else:
            micros = self._read_pattern(texts, *self._rewrite)
        missing = pc.and_(pc.is_null(micros), pc.is_valid(texts))
        if not pc.any(missing).as_py():
            return micros
        found = micros.to_pylist()
        for row in pc.indices_nonzero(missing).to_pylist():
            found[row] = self.read_one(texts[row].as_py())
        return pa.array(found, pa.int64())

    def read_one(self, text: str) -> int | None:
        """Event time of one text; None when it is no time."""
        try:
            wall = self._reader.read(text)
            if wall.offset_us is None:
                offset_us = zone_offset_us(wall.second, self._zone, self._span)
                wall = replace(wall, offset_us=offset_us)
            return instant_us(wall, None, "ROUND_FLOOR")
        except ValueError:
            return None

    def _read_iso(self, texts: pa.StringArray) -> pa.Array:
        micros, odd = read_iso_timestamps(texts)
        if len(odd) == 0:
            return micros
        left = pc.replace_substring_regex(texts.take(odd), *_CUT_FRACTION)
        with_offset, _ = read_iso_timestamps(left)
        walls, _ = read_iso_timestamps(pc.binary_join_element_wise(left, "Z", ""))
        filled = pc.coalesce(with_offset, self._instants(walls))
        mask = np.zeros(len(texts), dtype=np.bool_)
        mask[odd.to_numpy()] = True
        return pc.replace_with_mask(micros, pa.array(mask), filled)

    def _read_pattern(self, texts: pa.StringArray, shape: str, iso: str) -> pa.Array:
        # A text that does not fit the pattern must not pass as ISO 8601, which it may be.
        fitting = pc.if_else(pc.match_substring_regex(texts, shape), texts, None)
        micros, _ = read_iso_timestamps(pc.replace_substring_regex(fitting, shape, iso))
        return micros if self._reader.has_offset else self._instants(micros)

    def _instants(self, walls: pa.Array) -> pa.Array:
        """Instants of local times; null where the zone has none, or each time needs its own check.

        Args:
            walls: int64, microseconds as if the zone were UTC.
        """
        if self._zone.key == "UTC":
            return walls
        steps = floor_divide(walls, _QUARTER_US).dictionary_encode()
        offsets = pa.array(
            [_step_offset_us(step, self._zone) for step in steps.dictionary.to_pylist()],
            pa.int64(),
        )
        instants = pc.subtract(walls, offsets.take(steps.indices))
        inside = pc.and_(
            pc.greater_equal(instants, MIN_TIME_US), pc.less_equal(instants, MAX_TIME_US)
        )
        return pc.if_else(inside, instants, None)


def zone_offset_us(wall: datetime, zone: ZoneInfo, span: timedelta = timedelta(0)) -> int:
    """Offset of a zone from UTC at a local time; the first one where there are two.

    Args:
        wall: The local time; its own zone does not count.
        zone: Zone of the local time.
        span: Length of the day or hour that begins with it. Where clocks skip the beginning, the
            offset leads to the first moment that exists.

    Raises:
        ValueError: The zone never has this local time.
    """
    try:
        first = wall.replace(tzinfo=zone, fold=0).utcoffset()
        second = wall.replace(tzinfo=zone, fold=1).utcoffset()
    except OverflowError as error:
        raise ValueError("the time is outside of the years 0001 to 9999") from error
    if first is None or second is None:
        return 0
    if first < second:
        begin = _change_between(wall - second, wall - first, zone) if span else None
        if begin is not None and begin + second < wall + span:
            return (wall - begin) // _MICROSECOND
        raise ValueError("the zone never has this local time")
    return first // _MICROSECOND


def _change_between(low: datetime, high: datetime, zone: ZoneInfo) -> datetime:
    """The first second, in UTC, at which the offset of the later one holds; both are whole."""
    ahead = high.astimezone(zone).utcoffset()
    while high - low > _SECOND:
        middle = low + (high - low) // _SECOND // 2 * _SECOND
        if middle.astimezone(zone).utcoffset() == ahead:
            high = middle
        else:
            low = middle
    return high


def _step_offset_us(step: int | None, zone: ZoneInfo) -> int | None:
    """Offset of a quarter of an hour in local time; None when it changes within."""
    if step is None:
        return None
    found = set()
    for at_us in (step * _QUARTER_US, (step + 1) * _QUARTER_US - 1):
        try:
            wall = EPOCH + timedelta(microseconds=at_us)
            found.add(zone_offset_us(wall, zone))
        except (ValueError, OverflowError):
            return None
    return found.pop() if len(found) == 1 else None


def floor_divide(micros: pa.Array, step: int) -> pa.Array:
    """Divide towards the past, so that times before the epoch stay in their own step."""
    whole = pc.divide(micros, step)
    below = pc.less(micros, pc.multiply(whole, step))
    return pc.subtract(whole, below.cast(pa.int64()))


def _iso_rewrite(reader: PatternReader) -> tuple[str, str]:
    """A pattern's shape for Arrow's expressions, and the replacement that yields ISO 8601."""
    shape = _FINE.sub(_cut, reader.shape.pattern)
    compiled = re.compile(shape)
    place = {name: f"\\{number}" for name, number in compiled.groupindex.items()}
    iso = f"{place['year']}-{place['month']}-{place['day']} "
    iso += ":".join(place.get(name, "00") for name in ("hour", "minute", "second"))
    iso += f".{place['fraction']}" if "fraction" in place else ""
    iso += place.get("offset", "Z")
    return f"^(?:{shape})$", iso


def _cut(found: re.Match[str]) -> str:
    """The group of a fraction, without the digits below a microsecond."""
    digits = int(found[1])
    kept = min(digits, MICROSECOND_DIGITS)
    rest = f"[0-9]{{{digits - kept}}}" if digits > kept else ""
    return f"(?P<fraction>[0-9]{{{kept}}}){rest}"
