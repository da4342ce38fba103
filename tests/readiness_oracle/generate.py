"""Histories from seeds. Each has some of the oddities, so that no two hide one another for ever."""

from dataclasses import replace
from random import Random

from readiness_oracle.calendar_table import SITES, Calendar, calendar_of, reach_of
from readiness_oracle.generate_counts import with_counts
from readiness_oracle.generate_strange import with_strange_sources
from readiness_oracle.history import (
    DAY,
    HOUR,
    MINUTE,
    Entry,
    EpochPlan,
    History,
    Kind,
    Route,
    SourceLog,
)

PATTERNS: tuple[tuple[int, tuple[tuple[str, str], ...]], ...] = (
    (HOUR, (("dt", "yyyyMMdd"), ("hr", "HH"))),
    (HOUR, (("dt", "yyyyMMdd"), ("hr", "HH"))),
    (HOUR, (("h", "yyyy-MM-dd-HH"),)),
    (DAY, (("dt", "yyyyMMdd"),)),
    (MINUTE, (("dt", "yyyyMMdd"), ("hm", "HHmm"))),
    (MINUTE, (("dt", "yyyy-MM-dd"), ("hr", "HH"), ("mi", "mm"))),
)
POLICIES = ("side", "redirect", "reopen", "dirty")
ODDITIES = (
    "skew",
    "disorder",
    "beyond",
    "future",
    "dirty",
    "bounds",
    "silence",
    "outage",
    "transactions",
    "aborted",
    "hanging",
    "new",
    "retired",
    "stragglers",
    "budgets",
    "stalls",
    "blind",
    "thrown",
    "ahead",
    "restarts",
    "mute",
    "resets",
    "tasks",
)
"""Each is in a history or not, by a coin; what is rare in the world is not rare here."""

_ROUNDS = 12
_DRAIN = 8
_NEVER = 100 * DAY


