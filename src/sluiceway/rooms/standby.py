"""When a driver of a job with rooms may fence: readiness, the wait, and who confirms.

Safety rests on the log's next slot alone. This only keeps a room that cannot work, or that
no operator asked, from taking the route.
"""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sluiceway.errors import (
    LeaseHeldError,
    NeedsConfirmationError,
    RoomNotReadyError,
    SluicewayError,
    StorageUnavailableError,
    UnhealthyEnvironmentError,
)
from sluiceway.host.process import own_identity
from sluiceway.jobfile.compile.room_rule import RoomRule
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.lease import Lease, held_by, read_lease, wait_until_free
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.operator_records import SourceChangeRecord
from sluiceway.ledger.room_files import (
    REPORT_EVERY_S,
    RoomReport,
    SwitchRequest,
    log_name,
    read_advice,
    write_advice,
)
from sluiceway.observe.log import Log
from sluiceway.rooms.copy_reader import CopyReader
from sluiceway.rooms.cut_logs import CutLogs, refuse_cut
from sluiceway.rooms.mirror_counts import MirrorCounts
from sluiceway.rooms.positions import CONFIRMATIONS, switch_record
from sluiceway.rooms.resume import (
    OriginFinder,
    Resume,
    find_resume,
    own_positions,
    silent_leaders,
)
from sluiceway.schedule.source_view import SourceView, read_route_view
from sluiceway.sources.contract import SourceClient, SourcePartition
from sluiceway.sources.registry import SourceAccess

AUTO_PAUSE_S: Final = 1800.0
"""After a switch without an operator, the next one needs an operator for so long."""

POSITIONS_EVERY_S: Final = 30.0
"""How often a standby computes where it would continue in copies of another room's logs."""

_WATCH_EVERY_S = 0.5
# The other room reads no row before it knows that this one has a copy.
_WAITED_FOR_EVERY_S = 1.0
_SHOWN = 5
# A standby of a longer ledger would begin late; it asks for a confirmation.
_MOST_COUNTED_SLOTS = 100_000


@dataclass(frozen=True, slots=True)
class StandbyParts:
    """What a standby asks before it takes over.

    Attributes:
        open_source: Makes a client of the source of its own.
        topics: Topics of the route now.
        slots: Number of task slots now.
        driver: Id of the driver.
        access: Access to this room's queue.
        origin: Finds positions by the header of copied rows.
        copied: How far the other room's logs are copied, where copied rows have a header.
    """

    open_source: Callable[[], SourceClient]
    topics: Callable[[], Sequence[str]]
    slots: Callable[[], int]
    driver: str
    log: Log
    access: SourceAccess | None = None
    origin: OriginFinder | None = None
    copied: Callable[[], Mapping[SourcePartition, int]] = dict


class StillLease:
    """How long a lease has stood still, by the reader's own monotonic clock.

    The clock runs only while the store answers: after an outage the time counts from its end.
    """

    def __init__(self) -> None:
        self._lease: Lease | None = None
        self._since: float | None = None

    def still_s(self, lease: Lease | None) -> float:
        """Take in the lease as it is now; seconds since it last changed."""
        now = time.monotonic()
        if self._since is None or lease != self._lease:
            self._lease, self._since = lease, now
        return now - self._since

    def moved(self, lease: Lease | None) -> bool:
        """Whether the lease is another one than at the last look; false at the first look."""
        return self._since is not None and lease != self._lease

    def reset(self) -> None:
        """The store did not answer: what stood still before says nothing."""
        self._lease = self._since = None


