"""The product's own code behind the judge's questions: what it decides is decided by it alone.

The watermark, what is closed and what is announced come from the driver's `RouteReadiness`; every
record goes through `sluiceway.ledger.folding.fold`, which refuses an unlawful one; a new driver has
nothing but the records' bytes. Only the order of the calls is written here, as in the driver.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, cast

import structlog

from readiness_oracle import row_work
from readiness_oracle.bodies import (
    CLUSTER,
    TABLE,
    TOPIC,
    Plan,
    data_body,
    fence_body,
    range_body,
    reset_body,
    resumed_body,
    sources_body,
)
from readiness_oracle.decider import Announced, Batch, Fate, Outcome, RefusedError
from readiness_oracle.history import SECOND, CountMessage, Look, Route
from sluiceway.audit.partition_states import counted_due
from sluiceway.errors import InvariantError
from sluiceway.eventtime.prefix_periods import PrefixPeriods
from sluiceway.eventtime.readiness import CountRule
from sluiceway.eventtime.watermark import WatermarkRule
from sluiceway.jobfile.compile.ready_rule import CountsRule, ReadyRule
from sluiceway.ledger.data_parts import WatermarkRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.placing import placed
from sluiceway.ledger.records import Body, DataRecord, Record, decode_record, encode_record
from sluiceway.route.route_readiness import RouteReadiness
from sluiceway.schedule.epoch_times import EpochDates, late_before_us, watermark_us
from sluiceway.schedule.source_view import SourceView
from sluiceway.schedule.steady_clock import SteadyClock
from sluiceway.sources.contract import LogBounds, SourcePartition
from sluiceway.sources.side_topics import SideTopic
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.counts_feed import read_count
from sluiceway.upkeep.partition_bodies import counts_body, ready_body
from sluiceway.upkeep.record_queue import RecordQueue

_COUNTS = "events_counts"
_TABLE_NAME = f"{TABLE.database}.{TABLE.name}"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MUTE = structlog.wrap_logger(
    None, wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
)


@cache
def periods_of(patterns: tuple[tuple[str, str], ...], zone: str) -> PrefixPeriods:
    """Made once in a process; it keeps what it found."""
    return PrefixPeriods(patterns, zone)


@dataclass(frozen=True, slots=True)
class SharedPeriods(ReadyRule):
    """A rule whose drivers share what they have found of the calendar."""

    def periods(self) -> PrefixPeriods:
        return periods_of(self.columns, self.timezone)


class ProductDecider:
    """One driver after another, made of the product's parts. One per history."""

    def __init__(self, route: Route, sources: int) -> None:
        del sources
        self.route = route
        self.periods = periods_of(route.patterns, route.zone)
        self.rule = SharedPeriods(
            watermark=WatermarkRule(
                out_of_orderness_us=route.out_of_orderness,
                idle_after_us=route.idle_after,
                hold_when_idle=not route.on_all_idle,
            ),
            columns=route.patterns,
            timezone=route.zone,
            whole_key=not route.spreads,
            lateness_us=route.lateness,
            reopen_every_s=0.0,
            counts=_counts_rule(route),
        )
        self._late = row_work.late_rule(route)
        self._records: list[tuple[Record, bytes]] = []
        self._read_back = 0
        self._epochs = 0
        self._counted: set[str] = set()
        self.fold = Fold()
        self.take_over()

    # The ledger

    def put(self, body: Body, term: int | None = None) -> None:
        """Land a record in the next slot; the fold refuses an unlawful one."""
        fold = self.fold
        seq = fold.next_seq
        record = Record(
            engine="x",
            seq=seq,
            term=fold.term if term is None else term,
            prev=fold.head,
            id="0" * 32,
            published_through=seq,
            effects_through=seq,
            body=body,
        )
        # Bytes of each record are made where they are read: most drivers of a history live on.
        raw = seq.to_bytes(8)
        self._apply(record, raw)
        self._records.append((record, raw))

    def _apply(self, record: Record, raw: bytes) -> None:
        try:
            self.fold.apply(record, raw)
        except InvariantError as error:
            raise RefusedError(str(error)) from error
        if isinstance(record.body, DataRecord):
            self._counted.update(record.body.counted)

    def take_over(self) -> None:
        """A driver begins: it folds what there is, fences, and knows nothing else."""
        self.fold = Fold()
        for place, (record, raw) in enumerate(self._records):
            found = record
            if place >= self._read_back:
                found = decode_record(encode_record(record), "slot")
                self._records[place] = (found, raw)
            self._apply(found, raw)
        self._read_back = len(self._records)
        self.put(fence_body(), self.fold.term + 1)
        self._epochs = 0
        self._asks = False
        self.clock = SteadyClock()
        self.record_queue = RecordQueue(cast("Any", None), self.fold.closed)
        self.readiness = RouteReadiness(self.rule, self.record_queue, self.fold, _MUTE)
        self.readiness.close_due(self.fold)

    def restart(self) -> None:
        self.take_over()

    def pin(self, sources: Sequence[int], at: int) -> None:
        del at
        self.put(sources_body(sources, retired=False))

    def resume(self, sources: Sequence[int], at: int) -> None:
        del at
        self.put(resumed_body(self.fold, sources))

    def retire(self, sources: Sequence[int]) -> None:
        self.put(sources_body(sources, retired=True))

    def reset(self, source: int, new_end: int) -> None:
        self.take_over()
        self.put(reset_body(self.fold, source, new_end))

    # Epochs

    def plan(self, at: int) -> Plan:
        self._read_clock(at, 0)
        fold = self.fold
        self._epochs += 1
        return Plan(
            number=self._epochs,
            term=fold.term,
            closed=self.record_queue.closed(),
            bound_us=self.record_queue.bound_us,
            dates=EpochDates(
                late_before_us=late_before_us(fold, self._late),
                watermark_us=watermark_us(fold, self._late),
            ),
        )

    def read(self, plan: Plan, read_at: int, tasks: Sequence[Sequence[Batch]]) -> list[Outcome]:
        found: list[Outcome] = []
        for batches in tasks:
            task = row_work.RowTask(self.route, plan.dates, plan.closed, batches)
            placed_rows = iter(task.run(read_at))
            for batch in batches:
                found += self._answer(
                    plan, batch, [next(placed_rows) for _ in batch.events], read_at
                )
        return found

    def _answer(
        self, plan: Plan, batch: Batch, fates: Sequence[row_work.Placed], read_at: int
    ) -> list[Outcome]:
        """Count what a split has brought."""
        span, newest, found = batch.span, None, []
        for event, (fate, folder) in zip(batch.events, fates, strict=True):
            if event is not None and fate is not Fate.DIRTY:
                counted = row_work.counted_time(event, read_at)
                newest = counted if newest is None else max(newest, counted)
            if folder is not None:
                plan.folders[folder] += 1
            else:
                plan.dirty += fate is Fate.DIRTY
                plan.late += fate is Fate.LATE
            found.append(Outcome(fate, None if folder is None else self._prefix(folder)))
        plan.ranges.append(range_body(span.source, span.start, span.end, len(fates), newest))
        return found

    def _prefix(self, folder: str) -> str:
        return "/".join(folder.split("/")[: self.periods.depth])

    def _read_clock(self, at: int, wrong: int) -> int:
        """What the driver takes for the time."""
        return self.clock.judge(at + wrong, at / SECOND)

    def commit(
        self, plan: Plan, looked_at: int, looks: Mapping[int, Look], clock_wrong: int
    ) -> int | None:
        view = _view(self._read_clock(looked_at, clock_wrong), looks)
        if any(span.end > span.start for span in plan.ranges):
            self._land(plan, self.readiness.mark(self.fold, view, plan.ranges))
        waited_for = self.record_queue.is_waited_for(self.fold)
        self._asks = waited_for or self.readiness.idle_mark(self.fold, view) is not None
        return self.fold.watermark.us

    def beside(self, looked_at: int, looks: Mapping[int, Look]) -> int | None:
        view = _view(self._read_clock(looked_at, 0), looks)
        mark = self.readiness.idle_mark(self.fold, view)
        if mark is not None:
            # It closes nothing: what it closes is closed behind it.
            self._land(replace(self._empty_plan(), closed=(), bound_us=None), mark)
        self.readiness.close_due(self.fold)
        at = self.fold.watermark.read_at_us
        if self.record_queue.is_waited_for(self.fold) and at is not None:
            self._land(self._empty_plan(), WatermarkRecord(BigInt(at)))
        self._asks = False
        return self.fold.watermark.us

    def _land(self, plan: Plan, mark: WatermarkRecord) -> None:
        bound_us = None if plan.bound_us is None else BigInt(plan.bound_us)
        made = data_body(plan, replace(mark, bound_us=bound_us))
        body = placed(replace(made, counted=self.record_queue.counted), self.fold)
        self.put(body)
        self.readiness.update(self.fold)
        self.readiness.add_late(body.late_in)
        self.readiness.close_due(self.fold)

    def _empty_plan(self) -> Plan:
        """Of an epoch that nobody runs."""
        self._epochs += 1
        closed, bound_us = self.record_queue.closed(), self.record_queue.bound_us
        return Plan(self._epochs, self.fold.term, closed, bound_us, EpochDates())

    def asks(self) -> bool:
        return self._asks

    # Counts

    def count(self, topic: Sequence[CountMessage]) -> None:
        log, known = (_COUNTS, CLUSTER, "n1"), self.fold.counted
        rule = cast("CountsRule", self.rule.counts)
        counts: dict[str, int] = {}
        for message in topic[known.ends.get(0, 0) if known.log == log else 0 :]:
            found = read_count(_value(message), _TABLE_NAME, self.periods)
            if found is not None and rule.decide.needs_count(found.period):
                counts[found.period.prefix] = found.rows
        body = counts_body(self.fold, self.record_queue.closed(), log, {0: len(topic)}, counts)
        if counts and body is not None:
            self.put(body)
            self.readiness.update(self.fold)
        self._asks = self._asks or self.record_queue.is_waited_for(self.fold)

    def waits(self) -> str | None:
        waits = counted_due(self.fold, self.rule).waits
        return None if waits is None else waits.prefix

    def announce(self, in_flight: Sequence[Plan]) -> list[Announced]:
        del in_flight
        found = []
        while (prefix := self.readiness.to_announce(self.fold)) is not None:
            body = ready_body(self.fold, prefix)
            if body is not None:
                self.put(body)
                self.readiness.update(self.fold)
                found.append(Announced(prefix, body.version, prefix in self._counted))
            self.readiness.add_announced(prefix)
        return found


def _view(looked_at: int, looks: Mapping[int, Look]) -> SourceView:
    bounds = {
        SourcePartition(TOPIC, source): LogBounds(0, look.stable_end, look.high_watermark)
        for source, look in looks.items()
    }
    return SourceView({}, bounds, {}, looked_at)


def _counts_rule(route: Route) -> CountsRule | None:
    need = route.counts
    if need is None:
        return None
    return CountsRule(SideTopic((), _COUNTS), CountRule(need.since, alone=need.alone))


def _value(message: CountMessage) -> bytes:
    """As whoever counts would write it."""
    at = (_EPOCH + timedelta(microseconds=message.begin)).isoformat()
    return json.dumps({"table": _TABLE_NAME, "time": at, "rows": message.rows}).encode()
