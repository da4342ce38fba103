"""The product's own code behind the judge's questions: what it decides is decided by it alone.

The watermark, what is closed and what is announced come from `sluiceway.eventtime`; every record
goes through `sluiceway.ledger.fold`, which refuses an unlawful one; a new driver has nothing but
the records. Only the order of the calls is written here, as in the driver's loop.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from readiness_oracle.bodies import (
    data_body,
    fence_body,
    range_body,
    reset_body,
    sources_body,
)
from readiness_oracle.decider import Announced, Batch, Fate, Outcome, RefusedError
from readiness_oracle.history import Look, Route
from readiness_oracle.row_work import LateRule, place_rows
from sluiceway.errors import InvariantError
from sluiceway.eventtime import readiness, watermark
from sluiceway.eventtime.prefix_periods import PrefixPeriods
from sluiceway.eventtime.watermark import RouteWatermark, SourceSeen, SourceStatus, WatermarkRule
from sluiceway.job.partition_bodies import ready_body
from sluiceway.ledger.fold import Fold
from sluiceway.ledger.fold_state import PartitionKey, SourceState
from sluiceway.ledger.records import (
    Body,
    RangeRecord,
    Record,
    decode_record,
    encode_record,
)
from sluiceway.ledger.watermark_records import SourceName, WatermarkRecord
from sluiceway.types.strict_json import BigInt


@cache
def periods_of(patterns: tuple[tuple[str, str], ...], zone: str) -> PrefixPeriods:
    """Made once in a process; it keeps what it found."""
    return PrefixPeriods(patterns, zone)


@dataclass(slots=True)
class Plan:
    """An epoch: what it was planned with, and what its tasks returned."""

    number: int
    term: int
    closed: tuple[str, ...]
    bound_us: int | None
    sources: dict[int, int | None]
    watermark: int | None
    ranges: list[RangeRecord] = field(default_factory=list)
    folders: Counter[str] = field(default_factory=Counter)
    dirty: int = 0
    late: int = 0


class ProductDecider:
    """One driver after another, made of the product's parts. One per history."""

    def __init__(self, route: Route, sources: int) -> None:
        del sources
        self.route = route
        self.periods = periods_of(route.patterns, route.zone)
        self.rule = WatermarkRule(
            out_of_orderness_us=route.out_of_orderness,
            idle_after_us=route.idle_after,
            hold_when_idle=not route.on_all_idle,
        )
        self._records: list[tuple[Record, bytes]] = []
        self._epochs = 0
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
        try:
            fold.apply(record, raw)
        except InvariantError as error:
            raise RefusedError(str(error)) from error
        self._records.append((record, raw))

    def take_over(self) -> None:
        """A driver begins: it folds what there is, fences, and knows nothing else."""
        self.fold = Fold()
        for record, raw in self._records:
            found = decode_record(encode_record(record), "slot")
            self.fold.apply(found, raw)
        self.put(fence_body(), self.fold.term + 1)
        self._epochs = 0
        self.book = readiness.PrefixBook(self.periods, self.route.lateness)
        self.book.see_closed(self.fold.closed)
        self._closed = dict.fromkeys(self.fold.closed)
        self._bound_us: int | None = None
        self._first_looks: dict[PartitionKey, int] = {}

    def restart(self) -> None:
        self.take_over()

    def pin(self, sources: Sequence[int], at: int) -> None:
        del at
        self.put(sources_body(sources, retired=False))

    def retire(self, sources: Sequence[int]) -> None:
        self.put(sources_body(sources, retired=True))

    def reset(self, source: int, new_end: int) -> None:
        self.take_over()
        self.put(reset_body(self.fold, source, new_end))

    # Epochs

    def plan(self, at: int) -> Plan:
        del at
        fold = self.fold
        self.book.see_partitions(fold.partitions)
        due = self.book.due(fold.watermark.us)
        if due is not None:
            prefixes = [period.prefix for period in due.periods]
            self.book.see_closed(prefixes)
            self._closed |= dict.fromkeys(prefixes)
            self._bound_us = max(due.bound_us, self._bound_us or due.bound_us)
        self._epochs += 1
        return Plan(
            number=self._epochs,
            term=fold.term,
            closed=tuple(self._closed),
            bound_us=self._bound_us,
            sources={key[1]: known.max_event_time_us for key, known in fold.sources.items()},
            watermark=fold.watermark.us,
        )

    def read(self, plan: Plan, read_at: int, tasks: Sequence[Sequence[Batch]]) -> list[Outcome]:
        found: list[Outcome] = []
        late = LateRule(self.route, self.periods, plan.closed, plan.watermark)
        for batches in tasks:
            events = [event for batch in batches for event in batch.events]
            folders = iter(place_rows(self.route, events, read_at))
            for batch in batches:
                places = [(event, next(folders)) for event in batch.events]
                found += self._read_batch(plan, late, batch, places, read_at)
        return found

    def _read_batch(
        self,
        plan: Plan,
        late: LateRule,
        batch: Batch,
        places: Sequence[tuple[int | None, str | None]],
        read_at: int,
    ) -> list[Outcome]:
        span, newest, found = batch.span, None, []
        before = plan.sources.get(span.source)
        for event, folder in places:
            fate, where = late.fate(event, folder, before)
            if event is not None and folder is not None:
                counted = min(event, read_at)
                newest = counted if newest is None else max(newest, counted)
            if where is not None:
                plan.folders[where] += 1
            else:
                plan.dirty += fate is Fate.DIRTY
                plan.late += fate is Fate.LATE
            found.append(Outcome(fate, None if where is None else self._prefix(where)))
        plan.ranges.append(range_body(span.source, span.start, span.end, len(places), newest))
        return found

    def _prefix(self, folder: str) -> str:
        return "/".join(folder.split("/")[: self.periods.depth])

    def commit(self, plan: Plan, looked_at: int, looks: Mapping[int, Look]) -> int | None:
        body = data_body(
            self.fold,
            plan.number,
            plan.ranges,
            plan.folders,
            dirty=plan.dirty,
            late=plan.late,
            closed=plan.closed,
            mark=self._mark(plan, looked_at, looks),
        )
        self.put(body)
        return self.fold.watermark.us

    def _mark(self, plan: Plan, looked_at: int, looks: Mapping[int, Look]) -> WatermarkRecord:
        before = self.fold.watermark
        read_at_us = max(looked_at, before.read_at_us or 0)
        sources = self._sources_with(plan.ranges, read_at_us)
        seen = [self._seen(key, known, looks, read_at_us) for key, known in sources.items()]
        found = watermark.route_watermark(self.rule, seen, read_at_us, before.us)
        rises = found.us is not None and found.us != before.us
        return WatermarkRecord(
            read_at_us=BigInt(read_at_us),
            us=BigInt(found.us) if found.us is not None and rises else None,
            by=found.by if rises else "",
            idle=_changed(found, sources, idle=True),
            woken=_changed(found, sources, idle=False),
            bound_us=None if plan.bound_us is None else BigInt(plan.bound_us),
        )

    def _sources_with(
        self, ranges: Sequence[RangeRecord], read_at_us: int
    ) -> dict[PartitionKey, SourceState]:
        sources = {key: each for key, each in self.fold.sources.items() if not each.retired}
        for span in ranges:
            key = (span.topic, span.partition)
            sources[key] = replace(sources[key])
            sources[key].advance(span, read_at_us)
        return sources

    def _seen(
        self,
        key: PartitionKey,
        known: SourceState,
        looks: Mapping[int, Look],
        read_at_us: int,
    ) -> SourceSeen:
        quiet = known.quiet_since_us
        if quiet is None:
            quiet = self._first_looks.setdefault(key, read_at_us)
        look = looks.get(key[1])
        return SourceSeen(
            key=key,
            committed_end=known.end,
            max_event_time_us=known.max_event_time_us,
            quiet_since_us=quiet,
            log_end=None if look is None else look.stable_end,
            high_watermark=None if look is None else look.high_watermark,
        )

    def announce(self, in_flight: Sequence[Plan]) -> list[Announced]:
        del in_flight
        fold = self.fold
        versions = {prefix: each.version for prefix, each in fold.closed.items()}
        waiting = readiness.next_to_announce(versions, self.periods)
        again = sorted(prefix for prefix, version in versions.items() if version)
        found = []
        for prefix in [*waiting, *again]:
            body = ready_body(fold, prefix)
            if body is not None:
                self.put(body)
                found.append(Announced(prefix, body.version))
        return found


def _changed(
    found: RouteWatermark, sources: Mapping[PartitionKey, SourceState], *, idle: bool
) -> tuple[SourceName, ...]:
    """Source partitions that are idle, or not, and were not so in the ledger."""
    return tuple(
        SourceName(*each.key)
        for each in found.verdicts
        if (each.status is SourceStatus.IDLE) is idle and sources[each.key].idle is not idle
    )
