"""The wall clock of this driver, believed only where the monotonic clock bears it out.

What is closed by time stays closed. So one reading of a clock that is a day ahead for a minute
would close a day for ever. A reading is compared with the last five minutes. If its distance from
the monotonic clock differs by more than five seconds from any of them, it is refused, logged and
waited out. Several small steps count like one. Meanwhile time goes on as the monotonic clock says.
"""

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Final

MOST_STEP_S: Final = 5.0
"""How far apart the wall clock and the monotonic one may get in `BELIEVE_AFTER_S`."""

BELIEVE_AFTER_S: Final = 300.0
"""For how long all readings have to agree on another time before it counts as the right one."""

_ONE_MOMENT_S: Final = 0.5
_STRETCHES: Final = 30


@dataclass(frozen=True, slots=True)
class ClockNews:
    """Something that a person should know of the clock.

    Attributes:
        event: `clock_stepped`, `clock_back` or `clock_accepted`.
        step_s: How far the wall clock was from where it was expected; below zero it was set back.
    """

    event: str
    step_s: float


@dataclass(frozen=True, slots=True)
class _Line:
    """Where the wall clock has been, and when: from there on it should run as the monotonic one."""

    wall_us: int
    at: float

    def now_us(self, at: float) -> int:
        return self.wall_us + int((at - self.at) * 1_000_000)


@dataclass(slots=True)
class _Stretch:
    """Some seconds, and how far the wall clock was from the monotonic one in them."""

    since: float
    least_us: int
    most_us: int


class SteadyClock:
    """The clock of one process; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._line: _Line | None = None
        self._other: _Line | None = None
        self._other_since = 0.0
        self._believed: deque[_Stretch] = deque()
        self._news: list[ClockNews] = []

    def now_us(self) -> int:
        """Microseconds since the epoch, UTC, by a clock that does not step.

        Called at the start of a run, and with each reading of log ends.
        """
        with self._lock:
            return self.judge(*_read())

    def judge(self, wall_us: int, at: float) -> int:
        """What `now_us` says of a reading of both clocks.

        Args:
            wall_us: Microseconds since the epoch, as the host says.
            at: Monotonic seconds of the same moment.
        """
        line = self._line
        if line is None or self._is_borne_out(wall_us, at):
            if self._other is not None:
                self._log_step("clock_back", self._other, at)
            return self._believe(wall_us, at)
        other = self._other
        is_same = other is not None and _agrees(other, wall_us, at)
        self._other = _Line(wall_us, at)
        if not is_same:
            self._other_since = at
            self._log_step("clock_stepped", self._other, at)
        elif at - self._other_since >= BELIEVE_AFTER_S:
            self._log_step("clock_accepted", self._other, at)
            self._believed.clear()
            return self._believe(wall_us, at)
        return line.now_us(at)

    def pop_news(self) -> list[ClockNews]:
        """What has happened to the clock since it was last asked."""
        with self._lock:
            news, self._news = self._news, []
        return news

    def _is_borne_out(self, wall_us: int, at: float) -> bool:
        apart_us, step_us = _apart_us(wall_us, at), int(MOST_STEP_S * 1_000_000)
        least_us = min(stretch.least_us for stretch in self._believed)
        most_us = max(stretch.most_us for stretch in self._believed)
        return most_us - step_us <= apart_us <= least_us + step_us

    def _believe(self, wall_us: int, at: float) -> int:
        self._line, self._other = _Line(wall_us, at), None
        apart_us, seen = _apart_us(wall_us, at), self._believed
        if seen and at - seen[-1].since < BELIEVE_AFTER_S / _STRETCHES:
            seen[-1].least_us = min(seen[-1].least_us, apart_us)
            seen[-1].most_us = max(seen[-1].most_us, apart_us)
        else:
            seen.append(_Stretch(at, apart_us, apart_us))
        # The last reading counts however long ago it was.
        while len(seen) > 1 and seen[1].since <= at - BELIEVE_AFTER_S:
            seen.popleft()
        return wall_us

    def _log_step(self, event: str, other: _Line, at: float) -> None:
        if self._line is not None:
            step_us = other.now_us(at) - self._line.now_us(at)
            self._news.append(ClockNews(event, step_us / 1_000_000))


def _read() -> tuple[int, float]:
    """Both clocks at one moment, also when the process stood still between the two."""
    while True:
        at, wall_us = time.monotonic(), time.time_ns() // 1000
        if time.monotonic() - at < _ONE_MOMENT_S:
            return wall_us, at


def _apart_us(wall_us: int, at: float) -> int:
    return wall_us - int(at * 1_000_000)


def _agrees(line: _Line, wall_us: int, at: float) -> bool:
    return abs(wall_us - line.now_us(at)) <= MOST_STEP_S * 1_000_000


_CLOCK: Final = SteadyClock()


def process_clock() -> SteadyClock:
    """The clock by which all routes of this process decide."""
    return _CLOCK
