"""The time of a table's prefix: `dt=20261120/hr=08`, in its zone, with DST.

A prefix is the folder of the leading time columns. Its period is all instants whose local time
reads as its texts do. Where clocks are set back it ends with the second occurrence; an hour that
clocks skip does not exist. Values only, without I/O.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from sluiceway.eventtime.partition_time import TimePattern

_ORDER = ("yyyy", "MM", "dd", "HH", "mm")
_PIECE = re.compile(r"yyyy|MM|dd|HH|mm|[-_. ]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - local time of any zone
_SECOND_US = 1_000_000
# No zone was ever further from UTC than 16 hours.
_FURTHEST = timedelta(hours=16)
_SAMPLE_S = 6 * 3600
_CACHED = 20_000
_MOST_SKIPPED = 2_000


@dataclass(frozen=True, slots=True, order=True)
class Period:
    """A prefix and its time; periods sort in time order.

    Attributes:
        wall: Local time at which it begins.
        begin_us: First instant, microseconds since the epoch.
        end_us: First instant after it. Between the two there may be instants of other periods where
            local times come twice.
        prefix: Folder, such as `dt=20261120/hr=08`.
    """

    wall: datetime
    begin_us: int
    end_us: int
    prefix: str


class PrefixPeriods:
    """Periods of a table's prefixes. Used by one thread.

    Args:
        columns: Name and pattern of each leading time column, in path order.
        timezone: IANA name.

    Attributes:
        sorts_as_text: Whether prefixes sort by text as they sort by time.

    Raises:
        ValueError: The columns leave out a part of the time: an hour of no day cannot be complete.
    """

    def __init__(self, columns: Sequence[tuple[str, str]], timezone: str) -> None:
        pieces = [piece for _, pattern in columns for piece in _PIECE.findall(pattern)]
        fields = [piece for piece in pieces if piece in _ORDER]
        named = [field for field in _ORDER if field in fields]
        if not named or tuple(named) != _ORDER[: len(named)]:
            raise ValueError(
                f"the leading time columns say {' '.join(named) or 'nothing'}, which is no time "
                "of its own: they have to begin with the year and leave out nothing between"
            )
        self.columns = tuple(columns)
        self.sorts_as_text = fields == named
        self._unit = named[-1]
        self._zone = ZoneInfo(timezone)
        self._patterns = [(name, TimePattern(pattern, timezone)) for name, pattern in columns]
        self._readers = [_reader(name, pattern) for name, pattern in columns]
        self._known: dict[datetime, Period | None] = {}

    @property
    def depth(self) -> int:
        """Number of leading time columns."""
        return len(self.columns)

    def at(self, us: int) -> Period:
        """The period of an event time.

        Raises:
            OverflowError: The zone shifts it out of the years 1 to 9999.
        """
        found = self._period(self._floor(_wall(us, self._zone)))
        if found is None:
            raise OverflowError(f"{us} is not in the calendar of {self._zone}")
        return found

    def of(self, partition: str) -> Period | None:
        """The period of a partition or prefix; None when its folders are no time of these columns.

        Args:
            partition: Folder relative to the table, with at least the leading time columns.
        """
        parts = partition.split("/")
        if len(parts) < self.depth:
            return None
        read: dict[str, int] = {}
        for part, reader in zip(parts, self._readers, strict=False):
            match = reader.fullmatch(part)
            if match is None:
                return None
            read.update((field, int(text)) for field, text in match.groupdict().items())
        try:
            wall = datetime(  # noqa: DTZ001 - local time
                read["yyyy"],
                read.get("MM", 1),
                read.get("dd", 1),
                read.get("HH", 0),
                read.get("mm", 0),
            )
        except ValueError:
            return None
        found = self._period(wall)
        # Columns that contradict each other give no time.
        return found if found and found.prefix == "/".join(parts[: self.depth]) else None

    def after(self, period: Period) -> Period | None:
        """The next period; None at the end of the calendar. Skips what clocks skip."""
        wall: datetime | None = period.wall
        for _ in range(_MOST_SKIPPED):
            wall = self._next(wall) if wall is not None else None
            if wall is None:
                return None
            found = self._period(wall)
            if found is not None:
                return found
        return None

    def between(self, first: Period, until_us: int) -> Iterator[Period]:
        """Periods from `first` on that end at `until_us` or before, in order."""
        period: Period | None = first
        while period is not None and period.end_us <= until_us:
            yield period
            period = self.after(period)

    def _floor(self, wall: datetime) -> datetime:
        places = _ORDER.index(self._unit) + 1
        parts = (wall.year, wall.month, wall.day, wall.hour, wall.minute)[:places]
        year, month, day, hour, minute = (*parts, *(1, 1, 1, 0, 0)[places:])
        return datetime(year, month, day, hour, minute)  # noqa: DTZ001 - local time

    def _next(self, wall: datetime) -> datetime | None:
        try:
            if self._unit == "yyyy":
                return wall.replace(year=wall.year + 1)
            if self._unit == "MM":
                year, month = divmod(wall.year * 12 + wall.month, 12)
                return wall.replace(year=year, month=month + 1)
            steps = {"dd": timedelta(days=1), "HH": timedelta(hours=1), "mm": timedelta(minutes=1)}
            return wall + steps[self._unit]
        except (OverflowError, ValueError):
            return None

    def _period(self, wall: datetime) -> Period | None:
        if wall not in self._known:
            if len(self._known) >= _CACHED:
                self._known.clear()
            self._known[wall] = self._make(wall)
        return self._known[wall]

    def _make(self, wall: datetime) -> Period | None:
        behind = self._next(wall)
        if behind is None:
            return None
        pieces = list(_pieces(wall, behind, self._zone))
        if not pieces:
            return None
        begin = min(start for start, _ in pieces)
        texts = [f"{name}={pattern.format_one(begin)}" for name, pattern in self._patterns]
        return Period(wall, begin, max(end for _, end in pieces), "/".join(texts))


def _reader(name: str, pattern: str) -> re.Pattern[str]:
    pieces = [
        f"(?P<{piece}>[0-9]{{{len(piece)}}})" if piece in _ORDER else re.escape(piece)
        for piece in _PIECE.findall(pattern)
    ]
    return re.compile(re.escape(name) + "=" + "".join(pieces))


def _wall(us: int, zone: ZoneInfo) -> datetime:
    return (_EPOCH + timedelta(microseconds=us)).astimezone(zone).replace(tzinfo=None, fold=0)


def _offset_us(second: int, zone: ZoneInfo) -> int:
    """Local time minus UTC at an instant in seconds."""
    offset = (_EPOCH + timedelta(seconds=second)).astimezone(zone).utcoffset()
    return 0 if offset is None else offset // timedelta(microseconds=1)


def _pieces(wall: datetime, behind: datetime, zone: ZoneInfo) -> Iterator[tuple[int, int]]:
    """Stretches of instants whose local time lies in [wall, behind)."""
    low_us = (wall - _NAIVE_EPOCH) // timedelta(microseconds=1)
    high_us = (behind - _NAIVE_EPOCH) // timedelta(microseconds=1)
    furthest_us = _FURTHEST // timedelta(microseconds=1)
    first, last = (low_us - furthest_us) // _SECOND_US, (high_us + furthest_us) // _SECOND_US
    try:
        stretches = list(_stretches(first, last, zone))
    except OverflowError:
        # Within hours of the calendar's ends.
        return
    for start, end, offset_us in stretches:
        piece = (
            max(start * _SECOND_US, low_us - offset_us),
            min(end * _SECOND_US, high_us - offset_us),
        )
        if piece[0] < piece[1]:
            yield piece


def _stretches(first: int, last: int, zone: ZoneInfo) -> Iterator[tuple[int, int, int]]:
    """[start, end) in seconds and the offset of that stretch, from `first` to `last`."""
    start, offset_us = first, _offset_us(first, zone)
    at = first
    while at < last:
        ahead = min(at + _SAMPLE_S, last)
        found = _offset_us(ahead, zone)
        if found != offset_us:
            # The first second with another offset.
            low, high = at, ahead
            while high - low > 1:
                middle = (low + high) // 2
                if _offset_us(middle, zone) == offset_us:
                    low = middle
                else:
                    high = middle
            yield start, high, offset_us
            start, offset_us = high, _offset_us(high, zone)
            at = high
        else:
            at = ahead
    yield start, last, offset_us


class ClosedPrefixes:
    """The prefixes that were closed when an epoch was planned. Used by one thread.

    Rows reach them by the late policy only (commit rules 6, 17).

    Closing names prefixes from the first one with rows on. Every prefix that ends before a closed
    one is closed too, named or not. The watermark has passed it, and it could only be announced
    after later prefixes.

    Args:
        periods: Periods of the table's leading time columns.
        closed: Prefixes that are closed.
    """

    def __init__(self, periods: PrefixPeriods, closed: Iterable[str]) -> None:
        self._periods = periods
        self._closed = frozenset(closed)
        self._last = self._latest()

    def holds(self, partition: str) -> bool:
        """Whether a partition is closed.

        Args:
            partition: Folder relative to the table, with at least the leading time columns.
        """
        prefix = "/".join(partition.split("/")[: self._periods.depth])
        if prefix in self._closed:
            return True
        period = self._periods.of(partition)
        return period is not None and self._last is not None and period <= self._last

    def _latest(self) -> Period | None:
        if self._periods.sorts_as_text:
            # Years of hours may be closed: few of them are parsed.
            ordered = (self._periods.of(prefix) for prefix in sorted(self._closed, reverse=True))
            return next((each for each in ordered if each is not None), None)
        known = (self._periods.of(prefix) for prefix in self._closed)
        return max((each for each in known if each is not None), default=None)
