"""Judges what was decided, row by row and hour by hour, against the reference."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from readiness_oracle.calendar_table import Calendar, calendar_of, site_of
from readiness_oracle.counted import CountedHours
from readiness_oracle.decider import Announced, Batch, Fate, Outcome
from readiness_oracle.history import CountMessage, History, Kind
from readiness_oracle.reference import (
    Bounds,
    Landed,
    idle_sources,
    readable,
    reference_bounds,
    source_watermark,
)

EARLY = "early_ready"
SILENT = "silent_late"
STUCK = "stuck"
PATIENCE_EPOCHS = 2


@dataclass(frozen=True, slots=True)
class Violation:
    """One wrong decision, in words."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What was known when an epoch was planned.

    Attributes:
        watermark: The route's, as committed then.
        landed: Records that had landed.
        first_end: End of the first hour with rows in them; None before there is one.
        closed: Hours that were closed, where counts decide too.
        until: End of the last one of those in order; None before there is one.
    """

    watermark: int | None
    landed: int
    first_end: int | None
    closed: frozenset[str] = frozenset()
    until: int | None = None


@dataclass(slots=True)
class Judge:
    """Keeps all rows, all records and all announcements of one history."""

    history: History
    calendar: Calendar = field(init=False)
    landed: list[Landed] = field(default_factory=list)
    watermarks: list[int | None] = field(default_factory=list)
    bounds: list[Bounds] = field(default_factory=list)
    announced: dict[str, int] = field(default_factory=dict)
    firsts: list[int | None] = field(default_factory=list)
    # Prefix -> how many records there were when its first row in time landed.
    written: dict[str, int] = field(default_factory=dict)
    late_since: set[str] = field(default_factory=set)
    # Epoch -> (source, offset) of its rows that are late, and dirty by that.
    refused: dict[int, set[tuple[int, int]]] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    met: Counter[str] = field(default_factory=Counter)
    counted: CountedHours | None = None

    def __post_init__(self) -> None:
        route = self.history.route
        self.calendar = calendar_of(site_of(route, self.history.centre), route.patterns)
        if route.counts is not None:
            self.counted = CountedHours(route.counts, self.calendar, route.lateness)

    def complain(self, kind: str, text: str) -> None:
        """Note a wrong decision."""
        self.violations.append(Violation(kind, text))

    def seen(self) -> Seen:
        """What an epoch that is planned now may know."""
        if not self.landed:
            return Seen(None, 0, None)
        seen = Seen(self.watermarks[-1], len(self.landed), self.firsts[-1])
        if self.counted is None:
            return seen
        return replace(seen, closed=frozenset(self.counted.closed), until=self.counted.until)

    def is_closed(self, prefix: str, seen: Seen) -> bool:
        """Rule 6: the watermark that an epoch was planned with has passed end + lateness.

        Closing begins with the first hour that has rows; whatever ends before is closed with it.
        """
        if self.counted is not None:
            known = self.calendar.ends.get(prefix)
            return seen.until is not None and (known is None or known <= seen.until)
        if seen.watermark is None or seen.first_end is None:
            return False
        passed = seen.watermark - self.history.route.lateness
        end = self.calendar.ends.get(prefix)
        return seen.first_end <= passed and (end is None or end <= passed)

    # Rows

    def rows(self, epoch: int, seen: Seen, batches: Sequence[Batch], found: list[Outcome]) -> None:
        """Judge the fates of an epoch's rows, before it is known whether it lands."""
        read_at = self.history.epochs[epoch].read_at
        places = iter(found)
        refused = self.refused[epoch] = set()
        for batch in batches:
            source, log = batch.span.source, self.history.logs[batch.span.source]
            before = source_watermark(self.history, self.landed[: seen.landed], source)
            span = range(batch.span.start, batch.span.end)
            offsets = [offset for offset in span if log.entries[offset].kind is Kind.ROW]
            for offset, event in zip(offsets, batch.events, strict=True):
                where = f"epoch {epoch}, source {source}, event {event}"
                if self._row(where, seen, before, read_at, event, next(places)):
                    refused.add((source, offset))
        if next(places, None) is not None:
            self.complain("wrong_partition", f"epoch {epoch} has more rows than it read")

    def _row(
        self,
        where: str,
        seen: Seen,
        before: int | None,
        read_at: int,
        event: int | None,
        outcome: Outcome,
    ) -> bool:
        """Whether it is dirty by nothing but coming late."""
        route = self.history.route
        if event is None or event > read_at + route.max_future:
            self.met["dirty"] += 1
            if outcome.fate is not Fate.DIRTY:
                self.complain("wrongly_dirty", f"{where} is {outcome}, and has no sane time")
            return False
        prefix = self.calendar.prefix(event)
        closed = self.is_closed(prefix, seen)
        old = before is not None and event < before - route.archive_window
        if event > read_at:
            self.met["future row"] += 1
        if not (closed or old):
            self._on_time(where, prefix, outcome, before, event)
            return False
        self.met["late, closed" if closed else "late, beyond the window"] += 1
        if closed and not self._is_over(prefix):
            self.met["late, closed ahead of the watermark"] += 1
        self._late(where, prefix, closed=closed, old=old, outcome=outcome, seen=seen)
        return route.policy == "dirty"

    def _is_over(self, prefix: str) -> bool:
        """Whether the watermark has passed an hour."""
        end, watermark = self.calendar.ends.get(prefix), self.watermarks[-1]
        late = self.history.route.lateness
        return end is None or (watermark is not None and end + late <= watermark)

    def _on_time(
        self, where: str, prefix: str, outcome: Outcome, before: int | None, event: int
    ) -> None:
        if before is not None and event < before:
            self.met["out of order"] += 1
        if prefix in self.calendar.folded:
            self.met["row in a fold"] += 1
        if outcome.fate is not Fate.WRITTEN:
            self.complain("wrongly_late", f"{where} is {outcome}, {prefix} is open")
        elif outcome.prefix != prefix:
            self.complain("wrong_partition", f"{where} goes to {outcome.prefix}, not to {prefix}")

    def _late(
        self, where: str, prefix: str, *, closed: bool, old: bool, outcome: Outcome, seen: Seen
    ) -> None:
        policy = self.history.route.policy
        expected = Fate.DIRTY if policy == "dirty" else Fate.LATE
        if outcome.fate is not expected:
            why = "is closed" if closed else "is beyond the archive window"
            self.complain("not_late", f"{where} is {outcome}, {prefix} {why}")
            return
        reopens = policy == "reopen" and closed and not old
        if reopens and outcome.prefix != prefix:
            self.complain("wrong_partition", f"{where} goes to {outcome.prefix}, not to {prefix}")
        elif (
            policy == "redirect"
            and seen.watermark is not None
            and (outcome.prefix is None or self.is_closed(outcome.prefix, seen))
        ):
            self.complain("wrong_partition", f"{where} is redirected to {outcome.prefix}, closed")
        elif policy in {"side", "dirty"} and outcome.prefix is not None:
            self.complain("wrong_partition", f"{where} is late, and in {outcome.prefix}")

    # Records

    def lands(
        self, record: Landed, watermark: int | None, found: list[Outcome], seen: Seen
    ) -> None:
        """An epoch's record has landed; it was planned with what was seen then."""
        before = self.watermarks[-1] if self.watermarks else None
        if before is not None and (watermark is None or watermark < before):
            self.complain("watermark_fell", f"epoch {record.epoch}: {before} to {watermark}")
        refused = frozenset(self.refused.pop(record.epoch, ()) if record.spans else ())
        self.landed.append(replace(record, refused=refused))
        self.watermarks.append(watermark)
        idle = idle_sources(self.history, self.landed)
        self.met["idle source"] += bool(idle) and len(idle) < len(record.pinned)
        self.met["all idle"] += bool(idle) and len(idle) == len(record.pinned)
        self.met["no source at all"] += not record.pinned
        rowless = {s for s in record.pinned if self._has_no_time(s)}
        self.met["held by one without a row"] += bool(rowless - idle)
        self.met["idle without a row"] += bool(rowless & idle)
        last = self.bounds[-1] if self.bounds else Bounds(None, None)
        self.bounds.append(reference_bounds(self.history, self.landed, last))
        highest = self.bounds[-1].highest
        if watermark is not None and (highest is None or watermark > highest):
            self.complain(
                EARLY, f"epoch {record.epoch}: the watermark is {watermark}, at most {highest}"
            )
        for outcome in found:
            prefix = outcome.prefix
            if prefix is None:
                continue
            if outcome.fate is Fate.LATE:
                self.late_since.add(prefix)
                continue
            self.written.setdefault(prefix, len(self.landed))
            if prefix in self.announced:
                self.complain(SILENT, f"epoch {record.epoch} writes to {prefix}, announced")
        ends = self.calendar.ends
        self.firsts.append(min((ends[each] for each in self.written if each in ends), default=None))
        if self.counted is not None:
            if any(span.end > span.start for span in record.spans):
                self.counted.in_ledger |= seen.closed
            self.counted.add(each.prefix for each in found if each.prefix is not None)
            self.met["closed as the last rows came"] += any(
                each in self.counted.by_count for each in self.counted.close(watermark)
            )
            self.counted.note()
            self.met["open behind a closed one"] += bool(self.counted.behind(self.written.keys()))

    def _has_no_time(self, source: int) -> bool:
        """Whether no row of it that was committed has an event time."""
        return source_watermark(self.history, self.landed, source) is None

    # Counts

    def counts(self, topic: Sequence[CountMessage]) -> None:
        """What the topic of counts has said is in the ledger."""
        if self.counted is None:
            return
        self.met.update(self.counted.take(topic))
        watermark = self.watermarks[-1] if self.watermarks else None
        self.met["closed as the count came"] += bool(self.counted.close(watermark))

    def all_closed(self) -> None:
        """What is closed is closed in the ledger: no epoch is in flight."""
        if self.counted is not None:
            self.counted.in_ledger |= self.counted.closed

    def restarts(self) -> None:
        """A new driver has nothing but the records."""
        if self.counted is not None:
            self.met["restart, a count waits"] += bool(self.counted.counts)
            self.counted.restart(self.watermarks[-1] if self.watermarks else None)

    def told(self, waits: str | None) -> None:
        """People are told which hour nothing but its count holds."""
        if self.counted is None:
            return
        expected = self.counted.waits(self.watermarks[-1] if self.watermarks else None)
        if waits != expected:
            self.complain("untold", f"{waits} is said to wait for its count, {expected} does")
        elif expected is not None:
            known = expected in self.counted.counts
            self.met["waits, too few rows" if known else "waits, no count"] += 1

    # Announcements

    def announces(self, found: Sequence[Announced], in_flight: Sequence[Seen]) -> None:
        """READY records were put."""
        for ready in found:
            self._announced(ready, in_flight)

    def _announced(self, ready: Announced, in_flight: Sequence[Seen]) -> None:
        prefix, version = ready.prefix, ready.version
        known = self.announced.get(prefix, 0)
        if version != known + 1:
            self.complain("order", f"{prefix} has version {version} after {known}")
        self.announced[prefix] = version
        if known:
            if prefix not in self.late_since:
                self.complain("order", f"{prefix} has version {version}, and no row has come")
            self.met["reopened"] += 1
        else:
            self._first_time(prefix, in_flight, counted=ready.counted)
        self.late_since.discard(prefix)

    def _first_time(self, prefix: str, in_flight: Sequence[Seen], *, counted: bool) -> None:
        end = self.calendar.ends.get(prefix)
        if end is None:
            self.complain("order", f"{prefix} is announced, and there is no such time")
            return
        self._in_order(prefix, end)
        due = end + self.history.route.lateness
        by_watermark = self._count_allows(prefix, counted=counted)
        highest = self.bounds[-1].highest if self.bounds else None
        if by_watermark and (highest is None or due > highest):
            self.complain(EARLY, f"{prefix} at {due}, the watermark is {highest} at most")
        if any(not self._has_closed(prefix, due, seen) for seen in in_flight):
            self.complain(EARLY, f"{prefix} while an epoch is in flight that has it open")
        if by_watermark:
            self._nothing_is_missing(prefix, due)
        self.met["ready" if prefix in self.written else "ready, empty"] += 1
        self.met["ready, ends in a fold"] += prefix in self.calendar.folded

    def _has_closed(self, prefix: str, due: int, seen: Seen) -> bool:
        """Whether an epoch was planned with an hour closed."""
        if self.counted is not None:
            return self.is_closed(prefix, seen)
        return seen.watermark is not None and seen.watermark >= due

    def _count_allows(self, prefix: str, *, counted: bool) -> bool:
        """Look for the count of an announced hour; whether the watermark has to allow it too."""
        hours = self.counted
        if hours is None:
            return True
        why = hours.holds(prefix)
        if why:
            self.complain(EARLY, f"{prefix} has {why}")
        by_count = prefix in hours.by_count
        if by_count and not counted:
            self.complain("untold", f"{prefix} is closed by its count, and no record says so")
        self.met["ready, counted"] += by_count
        self.met["ready, counted and empty"] += by_count and not hours.rows[prefix]
        more = by_count and hours.rows[prefix] > hours.counts[prefix]
        self.met["ready, more rows than counted"] += more
        self.met["ready, before `since`"] += not hours.needs(prefix)
        self.met["ready, ahead of the watermark"] += by_count and not self._is_over(prefix)
        return not (hours.need.alone and hours.is_there(prefix))

    def _in_order(self, prefix: str, end: int) -> None:
        ends = self.calendar.ends
        others = [ends[each] for each in self.announced if each != prefix and each in ends]
        newest = max(others, default=None)
        # Late rows that reopen an hour before the first make it one that is announced.
        reopened = prefix not in self.written and prefix in self.late_since
        if newest is not None and newest >= end and not reopened:
            self.complain("order", f"{prefix} is announced behind a later one")

    def _nothing_is_missing(self, prefix: str, due: int) -> None:
        """No row that is on time lies in a log unread: told from the logs, without a watermark."""
        decided = next(
            (
                record
                for record, watermark in zip(self.landed, self.watermarks, strict=True)
                if watermark is not None and watermark >= due
            ),
            None,
        )
        if decided is None:
            self.complain(EARLY, f"{prefix}, and no record has a watermark of {due}")
            return
        before = self.landed[: self.landed.index(decided) + 1]
        for source in decided.pinned.keys() & self.landed[-1].pinned.keys():
            newest = source_watermark(self.history, before, source)
            entries = self.history.logs[source].entries
            # A reset may have gone back behind what was committed once; that is there.
            spans = [span for each in self.landed for span in each.spans if span.source == source]
            committed = max(self.landed[-1].ends[source], *(span.end for span in spans), 0)
            for offset in range(committed, len(entries)):
                entry = entries[offset]
                on_time = (
                    entry.event is not None
                    and entry.kind is Kind.ROW
                    and entry.appended_at <= decided.looked_at
                    and readable(entry, decided.looked_at, self.history.route.max_future)
                    and self.calendar.prefix(entry.event) == prefix
                    and (
                        newest is None
                        or entry.event >= newest - self.history.route.out_of_orderness
                    )
                )
                if on_time:
                    self.complain(
                        EARLY, f"{prefix}, and source {source} has a row for it at {offset}"
                    )
                    return

    def nothing_waits(self) -> None:
        """Each hour that could have been announced two epochs ago is. After each announcement."""
        if len(self.landed) <= PATIENCE_EPOCHS:
            return
        if self.counted is not None:
            wanted = self.counted.wanted(self._agreed(), PATIENCE_EPOCHS, self.written.keys())
            self._none_waits(wanted)
            return
        # Hours without rows count from the hour of the first row on, others from their own.
        first = next((end for end in self.firsts if end is not None), None)
        watermark = self._agreed()
        if watermark is None or first is None:
            return
        last, ends = watermark - self.history.route.lateness, self.calendar.ends
        rested = len(self.landed) - PATIENCE_EPOCHS
        wanted = [name for name, since in self.written.items() if since <= rested]
        wanted = [name for name in wanted if name in ends and ends[name] <= last]
        if self.firsts[-1 - PATIENCE_EPOCHS] is not None:
            wanted += self.calendar.over(first, last)
        self._none_waits(wanted)

    def _none_waits(self, wanted: Sequence[str]) -> None:
        for prefix in wanted:
            if prefix not in self.announced:
                text = f"{prefix} is not announced after epoch {self.landed[-1].epoch}"
                self.complain(STUCK, text)
                return

    def _agreed(self) -> int | None:
        """What all of the last records bear: by the reference, or by what was decided."""
        last = range(-1 - PATIENCE_EPOCHS, 0)
        chains = [[self.watermarks[place] for place in last]]
        spans = [span for record in self.landed[-PATIENCE_EPOCHS:] for span in record.spans]
        if all(span.end == span.start for span in spans):
            # Everything was read, and nothing has come that would be another reason to wait.
            chains.append([self.bounds[place].lowest for place in last])
        found = [min(t for t in times if t is not None) for times in chains if None not in times]
        return max(found, default=None)
