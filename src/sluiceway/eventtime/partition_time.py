"""Partition values of event times: `yyyyMMdd`, `HH` and the like, in a named zone."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_TEXTS = pa.dictionary(pa.int32(), pa.string())
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIELDS: dict[str, Callable[[datetime], str]] = {
    "yyyy": lambda wall: f"{wall.year:04d}",
    "MM": lambda wall: f"{wall.month:02d}",
    "dd": lambda wall: f"{wall.day:02d}",
    "HH": lambda wall: f"{wall.hour:02d}",
    "mm": lambda wall: f"{wall.minute:02d}",
}
_PIECE = re.compile(r"yyyy|MM|dd|HH|mm|[-_. ]")
# Most changes of a zone's offset fall on a quarter of an hour; the others are looked for.
_QUARTER_US = 15 * 60 * 1_000_000
_MINUTE_US = 60 * 1_000_000


class TimePattern:
    """Formats event times. Created once per task.

    Times are floored to steps, and distinct steps are formatted: a batch has a handful of them.
    A step in which the text changes, because the zone changes its offset at an odd minute, is
    formatted time by time.

    Args:
        pattern: Of `yyyy MM dd HH mm` and `-`, `_`, `.`, space.
        timezone: IANA name.

    Raises:
        ValueError: Another letter, or an unknown zone.
    """

    def __init__(self, pattern: str, timezone: str) -> None:
        pieces = _PIECE.findall(pattern)
        if "".join(pieces) != pattern or not set(pieces) & _FIELDS.keys():
            raise ValueError(f"pattern {pattern!r} is not made of yyyy MM dd HH mm and -_. ")
        self._pieces = pieces
        self._zone = ZoneInfo(timezone)
        self._step_us = _MINUTE_US if "mm" in pieces else _QUARTER_US

    def format(self, micros: pa.Array) -> pa.DictionaryArray:
        """Partition values of a batch.

        Args:
            micros: int64 since the epoch, UTC; no nulls.

        Returns:
            dictionary<int32, string>; equal values may have several codes. Null where the local
            time lies outside of the years 1 to 9999.
        """
        steps = _floor_divide(micros, self._step_us).dictionary_encode()
        firsts = [step * self._step_us for step in steps.dictionary.to_pylist()]
        texts = [self.format_one(first) for first in firsts]
        odd = [
            code
            for code, first in enumerate(firsts)
            if self.format_one(first + self._step_us - 1) != texts[code]
        ]
        codes = steps.indices
        if odd:
            codes, texts = self._split(micros, codes, odd, texts)
        return pa.DictionaryArray.from_arrays(codes, pa.array(texts, pa.string())).cast(_TEXTS)

    def format_one(self, micros: int) -> str | None:
        """Partition value of one time; None when the zone shifts it out of the calendar."""
        try:
            wall = (_EPOCH + timedelta(microseconds=micros)).astimezone(self._zone)
        except OverflowError:
            return None
        return "".join(
            _FIELDS[piece](wall) if piece in _FIELDS else piece for piece in self._pieces
        )

    def _split(
        self, micros: pa.Array, codes: pa.Array, odd: list[int], texts: list[str | None]
    ) -> tuple[pa.Array, list[str | None]]:
        """Give each time in an odd step a code of its own."""
        numbers = codes.to_numpy().copy()
        rows = np.flatnonzero(np.isin(numbers, odd))
        numbers[rows] = np.arange(len(texts), len(texts) + len(rows))
        added = [self.format_one(micros[row].as_py()) for row in rows.tolist()]
        return pa.array(numbers), [*texts, *added]


def _floor_divide(micros: pa.Array, step: int) -> pa.Array:
    """Divide towards the past, so that times before the epoch stay in their own step."""
    whole = pc.divide(micros, step)
    below = pc.less(micros, pc.multiply(whole, step))
    return pc.subtract(whole, below.cast(pa.int64()))
