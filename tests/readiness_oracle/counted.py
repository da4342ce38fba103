"""Which hours audited counts let go, from the docs alone: by all rows and all counts, hour by hour.

An hour that needs a count is closed once its count has come, as many rows are committed in it, and
the watermark has passed it, unless counts decide alone; after all hours before it, from the first
one with rows on. What was counted for it may be corrected until then.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from readiness_oracle.calendar_table import Calendar
from readiness_oracle.history import CountMessage, CountNeed


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What no count held when a record had landed.

    Attributes:
        there: Hours that were open and had all rows of their counts.
        closed: Hours that were closed.
        with_rows: Hours with rows.
        until: End of the last one that was closed in order.
    """

    there: frozenset[str]
    closed: frozenset[str]
    with_rows: frozenset[str]
    until: int | None


@dataclass(slots=True)
class CountedHours:
    """All counts and rows of one history, and what they have closed.

    Attributes:
        need: Which hours need a count.
        rows: Of each hour, committed.
        counts: Of each hour, as its last message says; none that came when it was closed.
        closed: In the order of time, but for those that came behind a later one.
        by_count: Those of them that needed a count.
        in_ledger: Those of them whose closing a restart finds.
        until: End of the last one that was closed in order.
    """

    need: CountNeed
    calendar: Calendar
    lateness: int
    rows: Counter[str] = field(default_factory=Counter)
    counts: dict[str, int] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    by_count: set[str] = field(default_factory=set)
    in_ledger: set[str] = field(default_factory=set)
    until: int | None = None
    snapshots: list[Snapshot] = field(default_factory=list)
    taken: int = 0

    def needs(self, hour: str) -> bool:
        """Whether an hour waits for its count."""
        begin, since = self.calendar.begins[hour], self.need.since
        return since is None or begin >= since

    def is_there(self, hour: str) -> bool:
        """Whether its count has come, and as many rows are committed."""
        expected = self.counts.get(hour)
        return expected is not None and self.rows[hour] >= expected

    def has_passed(self, hour: str, watermark: int | None) -> bool:
        """Whether the watermark lets it go."""
        end = self.calendar.ends[hour]
        return watermark is not None and end + self.lateness <= watermark

    def holds(self, hour: str) -> str:
        """Why an hour is open, in words; empty when it is closed."""
        if hour in self.closed:
            return ""
        return (
            f"{self.rows[hour]} rows of {self.counts.get(hour, 'no count')}, or it is not its turn"
        )

    def take(self, topic: Sequence[CountMessage]) -> Iterator[str]:
        """Take in what has come; yields what was met."""
        for message in topic[self.taken :]:
            hour = self.calendar.prefix(message.begin)
            before = self.counts.get(hour)
            if not self.needs(hour):
                yield "count before `since`"
            elif hour in self.closed:
                yield "count for a closed hour"
            else:
                if before is not None and before != message.rows:
                    yield "count goes up" if before < message.rows else "count goes down"
                elif before is not None:
                    yield "same count again"
                self.counts[hour] = message.rows
        self.taken = len(topic)

    def add(self, hours: Iterable[str]) -> None:
        """Rows were committed there."""
        self.rows.update(each for each in hours if each in self.calendar.ends)

    def close(self, watermark: int | None) -> list[str]:
        """Close what may be; the hours that are new."""
        found = [
            hour
            for hour, rows in self.rows.items()
            if rows
            and hour not in self.closed
            and self.until is not None
            # It has come behind a later one, and is closed to rows with that.
            and self.calendar.ends[hour] <= self.until
            and (self.has_passed(hour, watermark) or self.is_there(hour))
        ]
        while (hour := self._next()) is not None and self._is_free(hour, watermark):
            found.append(hour)
            self.until = self.calendar.ends[hour]
            if self.needs(hour):
                self.by_count.add(hour)
            self.closed.add(hour)
        self.closed.update(found)
        return found

    def _next(self) -> str | None:
        if self.until is not None:
            return self.calendar.after(self.until)
        return min(self.rows, key=self.calendar.ends.__getitem__, default=None)

    def _is_free(self, hour: str, watermark: int | None) -> bool:
        if not self.needs(hour):
            return self.has_passed(hour, watermark)
        waits = not self.need.alone and not self.has_passed(hour, watermark)
        return self.is_there(hour) and not waits

    def waits(self, watermark: int | None) -> str | None:
        """The hour that nothing but its count holds."""
        hour = self._next()
        if hour is None or not self.needs(hour) or self.is_there(hour):
            return None
        return hour if self.need.alone or self.has_passed(hour, watermark) else None

    def restart(self, watermark: int | None) -> None:
        """A new driver knows the closings that are in the ledger, and decides anew on others."""
        self.closed &= self.in_ledger
        self.by_count &= self.in_ledger
        self.until = max((self.calendar.ends[each] for each in self.closed), default=None)
        self.close(watermark)

    def note(self) -> None:
        """A record has landed: keep what is there now."""
        there = {hour for hour in self.counts if self.is_there(hour)}
        self.snapshots.append(
            Snapshot(frozenset(there), frozenset(self.closed), frozenset(self.rows), self.until)
        )

    def wanted(self, watermark: int | None, patience: int, in_time: Collection[str]) -> list[str]:
        """Hours that nothing has held for so many records.

        Args:
            watermark: What all these records bear at least.
            patience: Records that a driver may take to announce.
            in_time: Hours that rows have come for which were not late.
        """
        since, *later = self.snapshots[-1 - patience :]
        there = since.there.intersection(*(each.there | each.closed for each in later))
        found = sorted(since.closed & self.closed)
        hour = self._begin(since)
        while hour is not None:
            passed = self.has_passed(hour, watermark)
            free = hour in there and (passed or self.need.alone)
            if not (free if self.needs(hour) else passed):
                break
            found.append(hour)
            hour = self.calendar.after(self.calendar.ends[hour])
        ends = self.calendar.ends
        behind = [each for each in self._up_to_last(in_time) if each not in found]
        first = min((ends[each] for each in behind), default=None)
        return [each for each in found if first is None or ends[each] < first]

    def behind(self, in_time: Collection[str]) -> list[str]:
        """Open hours before the last closed one, with rows in time: announced before it."""
        return [hour for hour in self._up_to_last(in_time) if hour not in self.closed]

    def _up_to_last(self, in_time: Collection[str]) -> list[str]:
        last, ends = self.until, self.calendar.ends
        return [each for each in self.rows if each in in_time and last and ends[each] <= last]

    def _begin(self, since: Snapshot) -> str | None:
        """The hour whose turn it was; None when one before it has got rows meanwhile."""
        if since.until is not None and self.until is not None:
            return self.calendar.after(min(since.until, self.until))
        first = min(self.rows, key=self.calendar.ends.__getitem__, default=None)
        return first if first in since.with_rows else None
