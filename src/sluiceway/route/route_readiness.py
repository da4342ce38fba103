"""Readiness of one route: the watermark of each record, what is closed, what is announced next.

Decides by `eventtime.watermark` and `eventtime.readiness`, from the ledger and from log ends that
were read after the epoch. Nothing here writes; the route's one writer puts what is decided.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol

from sluiceway.eventtime.prefix_periods import Period, PrefixPeriods
from sluiceway.eventtime.readiness import DuePrefixes, OpenPrefixes, next_to_announce
from sluiceway.eventtime.watermark import (
    ObservedSource,
    RouteWatermark,
    SourceStatus,
    route_watermark,
)
from sluiceway.jobfile.compile.ready_rule import ReadyRule
from sluiceway.ledger.data_parts import (
    MAX_HELD_BY,
    HeldByRecord,
    SourceName,
    WatermarkRecord,
)
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import FoldState, PartitionKey, SourceState
from sluiceway.ledger.partition_records import ReadyCause
from sluiceway.ledger.places import overlaps
from sluiceway.ledger.records import RangeRecord
from sluiceway.ledger.sealing import NEVER_CLOSED
from sluiceway.observe.log import Log
from sluiceway.schedule.source_view import SourceView
from sluiceway.schedule.steady_clock import process_clock
from sluiceway.sources.contract import LogBounds, SourcePartition
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.record_queue import RecordQueue


def open_before_first(fold: FoldState, periods: PrefixPeriods) -> list[Period]:
    """Times that are open and end before a time that was closed first; announced before it.

    Closing begins with the first time with rows. An epoch that was in flight then may bring rows of
    earlier times, which are not late. These times are closed later, or with it, and announced
    first. Nothing joins once something is closed in the ledger, as rows of later epochs are late.

    Args:
        fold: What is closed in it was closed by its driver before.
        periods: Periods of the table.
    """
    if any(slot != NEVER_CLOSED for slot in fold.sealed.values()):
        # What was closed first is announced long ago, and so is all that came before it.
        return []
    began = min((each.closed_seq for each in fold.closed.values()), default=None)
    if began is None:
        return []
    names = (name for name, each in fold.closed.items() if each.closed_seq == began)
    last = max((each for name in names if (each := periods.of(name)) is not None), default=None)
    open_names = (
        name
        for name, state in fold.partitions.items()
        if state.first_seq < began and not state.expired and fold.closed_above(name) is None
    )
    found = {each for name in open_names if (each := periods.of(name)) is not None}
    return sorted(each for each in found if last is not None and each < last)


LONGEST_BEFORE_S = 300.0
"""How long what has to happen between closing and READY may hold an announcement (rule 30c)."""

COUNT_WAIT_S = 300.0
"""How long a count, or rows of it, may be missing before the driver logs it."""

_US_PER_S = 1_000_000


class BeforeReady(Protocol):
    """What has to be done with a prefix between its closing and its READY."""

    def is_done(self, prefix: str) -> bool:
        """Whether it may be announced now. Asked by the driver's thread, again and again.

        Begins the work when it is asked first, and returns at once.
        """


class _FirstLook(NamedTuple):
    """When this driver saw a source partition for the first time that has had no row since.

    Attributes:
        end: Its committed end then.
        noted: Whether the ledger knows since when it is quiet.
    """

    end: int
    at_us: int
    noted: bool


class RouteReadiness:
    """Readiness of one route while its driver lives. Used by one thread at a time.

    Args:
        rule: The route's rule.
        record_queue: Where prefixes are closed.
        fold: As START has found it.
        log: Gets what is unusual.

    Attributes:
        before: What has to happen before READY; None for nothing.
        lost_before_us: Times that begin before it may lack rows of a lost room, and wait; None
            without one. Microseconds since 1970; asked again and again.
        complete_us: All prefixes that end by then are announced; None before the first one.
    """

    def __init__(self, rule: ReadyRule, record_queue: RecordQueue, fold: Fold, log: Log) -> None:
        self.rule = rule
        self.periods = rule.periods()
        self.before: BeforeReady | None = None
        self.lost_before_us: Callable[[], int | None] = lambda: None
        self._waits_for_room = ""
        self._record_queue = record_queue
        self._log = log
        self._book = OpenPrefixes(self.periods, rule.lateness_us)
        self._first_looks: dict[PartitionKey, _FirstLook] = {}
        self._observed_seq = 0
        self._known_closed = -1
        self._waiting: list[str] = []
        self._before_first: list[Period] | None = None
        self._out_of_turn = False
        self._held: dict[str, float] = {}
        self._uncounted: dict[str, float] = {}
        self.complete_us = self._announced_until(fold)
        self._reopened = _changed_since_ready(fold)
        self._swapped = _swapped_since_ready(fold)

    # The watermark

    def mark(
        self, fold: Fold, view: SourceView, ranges: Iterable[RangeRecord] = ()
    ) -> WatermarkRecord:
        """What the next DATA record says of the watermark.

        Args:
            fold: Fold of all records before it.
            view: Log ends, read when nothing of these ranges was left to read for the epoch.
            ranges: Ranges of the record.
        """
        before = fold.watermark
        read_at_us = max(view.read_at_us, before.read_at_us or 0)
        sources = with_ranges(fold, ranges, read_at_us)
        for key in self._first_looks.keys() - sources.keys():
            del self._first_looks[key]
        seen = [
            self._observed(key, known, view.bounds.get(SourcePartition(*key)), read_at_us)
            for key, known in sources.items()
        ]
        had_rows = any(known.max_event_time_us is not None for known in fold.sources.values())
        found = route_watermark(self.rule.watermark, seen, read_at_us, before.us, had_rows=had_rows)
        rises = found.us is not None and found.us != before.us
        return WatermarkRecord(
            read_at_us=BigInt(read_at_us),
            us=BigInt(found.us) if found.us is not None and rises else None,
            by=found.by if rises else "",
            idle=_names(found, sources, idle=True),
            woken=_names(found, sources, idle=False),
            held_by=_held_by(found, view.bounds),
        )

    def idle_mark(self, fold: Fold, view: SourceView) -> WatermarkRecord | None:
        """A watermark that closes something although no row was read; None when it does not.

        Called when no epoch is in flight.
        """
        if fold.watermark.us is None and not fold.partitions:
            return None
        self._see(fold)
        mark = self.mark(fold, view)
        due = None if mark.us is None else self._book.due(int(mark.us))
        if due is None:
            return None
        # What waits for its count stays due; the watermark is logged once.
        known = None if self.rule.counts is None else self._book.due(fold.watermark.us)
        return mark if known is None or known.periods[-1] < due.periods[-1] else None

    def _observed(
        self, key: PartitionKey, known: SourceState, bounds: LogBounds | None, read_at_us: int
    ) -> ObservedSource:
        newest_us = known.max_event_time_us
        if newest_us is not None:
            # Rows that were read while nothing was announced count by their own time in the ledger.
            newest_us = min(newest_us, read_at_us)
        return ObservedSource(
            key=key,
            committed_end=known.end,
            max_event_time_us=newest_us,
            quiet_since_us=self._quiet_since(key, known, read_at_us),
            log_end=None if bounds is None else bounds.end_offset,
            high_watermark=None if bounds is None else bounds.high_watermark,
        )

    def _quiet_since(self, key: PartitionKey, known: SourceState, read_at_us: int) -> int:
        """Since when nothing has come, by the ledger or by what this driver saw before.

        The ledger notes a source partition without rows with the next record only. Whoever drives
        now does not know what another one saw, nor what was before it was retired.
        """
        noted_us, look = known.quiet_since_us, self._first_looks.get(key)
        is_anew = look is None or look.end != known.end or (look.noted and noted_us is None)
        if is_anew and noted_us is not None:
            self._first_looks.pop(key, None)
            return noted_us
        since_us = read_at_us if look is None or is_anew else look.at_us
        self._first_looks[key] = _FirstLook(known.end, since_us, noted=noted_us is not None)
        return since_us if noted_us is None else min(noted_us, since_us)

    # Closing

    def close_due(self, fold: Fold) -> None:
        """Close what the committed watermark has passed, for all epochs planned from now on."""
        if fold.watermark.us is None and self.rule.counts is None:
            return
        self._see(fold)
        due = self._due(fold)
        if due is not None:
            self._close(due)

    def inherits_due(self, fold: Fold) -> bool:
        """Whether something is to be closed for which no record of this route is awaited."""
        del fold
        return False

    def cause(self, fold: Fold, prefix: str) -> ReadyCause | None:
        """The announcement of another table that a prefix is announced for; None for none."""
        del fold, prefix
        return None

    def _close(self, due: DuePrefixes) -> None:
        if due.skipped:
            self._log.warning("empty_prefixes_skipped", prefixes=due.skipped)
        prefixes = [period.prefix for period in due.periods]
        self._record_queue.close_prefixes(prefixes, due.bound_us, due.counted)
        self._book.see_closed(prefixes)
        self._log.info("prefixes_closed", first=prefixes[0], last=prefixes[-1], count=len(prefixes))

    def update(self, fold: Fold) -> None:
        """A record is in the ledger. Called after each; a replay brings rows without an epoch."""
        if self.rule.counts is not None:
            self.close_due(fold)

    def _due(self, fold: Fold) -> DuePrefixes | None:
        counts = self.rule.counts
        if counts is None:
            return self._book.due(fold.watermark.us)
        expected = fold.counted.rows
        found = self._book.due_counted(fold.watermark.us, counts.decide, fold.has_counted)
        self._log_waiting(fold, found.waits)
        for prefix in () if found.due is None else found.due.counted:
            rows = fold.rows_below(prefix)
            if rows > expected[prefix]:
                self._log.warning(
                    "more_rows_than_counted", prefix=prefix, rows=rows, expected=expected[prefix]
                )
        return found.due

    def _log_waiting(self, fold: Fold, waits: Period | None) -> None:
        """Say once that nothing but a count holds a prefix that is over."""
        if waits is None or waits.end_us > time.time_ns() // 1000:
            return
        since, now = self._uncounted.get(waits.prefix), time.monotonic()
        if since is None:
            self._uncounted = {waits.prefix: now}
        elif since + COUNT_WAIT_S <= now:
            self._uncounted = {waits.prefix: math.inf}
            self._log.warning(
                "ready_waits_for_count",
                prefix=waits.prefix,
                rows=fold.rows_below(waits.prefix),
                expected=fold.counted.rows.get(waits.prefix),
            )

    def _see(self, fold: Fold) -> None:
        if fold.next_seq == self._observed_seq:
            return
        if self._observed_seq == 0:
            self._book.see_closed(self._record_queue.closed())
        self._book.see_partitions(
            name
            for name, state in fold.partitions.items()
            if state.last_seq >= self._observed_seq and not state.expired
        )
        self._observed_seq = fold.next_seq

    # Announcing

    def add_late(self, prefixes: Iterable[str]) -> None:
        """Rows have come for prefixes that are closed."""
        self._reopened.update(prefixes)

    def add_swapped(self, fold: Fold, prefix: str) -> None:
        """The rows of a prefix were replaced: what was announced is announced again, at once."""
        self._swapped.update(_announced_within(fold, prefix))

    def to_announce(self, fold: Fold) -> str | None:
        """The prefix whose READY may be put now; None when there is none.

        A prefix that has to wait holds all later ones: announcements keep the order of time.
        """
        # As many are sealed as leave `closed`: only newly closed prefixes change the sum.
        known = len(fold.closed) + len(fold.sealed)
        if known != self._known_closed:
            self._known_closed = known
            versions = {prefix: each.version for prefix, each in fold.closed.items()}
            self._waiting = next_to_announce(versions, self.periods)[::-1]
        while self._waiting:
            prefix = self._waiting[-1]
            closed = fold.closed.get(prefix)
            if closed is not None and closed.version == 0:
                turn = self._is_its_turn(fold, prefix)
                return prefix if turn and self._may_go(fold, prefix) else None
            self._waiting.pop()
        return self._reopened_due(fold)

    def add_announced(self, prefix: str) -> None:
        """Its READY is in the ledger, or there was nothing to say."""
        self._held.pop(prefix, None)
        self._reopened.discard(prefix)
        self._swapped.discard(prefix)
        period = self.periods.of(prefix)
        if period is not None:
            self.complete_us = max(period.end_us, self.complete_us or period.end_us)

    def _announced_until(self, fold: Fold) -> int | None:
        names = [prefix for prefix, each in fold.closed.items() if each.version]
        periods = [period for name in names if (period := self.periods.of(name)) is not None]
        return max((period.end_us for period in periods), default=None)

    @property
    def waits(self) -> bool:
        """Whether something that is closed was never announced, and nothing open comes first."""
        return bool(self._waiting) and not self._out_of_turn and not self._waits_for_room

    def _is_its_turn(self, fold: Fold, prefix: str) -> bool:
        """Whether nothing that is open has to be announced before."""
        if self._before_first is None or self._before_first:
            self._before_first = open_before_first(fold, self.periods)
        period, earlier = self.periods.of(prefix), self._before_first
        self._out_of_turn = bool(earlier) and period is not None and earlier[0] < period
        return not self._out_of_turn

    def _may_go(self, fold: Fold, prefix: str) -> bool:
        if self._lacks_rows(prefix):
            return False
        if any(each.last_seq >= fold.published_through for each in fold.below(prefix)):
            # READY speaks of files that have their names (commit rule 2).
            return False
        if self.before is None or not fold.below(prefix):
            return True
        now = time.monotonic()
        since = self._held.setdefault(prefix, now)
        if self.before.is_done(prefix):
            return True
        if now - since < LONGEST_BEFORE_S:
            return False
        self._log.warning("ready_without_compaction", prefix=prefix, waited_s=round(now - since))
        return True

    def _lacks_rows(self, prefix: str) -> bool:
        """Whether a lost room may have rows of it."""
        period, lost_us = self.periods.of(prefix), self.lost_before_us()
        if period is None or lost_us is None or period.begin_us >= lost_us:
            self._waits_for_room = ""
        elif self._waits_for_room != prefix:
            self._waits_for_room = prefix
            self._log.warning("ready_waits_for_room", prefix=prefix)
        return bool(self._waits_for_room)

    def _reopened_due(self, fold: Fold) -> str | None:
        now_us = process_clock().now_us()
        for prefix in sorted(self._reopened | self._swapped):
            closed = fold.closed.get(prefix)
            if closed is None:
                continue
            # By the ledger: a run that lasts for minutes goes on where the one before was. A time
            # ahead of the clock comes from another clock.
            at_us, every_us = closed.ready_at_us, self.rule.reopen_every_s * _US_PER_S
            swapped = prefix in self._swapped
            if swapped or at_us is None or abs(now_us - at_us) >= every_us:
                published = (each.last_seq < fold.published_through for each in fold.below(prefix))
                return prefix if all(published) else None
        return None


def with_ranges(
    fold: Fold, ranges: Iterable[RangeRecord], read_at_us: int
) -> dict[PartitionKey, SourceState]:
    """Source partitions that are read, as they will be with these ranges."""
    sources = {key: known for key, known in fold.sources.items() if not known.retired}
    for span in ranges:
        key = (span.topic, span.partition)
        sources[key] = replace(sources[key])
        sources[key].advance(span, read_at_us)
    return sources


def _names(
    found: RouteWatermark, sources: Mapping[PartitionKey, SourceState], *, idle: bool
) -> tuple[SourceName, ...]:
    """Source partitions whose state the ledger does not have yet."""
    return tuple(
        SourceName(*each.key)
        for each in found.verdicts
        if (each.status is SourceStatus.IDLE) is idle and sources[each.key].idle is not idle
    )


def _held_by(
    found: RouteWatermark, bounds: Mapping[SourcePartition, LogBounds]
) -> tuple[HeldByRecord, ...]:
    """Partitions that hold it and have more to read: of the others the ledger knows all."""
    held = []
    for each in found.holders(MAX_HELD_BY):
        if each.status is not SourceStatus.STALLED:
            continue
        place = bounds.get(SourcePartition(*each.key))
        held.append(
            HeldByRecord(
                *each.key,
                log_end=None if place is None else BigInt(place.end_offset),
                high_watermark=None if place is None else BigInt(place.high_watermark),
            )
        )
    return tuple(held)


def _announced_within(fold: Fold, prefix: str) -> Iterable[str]:
    """Announced prefixes whose rows a SWAP of this prefix has changed."""
    return (name for name, each in fold.closed.items() if each.version and overlaps(name, prefix))


def _swapped_since_ready(fold: Fold) -> set[str]:
    """Announced prefixes whose rows were replaced since."""
    return {
        name
        for prefix, slot in fold.swaps.items()
        for name in _announced_within(fold, prefix)
        if slot > fold.closed[name].ready_seq
    }


def _changed_since_ready(fold: Fold) -> set[str]:
    """Announced prefixes that rows have come for since."""
    changed = set()
    for state in fold.partitions.values():
        prefix = fold.closed_above(state.folder)
        if prefix is None or fold.closed[prefix].version == 0:
            continue
        if state.has_rows_since(fold.closed[prefix].ready_seq):
            changed.add(prefix)
    return changed
