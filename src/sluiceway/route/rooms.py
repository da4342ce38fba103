"""What a route's session has of its job's rooms: a standby before START, a keeper after it."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from sluiceway.errors import SluicewayError, StorageUnavailableError
from sluiceway.host.process import own_identity
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.room_rule import RoomRule
from sluiceway.ledger.driver_term import OwnedLedger
from sluiceway.ledger.room_files import (
    REPORT_EVERY_S,
    DrillResult,
    Liveness,
    RoomReport,
    SwitchRequest,
    log_name,
    lost_room,
    read_advice,
    read_reports,
    write_advice,
)
from sluiceway.observe import metrics
from sluiceway.observe.log import Log
from sluiceway.rooms.origin import OriginFollower, origin_follower
from sluiceway.rooms.standby import StandbyParts, StandbyRoom
from sluiceway.route.clients import open_source
from sluiceway.route.owned_route import OwnedRoute
from sluiceway.route.route_context import RouteContext
from sluiceway.sources.contract import LogBounds, SourcePartition

LOOK_EVERY_S: Final = 1.0
CHECK_EVERY_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class RoomProgress:
    """How a route is now, as its driver's loop sees it.

    Attributes:
        commits: Commits of rows so far.
        refused: Why queue or catalog do not answer this driver; empty while they do.
        compared: Whether the catalog has got all that the fold asks for.
        log_ends: See `RouteContext.log_ends`.
    """

    commits: int
    refused: str
    compared: bool
    log_ends: tuple[float, Mapping[SourcePartition, LogBounds]] = (0.0, MappingProxyType({}))


class RoomKeeper:
    """Reads requests and reports of other rooms in a thread of its own, from START to the end.

    Args:
        rule: The rooms.
        owned: The ledger that the driver has fenced.
        progress: How the route is; called by the thread.
        one_place: Asks why rows may be in one room only; called by the thread every five minutes.
        log: Bound to the route.

    Attributes:
        leave_to: Room that is to take over, once one is; read by the loop.
        own: What this driver reported last.
        others: Reports of the other rooms that live, by room.
        drill: The last drill; None before the first.
        lost: Report of this room's takeover, while the room before may have rows that no copy has.
        one_place_problems: Why rows may be in one room only; None while that is not known.
        not_waited_for: Rooms that are waited for no longer, though rows wait for their copies.
    """

    def __init__(
        self,
        rule: RoomRule,
        owned: OwnedLedger,
        progress: Callable[[], RoomProgress],
        one_place: Callable[[], tuple[str, ...]],
        log: Log,
    ) -> None:
        self._rule = rule
        self._owned = owned
        self._progress = progress
        self._one_place = one_place
        self.one_place_problems: tuple[str, ...] | None = None
        self.not_waited_for: tuple[str, ...] = ()
        self._checked_at = float("-inf")
        self._log = log
        self._liveness = Liveness()
        self._stuck_since: float | None = None
        self._stuck_at = 0
        self._reported_at = float("-inf")
        self._counter = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="room", daemon=True)
        self.leave_to: str | None = None
        self.own: RoomReport | None = None
        self.others: dict[str, RoomReport] = {}
        self.drill: DrillResult | None = None
        self.lost: RoomReport | None = None
        self._copied: Mapping[str, int] | None = {}
        # When each room was able to take over last, and with which report.
        self._able: dict[str, tuple[RoomReport | None, float]] = {}
        self._ends_since = float("-inf")

    def start(self) -> None:
        """Start the thread. Called once, before anything is announced.

        Raises:
            StorageUnavailableError: It is not known whether a room was lost.
        """
        self._read_lost()
        self._thread.start()

    def _read_lost(self) -> None:
        if self._rule.mirror is not None and self._rule.mirror.holds:
            before = self.lost
            self.lost = lost_room(self._owned.storage, self._owned.layout, self._rule.room)
            if before is not None and self.lost is None:
                self._log.info("room_given_up", room=before.lost_room)

    def lost_before_us(self) -> int | None:
        """Times that begin before it may lack rows of a lost room; None without one."""
        return None if self.lost is None else 1000 * self.lost.lost_ms

    def close(self) -> None:
        """End it; it is not waited for, as the store may hang."""
        self._ending.set()

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self.look()
            except StorageUnavailableError as error:
                self._log.debug("rooms_not_read", error=str(error))
            self._ending.wait(LOOK_EVERY_S)

    def look(self) -> None:
        """Read a request, report, and find out whether to give way. Called once a second.

        Raises:
            StorageUnavailableError: The store failed.
        """
        self._read_request()
        mirror = self._rule.mirror
        if mirror is not None and self._rule.waits_for_copies:
            self._read_copied(mirror.first_s)
        if time.monotonic() - self._reported_at >= REPORT_EVERY_S:
            self._reported_at = time.monotonic()
            self._read_lost()
            self._read_others()
            self._check_copies()
            self._report()
        self._give_way()

    def _read_request(self) -> None:
        asked = read_advice(self._owned.storage, self._owned.layout.switch, SwitchRequest)
        term = self._owned.writer.term
        if asked is None or asked.term != term or asked.to not in self._rule.others:
            return
        self._leave(asked.to, asked.reason or "an operator's switch", asked.operator)

    def _leave(self, to: str, reason: str, operator: str) -> None:
        if self.leave_to is None:
            self._log.warning("room_released", to=to, reason=reason, operator=operator)
            self.leave_to = to

    def copied(self) -> Mapping[str, int] | None:
        """How far each log is copied to every other room that is waited for, by `log_name`.

        None while no room is waited for. Any thread may ask.
        """
        return self._copied

    def _read_copied(self, waits_s: float | None) -> None:
        """A report counts however old it is, unless its room is waited for no longer: copies stay.

        Args:
            waits_s: How long a room that is silent or not ready is waited for; None for ever.
        """
        found = read_reports(self._owned.storage, self._owned.layout, self._rule.others)
        waited = [
            name
            for name in self._rule.others
            if waits_s is None or self._unable_s(name, found.get(name)) < waits_s
        ]
        rooms = [found[name].copied if name in found else {} for name in waited]
        left = [name for name in self._rule.others if name not in waited]
        for name in left:
            if name not in self.not_waited_for:
                self._log.warning("room_not_waited_for", other=name, after_s=waits_s)
        self.not_waited_for = tuple(left)
        if not rooms:
            self._copied = None
            return
        names = set.intersection(*(set(each) for each in rooms))
        self._copied = {name: min(each[name] for each in rooms) for name in names}

    def _unable_s(self, name: str, report: RoomReport | None) -> float:
        """How long a room has reported nothing new, or that it is not ready."""
        now = time.monotonic()
        before, since = self._able.setdefault(name, (report, now))
        if report is not None and report.ready and report != before:
            since = now
            self._able[name] = (report, now)
        return now - since

    def _read_others(self) -> None:
        found = read_reports(self._owned.storage, self._owned.layout, self._rule.others)
        lively = {name: each for name, each in found.items() if self._liveness.update(each)}
        for name, each in lively.items():
            if each.digest != self._rule.digest and self._differs(name, each):
                self._log.warning("file_differs", other=name, hint="bring the job files in line")
        self.others = lively
        self.drill = read_advice(self._owned.storage, self._owned.layout.drill, DrillResult)

    def _differs(self, name: str, report: RoomReport) -> bool:
        """Whether it is news that this room's file differs."""
        before = self.others.get(name)
        return before is None or before.digest != report.digest

    def _check_copies(self) -> None:
        """Find out whether a lost room would take rows with it; never assumed, always asked.

        Only where one cluster spans the rooms: else no replica of it is in another room.
        """
        if self._rule.mirror is not None or time.monotonic() - self._checked_at < CHECK_EVERY_S:
            return
        self._checked_at = time.monotonic()
        try:
            found = self._one_place()
        except SluicewayError as error:
            self._log.debug("copies_not_known", code=error.code, error=str(error))
            # A problem stays until the source answers that it is gone; that there is none does not.
            self.one_place_problems = self.one_place_problems or None
            return
        if found and found != self.one_place_problems:
            self._log.warning("rooms_in_one_place", reason="; ".join(found))
        self.one_place_problems = found

    def _report(self) -> None:
        rule, owned, progress = self._rule, self._owned, self._progress()
        path = owned.layout.room(rule.room)
        before = read_advice(owned.storage, path, RoomReport)
        self._counter = max(self._counter, 0 if before is None else before.counter) + 1
        process = own_identity()
        owes = before is not None and before.compare_owed and not progress.compared
        report = RoomReport(
            room=rule.room,
            counter=self._counter,
            driver=owned.driver,
            host=process.host,
            pid=process.pid,
            digest=rule.digest,
            holds=True,
            ready=not progress.refused,
            reasons=(progress.refused,) if progress.refused else (),
            waiting_rows=None,
            term=owned.writer.term,
            reported_ms=time.time_ns() // 1_000_000,
            auto_term=0 if before is None else before.auto_term,
            compare_owed=owes,
            notices=(*(self.one_place_problems or ()), *self._not_waited_notices()),
            lost_room="" if before is None else before.lost_room,
            lost_ms=0 if before is None else before.lost_ms,
            log_ends=self._log_ends(progress),
        )
        write_advice(owned.storage, owned.layout, path, report)
        self.own = report

    def _not_waited_notices(self) -> Iterator[str]:
        waits_s = None if self._rule.mirror is None else self._rule.mirror.first_s
        for name in self.not_waited_for:
            yield (
                f"room {name} is silent or not ready for {waits_s or 0.0:.0f} s: rows are read "
                "before it has copies of them"
            )

    def _log_ends(self, progress: RoomProgress) -> dict[str, int]:
        """Log ends that were read since the report before, where copies are compared with them."""
        (read_at, bounds), since = progress.log_ends, self._ends_since
        self._ends_since = time.monotonic()
        if self._rule.mirror is None or self._rule.mirror.origin is None or read_at < since:
            return {}
        return {
            log_name(one.topic, one.partition): each.high_watermark for one, each in bounds.items()
        }

    def gauges(self) -> dict[str, dict[tuple[str, ...], float]]:
        """What this driver says of copies of its rows; of what is not known, nothing."""
        found: dict[str, dict[tuple[str, ...], float]] = {}
        if self.one_place_problems is not None:
            found[metrics.ROOMS_IN_ONE_PLACE.name] = {(): float(bool(self.one_place_problems))}
        if self._rule.waits_for_copies:
            found[metrics.ROOM_NOT_WAITED_FOR.name] = {
                (name,): float(name in self.not_waited_for) for name in self._rule.others
            }
        return found

    def _give_way(self) -> None:
        """Leave to a room that is ready and has rows, when this driver cannot work."""
        progress, now = self._progress(), time.monotonic()
        if not progress.refused or progress.commits != self._stuck_at:
            self._stuck_since, self._stuck_at = None, progress.commits
            if not progress.refused:
                return
        if self._stuck_since is None:
            self._stuck_since = now
        if now - self._stuck_since < self._rule.give_way_s:
            return
        able = [name for name, each in self.others.items() if each.ready and each.waiting_rows]
        if able:
            self._leave(able[0], f"nothing was read here: {progress.refused}", "")


