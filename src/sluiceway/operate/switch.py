"""Moving a route to another room: what a switch would do, its request, and a timed drill."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

from sluiceway.errors import (
    NotInThisVersionError,
    RequestRefusedError,
    SluicewayError,
    WrongUsageError,
)
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.room_rule import RoomRule
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.lease import DEAD_AFTER_S, Lease, read_lease
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import RecordType
from sluiceway.ledger.room_files import (
    REPORT_EVERY_S,
    DrillResult,
    HandPosition,
    Liveness,
    RoomReport,
    SwitchRequest,
    has_taken,
    read_advice,
    write_advice,
)
from sluiceway.operate.short_driver import Heartbeat
from sluiceway.rooms.mirror_counts import MirrorCounts
from sluiceway.rooms.origin import origin_follower
from sluiceway.rooms.positions import CONFIRMATIONS, MIRROR_CLOSED, MIRROR_END
from sluiceway.rooms.resume import Resume, find_resume, proof_of
from sluiceway.schedule.source_view import SourceView, read_route_view
from sluiceway.sources.contract import SourceClient, SourcePartition
from sluiceway.storage.contract import Storage

_POLL_S = 0.2
SAME_LOG: Final = "same log"
SWITCH_WITHIN_S: Final = 120.0
"""How long `switch --execute` and `drill` wait for the other room."""


@dataclass(frozen=True, slots=True)
class MovedPosition:
    """Where a source partition continues in the other room.

    Attributes:
        end: Committed end in the log that was read.
        position: Offset where it continues; None when that is not known from here.
        proof: How it was found, or why it is not known.
        lag_rows: Rows from there to the log's end; None when no leader answers from here.
    """

    partition: SourcePartition
    end: int
    position: int | None
    proof: str
    lag_rows: int | None


@dataclass(frozen=True, slots=True)
class RoutePlace:
    """Where a route's ledger is, as a command sees it.

    Attributes:
        fold: Up to the tail when it was read.
    """

    config: RouteConfig
    rule: RoomRule
    storage: Storage
    layout: LedgerLayout
    log: LedgerLog
    fold: Fold

    @property
    def holder(self) -> str:
        """Room that has the route; empty before its first driver."""
        fence = self.fold.fence
        return "" if fence is None else fence.site or self.rule.home


@dataclass(frozen=True, slots=True)
class SwitchPlan:
    """What a switch would do.

    Attributes:
        place: The route.
        to: Room that is to have it.
        holder_lives: Whether the driver of the room that has it answers.
        standby: Report of the other room's driver; None without a living driver.
        positions: Where each source partition continues.
        resume: Positions in the other room's copies; None where they are not asked for, or not
            from here.
    """

    place: RoutePlace
    to: str
    holder_lives: bool
    standby: RoomReport | None
    positions: tuple[MovedPosition, ...]
    resume: Resume | None = None

    @property
    def is_done(self) -> bool:
        """Whether the room has the route already, and reads its own logs."""
        return self.place.holder == self.to and all(
            each.proof == SAME_LOG for each in self.positions
        )

    def refuse(self, *, now: bool, term: int | None, force: bool) -> None:
        """Pass when the switch can be asked for as `refusals` says, without a word of the mirror.

        Raises:
            RequestRefusedError: It cannot; says what helps.
        """
        for error in self.refusals(now=now, term=term, force=force):
            raise error

    def refusals(
        self,
        *,
        now: bool,
        term: int | None,
        force: bool,
        confirms: tuple[str, ...] = (),
        by_hand: tuple[HandPosition, ...] = (),
    ) -> Iterator[RequestRefusedError]:
        """Why the switch cannot be asked for as the operator says, and what helps.

        Args:
            confirms: What the operator confirms of the mirror.
            by_hand: Positions that the operator decides.
            now: Whether the room is to fence although the other one has not released its lease.
            term: The term that the operator names.
            force: Whether the room is to fence although it is not ready.
        """
        holder, latest = self.place.holder, self.place.fold.term
        named = f"sluiceway switch JOB --to {self.to} --now --term {latest} --reason WHY --execute"
        if self.standby is None:
            yield self._refused(
                f"no driver of room {self.to} reports",
                f"start one there: `sluiceway submit JOB --room {self.to}`",
            )
        if not now and not self.holder_lives:
            yield self._refused(
                f"room {holder} is silent, so its driver cannot release the route",
                f"if room {holder} is lost, run `{named}`",
            )
        if now and self.holder_lives:
            yield self._refused(
                f"room {holder} answers", "leave out --now: its driver releases the route in order"
            )
        elif now and term != latest:
            said = "no term is named" if term is None else f"term {term} is not the latest"
            yield self._refused(f"{said}; the latest is {latest}", f"run `{named}`")
        yield from self._inexact(named, confirms, by_hand, now=now)
        if self.standby is not None and self.standby.reasons and not force and not by_hand:
            yield self._refused(
                f"room {self.to} is not ready: {'; '.join(self.standby.reasons)}",
                "remove the cause, or add --force",
            )

    def _inexact(
        self,
        named: str,
        confirms: tuple[str, ...],
        by_hand: tuple[HandPosition, ...],
        *,
        now: bool,
    ) -> Iterator[RequestRefusedError]:
        resume = (self.resume or Resume()).with_hand(by_hand)
        for each in by_hand:
            if SourcePartition(each.topic, each.partition) not in resume.moved:
                yield self._refused(
                    f"{each.topic}:{each.partition} moves to no copy", "leave it out"
                )
        if resume.problems:
            yield self._refused("; ".join(resume.problems), "nothing was changed")
        # While the other room lives, rows that its copies lack still arrive.
        arriving = () if now else (MIRROR_CLOSED, MIRROR_END)
        missing = resume.missing((*confirms, *arriving))
        if missing:
            meant = "; ".join(f"{each}: {CONFIRMATIONS[each]}" for each in missing)
            given = " ".join(f"--confirm {each}" for each in resume.missing(()))
            yield self._refused(
                f"positions need a confirmation ({meant})",
                f"if that is so, run `{named} {given}`",
            )

    def _refused(self, message: str, hint: str) -> RequestRefusedError:
        return RequestRefusedError(message, where=self.place.config.route, hint=hint)


def room_rule_of(config: RouteConfig, to: str) -> RoomRule:
    """The rooms of a route that is to move.

    Raises:
        WrongUsageError: The job has no rooms, or not this one.
        NotInThisVersionError: Each room has a copy of the table.
    """
    rule = config.rooms
    if rule is None:
        raise WrongUsageError(
            "the job has one place only", hint="add the block `rooms` to its file first"
        )
    if to not in rule.names:
        raise WrongUsageError(
            f"the job has no room `{to}`", hint=f"its rooms: {', '.join(rule.names)}"
        )
    if rule.copied:
        raise NotInThisVersionError(
            "two copies of a table are not switched in this version",
            where=config.route,
            hint="a room is lost: run `sluiceway adopt JOB --dry-run` in the room that is left",
        )
    return rule


def plan_switch(place: RoutePlace, to: str, source: SourceClient) -> SwitchPlan:
    """Find out what a switch would do. Changes nothing; waits until both rooms are known.

    Args:
        place: The route.
        to: Room that is to have it.
        source: Its source, as seen from here.

    Raises:
        StorageUnavailableError: The store failed.
    """
    holder, standby = _who_lives(place, to)
    known = {key: each for key, each in place.fold.sources.items() if not each.retired}
    try:
        view = read_route_view(source, {topic for topic, _ in known}, place.fold)
    except SluicewayError:
        # The room that is asked about may be the only one to reach the brokers.
        view = SourceView({}, {}, {})
    resume, rule = None, place.rule
    if rule.mirror is not None and rule.room == to:
        access = place.config.source
        origins = origin_follower(rule.mirror, access, "switch")
        try:
            find = None if origins is None else origins.find
            resume = find_resume(rule.mirror, access, source, place.fold, view, find)
            counts = MirrorCounts(() if standby is None else standby.unfaithful)
            positions = counts.judge(resume.positions, lambda _: {})
            resume = replace(resume, positions=positions)
        finally:
            if origins is not None:
                origins.close()
    moved = tuple(_positions(place, to, view, resume))
    return SwitchPlan(place, to, holder, standby, moved, resume)


def _who_lives(place: RoutePlace, to: str) -> tuple[bool, RoomReport | None]:
    """Whether the holder's lease moves, and the other room's report if its counter rises."""
    heart, liveness = Heartbeat(), Liveness()
    first: Lease | None = None
    holder_lives, standby = False, None
    until = time.monotonic() + max(DEAD_AFTER_S, REPORT_EVERY_S + 2.0)
    while time.monotonic() < until and not (holder_lives and standby):
        lease = read_lease(place.storage, place.layout.lease)
        first = first or lease
        if lease is None or not heart.heard(lease):
            holder_known = True
        else:
            holder_lives = holder_lives or lease != first
            holder_known = holder_lives
        report = read_advice(place.storage, place.layout.room(to), RoomReport)
        if report is not None and liveness.update(report) and not report.holds:
            standby = report
        if standby is not None and holder_known:
            break
        time.sleep(_POLL_S)
    return holder_lives, standby


def _positions(
    place: RoutePlace, to: str, view: SourceView, resume: Resume | None
) -> Iterator[MovedPosition]:
    moved = {} if resume is None else {each.log.partition: each for each in resume.positions}
    far = place.rule.mirror is not None and resume is None and place.holder != to
    for (topic, partition), state in sorted(place.fold.sources.items(), key=str):
        if state.retired:
            continue
        one = SourcePartition(topic, partition)
        position: int | None = state.end
        proof = SAME_LOG
        if one in moved:
            position, proof = moved[one].offset, proof_of(moved[one])
        elif far:
            # Its copies can be read there alone.
            position, proof = None, f"ask in room {to}"
        end = view.bounds[one].high_watermark if one in view.bounds else None
        lag = None if end is None or position is None else max(0, end - position)
        yield MovedPosition(one, state.end, position, proof, lag)


def request_switch(
    plan: SwitchPlan,
    operator: str,
    reason: str,
    *,
    now: bool,
    force: bool,
    mirror: tuple[tuple[str, ...], tuple[HandPosition, ...]] = ((), ()),
) -> SwitchRequest:
    """Put the request, which the driver of either room carries out.

    Args:
        plan: What the switch will do.
        operator: `user@host`.
        reason: In the operator's words.
        now: See `SwitchRequest`.
        force: See `SwitchRequest`.
        mirror: What the operator confirms of the mirror, and the positions that it decides.

    Raises:
        StorageUnavailableError: The store failed.
    """
    place = plan.place
    requested_ms = time.time_ns() // 1_000_000
    asked = SwitchRequest(
        id=uuid4().hex,
        to=plan.to,
        term=place.fold.term,
        operator=operator,
        reason=reason,
        now=now,
        force=force,
        requested_ms=requested_ms,
        confirms=mirror[0],
        by_hand=mirror[1],
    )
    write_advice(place.storage, place.layout, place.layout.switch, asked)
    return asked


def await_switch(
    plan: SwitchPlan, *, rows: bool, stopped: Callable[[], bool] = lambda: False
) -> bool:
    """Wait until the other room reads its own logs, and has committed where rows wait.

    Rows that producers of the other room write after it are not taken for copies.

    Args:
        plan: The switch that was asked for.
        rows: Whether to wait for a commit of rows too, if any waited when it was planned.
        stopped: Whether to give up.

    Returns:
        Whether it has, in time.

    Raises:
        LedgerCorruptError: The log is damaged.
        StorageUnavailableError: The store failed.
    """
    place, until = plan.place, time.monotonic() + SWITCH_WITHIN_S
    fenced = committed = False
    waiting = rows and any(each.lag_rows for each in plan.positions)
    while time.monotonic() < until and not stopped():
        for record in place.log.advance(place.fold):
            if record.type is RecordType.FENCE:
                fenced = place.holder == plan.to
            committed = committed or (fenced and record.type is RecordType.DATA)
        arrived = fenced and (committed or not waiting)
        if arrived and has_taken(place.storage, place.layout, plan.to, place.fold.term):
            return True
        time.sleep(_POLL_S)
    return False


def run_drill(plan: SwitchPlan, operator: str) -> DrillResult:
    """Switch a route in order, and time it. Called after `SwitchPlan.refuse`.

    Raises:
        SluicewayError: As in `request_switch` and `await_switch`.
    """
    place = plan.place
    came_from, rows_before = place.holder, int(place.fold.counts.read)
    began = time.monotonic()
    request_switch(plan, operator, "drill", now=False, force=False)
    moved = await_switch(plan, rows=True)
    seconds = time.monotonic() - began
    rows_after = int(place.fold.counts.read)
    result = DrillResult(
        came_from=came_from,
        to=plan.to,
        ended_ms=time.time_ns() // 1_000_000,
        seconds=round(seconds, 3),
        rows_before=rows_before,
        rows_after=rows_after,
        ok=moved and rows_after >= rows_before,
    )
    write_advice(place.storage, place.layout, place.layout.drill, result)
    return result
