"""A route in the job's loop: its state, when it is due, and its running work."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sluiceway.driver.discovery import Discovery
from sluiceway.errors import (
    Fatal,
    InvariantError,
    LeaseHeldError,
    MetastoreUnavailableError,
    RequestRefusedError,
    SluicewayError,
    SourceUnavailableError,
    StorageUnavailableError,
)
from sluiceway.jobfile.blocks.start import EARLIEST
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.records import SourcesRecord
from sluiceway.observe.log import Log
from sluiceway.route.route_session import RouteSession
from sluiceway.route.status import RouteState
from sluiceway.schedule.planner import PlannedEpoch
from sluiceway.schedule.source_view import SourceView
from sluiceway.sinks.table_options import TableOptions
from sluiceway.sources.contract import TABLE_TOPIC
from sluiceway.worker.plan import TaskResult

if TYPE_CHECKING:
    from concurrent.futures import Future


_FIRST_TRY_S = 30.0
_LONGEST_TRY_S = 300.0
_MOST_DOUBLINGS = 10
_STANDBY_ASKS_S = 1.0
_TOGETHER_S = 10.0
_UNREACHED = (SourceUnavailableError, MetastoreUnavailableError)


@dataclass(frozen=True, slots=True)
class StagedEpoch:
    """The plans for the tasks, and their answers for this route."""

    planned: PlannedEpoch
    answers: Sequence[TaskResult]

    @property
    def epoch(self) -> int:
        """Number of the epoch."""
        return self.planned.epoch


@dataclass(slots=True)
class RouteSlot:
    """One route in the loop, whose thread alone writes here.

    A route that halted by an error whose cause can go away is started again. The first pause is 30
    s; each later one is twice as long, at most five minutes, until a START succeeds. A route that
    came back and halts again soon goes on with the longer pause.

    Attributes:
        due: Monotonic time before which the route is left alone; infinite when for good.
        error: Why it waits or has halted; None for other states.
        work: Work of the route in the pool now; None without any.
        ahead: During a commit: the state from which the next epoch may be planned before the
            outcome is known; None when planning has to wait.
        staged: An epoch with answers whose commit has not begun; None without one.
        topics: Topics of a pattern's route for when its work is done; None when nothing changed.
        fed: Whether a route of the job has filled its table when it was last planned.
        next_try_ms: When a halted route is started again, ms since 1970; None when it never is.
        fresh: Whether no epoch of it has had answers.
        waits_until: Monotonic time until which fresh tables of its `route_by` wait for others.
    """

    session: RouteSession
    state: RouteState = RouteState.STARTING
    due: float = 0.0
    error: SluicewayError | None = None
    work: "Future[None] | None" = None
    ahead: Fold | None = None
    staged: StagedEpoch | None = None
    topics: tuple[str, ...] | None = None
    fed: bool = False
    next_try_ms: int | None = None
    fresh: bool = True
    waits_until: float = field(default_factory=lambda: time.monotonic() + _TOGETHER_S)
    _halts: int = 0
    _came_back: float | None = None

    def plannable(self) -> bool:
        """Whether an epoch may be planned now: one may be in flight, and the new one makes two."""
        if self.state is not RouteState.RUNNING or self.staged is not None:
            return False
        if self.session.rooms.leave_to is not None:
            return False
        return self.work is None or (self.ahead is not None and self.topics is None)

    def stage(self, planned: PlannedEpoch, answers: Sequence[TaskResult]) -> None:
        """Keep an epoch's answers until its commit begins."""
        self.staged, self.fresh = StagedEpoch(planned, answers), False

    def is_over(self) -> bool:
        """Whether nothing is left to do for it."""
        if self.state not in (RouteState.HALTED, RouteState.CAUGHT_UP):
            return False
        # A halted route may be starting again, and be the last of them.
        return self.work is None and not self.session.committer.has_new_tables

    def free(self) -> bool:
        """Whether work may begin for the route now."""
        return self.work is None and time.monotonic() >= self.due

    def halt(self, error: SluicewayError) -> float | None:
        """Take it out of the epochs.

        Returns:
            Seconds until it is tried again; None when it is not.
        """
        if self.state is not RouteState.HALTED or isinstance(error, Fatal) or self.error is None:
            # An outage that a new try meets is not the reason of the halt.
            self.error = error
        self.state = RouteState.HALTED
        if not self.error.mendable:
            self.due, self.next_try_ms = float("inf"), None
            return None
        if self._came_back is not None and time.monotonic() - self._came_back > _LONGEST_TRY_S:
            self._halts = 0
        self._came_back = None
        # Routes that halted for one reason do not come back all at once.
        pause_s = min(_FIRST_TRY_S * 2.0**self._halts, _LONGEST_TRY_S)
        pause_s *= random.uniform(0.8, 1.2)  # noqa: S311 - no secret
        self._halts = min(self._halts + 1, _MOST_DOUBLINGS)
        self.due = time.monotonic() + pause_s
        self.next_try_ms = time.time_ns() // 1_000_000 + int(pause_s * 1000)
        return pause_s

    def come_back(self) -> None:
        """Reset the pause after a successful START."""
        self.state, self.error, self.next_try_ms = RouteState.RUNNING, None, None
        self._came_back = time.monotonic()

    def go_on(self, log: Log) -> None:
        """Set the state after the pool has done its work. Called by the loop's thread."""
        if self.state is RouteState.HALTED:
            if self.session.started:
                self.come_back()
                config = self.session.config
                log.info("route_back", job=config.job, route=config.route)
        elif not self.session.started:
            # A table has handed over to its topics.
            self.state = RouteState.STARTING
        elif self.state is not RouteState.CAUGHT_UP:
            if self.state is RouteState.STARTING:
                self.waits_until = time.monotonic() + _TOGETHER_S
            self.state = RouteState.RUNNING

    def shown(self) -> tuple[RouteState, SluicewayError | None]:
        """State and reason for others, even while the pool repeats a put or a publish."""
        trouble = self.session.trouble
        if self.work is not None and trouble is not None and self.state is not RouteState.HALTED:
            return RouteState.WAITING, trouble
        return self.state, self.error


