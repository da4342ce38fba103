"""Partition values of event times: `yyyyMMdd`, `HH` and the like, in a named zone."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIELDS: dict[str, Callable[[datetime], str]] = {
    "yyyy": lambda wall: f"{wall.year:04d}",
    "MM": lambda wall: f"{wall.month:02d}",
    "dd": lambda wall: f"{wall.day:02d}",
    "HH": lambda wall: f"{wall.hour:02d}",
    "mm": lambda wall: f"{wall.minute:02d}",
}
_PIECE = re.compile(r"yyyy|MM|dd|HH|mm|[-_. ]")
# Most zones change their offset at a quarter of an hour; other changes are searched for.
_QUARTER_US = 15 * 60 * 1_000_000
_MINUTE_US = 60 * 1_000_000


class TimePattern:
    """Formats event times. Created once per task.

    Times are floored to steps, and each distinct step is formatted once: a batch has a handful of
    them. In a step in which the zone changes its offset at an odd minute, each time is formatted.

    Args:
        pattern: Pattern of `yyyy MM dd HH mm` and `-`, `_`, `.`, space.
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

    @property
    def step_us(self) -> int:
        """Times of one step, counted from 1970, have one text, except where the zone changes."""
        return self._step_us

    def format(self, micros: "pa.Array") -> "pa.DictionaryArray":
        """Partition values of a batch.

        Args:
            micros: int64 since the epoch, UTC; no nulls.

        Returns:
            dictionary<int32, string>; equal values may have several codes. Null where the local
            time lies outside of the years 1 to 9999.
        """
        # Processes that only load a job file load no Arrow.
        from sluiceway.eventtime.partition_texts import partition_texts  # noqa: PLC0415

        return partition_texts(micros, self.step_us, self.format_one)

    def format_one(self, micros: int) -> str | None:
        """Partition value of one time; None when the zone shifts it out of the calendar."""
        try:
            wall = (_EPOCH + timedelta(microseconds=micros)).astimezone(self._zone)
        except OverflowError:
            return None
        return "".join(
            _FIELDS[piece](wall) if piece in _FIELDS else piece for piece in self._pieces
        )


class TimeKind(StrEnum):
    """Times of a row that partition columns may be made of."""

    EVENT = "event"
    RECORD = "record"
    PROCESSING = "processing"