class _Maker:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)  # noqa: S311 - has to be the same each time
        self.seed = seed
        self.site = self.rng.choice(SITES)
        self.unit, self.patterns = self.rng.choice(PATTERNS)
        # Days are few in a history, so that what is set for them is smaller beside them.
        self.scale = self.unit if self.unit < DAY else self.unit * 2 // 5
        share = self.rng.choice((0.15, 0.4, 0.7))
        self.odd = {name for name in ODDITIES if self.rng.random() < share}
        self.calendar: Calendar = calendar_of(self.site, self.patterns)
        self.route = self._route()
        span = {DAY: (1.0, 1.5), HOUR: (2.5, 6.0), MINUTE: (3.0, 9.0)}[self.unit]
        self.span = int(self.rng.uniform(*span) * self.unit)
        self.begin = self.site.centre - int(self.rng.random() * self.span)
        self.end = self.begin + self.span
        self.epochs = self._epochs()

    def some(self, name: str, chance: float) -> bool:
        """By chance, when the history has this oddity."""
        return name in self.odd and self.rng.random() < chance

    def part(self, *shares: float) -> int:
        return int(self.rng.choice(shares) * self.scale)

    def _route(self) -> Route:
        return Route(
            zone=self.site.zone,
            patterns=self.patterns,
            spreads=self.rng.random() < 0.2,
            out_of_orderness=self.part(0, 0, 0.1, 0.35, 0.6),
            lateness=self.part(0, 0, 0.1, 0.3, 0.7),
            archive_window=self.part(0.5, 1, 1.5, 24 if self.unit < DAY else 3),
            max_future=self.part(0.1, 0.5, 1.0),
            idle_after=self.part(0.05, 0.2, 0.4, 0.8),
            on_all_idle=self.rng.random() < 0.85,
            policy=self.rng.choice(POLICIES),
        )

    # Epochs

    def _epochs(self) -> list[EpochPlan]:
        pace = self.span // self.rng.randint(6, _ROUNDS)
        at, found = self.begin, []
        while at < self.end:
            found.append(self._epoch(at, pace))
            at += int(pace * self.rng.uniform(0.8, 1.3))
        route = self.route
        rest = route.idle_after + route.lateness + route.out_of_orderness + self.unit
        pace = max(pace // 2, rest // 5)
        for _ in range(_DRAIN):
            found.append(EpochPlan(at, at + pace // 3, at + pace // 2))
            at += pace
        return found

    def _epoch(self, at: int, pace: int) -> EpochPlan:
        rng = self.rng
        return EpochPlan(
            planned_at=at,
            read_at=at + int(pace * rng.uniform(0.2, 0.4)),
            looked_at=at + int(pace * rng.uniform(0.45, 0.6)),
            tasks=rng.randint(1, 4) if "tasks" in self.odd else 1,
            committed=not self.some("thrown", 0.2),
            ahead=self.some("ahead", 0.7),
            announces=not self.some("mute", 0.25),
            restart=self.some("restarts", 0.25),
        )

    def troubled(self, logs: list[SourceLog]) -> list[EpochPlan]:
        """The epochs, with what happens to single sources."""
        found = []
        working = sum(epoch.planned_at < self.end for epoch in self.epochs)
        stalled = self._stretches(len(logs), working, "stalls")
        blinded = self._stretches(len(logs), working, "blind")
        for number, epoch in enumerate(self.epochs[:working]):
            budgets = {s: 0 for s, times in stalled.items() if number in times}
            for source in range(len(logs)):
                if self.some("budgets", 0.2):
                    budgets[source] = self.rng.randint(0, 2)
                if self.some("stragglers", 0.1):
                    budgets[source] = -1
            blind = {s for s, times in blinded.items() if number in times}
            blind |= {s for s in range(len(logs)) if self.some("blind", 0.05)}
            resets = []
            if self.some("resets", 0.12):
                source = self.rng.randrange(len(logs))
                resets = [(source, self.rng.randint(0, logs[source].stable_end(epoch.looked_at)))]
            found.append(
                replace(
                    epoch,
                    budgets=tuple(budgets.items()),
                    blind=frozenset(blind),
                    resets=tuple(resets),
                )
            )
        return found + self.epochs[working:]

    def _stretches(self, sources: int, epochs: int, name: str) -> dict[int, range]:
        """Epochs in a row, for some sources."""
        found = {}
        for source in range(sources):
            if self.some(name, 0.3):
                first = self.rng.randrange(epochs)
                found[source] = range(first, first + self.rng.randint(2, 5))
        return found

    # Logs

    def logs(self) -> list[SourceLog]:
        count = self.rng.choice((1, 2, 2, 3, 3, 4, 5, self.rng.randint(6, 12)))
        outage = self._gap("outage")
        return [self._log(source, count, outage) for source in range(count)]

    def _gap(self, name: str) -> tuple[int, int]:
        """A stretch in which nothing comes; an empty one when there is none."""
        if not self.some(name, 0.7):
            return (0, 0)
        first = self.begin + int(self.rng.random() * self.span)
        return (first, first + self.part(0.5, 1, 2, 4))

    def _log(self, source: int, count: int, outage: tuple[int, int]) -> SourceLog:
        rng = self.rng
        appears = self.begin - self.unit
        if source and self.some("new", 0.5):
            appears = self.begin + int(rng.random() * self.span)
        retires = None
        if self.some("retired", 0.3):
            retires = self.begin + int(rng.random() * self.span)
        rows = rng.choice((0, 1, 3, 8, 14)) if "silence" in self.odd else rng.randint(3, 14)
        rows = max(rows if count < 6 else rows // 3, not source)
        skips = (outage, self._gap("silence"))
        first = self.begin - rng.choice((0, 0, 1)) * self.unit
        times = sorted(rng.randint(first, self.end - 1) for _ in range(rows))
        times = [at for at in times if not any(low <= at < high for low, high in skips)]
        if times and self.some("bounds", 0.5):
            epoch = rng.choice(self.epochs)
            exactly = epoch.looked_at - self.route.idle_after
            times[-1] = exactly if times[-1] <= exactly < self.end else times[-1]
        skew = self.part(0, 0.2, 0.6, 1.5) if "skew" in self.odd else 0
        return SourceLog(appears, retires, self._entries(times, skew))

    def _entries(self, times: list[int], skew: int) -> tuple[Entry, ...]:
        found: list[Entry] = []
        newest = None
        place = 0
        while place < len(times):
            group = times[place : place + self.rng.randint(1, 3)]
            place += len(group)
            stable, kind = None, Kind.ROW
            if self.some("transactions", 0.3):
                stable = group[-1] + int(self.rng.random() * self.unit)
                if self.some("hanging", 0.15):
                    stable = self.end + _NEVER
                if self.some("aborted", 0.4):
                    kind = Kind.ABORTED
            for at in group:
                event = self._event(at - skew, at, newest)
                newest = max((t for t in (newest, event) if t is not None), default=None)
                found.append(Entry(at, stable or at, event, kind))
            if stable is not None and stable < self.end + _NEVER:
                found.append(Entry(stable, stable, None, Kind.MARKER))
        return tuple(sorted(found, key=lambda entry: entry.appended_at))

    def _event(self, now: int, appended_at: int, newest: int | None) -> int | None:
        rng, route = self.rng, self.route
        if self.some("dirty", 0.08):
            return None
        if self.some("future", 0.1):
            return appended_at + int(rng.random() * 1.3 * route.max_future)
        event = now
        if self.some("disorder", 0.5):
            event -= int(rng.random() * route.out_of_orderness)
        if self.some("beyond", 0.15):
            far = route.archive_window + self.unit if rng.random() < 0.3 else 2 * self.unit
            event -= int(rng.random() * far)
        if self.some("bounds", 0.2):
            event = self._on_a_bound(event, newest)
        return max(event, self.site.centre - reach_of(self.patterns) + self.unit)

    def _on_a_bound(self, event: int, newest: int | None) -> int:
        """A time that one microsecond would tell from another."""
        end, route = self.calendar.ends.get(self.calendar.prefix(event), event), self.route
        places = [end, end + route.lateness + route.out_of_orderness, end + route.out_of_orderness]
        if newest is not None:
            places += [newest - route.archive_window, newest - route.out_of_orderness]
        return min(self.rng.choice(places), self.end) - self.rng.randint(0, 1)


def generate(seed: int) -> History:
    """The history of a seed: always the same."""
    maker = _Maker(seed)
    logs = maker.logs()
    epochs = maker.troubled(logs)
    history = History(seed, maker.site.centre, maker.route, tuple(logs), tuple(epochs))
    history = with_strange_sources(history, maker.unit, (maker.begin, maker.end))
    return with_counts(history, maker.calendar, maker.unit)
