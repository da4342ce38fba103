"""Runs one history: a driver's order of steps, with the code under test deciding."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from readiness_oracle.decider import Batch, Decider, Outcome, RefusedError
from readiness_oracle.history import EpochPlan, History, Kind, Look, Point, Route, Span
from readiness_oracle.judge import Judge, Seen, Violation
from readiness_oracle.reference import Landed

Make = Callable[[Route, int], Decider]
"""(route, number of source partitions) -> the code under test, with an empty ledger."""


@dataclass(slots=True)
class _Flight:
    """An epoch whose tasks have answered, and whose record has not landed."""

    number: int
    script: EpochPlan
    plan: Any
    seen: Seen
    spans: tuple[Span, ...]
    found: list[Outcome]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one history came to."""

    violations: tuple[Violation, ...]
    met: Counter[str]
    trace: tuple[str, ...]


@dataclass(slots=True)
class _Run:
    history: History
    decider: Decider
    judge: Judge
    traced: bool
    pinned: dict[int, int] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    ends: dict[int, int] = field(default_factory=dict)
    flights: list[_Flight] = field(default_factory=list)
    term: int = 0
    heard: int = 0
    trace: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        if self.traced:
            self.trace.append(text)

    def met(self, name: str) -> None:
        self.judge.met[name] += 1

    def run(self) -> None:
        for number, script in enumerate(self.history.epochs):
            while self.flights and self.decider.asks():
                self._settle()
            if not self.flights:
                self._discover(script.planned_at)
                self._beside(number, script)
            self._start(number, script)
            if len(self.flights) > 1 or not script.ahead:
                self._settle()
            while self.flights and not script.ahead:
                self._settle()
        while self.flights:
            self._settle()

    def _discover(self, at: int) -> None:
        logs = self.history.logs
        new = [
            source
            for source, log in enumerate(logs)
            if log.appears_at <= at and source not in self.pinned and source not in self.gone
        ]
        if new:
            if self.judge.landed:
                self.met("new source")
            self.decider.pin(new, at)
            self.pinned |= dict.fromkeys(new, at)
            self.ends |= dict.fromkeys(new, 0)
            self.say(f"pinned {new}")
        back = [source for source in sorted(self.gone) if logs[source].is_back(at)]
        if back:
            self.met("source comes back")
            if self._behind(back, at):
                self.met("source comes back to rows")
            self.decider.resume(back, at)
            self.pinned |= dict.fromkeys(back, at)
            self.gone -= set(back)
            self.say(f"back again {back}")
        old = [source for source in self.pinned if logs[source].is_gone(at)]
        if old:
            self.met("retired source")
            self.decider.retire(old)
            self.gone |= set(old)
            for source in old:
                del self.pinned[source]
            self.say(f"retired {old}")

    def _behind(self, sources: list[int], at: int) -> bool:
        """Whether rows have come for one of them while it was gone."""
        logs = self.history.logs
        return any(logs[source].stable_end(at) > self.ends[source] for source in sources)

    def _start(self, number: int, script: EpochPlan) -> None:
        plan, seen = self.decider.plan(script.planned_at), self.judge.seen()
        starts = dict(self.ends)
        for flight in self.flights:
            starts |= {span.source: span.end for span in flight.spans}
        budgets = dict(script.budgets)
        batches = []
        for source in self.pinned:
            budget = budgets.get(source)
            if budget == -1:
                self.met("straggler")
                continue
            batches.append(self._batch(source, starts[source], budget, script.read_at))
        if number and script.tasks != self.history.epochs[number - 1].tasks:
            self.met("rescale")
        tasks = [batches[task :: script.tasks] for task in range(script.tasks)]
        found = self.decider.read(plan, script.read_at, tasks)
        order = list(chain.from_iterable(tasks))
        self.say(
            f"epoch {number} at {script.planned_at}, read {script.read_at}: "
            + ", ".join(f"{b.span.source}[{b.span.start},{b.span.end}) {b.events}" for b in order)
        )
        self.say(f"  -> {[(o.fate.value, o.prefix) for o in found]}")
        self.judge.rows(number, seen, order, found)
        spans = tuple(batch.span for batch in order)
        self.flights.append(_Flight(number, script, plan, seen, spans, found))

    def _batch(self, source: int, start: int, budget: int | None, read_at: int) -> Batch:
        log = self.history.logs[source]
        end = max(start, log.stable_end(read_at))
        if budget is not None:
            end = min(end, start + budget)
        rows = (e.event for e in log.entries[start:end] if e.kind is Kind.ROW)
        return Batch(Span(source, start, end), tuple(rows))

    def _settle(self) -> None:
        flight, *behind = self.flights
        self.flights = behind
        script = flight.script
        if script.committed:
            self._commit(flight)
        else:
            self.met("two thrown away" if behind else "thrown away")
            self.say(f"epoch {flight.number} is thrown away, and {len(behind)} behind it")
            self.flights = []
        if script.restart:
            self.met("restart, one in flight" if self.flights else "restart")
            self.say("restart")
            self.flights = []
            self.decider.restart()
            self.judge.restarts()
            self.term += 1
        if script.announces and script.committed:
            self._announce()
        if not self.flights:
            self._reset(script)

    def _looks(self, at: int, blind: frozenset[int]) -> dict[int, Look]:
        looks = {}
        for source in self.pinned:
            if source in blind:
                self.met("no log end")
                continue
            log = self.history.logs[source]
            look = Look(log.stable_end(at), log.high_watermark(at))
            looks[source] = look
            if look.stable_end < look.high_watermark:
                self.met("open transaction")
        return looks

    def _count(self, point: Point, script: EpochPlan, at: int) -> None:
        """Put what the topic of counts has by then, where the driver puts it."""
        topic = [message for message in self.history.counts if message.at <= at]
        if point in script.deaf or len(topic) == self.heard:
            return
        self.say(f"counts, {point.value}: {topic[self.heard :]}")
        self.met(f"counts, {point.value}")
        self.heard = len(topic)
        self.decider.count(topic)
        self.judge.counts(topic)

    def _commit(self, flight: _Flight) -> None:
        script = flight.script
        puts = any(span.end > span.start for span in flight.spans)
        if puts:
            self._count(Point.BEFORE, script, script.read_at)
        self.ends |= {span.source: span.end for span in flight.spans}
        looks = self._looks(script.looked_at, script.blind)
        wrong = script.clock_wrong
        if wrong:
            self.met("clock ahead" if wrong > 0 else "clock behind")
        watermark = self.decider.commit(flight.plan, script.looked_at, looks, wrong)
        self.say(f"epoch {flight.number} lands, {looks}, watermark {watermark}")
        record = Landed(
            epoch=flight.number,
            read_at=script.read_at,
            looked_at=script.looked_at,
            spans=flight.spans,
            looks=looks,
            pinned=dict(self.pinned),
            ends=dict(self.ends),
            term=self.term,
        )
        self.judge.lands(record, watermark, flight.found, flight.seen)
        if puts:
            self._count(Point.AFTER, script, script.looked_at)

    def _beside(self, number: int, script: EpochPlan) -> None:
        """What a driver puts between two epochs, when none is in flight."""
        at, before = script.planned_at, self.judge.seen().watermark
        self._count(Point.BESIDE, script, at)
        looks = self._looks(at, script.blind)
        watermark = self.decider.beside(at, looks)
        if watermark != before:
            self.met("watermark beside the epochs")
            self.say(f"before epoch {number}, {looks}, watermark {watermark}")
            pinned, ends = dict(self.pinned), dict(self.ends)
            self.judge.lands(
                Landed(number, at, at, (), looks, pinned, ends, self.term),
                watermark,
                [],
                self.judge.seen(),
            )
        self.judge.all_closed()
        self._announce()
        self.judge.told(self.decider.waits())

    def _announce(self) -> None:
        found = self.decider.announce([flight.plan for flight in self.flights])
        if found:
            self.say(f"announced {[(each.prefix, each.version) for each in found]}")
            if self.flights:
                self.met("announced with one in flight")
        self.judge.announces(found, [flight.seen for flight in self.flights])
        if not self.judge.violations:
            self.judge.nothing_waits()

    def _reset(self, script: EpochPlan) -> None:
        for source, new_end in script.resets:
            if source not in self.pinned or new_end == self.ends[source]:
                continue
            self.met("reset back" if new_end < self.ends[source] else "reset forward")
            self.say(f"reset {source} from {self.ends[source]} to {new_end}")
            self.decider.reset(source, new_end)
            self.judge.restarts()
            self.term += 1
            self.ends[source] = new_end


def simulate(history: History, make: Make, *, traced: bool = False) -> Verdict:
    """Run it and judge every decision; the first wrong ones are told."""
    judge = Judge(history)
    decider = make(history.route, len(history.logs))
    run = _Run(history, decider, judge, traced)
    try:
        run.run()
    except RefusedError as error:
        judge.complain("refused", str(error))
    return Verdict(tuple(judge.violations), judge.met, tuple(run.trace))
