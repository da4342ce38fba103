"""Audited counts of a history's rows: mostly right ones, in time or not, and all sorts of others.

Drawn from a source of chance of its own: histories without counts are as they were before these.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from readiness_oracle.calendar_table import Calendar
from readiness_oracle.history import CountMessage, CountNeed, EpochPlan, History, Kind, Point

_SHARE = 0.3
_ODD = (
    "missing",
    "high",
    "low",
    "corrected up",
    "corrected down",
    "changed afterwards",
    "again",
    "early",
    "tardy",
)
_LONGEST = 60


def with_counts(history: History, calendar: Calendar, unit: int) -> History:
    """The history, in some cases with a topic of counts.

    Args:
        history: Without.
        calendar: Of its route.
        unit: About how long an hour is.
    """
    rng = Random(f"counts {history.seed}")  # noqa: S311 - has to be the same each time
    if rng.random() >= _SHARE:
        return history
    there = _rows(history, calendar)
    hours = _hours(history, calendar, there, unit)
    need = CountNeed(
        since=calendar.begins[rng.choice(hours)] + rng.randint(-1, 1)
        if rng.random() < 0.4
        else None,
        alone=history.route.policy != "redirect" and rng.random() < 0.5,
    )
    counts = _Counter(rng, history, calendar, unit)
    told = sorted(counts.of(hours, there), key=lambda message: message.at)
    deaf = rng.choice((0, 0.3, 0.6))
    return replace(
        history,
        route=replace(history.route, counts=need),
        epochs=tuple(_deafened(rng, history, epoch, deaf) for epoch in history.epochs),
        counts=tuple(told),
    )


def _rows(history: History, calendar: Calendar) -> Counter[str]:
    """Rows that an hour is likely to get."""
    last = history.epochs[-1].read_at
    return Counter(
        calendar.prefix(entry.event)
        for log in history.logs
        for entry in log.entries
        if entry.kind is Kind.ROW
        and entry.event is not None
        and entry.event <= entry.appended_at + history.route.max_future
        and entry.stable_at <= last
    )


def _hours(history: History, calendar: Calendar, there: Counter[str], unit: int) -> list[str]:
    """Hours from the first one with rows on, and one before it; some have no row."""
    first = history.epochs[0].planned_at
    first = min([first, *(calendar.ends[each] for each in there if each in calendar.ends)])
    found = calendar.over(first - unit, history.epochs[-1].looked_at + unit)
    # The last hour of the table is cut off.
    return [each for each in found if calendar.after(calendar.ends[each])][:_LONGEST]


def _deafened(rng: Random, history: History, epoch: EpochPlan, chance: float) -> EpochPlan:
    """In the last ones all is read, so that whoever waits has no excuse."""
    heard = epoch in history.epochs[-4:]
    deaf = frozenset(point for point in Point if rng.random() < chance)
    return epoch if heard else replace(epoch, deaf=deaf)


class _Counter:
    """Somebody who counts."""

    def __init__(self, rng: Random, history: History, calendar: Calendar, unit: int) -> None:
        self.rng = rng
        self.calendar = calendar
        self.unit = unit
        self.care = rng.choice((1.0, 0.97, 0.85, 0.6))
        self.mends = rng.random() < 0.6
        self.first = history.epochs[0].planned_at
        self.last = history.epochs[-6].planned_at if len(history.epochs) > 6 else self.first

    def of(self, hours: list[str], there: Counter[str]) -> Iterator[CountMessage]:
        for hour in hours:
            odd = self.rng.random() >= self.care
            yield from self._odd(hour, there[hour]) if odd else self._right(hour, there[hour])
            if odd and self.mends:
                # Whoever sees that it waits gives in.
                yield self._at(self.last, hour, self.rng.choice((0, there[hour])))

    def _at(self, at: int, hour: str, rows: int) -> CountMessage:
        return CountMessage(max(at, self.first), self.calendar.begins[hour], rows)

    def _near(self, hour: str, rows: int, low: float, high: float) -> CountMessage:
        """Some way before or behind the end of the hour."""
        at = self.calendar.ends[hour] + int(self.rng.uniform(low, high) * self.unit)
        return self._at(at, hour, rows)

    def _right(self, hour: str, rows: int) -> Iterator[CountMessage]:
        yield self._near(hour, rows, -0.2, 1.0)

    def _odd(self, hour: str, rows: int) -> Iterator[CountMessage]:
        wrong = self.rng.randint(1, 3)
        match self.rng.choice(_ODD):
            case "missing":
                return
            case "high":
                yield self._near(hour, rows + wrong, -0.2, 1.0)
            case "low":
                yield self._near(hour, max(0, rows - wrong), -0.5, 1.0)
            case "corrected up":
                yield self._near(hour, max(0, rows - wrong), -1.0, 0.5)
                yield self._near(hour, rows, 0.5, 2.0)
            case "corrected down":
                yield self._near(hour, rows + wrong, -1.0, 0.5)
                yield self._near(hour, rows, 0.5, 3.0)
            case "changed afterwards":
                yield self._near(hour, rows, -0.2, 0.5)
                yield self._near(hour, rows + self.rng.choice((-1, 1)) * min(wrong, rows), 1.0, 4.0)
            case "again":
                yield self._near(hour, rows, -0.5, 0.5)
                yield self._near(hour, rows, -0.5, 4.0)
            case "early":
                yield self._near(hour, rows, -2.0, -0.2)
            case "tardy":
                yield self._near(hour, rows, 1.0, 4.0)
            case other:
                raise AssertionError(other)
