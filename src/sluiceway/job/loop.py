"""The job's loop: one Spark job an epoch for all routes, each route's commit its own.

A route that fails waits alone and comes back by itself, or halts alone. A route whose commit is
not known yet is left out of the next epoch; the others go on.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sluiceway.errors import (
    Fatal,
    InvariantError,
    SluicewayError,
    StorageUnavailableError,
    TaskFailedError,
)
from sluiceway.job.config import RouteConfig
from sluiceway.job.discovery import Discovery
from sluiceway.job.route_session import PlannedEpoch, RouteSession
from sluiceway.job.runner import Bundle, TaskRunner
from sluiceway.job.source_view import SourceView, look
from sluiceway.job.status import RouteState, RouteStatus
from sluiceway.job.status_board import StatusBoard, StatusFiles
from sluiceway.job.stop import StopSignal
from sluiceway.observe.log import Log
from sluiceway.observe.progress import Progress
from sluiceway.sources.contract import SourceClient
from sluiceway.sources.registry import SourceAccess
from sluiceway.worker.plan import TaskPlan, TaskResult

if TYPE_CHECKING:
    from sluiceway.job.planner import PlannedSplit

_PARALLEL_ROUTES = 16
_COMMIT_GRACE_S = 2.0
_IDLE_S = 0.2
_BEATS_MISSED = 3
_NO_ROUTE_S = 30.0


@dataclass(slots=True)
class _Seat:
    """A route's place in the loop.

    Attributes:
        due: Monotonic time before which a waiting route is left alone.
        work: What runs for the route in the pool now.
        topics: What a pattern's route reads when its work is done; None when nothing changed.
    """

    session: RouteSession
    state: RouteState = RouteState.STARTING
    due: float = 0.0
    error: SluicewayError | None = None
    work: "Future[None] | None" = None
    topics: tuple[str, ...] | None = None

    def free(self) -> bool:
        return self.work is None and time.monotonic() >= self.due


@dataclass(slots=True)
class LoopParts:
    """What the loop works with; made and closed by its caller.

    Attributes:
        sources: One client a cluster connection.
        discovery: Makes routes of topics, as they come and go.
        open_session: Makes the session of a route.
    """

    sources: dict[SourceAccess, SourceClient]
    runner: TaskRunner
    stop: StopSignal
    log: Log
    discovery: Discovery
    open_session: Callable[[RouteConfig], RouteSession]
    progress: Progress = field(default_factory=Progress)
    board: StatusBoard = field(default_factory=StatusBoard)


class JobLoop:
    """Runs routes until a stop, until all have caught up, or until none is left.

    Args:
        routes: Those with listed topics; `parts.discovery` brings the others.
        parts: What they share.
        bounded: End at the log ends that each route meets first; topics are looked for once.
    """

    def __init__(
        self, routes: Sequence[RouteConfig], parts: LoopParts, *, bounded: bool = False
    ) -> None:
        self._seats = [_Seat(parts.open_session(config)) for config in routes]
        self._discovered: dict[str, _Seat] = {}
        self._parts = parts
        self._bounded = bounded
        self._status_files = StatusFiles(parts.board, parts.log)
        # Threads are made when there is work for them.
        self._pool = ThreadPoolExecutor(_PARALLEL_ROUTES, thread_name_prefix="route")

    def run(self) -> None:
        """Start, read and commit, again and again. Called once.

        Raises:
            Fatal: No route is left; the worst reason.
            RunnerLostError: The runner is gone; a new process goes on.
        """
        self._status_files.start()
        try:
            while not self._parts.stop.asked() and self._some_left():
                self._settle(0.0)
                self._discover()
                self._note()
                self._start_due()
                if not self._epoch():
                    self._pause()
            self._settle(None)
            for seat in self._seats:
                if seat.session.started and seat.state is not RouteState.HALTED:
                    seat.work = self._pool.submit(seat.session.settle)
            self._settle(None)
        finally:
            self._note()
            self._status_files.close()
            # Closing may wait for the catalog, so all routes do it side by side.
            list(self._pool.map(RouteSession.close, [seat.session for seat in self._seats]))
            self._pool.shutdown()
        halted = [seat.error for seat in self._seats if seat.state is RouteState.HALTED]
        if halted and len(halted) == len(self._seats) - self._count(RouteState.CAUGHT_UP):
            raise max(
                (error for error in halted if error is not None), key=lambda error: error.exit_code
            )
        failure = self._parts.discovery.failure
        if not self._seats and isinstance(failure, Fatal):
            raise failure

    def snapshot(self) -> tuple[RouteStatus, ...]:
        """All routes as they are now. Any thread may ask; the loop does not wait for it."""
        return self._parts.board.snapshot()

    def _note(self) -> None:
        """Let others see how the routes are, and that the loop goes round."""
        for seat in self._seats:
            self._parts.board.note(seat.session, seat.state, seat.error)
        configs = [seat.session.config for seat in self._seats]
        longest = max((config.interval_s for config in configs), default=_NO_ROUTE_S)
        grace = max((config.straggler_timeout_s for config in configs), default=0.0)
        self._parts.board.beat(_BEATS_MISSED * longest + grace)

    def _some_left(self) -> bool:
        done = (RouteState.HALTED, RouteState.CAUGHT_UP)
        if any(seat.state not in done for seat in self._seats):
            return True
        discovery = self._parts.discovery
        if isinstance(discovery.failure, Fatal):
            return False
        # Without a route yet, a job waits for the first topic.
        return discovery.pending or not (self._seats or self._bounded)

    def _count(self, state: RouteState) -> int:
        return sum(seat.state is state for seat in self._seats)

    def _pause(self) -> None:
        busy = [seat.work for seat in self._seats if seat.work is not None]
        if busy:
            wait(busy, timeout=_IDLE_S, return_when="FIRST_COMPLETED")
        else:
            dues = [s.due for s in self._seats if s.state is RouteState.WAITING]
            soonest = min(dues, default=0.0) - time.monotonic()
            self._parts.stop.sleep(max(_IDLE_S, min(soonest, 1.0)))

    # Routes that come, start, wait or end

    def _discover(self) -> None:
        """Seat the routes of new topics; hand the others the topics that they have now."""
        if self._parts.discovery.due(once=self._bounded):
            for config in self._parts.discovery.look():
                self._place(config)
        for seat in self._discovered.values():
            if seat.topics is not None and seat.work is None:
                seat.session.take_topics(seat.topics)
                seat.topics = None

    def _place(self, config: RouteConfig) -> None:
        seat = self._discovered.get(config.route)
        if seat is not None:
            seat.topics = config.topics
            return
        self._parts.log.info(
            "route_found",
            job=config.job,
            route=config.route,
            table=f"{config.hive.database}.{config.hive.table}",
            topics=len(config.topics),
        )
        try:
            seat = _Seat(self._parts.open_session(config))
        except SluicewayError as error:
            self._refuse(config, error)
            return
        self._discovered[config.route] = seat
        self._seats.append(seat)

    def _refuse(self, config: RouteConfig, error: SluicewayError) -> None:
        self._parts.log.error(
            "route_refused", route=config.route, code=error.code, error=str(error)
        )

    def _start_due(self) -> None:
        for seat in self._seats:
            fresh = seat.state in (RouteState.STARTING, RouteState.WAITING)
            if fresh and seat.free():
                if seat.session.started:
                    seat.state = RouteState.RUNNING
                else:
                    seat.work = self._pool.submit(seat.session.start)
        self._settle(_COMMIT_GRACE_S)

    def _settle(self, timeout_s: float | None) -> None:
        """Take in what the pool has finished; wait at most so long for the rest."""
        busy = [seat.work for seat in self._seats if seat.work is not None]
        if busy:
            wait(busy, timeout=timeout_s)
        for seat in self._seats:
            if seat.work is None or not seat.work.done():
                continue
            work, seat.work = seat.work, None
            try:
                work.result()
            except SluicewayError as error:
                self._react(seat, error)
            except Exception as error:  # noqa: BLE001 - the loop's boundary: one route, not the job
                self._react(seat, _bug(error))
            else:
                if seat.state is not RouteState.CAUGHT_UP:
                    seat.state = RouteState.RUNNING

    def _react(self, seat: _Seat, error: SluicewayError) -> None:
        """The class of the error tells: wait and try again, or halt this route."""
        seat.error = error
        pause_s = seat.session.pause_s(error)
        config = seat.session.config
        if pause_s is None:
            seat.state = RouteState.HALTED
            self._parts.log.error(
                "route_halted",
                job=config.job,
                route=config.route,
                code=error.code,
                error=str(error),
            )
            return
        seat.state = RouteState.WAITING
        seat.due = time.monotonic() + pause_s
        self._parts.progress.waiting(str(error))
        self._parts.log.warning(
            "route_waits",
            job=config.job,
            route=config.route,
            code=error.code,
            error=str(error),
            retry_in_s=round(pause_s, 1),
        )

    # One epoch

    def _epoch(self) -> bool:
        """Plan, run and finish one epoch of all routes that can; False when there was none."""
        ready = [s for s in self._seats if s.state is RouteState.RUNNING and s.work is None]
        views = self._look(ready)
        planned = self._plan(ready, views)
        self._parts.progress.lag(sum(seat.session.lag_records for seat in self._seats))
        if not planned:
            return False
        slots = self._parts.runner.slots()
        spread(list(planned.values()), slots)
        answers = self._run_tasks(planned)
        if answers is None:
            return True
        by_ledger: dict[str, list[TaskResult]] = {}
        for answer in answers:
            by_ledger.setdefault(answer.ledger, []).append(answer)
        # Idle routes have no answer and nothing to finish; among many, most are idle.
        answered = [s for s in ready if id(s) in planned and s.session.ledger in by_ledger]
        for seat in answered:
            seat.session.note_written()
        views = self._look(answered)
        for seat in answered:
            view = views.get(seat.session.config.source)
            if view is not None:
                epoch, own = planned[id(seat)], by_ledger[seat.session.ledger]
                seat.work = self._pool.submit(seat.session.finish, epoch, own, view)
        self._settle(_COMMIT_GRACE_S)
        return True

    def _look(self, seats: Iterable[_Seat]) -> dict[SourceAccess, SourceView]:
        """One look a connection; a connection that does not answer makes its routes wait."""
        by_access: dict[SourceAccess, list[_Seat]] = {}
        for seat in seats:
            by_access.setdefault(seat.session.config.source, []).append(seat)
        views = {}
        for access, sharing in by_access.items():
            topics = [topic for seat in sharing for topic in seat.session.config.topics]
            try:
                views[access] = look(self._parts.sources[access], topics)
            except SluicewayError as error:
                for seat in sharing:
                    self._react(seat, error)
        return views

    def _plan(
        self, seats: Sequence[_Seat], views: dict[SourceAccess, SourceView]
    ) -> dict[int, PlannedEpoch]:
        planned = {}
        for seat in seats:
            view = views.get(seat.session.config.source)
            if view is None:
                continue
            try:
                due = seat.session.due_sources(view)
                if due is not None:
                    # A put may have to wait for the store; the other routes do not.
                    seat.work = self._pool.submit(seat.session.pin, due)
                    continue
                epoch = seat.session.plan(view, bounded=self._bounded)
            except SluicewayError as error:
                self._react(seat, error)
                continue
            if epoch is not None:
                planned[id(seat)] = epoch
            elif seat.session.caught_up:
                seat.state = RouteState.CAUGHT_UP
        return planned

    def _run_tasks(self, planned: dict[int, PlannedEpoch]) -> list[TaskResult] | None:
        """Answers of the tasks, or None when none finished; the epoch is then planned again."""
        seats = [seat for seat in self._seats if id(seat) in planned]
        bundles: dict[int, list[TaskPlan]] = {}
        for seat in seats:
            for task, plan in seat.session.task_plans(planned[id(seat)]).items():
                bundles.setdefault(task, []).append(plan)
        asked = False

        def end_early() -> None:
            nonlocal asked
            self._parts.board.beat()
            if self._parts.stop.asked() and not asked:
                asked = True
                self._end_early(seats, planned)

        longest = max(seat.session.config.interval_s for seat in seats)
        grace = max(seat.session.config.straggler_timeout_s for seat in seats)
        ordered: list[Bundle] = [tuple(bundles[task]) for task in sorted(bundles)]
        try:
            answers = self._parts.runner.run(
                ordered, wait=end_early, give_up_after_s=longest + grace
            )
        except TaskFailedError as error:
            for seat in seats:
                self._react(seat, error)
            return None
        return answers

    def _end_early(self, seats: Sequence[_Seat], planned: dict[int, PlannedEpoch]) -> None:
        for seat in seats:
            try:
                seat.session.end_epoch_early(planned[id(seat)])
            except StorageUnavailableError as error:
                self._parts.log.warning("stop_waits_for_deadline", error=str(error))


def _bug(error: Exception) -> InvariantError:
    return InvariantError(
        f"{type(error).__name__}: {str(error)[:300]}",
        hint="a bug; nothing was committed by this step. Please report it with the log",
    )


def spread(epochs: Sequence[PlannedEpoch], slots: int) -> None:
    """Assign splits to tasks, in place; stable, so that consumers can go on.

    A task serves one route unless there are fewer slots than routes (commit rule 20).
    """
    total = sum(len(epoch.splits) for epoch in epochs)
    tasks = max(1, min(slots, total))
    if len(epochs) <= tasks:
        _spread_apart(epochs, tasks)
        return
    position = 0
    for epoch in epochs:
        by_task: dict[int, list[PlannedSplit]] = {}
        for split in epoch.splits:
            by_task.setdefault(position % tasks, []).append(split)
            position += 1
        epoch.by_task = {task: tuple(each) for task, each in by_task.items()}


def _spread_apart(epochs: Sequence[PlannedEpoch], tasks: int) -> None:
    """Tasks of its own for each route, more for those with more splits."""
    shares = [1] * len(epochs)
    for _ in range(tasks - len(epochs)):
        wants = [len(epoch.splits) / share for epoch, share in zip(epochs, shares, strict=True)]
        neediest = wants.index(max(wants))
        if wants[neediest] <= 1:
            break
        shares[neediest] += 1
    first = 0
    for epoch, share in zip(epochs, shares, strict=True):
        epoch.by_task = {
            first + number: tuple(epoch.splits[number::share]) for number in range(share)
        }
        first += share