@dataclass(slots=True)
class RouteRooms:
    """Lives as long as the session; does nothing for a job that has one place only.

    Attributes:
        standby: Decides when this driver may fence; None for commands and jobs without rooms.
        refused: Why queue or catalog do not answer; set by the loop, None while they do.
    """

    context: RouteContext
    standby: StandbyRoom | None = None
    refused: SluicewayError | None = None
    _keeper: RoomKeeper | None = None
    _origins: OriginFollower | None = None

    @classmethod
    def of(cls, context: RouteContext, driver: str) -> "RouteRooms":
        """The rooms of a session whose driver has this id."""
        slots, config = context.parts.slots, context.config
        if config.rooms is None or slots is None:
            return cls(context)
        origins = origin_follower(config.rooms.mirror, config.source, driver)
        asks = StandbyParts(
            open_source=lambda: open_source(context.config),
            topics=lambda: context.config.topics,
            slots=slots,
            driver=driver,
            log=context.log,
            access=config.source,
            origin=None if origins is None else origins.find,
            copied=dict if origins is None else origins.copied,
        )
        return cls(context, StandbyRoom(config.rooms, asks), _origins=origins)

    @property
    def leave_to(self) -> str | None:
        """Room that is to take over from this driver; None while it stays."""
        return None if self._keeper is None else self._keeper.leave_to

    def owes_comparison(self, owned: OwnedLedger) -> bool:
        """Whether the room has changed, so that the catalog may lack what it had before.

        Called once a START, after the fence. Without a report nothing is known of the room.
        """
        rule, fold = self.context.config.rooms, owned.fold
        if fold.adoptions and fold.effects_through <= fold.adoptions[-1].seq:
            return True
        if rule is None or rule.copied:
            return False
        report = read_advice(owned.storage, owned.layout.room(rule.room), RoomReport)
        return report is None or report.compare_owed

    def begin(self, held: OwnedRoute) -> None:
        """Report to the other rooms from now on. Called once a START, last."""
        if self._origins is not None:
            self._origins.close()
        rule = self.context.config.rooms
        if rule is None or self.standby is None:
            return
        catalog, owned = held.catalog, held.owned
        started_at = owned.fold.next_seq

        def progress() -> RoomProgress:
            compared = catalog is None or catalog.place() >= started_at
            stuck, ends = self._why_stuck(config), self.context.log_ends
            return RoomProgress(self.context.meter.commits, stuck, compared, ends)

        config = self.context.config
        self._keeper = RoomKeeper(rule, owned, progress, self._one_place, self.context.log)
        if rule.waits_for_copies:
            self.context.copied = self._keeper.copied
        if held.readiness is not None:
            held.readiness.lost_before_us = self._keeper.lost_before_us
        self._keeper.start()

    def _one_place(self) -> tuple[str, ...]:
        """Asked with a client of its own: the loop's is used by the loop."""
        source = open_source(self.context.config)
        try:
            return source.one_place_problems(self.context.config.topics)
        finally:
            source.close()

    def gauges(self) -> dict[str, dict[tuple[str, ...], float]]:
        """What the metrics say of the rooms, by metric and labels. Any thread may ask."""
        standby, keeper = self.standby, self._keeper
        if standby is None:
            return {}
        reports = [] if standby.report is None else [standby.report]
        found: dict[str, dict[tuple[str, ...], float]] = {}
        if keeper is not None and keeper.own is not None:
            # Where the table is copied, so are reports.
            others = () if standby.rule.copied else keeper.others.values()
            reports = [keeper.own, *others]
            found |= keeper.gauges()
            if keeper.drill is not None:
                found[metrics.LAST_DRILL.name] = {(): keeper.drill.ended_ms / 1000}
        # A standby says of itself alone.
        rooms = () if keeper is None or standby.rule.copied else standby.rule.names
        ready: dict[tuple[str, ...], float] = {(name,): 0.0 for name in rooms}
        found[metrics.ROOM_READY.name] = ready | {(e.room,): float(e.ready) for e in reports}
        found |= _mirror_gauges(reports)
        found[metrics.ROOM_NEEDS_CONFIRMATION.name] = {
            (each.room,): float(bool(each.confirm_term)) for each in reports
        }
        return found

    def _why_stuck(self, config: RouteConfig) -> str:
        if self.refused is not None:
            return str(self.refused)
        left_out = self.context.meter.read().left_out_count
        return f"{config.route}: {left_out} source partitions have no leader" if left_out else ""

    def close(self) -> None:
        """End what has threads or connections. Safe to repeat."""
        if self._keeper is not None:
            self._keeper.close()
        if self.standby is not None:
            self.standby.close()
        if self._origins is not None:
            self._origins.close()


def _mirror_gauges(reports: list[RoomReport]) -> dict[str, dict[tuple[str, ...], float]]:
    """What reports say of copies; only rooms that would continue in copies have any."""
    there = [each for each in reports if not each.holds and each.positions]
    if not there:
        return {}
    ends = next((each.log_ends for each in reports if each.holds), {})
    return {
        metrics.ROOM_POSITIONS.name: {
            (each.room, method): float(count)
            for each in there
            for method, count in each.positions.items()
        },
        metrics.MIRROR_LAG.name: {
            (each.room,): float(
                sum(max(0, end - each.copied.get(name, 0)) for name, end in ends.items())
            )
            for each in there
            if ends
        },
    }
