"""Event times of the simulated rows, and what the monitor demands of watermark and closings.

Shares no code with the product: the brokers' own logs say what a source partition may still hold.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sim.broker import CLEAN, Broker, hour, outcome
from sim.clocks import HostClocks
from sim.places import ViolationError, require
from sim.read_rows import Named, Row, rows_fit
from sim.scheduler import Process

OUT_OF_ORDERNESS_US = 30_000_000
IDLE_AFTER_US = 3_000_000
_FIRST_SECOND = 1_795_161_600
_BEGIN_US = (_FIRST_SECOND - 600) * 1_000_000
_MINUTE_US = 60_000_000
_ROUNDING_S = 1e-6


@dataclass(frozen=True, slots=True)
class Timed:
    """How a seed's route announces; None in the worlds of the other seeds.

    Attributes:
        counts: How audited counts decide; empty where there are none.
    """

    on_ready: bool
    hold: bool
    lateness_us: int
    counts: str = ""


def event_time_us(partition: int, offset: int) -> int:
    """Rows of a minute come in no order; some are of times that have not come yet."""
    minute = offset // 5 + partition
    return _BEGIN_US + minute * _MINUTE_US + offset * 7919 % 60 * 1_000_000


def minute_of(partition: int, offset: int) -> str:
    """The table's partition of a row."""
    since = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
        microseconds=event_time_us(partition, offset)
    )
    return f"{since:%Y%m%d%H%M}"


def end_us(prefix: str) -> int:
    """End of a partition `hr=202611200759`."""
    begin = datetime.strptime(prefix.rpartition("=")[2] + "+0000", "%Y%m%d%H%M%z")
    return int(begin.timestamp()) * 1_000_000 + _MINUTE_US


@dataclass(slots=True)
class Marks:
    """The watermark as the records have it, and what it may be made from."""

    us: int | None = None
    idle: set[int] = field(default_factory=set)
    newest: dict[int, int] = field(default_factory=dict)
    quiet: dict[int, int] = field(default_factory=dict)

    def data(
        self, body: dict[str, Any], sources: Mapping[int, Any], seq: int, seen: "Seen"
    ) -> None:
        """Take a DATA record in, whose ranges are in `sources` already."""
        mark, timed = body.get("watermark"), seen.timed
        if timed is None:
            require(mark is None, "ready", f"slot {seq} has a watermark nobody asked for")
            return
        if mark is None:
            raise ViolationError(f"ready: slot {seq} has no watermark")
        for prefix in body["closed"]:
            bound = end_us(prefix) + timed.lateness_us
            known = self.us is not None and bound <= self.us
            known = known or (timed.counts == "alone" and prefix in body.get("counted", ()))
            require(known, "rule 6", f"slot {seq} closes {prefix} at {self.us}, needs {bound}")
        read_at = int(mark["read_at_us"])
        seen.check_look(read_at, seq)
        for span in body["ranges"]:
            self._take(span, read_at)
        for name in mark.get("woken", ()):
            self.idle.discard(name["partition"])
        for name in mark.get("idle", ()):
            number = name["partition"]
            seen.check_idle(sources[number], number, read_at, seq)
            quiet = self.quiet.get(number)
            long = quiet is None or read_at - quiet >= IDLE_AFTER_US
            require(long, "rule 11", f"slot {seq}: [{number}] is idle {read_at - (quiet or 0)} us")
            self.idle.add(number)
        if "us" in mark:
            self._rise(int(mark["us"]), mark.get("by", ""), read_at, set(sources), seq, timed)

    def _take(self, span: dict[str, Any], read_at: int) -> None:
        number = span["partition"]
        if int(span["rows"]):
            self.idle.discard(number)
            self.quiet[number] = read_at
        for offset in range(int(span["start"]), int(span["end"])):
            if outcome(number, offset) == CLEAN:
                time = min(event_time_us(number, offset), read_at)
                self.newest[number] = max(time, self.newest.get(number, time))

    def _rise(
        self, us: int, by: str, read_at: int, numbers: set[int], seq: int, timed: Timed
    ) -> None:
        require(self.us is None or us > self.us, "I7", f"slot {seq} has {us} after {self.us}")
        holding = numbers - self.idle
        if by == "all_idle":
            require(not holding and not timed.hold, "rule 12", f"slot {seq}: {holding} hold")
            require(bool(self.newest), "rule 12", f"slot {seq} without a row")
            most = read_at - IDLE_AFTER_US - OUT_OF_ORDERNESS_US
            require(us <= most, "rule 12", f"slot {seq} has {us}, at most {most}")
        else:
            require(bool(holding), "rule 12", f"slot {seq} rises from nothing")
            for number in holding:
                most = self.newest.get(number, us) - OUT_OF_ORDERNESS_US
                require(us <= most, "I7", f"slot {seq} has {us}, [{number}] is at {most}")
        self.us = us

    def check_end(self, places: Any, timed: Timed | None) -> None:
        """All that the watermark has passed is announced."""
        if timed is None or self.us is None:
            return
        for name, place in places.by_name.items():
            due = end_us(name) + timed.lateness_us <= self.us and not place.expired
            done = places.closed.get(name, 0) > 0
            require(done or not due, "stuck", f"{name} is not announced at {self.us}")


@dataclass(slots=True)
class Seen:
    """The world as the brokers have it."""

    broker: Broker
    timed: Timed | None = None
    clocks: HostClocks = field(default_factory=lambda: HostClocks(lambda: 0.0))
    acting: Callable[[], Process | None] = lambda: None

    def fit(self, files: Named, wanted: list[Row], what: str, optional: int = 0) -> None:
        """Demand that files have just these rows, each in its own partition."""
        value_of = hour if self.timed is None else minute_of
        require(rows_fit(files, wanted, optional, value_of), "P6", what)

    def check_look(self, read_at: int, seq: int) -> None:
        """Log ends were not read by a clock that had just stepped ahead."""
        true_us = int((_FIRST_SECOND + self.clocks.now()) * 1_000_000)
        self.clocks.check(self.acting(), read_at, true_us, f"slot {seq}")

    def check_idle(self, source: Any, number: int, read_at: int, seq: int) -> None:
        """Nothing that a leader could know of stood behind the committed end at that look."""
        if self.clocks.stepped:
            # Its time says nothing of what was there then.
            return
        log = self.broker.by_id[source.topic_id][number]
        # Seconds since 1970 are kept to a quarter of a microsecond only.
        before = read_at / 1e6 - _FIRST_SECOND - _ROUNDING_S
        for offset in range(source.end, len(log.rows)):
            there = log.rows[offset] and log.appended[offset] < before
            there = there and not log.was_hidden(offset, before)
            require(not there, "rule 11", f"slot {seq}: [{number}] is idle, and has {offset}")
