"""Partition times by brute force: every minute of a stretch of time, formatted on its own."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from readiness_oracle.history import DAY, HOUR, MINUTE, Route

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Site:
    """A moment at which something is odd about local time, or nothing is.

    Attributes:
        moment: Local time as UTC text, `2026-11-01T06:00`.
        step: Minutes are enough but where a zone's offset has seconds.
    """

    zone: str
    moment: str
    step: int = MINUTE

    @property
    def centre(self) -> int:
        """Microseconds since the epoch."""
        at = datetime.fromisoformat(self.moment).replace(tzinfo=UTC)
        return (at - _EPOCH) // timedelta(microseconds=1)


HALF_MINUTE = MINUTE // 2
SITES = (
    Site("UTC", "2026-11-20T08:00"),
    Site("UTC", "2028-02-29T00:00"),
    Site("Europe/Berlin", "2026-10-25T01:00"),
    Site("Europe/Berlin", "2026-03-29T01:00"),
    Site("America/New_York", "2026-11-01T06:00"),
    Site("America/New_York", "2026-03-08T07:00"),
    Site("Australia/Lord_Howe", "2026-04-04T15:00"),
    Site("Australia/Lord_Howe", "2026-10-03T15:30"),
    Site("Asia/Kathmandu", "2026-05-01T18:15"),
    Site("Asia/Kathmandu", "1985-12-31T18:30"),
    Site("Pacific/Kiritimati", "1994-12-31T10:40"),
    Site("Pacific/Kiritimati", "2026-06-30T10:00"),
    Site("Pacific/Apia", "2011-12-30T10:00"),
    Site("Antarctica/Troll", "2026-03-29T01:00"),
    Site("Antarctica/Troll", "2026-10-25T01:00"),
    Site("Europe/Dublin", "2026-10-25T01:00"),
    Site("Europe/Dublin", "2026-03-29T01:00"),
    Site("America/St_Johns", "2010-11-07T02:31"),
    Site("America/Sao_Paulo", "2018-02-18T02:00"),
    Site("America/Sao_Paulo", "2018-11-04T03:00"),
    Site("Africa/Casablanca", "2026-02-15T02:00"),
    Site("Africa/Casablanca", "2026-03-22T02:00"),
    Site("Asia/Tehran", "2022-03-21T20:30"),
    Site("Asia/Kolkata", "2026-01-01T18:30"),
    Site("America/Havana", "2026-11-01T05:00"),
    Site("Africa/Monrovia", "1972-01-07T00:44", HALF_MINUTE),
    Site("Pacific/Chatham", "2026-04-04T14:00"),
)


def wall_clock(event: int, zone: ZoneInfo) -> datetime:
    """Local time of an event time."""
    return (_EPOCH + timedelta(microseconds=event)).astimezone(zone)


def _format_of(patterns: tuple[tuple[str, str], ...]) -> str:
    """Of `strftime`."""
    text = "/".join(f"{name}={pattern}" for name, pattern in patterns)
    for letters, code in (("yyyy", "%Y"), ("MM", "%m"), ("dd", "%d"), ("HH", "%H"), ("mm", "%M")):
        text = text.replace(letters, code)
    return text


def reach_of(patterns: tuple[tuple[str, str], ...]) -> int:
    """How far before and behind a history's centre its times are tabulated."""
    text = _format_of(patterns)
    if "%M" in text:
        return 12 * HOUR
    return 3 * DAY if "%H" in text else 6 * DAY


@cache
def _walls(site: Site, reach: int) -> tuple[datetime, ...]:
    zone = ZoneInfo(site.zone)
    first = site.centre - reach
    return tuple(wall_clock(first + i * site.step, zone) for i in range(2 * reach // site.step))


class Calendar:
    """All prefixes of a stretch of time, and when each is over.

    Args:
        site: Where and when.
        patterns: Of the leading time columns.
    """

    def __init__(self, site: Site, patterns: tuple[tuple[str, str], ...]) -> None:
        reach = reach_of(patterns)
        self._first = site.centre - reach
        self._step = site.step
        self._zone = ZoneInfo(site.zone)
        self._format = _format_of(patterns)
        self._prefixes = [wall.strftime(self._format) for wall in _walls(site, reach)]
        self.ends = {
            prefix: self._first + (i + 1) * site.step for i, prefix in enumerate(self._prefixes)
        }
        """Prefix -> the end of its last moment, in the order of these ends."""
        self.ends = dict(sorted(self.ends.items(), key=lambda item: item[1]))
        self.begins: dict[str, int] = {}
        """Prefix -> its first moment."""
        for i, prefix in enumerate(self._prefixes):
            self.begins.setdefault(prefix, self._first + i * site.step)
        self._names = list(self.ends)
        self._times = list(self.ends.values())
        self.folded = {
            prefix
            for i, prefix in enumerate(self._prefixes)
            if self.ends[prefix] > self._first + (i + 1) * site.step
            and self._prefixes[i + 1] != prefix
        }
        """Prefixes whose time is interrupted by another's: a fold."""

    def prefix(self, event: int) -> str:
        """Prefix of an event time."""
        place = (event - self._first) // self._step
        if 0 <= place < len(self._prefixes):
            return self._prefixes[place]
        return wall_clock(event, self._zone).strftime(self._format)

    def end(self, event: int) -> int:
        """End of the prefix of an event time."""
        return self.ends[self.prefix(event)]

    def is_whole(self, prefix: str) -> bool:
        """Whether neither begin nor end of a prefix is that of the table."""
        begin, end = self.begins.get(prefix), self.ends.get(prefix)
        return begin is not None and begin > self._first and end != self._times[-1]

    def after(self, end: int) -> str | None:
        """The first prefix that ends behind; None beyond the table."""
        place = bisect_right(self._times, end)
        return self._names[place] if place < len(self._names) else None

    def over(self, first: int, last: int) -> list[str]:
        """Prefixes whose end lies in [first, last], in order."""
        return self._names[bisect_left(self._times, first) : bisect_right(self._times, last)]


@cache
def calendar_of(site: Site, patterns: tuple[tuple[str, str], ...]) -> Calendar:
    """The table, made once in a process."""
    return Calendar(site, patterns)


def site_of(route: Route, centre: int) -> Site:
    """The site that a history takes place at."""
    return next(site for site in SITES if (site.zone, site.centre) == (route.zone, centre))
