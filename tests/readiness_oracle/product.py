"""The product's own code behind the judge's questions: what it decides is decided by it alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from readiness_oracle.decider import Announced, Batch, Fate, Outcome
from readiness_oracle.history import Look, Route
from sluiceway.eventtime import readiness, watermark
from sluiceway.eventtime.prefix_periods import PrefixPeriods
from sluiceway.eventtime.watermark import SourceSeen, WatermarkRule

TOPIC = "events"


@cache
def periods_of(patterns: tuple[tuple[str, str], ...], zone: str) -> PrefixPeriods:
    """Made once in a process; it keeps what it found."""
    return PrefixPeriods(patterns, zone)


@dataclass(frozen=True, slots=True)
class Source:
    """Of the fold."""

    end: int = 0
    newest: int | None = None
    quiet_since: int | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """Of a DATA record."""

    source: int
    end: int
    rows: int
    newest: int | None


@dataclass(frozen=True, slots=True)
class Data:
    """A DATA record."""

    ranges: tuple[Range, ...]
    quiet_since: tuple[tuple[int, int | None], ...]
    watermark: int | None
    closed: tuple[str, ...]
    prefixes: frozenset[str]
    late_in: frozenset[str]


@dataclass(frozen=True, slots=True)
class Sources:
    """A SOURCES record."""

    pinned: tuple[int, ...]
    retired: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reset:
    """A RESET record."""

    source: int
    new_end: int


@dataclass(frozen=True, slots=True)
class Ready:
    """A READY record."""

    prefix: str
    version: int


Record = Data | Sources | Reset | Ready


@dataclass(slots=True)
class State:
    """What the records add up to."""

    sources: dict[int, Source] = field(default_factory=dict)
    watermark: int | None = None
    closed: dict[str, int] = field(default_factory=dict)
    prefixes: set[str] = field(default_factory=set)
    late_since: set[str] = field(default_factory=set)

    def take(self, record: Record) -> None:
        """Take in one record."""
        match record:
            case Sources(pinned, retired):
                self.sources |= {source: Source() for source in pinned}
                for source in retired:
                    del self.sources[source]
            case Reset(source, new_end):
                self.sources[source] = replace(self.sources[source], end=new_end)
            case Ready(prefix, version):
                self.closed[prefix] = version
                self.late_since.discard(prefix)
            case Data():
                self._take_data(record)

    def _take_data(self, record: Data) -> None:
        for each in record.ranges:
            known = self.sources[each.source]
            newest = max((t for t in (known.newest, each.newest) if t is not None), default=None)
            self.sources[each.source] = Source(each.end, newest, known.quiet_since)
        for source, quiet_since in record.quiet_since:
            self.sources[source] = replace(self.sources[source], quiet_since=quiet_since)
        self.watermark = record.watermark
        self.closed |= {prefix: 0 for prefix in record.closed}
        self.prefixes |= record.prefixes
        self.late_since |= record.late_in


@dataclass(slots=True)
class Plan:
    """An epoch: what it was planned with, and what its tasks returned."""

    closed: frozenset[str]
    newest: dict[int, int]
    watermark: int | None
    ranges: list[Range] = field(default_factory=list)
    prefixes: set[str] = field(default_factory=set)
    late_in: set[str] = field(default_factory=set)


class ProductDecider:
    """A driver made of the product's parts. One per history."""

    def __init__(self, route: Route, sources: int) -> None:
        del sources
        self._route = route
        self._periods = periods_of(route.patterns, route.zone)
        self._rule = WatermarkRule(
            out_of_orderness_us=route.out_of_orderness,
            idle_after_us=route.idle_after,
            hold_when_idle=not route.on_all_idle,
        )
        self._records: list[Record] = []
        self.restart()

    def restart(self) -> None:
        self._state = State()
        self._book = readiness.PrefixBook(self._periods, self._route.lateness)
        for record in self._records:
            self._state.take(record)

    def _put(self, record: Record) -> None:
        self._records.append(record)
        self._state.take(record)

    def pin(self, sources: Sequence[int], at: int) -> None:
        del at
        self._put(Sources(tuple(sources), ()))

    def retire(self, sources: Sequence[int]) -> None:
        self._put(Sources((), tuple(sources)))

    def reset(self, source: int, new_end: int) -> None:
        self._put(Reset(source, new_end))

    def plan(self, at: int) -> Plan:
        del at
        state = self._state
        self._book.see_closed(state.closed)
        self._book.see_partitions(state.prefixes)
        due = self._book.due(state.watermark)
        if due is not None:
            self._book.see_closed(each.prefix for each in due.periods)
        closed = frozenset(state.closed) | {each.prefix for each in (due.periods if due else ())}
        newest = {s: each.newest for s, each in state.sources.items() if each.newest is not None}
        return Plan(closed, newest, state.watermark)

    def read(
        self, plan: Plan, read_at: int, tasks: Sequence[Sequence[Batch]]
    ) -> list[Outcome]:
        found = []
        for task in tasks:
            for batch in task:
                found += self._read_batch(plan, read_at, batch)
        return found

    def _read_batch(self, plan: Plan, read_at: int, batch: Batch) -> list[Outcome]:
        found = [self._row(plan, batch.span.source, read_at, event) for event in batch.events]
        times = [
            min(event, read_at)
            for event, outcome in zip(batch.events, found, strict=True)
            if event is not None and outcome.fate is not Fate.DIRTY
        ]
        span = batch.span
        plan.ranges.append(Range(span.source, span.end, len(found), max(times, default=None)))
        return found

    def _row(self, plan: Plan, source: int, read_at: int, event: int | None) -> Outcome:
        route = self._route
        if event is None or event > read_at + route.max_future:
            return Outcome(Fate.DIRTY, None)
        prefix = self._periods.at(event).prefix
        newest = plan.newest.get(source)
        if prefix not in plan.closed and (newest is None or event >= newest - route.archive_window):
            plan.prefixes.add(prefix)
            return Outcome(Fate.WRITTEN, prefix)
        return Outcome(Fate.DIRTY if route.policy == "dirty" else Fate.LATE, None)

    def commit(self, plan: Plan, looked_at: int, looks: Mapping[int, Look]) -> int | None:
        state = self._state
        ranges = {each.source: each for each in plan.ranges}
        seen = []
        for source, known in state.sources.items():
            here = ranges.get(source, Range(source, known.end, 0, None))
            look = looks.get(source)
            quiet = looked_at if here.rows or known.quiet_since is None else known.quiet_since
            newest = max((t for t in (known.newest, here.newest) if t is not None), default=None)
            seen.append(
                SourceSeen(
                    key=(TOPIC, source),
                    committed_end=here.end,
                    max_event_time_us=newest,
                    quiet_since_us=quiet,
                    log_end=look.stable_end if look else None,
                    high_watermark=look.high_watermark if look else None,
                )
            )
        found = watermark.route_watermark(self._rule, seen, looked_at, state.watermark)
        self._put(
            Data(
                ranges=tuple(plan.ranges),
                quiet_since=tuple((each.key[1], each.quiet_since_us) for each in seen),
                watermark=found.us,
                closed=tuple(sorted(plan.closed - state.closed.keys())),
                prefixes=frozenset(plan.prefixes),
                late_in=frozenset(plan.late_in),
            )
        )
        return found.us

    def announce(self, in_flight: Sequence[Plan]) -> list[Announced]:
        del in_flight
        found = []
        for prefix in readiness.next_to_announce(self._state.closed, self._periods):
            self._put(Ready(prefix, 1))
            found.append(Announced(prefix, 1))
        return found