def pause_after(route_slot: RouteSlot, error: SluicewayError, *, standby: bool) -> float | None:
    """How long to leave a route alone after an error; None halts it.

    Args:
        route_slot: The route.
        error: The error.
        standby: Whether its driver waits for routes that another driver runs.
    """
    if standby and isinstance(error, LeaseHeldError):
        # Reading the lease took its time; the next pause begins where this one ended.
        return 0.0
    session = route_slot.session
    pause_s = session.planner.retry_pause.pause_s(error)
    if session.config.rooms is None:
        return pause_s
    session.rooms.refused = error if isinstance(error, _UNREACHED) else None
    if pause_s is not None and standby and not session.started:
        # Growing pauses would come on top of a store's fail-over.
        return min(pause_s, _STANDBY_ASKS_S)
    return pause_s


def gave_way(room: str) -> RequestRefusedError:
    """Why a run with an end halts a route that another room takes over: it is no standby."""
    return RequestRefusedError(
        f"room {room} takes over; a run with an end is no standby",
        hint="start the job there, or run it here without an end",
    )


def pin_sources(session: RouteSession, record: SourcesRecord | None, view: SourceView) -> None:
    """As `EpochCommitter.pin`; a session that was handed over is left, to start again.

    Raises:
        FencedError: Another driver has taken over.
    """
    session.committer.pin(record, view)
    if record is None or record.because is None:
        return
    left = {pin.topic for pin in record.partitions if pin.retired}
    if any(pin.topic not in left for pin in record.partitions):
        session.end_following()


