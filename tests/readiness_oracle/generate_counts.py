"""Audited counts of a history's rows: mostly right ones, in time or not, and all sorts of others.

Drawn from a source of chance of its own: histories without counts are as they were before these.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from readiness_oracle.calendar_table import Calendar
from readiness_oracle.history import (
    CountMessage,
    CountNeed,
    Entry,
    EpochPlan,
    History,
    Kind,
    Point,
)

_SHARE = 0.3
_ODD = (
    "missing",
    "high",
    "low",
    "corrected up",
    "corrected up",
    "corrected down",
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
    alone = history.route.policy != "redirect" and rng.random() < 0.5
    overtaken = _overtaken(rng, history, calendar) if alone and rng.random() < 0.4 else None
    if overtaken is not None:
        history = overtaken.history
    there = _rows(history, calendar)
    hours = _hours(history, calendar, there, unit)
    since = calendar.begins[rng.choice(hours)] + rng.randint(-1, 1)
    needs_all = overtaken is not None or rng.random() < 0.6
    need = CountNeed(None if needs_all else since, alone)
    told = list(_Counter(rng, history, calendar, unit).of(hours, there))
    if overtaken is not None:
        told = overtaken.told(told)
    told.sort(key=lambda message: message.at)
    deaf = 0 if overtaken is not None else rng.choice((0, 0.3, 0.6))
    return replace(
        history,
        route=replace(history.route, counts=need),
        epochs=tuple(_deafened(rng, history, epoch, deaf) for epoch in history.epochs),
        counts=tuple(told),
    )


@dataclass(frozen=True, slots=True)
class _Overtaken:
    """A history in which an hour begins when a later one is closed.

    Attributes:
        at: When the later ones are counted, and nothing else before.
        earlier: Begin of that hour, which nobody counts.
        later: Begins of the later ones.
    """

    history: History
    at: int
    earlier: int
    later: tuple[int, ...]

    def told(self, told: list[CountMessage]) -> list[CountMessage]:
        """The counts of such a history."""
        found = [replace(each, at=max(each.at, self.at)) for each in told]
        found = [each for each in found if each.begin != self.earlier]
        return [*(CountMessage(self.at, begin, 1) for begin in self.later), *found]


def _overtaken(rng: Random, history: History, calendar: Calendar) -> _Overtaken | None:
    """A row of an hour before the first one, read while that is closed by its count.

    None when there are no rows that soon.
    """
    rows = [
        (entry.stable_at, entry.event, source)
        for source, log in enumerate(history.logs)
        for entry in log.entries
        if entry.event is not None and entry.kind is Kind.ROW
    ]
    begun = min((at for at, _, _ in rows), default=history.epochs[-1].read_at)
    number = 1 + sum(epoch.read_at < begun for epoch in history.epochs)
    if number >= len(history.epochs):
        return None
    before, epoch = history.epochs[number - 1 : number + 1]
    known = [(event, source) for at, event, source in rows if at <= before.read_at]
    hours = {calendar.prefix(event) for event, _ in known}
    first = min(calendar.begins.get(each, 0) for each in hours)
    earlier = calendar.prefix(first - 1)
    if not all(map(calendar.is_whole, (*hours, earlier))):
        return None
    logs = list(history.logs)
    # Whoever has brought nothing yet may bring whatever he wants.
    fresh = set(range(len(logs))) - {source for _, source in known}
    source = rng.choice(sorted(fresh) or range(len(logs)))
    row = Entry(epoch.read_at, epoch.read_at, first - 1)
    entries = sorted([*logs[source].entries, row], key=lambda entry: entry.appended_at)
    logs[source] = replace(logs[source], entries=tuple(entries))
    epochs = list(history.epochs)
    epochs[number - 1] = replace(before, committed=True, resets=())
    epochs[number] = replace(epoch, committed=True)
    changed = replace(history, logs=tuple(logs), epochs=tuple(epochs))
    begins = tuple(calendar.begins[each] for each in sorted(hours))
    return _Overtaken(changed, epoch.read_at, calendar.begins[earlier], begins)


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
    return [each for each in found if calendar.is_whole(each)][:_LONGEST]


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