class StandbyRoom:
    """Decides for one route when this room's driver may fence. Lives as long as its session.

    Args:
        rule: The rooms.
        parts: What it asks.

    Attributes:
        report: What it reported last.
    """

    def __init__(self, rule: RoomRule, parts: StandbyParts) -> None:
        self.rule = rule
        self._parts = parts
        self._source: SourceClient | None = None
        self._fold: Fold | None = None
        self._ledger: LedgerLog | None = None
        self._watch = StillLease()
        self._reported_at = float("-inf")
        self.report: RoomReport | None = None
        self._terms: dict[int, float] = {}
        self._confirm_term = 0
        self._resume = Resume()
        self._resume_at = float("-inf")
        self._request: SwitchRequest | None = None
        self._orderly = False
        self._copied: dict[str, int] = {}
        self._cut = CutLogs()
        self._cut_now: tuple[str, ...] = ()
        self._counts: MirrorCounts | None = None

    def wait_until_ours(self, ledger: LedgerLog, sleep: Callable[[float], None]) -> Lease | None:
        """Return when this driver may fence. Called once a START, before the fence.

        Args:
            ledger: Read side of the route's log.
            sleep: Interruptible pause.

        Returns:
            The lease as it was seen last; None when there is none.

        Raises:
            LeaseHeldError: Another driver lives, or another room is to begin.
            NeedsConfirmationError: The other room is silent, and no operator has confirmed the
                switch.
            OffsetsLostError: A log of the other room was cut after it was copied.
            RoomNotReadyError: This room would take over, but is not ready.
            StorageUnavailableError: The store failed; the wait begins again.
        """
        self._ledger = ledger
        try:
            self._report_if_due(ledger)
            self._confirm_term, self._orderly = 0, False
            return self._wait(ledger, sleep)
        except StorageUnavailableError:
            self._watch.reset()
            raise

    def report_failure(self, error: SluicewayError) -> None:
        """Say that this room is not ready, because its START failed before it could wait."""
        if self._ledger is not None and self._is_due():
            self._write(self._ledger, (f"{error.code} {error}",), None)

    def close(self) -> None:
        """Close the client of the source."""
        source, self._source = self._source, None
        if source is not None:
            source.close()

    def _wait(self, ledger: LedgerLog, sleep: Callable[[float], None]) -> Lease | None:
        while True:
            lease = read_lease(ledger.storage, ledger.layout.lease)
            asked = self._confirmation(ledger, lease)
            if asked is not None:
                return self._take(ledger, lease, force=asked.force, auto=False)
            if lease is not None and lease.released and lease.released_to == self.rule.room:
                self._orderly = True
                return self._take(ledger, lease, force=False, auto=False)
            holder = self._holder(ledger, lease)
            if holder == self.rule.room:
                return wait_until_free(ledger.storage, ledger.layout.lease, sleep=sleep)
            if not holder:
                return self._begin(lease)
            if self._stands_still(ledger, lease):
                self._refuse_unconfirmed(lease, holder)
                return self._take(ledger, lease, force=False, auto=True)
            sleep(_WATCH_EVERY_S)

    def _begin(self, lease: Lease | None) -> Lease | None:
        """No driver has ever had the route: the home room begins."""
        if self.rule.room == self.rule.home:
            return lease
        raise LeaseHeldError(
            f"no driver has begun this route, and its home is room {self.rule.home}",
            hint="start the job there first: this driver is a standby; if that room is lost, write "
            f"`home: {self.rule.room}`",
        )

    def _holder(self, ledger: LedgerLog, lease: Lease | None) -> str:
        """Room that has the route, or had it last; empty when none ever had."""
        if lease is not None and lease.room:
            # Released to a room, it is that room's: the driver that has released it does not fence.
            return lease.released_to or lease.room
        fence = self._advanced(ledger).fence
        # A ledger from before the job had rooms is the home room's.
        return "" if fence is None else fence.site or self.rule.home

    def _stands_still(self, ledger: LedgerLog, lease: Lease | None) -> bool:
        """Whether the lease has not changed for long enough.

        Raises:
            LeaseHeldError: It has changed: its driver lives.
        """
        moved = self._watch.moved(lease)
        still_s = self._watch.still_s(lease)
        if moved and lease is not None and not lease.released:
            raise held_by(lease, ledger.layout.lease)
        return still_s >= self.rule.after_s

    def _refuse_unconfirmed(self, lease: Lease | None, holder: str) -> None:
        why = ""
        if not self.rule.auto:
            why = "`switch: ask` has an operator confirm that"
        elif self._switched_lately():
            why = "rooms were switched without an operator less than 30 minutes ago"
        if not why:
            return
        term = self._latest_term(lease)
        self._confirm_term = term
        command = self._command(term)
        raise NeedsConfirmationError(
            f"room {holder} is silent for {self.rule.after_s:.0f} s, and room {self.rule.room} "
            f"could take over from term {term}; {why}",
            hint=f"if room {holder} is lost, run `{command}`",
        ).with_report(
            {"silent_room": holder, "term": term},
            (command,),
        )

    def _latest_term(self, lease: Lease | None) -> int:
        known = 0 if self._fold is None else self._fold.term
        return max(known, 0 if lease is None else lease.term)

    def _switched_lately(self) -> bool:
        """Whether a room took the present term by itself, and this driver saw that lately."""
        ledger, fold = self._ledger, self._fold
        if ledger is None or fold is None:
            return True
        reports = (
            read_advice(ledger.storage, ledger.layout.room(name), RoomReport)
            for name in self.rule.names
        )
        taken = max((each.auto_term for each in reports if each is not None), default=0)
        if not taken:
            return False
        since = self._terms.setdefault(taken, time.monotonic())
        return time.monotonic() - since < AUTO_PAUSE_S

    def _confirmation(self, ledger: LedgerLog, lease: Lease | None) -> SwitchRequest | None:
        """The operator's request that this room takes over now, if it names the latest term."""
        asked = read_advice(ledger.storage, ledger.layout.switch, SwitchRequest)
        if asked is None or asked.to != self.rule.room or not asked.now:
            return None
        fold = self._advanced(ledger)
        return asked if asked.term == max(fold.term, 0 if lease is None else lease.term) else None

    def _take(
        self, ledger: LedgerLog, lease: Lease | None, *, force: bool, auto: bool
    ) -> Lease | None:
        """Refuse while this room is not ready; else say in its report what the fence will mean."""
        self._read_request(ledger, self._advanced(ledger))
        reasons, waiting = self._reasons(ledger, fresh=True)
        if auto and self._resume.unread:
            reasons += (f"{self._resume.unread} offsets of the copies are not read along yet",)
        if self._orderly and self._resume.short:
            # The mirror lives: what the other room has committed still arrives.
            reasons += (f"rows of {self._resume.short} source partitions are not copied yet",)
        if self._cut_now:
            self._write(ledger, reasons, waiting)
            refuse_cut(self._cut_now, self.rule.room)
        if reasons and not force:
            self._write(ledger, reasons, waiting)
            raise RoomNotReadyError(
                f"room {self.rule.room} is to take over and is not ready: {'; '.join(reasons)}",
                hint="it takes over as soon as it is ready; `sluiceway switch JOB --to "
                f"{self.rule.room} --now --force` has it take over at once",
            )
        self._refuse_inexact(self._advanced(ledger).term)
        taken = {"auto_term": self._advanced(ledger).term + 1} if auto else {}
        self._write(ledger, reasons, waiting, **taken)
        return lease

    def mark_change(self, ledger: LedgerLog, fold: Fold) -> None:
        """Keep that the catalog is to be compared with the whole fold, if the room changes.

        Called right before each try at a fence: a driver that dies after it leaves the comparison
        to the next one of its room. Also for a driver that replaces a term without any wait.

        Raises:
            StorageUnavailableError: The store failed; nothing was fenced.
        """
        self._ledger, fence = ledger, fold.fence
        if fence is None or (fence.site or self.rule.home) == self.rule.room:
            return
        reasons = () if self.report is None else self.report.reasons
        lost = self.rule.mirror is not None and not self._orderly
        self._write(
            ledger,
            reasons,
            None,
            compare_owed=True,
            lost_room=(fence.site or self.rule.home) if lost else "",
            lost_ms=time.time_ns() // 1_000_000 if lost else 0,
        )

    # Positions in another room's copies

    def check_positions(self, ledger: LedgerLog, fold: Fold) -> None:
        """Refuse to fence while a source partition has no position here. Called before the fence.

        Args:
            ledger: The route's log.
            fold: Up to its tail.

        Raises:
            RoomNotReadyError: A position is not known; nothing was fenced.
            NeedsConfirmationError: One needs a confirmation that no operator has given.
            SluicewayError: This room's queue does not answer.
        """
        if self.rule.mirror is None:
            return
        self._read_request(ledger, fold)
        self._find_positions(fold, self._view(fold))
        self._refuse_inexact(fold.term)

    def source_change(self, fold: Fold) -> SourceChangeRecord | None:
        """The record that moves the source partitions here. Called once, right after the fence.

        The positions are computed again: the other room may have committed until the fence.

        Args:
            fold: Up to the fence.

        Returns:
            None where the ledger reads this room's logs already.

        Raises:
            SluicewayError: As `check_positions`; a fence is left, and the ends as they were.
        """
        mirror, request = self.rule.mirror, self._request
        if mirror is None:
            return None
        if self._resume.positions:
            self._end_transactions(mirror.transactional_ids)
        self._find_positions(fold, self._view(fold))
        self._refuse_inexact(fold.term)
        if not self._resume.positions:
            return None
        operator = f"room {self.rule.room}" if request is None else request.operator
        reason = "takes over" if request is None else request.reason or "switch"
        return switch_record(self._resume.positions, operator, reason, self._confirmed)

    def _end_transactions(self, ids: Sequence[str]) -> None:
        """End what the mirror has open: it would hide the last rows until its own time-out."""
        for each in ids:
            try:
                self._client().end_transactions((each,))
            except UnhealthyEnvironmentError as error:
                self._parts.log.warning("mirror_transaction_left", error=str(error))

    def _read_request(self, ledger: LedgerLog, fold: Fold) -> None:
        """Keep an operator's request that names the latest term, with what it confirms."""
        asked = read_advice(ledger.storage, ledger.layout.switch, SwitchRequest)
        ours = asked is not None and (asked.to, asked.term) == (self.rule.room, fold.term)
        self._request = asked if ours else None

    @property
    def _confirmed(self) -> tuple[str, ...]:
        return () if self._request is None else self._request.confirms

    def _find_positions(self, fold: Fold, view: SourceView) -> None:
        mirror, access = self.rule.mirror, self._parts.access
        if mirror is None or access is None:
            return
        home = self.rule.home
        if not fold.sources and self.rule.room != home:
            # Pinned here, copies would be rows of this room's own, also where the mirror repeats.
            why = f"room {home} has read nothing yet; name this room as `home` if that one is lost"
            self._resume, self._resume_at = Resume(lacking=(why,)), time.monotonic()
            return
        found = find_resume(mirror, access, self._client(), fold, view, self._parts.origin)
        if self._counts is not None and mirror.keeps_tails and not mirror.linked:
            rows = CopyReader(access, self._client()).count
            found = replace(found, positions=self._counts.judge(found.positions, rows))
        given = () if self._request is None else self._request.by_hand
        self._resume = found.with_hand(given)
        self._resume_at = time.monotonic()

    def _refuse_inexact(self, term: int) -> None:
        resume, to = self._resume, self.rule.room
        if resume.problems:
            raise RoomNotReadyError(
                f"room {to} has no place to continue at: {'; '.join(resume.problems[:_SHOWN])}",
                hint="see `sluiceway status JOB` for how many source partitions have one",
            )
        missing = resume.missing(self._confirmed)
        if missing:
            self._confirm_term = term
            command = self._command(term)
            raise NeedsConfirmationError(
                f"room {to} could continue in its copies, if "
                f"{', and '.join(CONFIRMATIONS[each] for each in missing)}",
                hint=f"if that is so, run `{command}`",
            ).with_report({"term": term}, (command,))

    def _command(self, term: int) -> str:
        """What an operator runs who confirms all that has to be."""
        given = "".join(f" --confirm {each}" for each in self._resume.missing(()))
        to = self.rule.room
        return f"sluiceway switch JOB --to {to} --now --term {term}{given} --reason WHY --execute"

    def _view(self, fold: Fold) -> SourceView:
        return read_route_view(self._client(), self._parts.topics(), fold)

    # Readiness

    def _is_due(self) -> bool:
        waited_for = self.rule.mirror is not None and self.rule.mirror.first
        every_s = _WAITED_FOR_EVERY_S if waited_for else REPORT_EVERY_S
        return time.monotonic() - self._reported_at >= every_s

    def _report_if_due(self, ledger: LedgerLog) -> None:
        if self._is_due():
            reasons, waiting = self._reasons(ledger)
            self._write(ledger, reasons, waiting)
            refuse_cut(self._cut_now, self.rule.room)

    def _reasons(
        self, ledger: LedgerLog, *, fresh: bool = False
    ) -> tuple[tuple[str, ...], int | None]:
        """Why this room could not work now, and the rows that wait; the catalog has answered."""
        found: list[str] = []
        waiting = None
        try:
            if self._parts.slots() < 1:
                found.append("no task slots are there")
            fold = self._advanced(ledger)
            # An operator may decide a position that halts the route.
            self._read_request(ledger, fold)
            view = self._view(fold)
            found += silent_leaders(view)
            found += (str(error) for error in view.missing.values())
            if fresh or time.monotonic() - self._resume_at >= POSITIONS_EVERY_S:
                self._find_positions(fold, view)
            found += self._resume.problems
            cut = self._cut_logs(ledger, fold, view)
            self._cut_now = (*cut, *self._resume.contradictions)
            found += cut
            lost, waiting = own_positions(fold, view, self._resume.moved)
            found += lost
            waiting += self._resume.waiting_rows
        except StorageUnavailableError:
            raise
        except SluicewayError as error:
            found.append(f"{error.code} {error}")
        return tuple(found[:_SHOWN]), waiting

    def _cut_logs(self, ledger: LedgerLog, fold: Fold, view: SourceView) -> tuple[str, ...]:
        """Logs of the other room that end before rows of which this room has copies."""
        mirror, fence = self.rule.mirror, fold.fence
        holder = "" if fence is None else fence.site or self.rule.home
        if mirror is None or holder == self.rule.room:
            return ()
        found = self._parts.copied()
        if mirror.linked:
            found = {one: bounds.end_offset for one, bounds in view.bounds.items()}
        self._copied = {log_name(one.topic, one.partition): end for one, end in found.items()}
        report = read_advice(ledger.storage, ledger.layout.room(holder), RoomReport)
        if report is not None and report.holds and not mirror.linked:
            self._cut.compare(report, self._copied, view)
        return self._cut.problems(holder, view)

    def _client(self) -> SourceClient:
        if self._source is None:
            self._source = self._parts.open_source()
        return self._source

    def _advanced(self, ledger: LedgerLog) -> Fold:
        """The fold up to the tail; kept, so that a takeover does not read the whole log."""
        fold, counts = self._fold, self._counts
        if fold is None or counts is None:
            fold = ledger.fold()
            own = read_advice(ledger.storage, ledger.layout.room(self.rule.room), RoomReport)
            counts = MirrorCounts(() if own is None else own.unfaithful)
            self._add_begun(ledger, fold, counts)
            # All at once: where the store fails before, the next call begins again.
            self._fold, self._counts = fold, counts
            self._cut = CutLogs({} if own is None else own.cut)
        else:
            # One by one: where the store fails meanwhile, both have the same records.
            for record, raw in ledger.records(fold.next_seq):
                fold.apply(record, raw)
                counts.add((record,))
        self._terms.setdefault(fold.term, time.monotonic())
        return fold

    def _add_begun(self, ledger: LedgerLog, fold: Fold, counts: MirrorCounts) -> None:
        """Count the rows of the ledger from its beginning, where that can spare a confirmation."""
        mirror = self.rule.mirror
        tails = mirror is not None and mirror.keeps_tails and not mirror.own_writers
        if not tails or fold.next_seq > _MOST_COUNTED_SLOTS:
            return
        known = (record for record, _ in ledger.records())
        counts.begin(itertools.takewhile(lambda each: each.seq < fold.next_seq, known))

    def _write(
        self,
        ledger: LedgerLog,
        reasons: tuple[str, ...],
        waiting: int | None,
        **changes: Any,
    ) -> None:
        """Write the report, with fields that are not as they were."""
        storage, layout, rule = ledger.storage, ledger.layout, self.rule
        before = self.report or read_advice(storage, layout.room(rule.room), RoomReport)
        process, term = own_identity(), 0 if self._fold is None else self._fold.term
        report = RoomReport(
            room=rule.room,
            counter=1 if before is None else before.counter + 1,
            driver=self._parts.driver,
            host=process.host,
            pid=process.pid,
            digest=rule.digest,
            holds=False,
            ready=not reasons,
            reasons=reasons,
            waiting_rows=waiting,
            term=term,
            reported_ms=time.time_ns() // 1_000_000,
            auto_term=0 if before is None else before.auto_term,
            compare_owed=before is not None and before.compare_owed,
            confirm_term=self._confirm_term,
            positions=self._resume.counts,
            copied=self._copied,
            unfaithful=() if before is None else before.unfaithful,
            cut={} if before is None else before.cut,
            lost_room="" if before is None else before.lost_room,
            lost_ms=0 if before is None else before.lost_ms,
        )
        if self._counts is not None:
            unfaithful, notices = tuple(sorted(self._counts.unfaithful)), self._counts.problems
            report = replace(report, unfaithful=unfaithful, notices=notices, cut=self._cut.found)
        report = replace(report, **changes)
        write_advice(storage, layout, layout.room(rule.room), report)
        self._log_change(report)
        self.report, self._reported_at = report, time.monotonic()

    def _log_change(self, report: RoomReport) -> None:
        """Log when the room becomes ready or is no longer, and when job files differ."""
        before = self.report
        if before is None or before.ready != report.ready:
            log = self._parts.log
            if report.ready:
                log.info("room_ready", waiting_rows=report.waiting_rows)
            else:
                log.warning("room_not_ready", reason="; ".join(report.reasons))