def knows_start(
    route_slot: RouteSlot, discovered: Mapping[str, RouteSlot], discovery: Discovery
) -> bool:
    """Whether it is known if the topics of a new route came while no driver ran.

    They did when the ledger of another route of its template names the pattern. The pattern was
    read before, so topics that came since are read from their first row on (commit rule 5). Called
    before each plan; sets the route's start when it is found out.

    Args:
        route_slot: The slot of the new route.
        discovered: Slots of all routes that were made of topics.
        discovery: Knows which of them come from one template.
    """
    session = route_slot.session
    config = session.config
    if discovered.get(config.route) is not route_slot or config.start == EARLIEST:
        return True
    if session.read_before is not None:
        return True
    siblings = discovery.siblings(config.route) - {config.route}
    others = [discovered[name] for name in siblings if name in discovered]
    if any(other.session.read_before == config.pattern for other in others):
        session.config = replace(config, start=EARLIEST)
        return True
    ended = (RouteState.HALTED, RouteState.CAUGHT_UP)
    return all(other.session.started or other.state in ended for other in others)


def pop_new_tables(route_slots: Sequence[RouteSlot]) -> bool:
    """Whether rows have named tables since this was last asked."""
    committers = [each.session.committer for each in route_slots]
    found = [each for each in committers if each.has_new_tables]
    for committer in found:
        committer.has_new_tables = False
    return bool(found)


def awaits_tables(route_slot: RouteSlot, others: Sequence[RouteSlot]) -> bool:
    """Whether tables that rows have named are being made, for a route of a `route_by`.

    The rest waits for them. So do tables that have read nothing, as long as one of them starts
    every ten seconds: they read together from their first epoch on, and the topic is fetched once.
    """
    share = route_slot.session.config.share
    if share is None or not (share.table is None or route_slot.fresh):
        return False
    if route_slot.session.committer.has_new_tables:
        return True
    alike = [
        other
        for other in others
        if other.session.config.share is not None
        and other.session.config.share.pattern == share.pattern
    ]
    if all(other.state is not RouteState.STARTING for other in alike):
        return False
    return share.table is None or time.monotonic() < max(other.waits_until for other in alike)


@dataclass(slots=True)
class EarlyEnd:
    """Checks, again and again while the tasks of an epoch run, whether they should go on.

    They should not when the driver has to stop. For one route they should not when the epoch before
    has failed. The plan of its tasks builds on that epoch, and this one will be discarded.

    Args:
        running: Routes of the epoch, and the plans of their tasks.
        stop_requested: Returns whether the driver has to stop.
        log: Gets an event when the store rejects the request.
    """

    running: Sequence[tuple[RouteSlot, PlannedEpoch]]
    stop_requested: Callable[[], bool]
    log: Log
    _requested: set[int] = field(default_factory=set)

    def check(self) -> None:
        """Ask the tasks of each route to end, at most once."""
        stop = self.stop_requested()
        for route_slot, planned in self.running:
            ends = stop or route_slot.session.rooms.leave_to is not None or _is_vain(route_slot)
            if id(route_slot) not in self._requested and ends:
                self._requested.add(id(route_slot))
                self._ask(route_slot, planned)

    def _ask(self, route_slot: RouteSlot, planned: PlannedEpoch) -> None:
        try:
            route_slot.session.planner.end_epoch_early(planned)
        except StorageUnavailableError as error:
            self.log.warning("stop_waits_for_deadline", error=str(error))


def _is_vain(route_slot: RouteSlot) -> bool:
    """Whether the epoch before has failed, so that this one will be discarded."""
    if route_slot.work is None or not route_slot.work.done():
        return False
    error = route_slot.work.exception()
    # A route that halts, above all a fenced one, writes nothing.
    return error is not None and not isinstance(error, Fatal)


def table_topic(table: TableOptions) -> str:
    """What stands for a topic where a route reads this table."""
    return f"{TABLE_TOPIC}{table.database}.{table.table}".lower()


def bug_of(error: Exception) -> InvariantError:
    """What an unexpected error of a step is for the user."""
    return InvariantError(
        f"{type(error).__name__}: {str(error)[:300]}",
        hint="a bug; nothing was committed by this step. Please report it with the log",
    )
