"""The job's loop: one Spark job an epoch for all routes, each route's commit its own.

The next epoch is planned and runs while the one before is committed; its own commit begins when
that one's outcome is known, and never after one that did not land (commit rule 3).

A route that fails waits alone and comes back by itself, or halts alone; it is started anew now
and then when the cause can go away. A route that has an epoch waiting behind a commit which is not
known yet is left out of the next one; the others go on.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from sluiceway.config.config import RouteConfig
from sluiceway.errors import (
    Fatal,
    InvariantError,
    LeaseHeldError,
    SluicewayError,
    TaskDiedError,
    TaskFailedError,
)
from sluiceway.job.discovery import Discovery
from sluiceway.job.early_end import EarlyEnd
from sluiceway.job.lane_turns import turn_lanes
from sluiceway.job.route_pool import RoutePool
from sluiceway.job.seat import Seat, StagedEpoch
from sluiceway.job.status_board import StatusBoard, StatusFiles
from sluiceway.job.stop import StopSignal
from sluiceway.job.template_start import knows_start
from sluiceway.observe.log import Log
from sluiceway.observe.progress import Progress
from sluiceway.route.halt_report import halt_report
from sluiceway.route.route_session import RouteSession
from sluiceway.route.status import RouteState, RouteStatus
from sluiceway.schedule.dealing import Dealer
from sluiceway.schedule.planner import PlannedEpoch
from sluiceway.schedule.rate_limit import RateLimit
from sluiceway.schedule.runner import Bundle, TaskRunner
from sluiceway.schedule.slot_target import SlotTarget
from sluiceway.schedule.source_view import SourceView, look
from sluiceway.schedule.spread import Spread
from sluiceway.schedule.steady_clock import process_clock
from sluiceway.sources.contract import SourceClient
from sluiceway.sources.registry import SourceAccess
from sluiceway.worker.plan import TaskPlan, TaskResult

_COMMIT_GRACE_S = 2.0
_START_PATIENCE_S = 10.0
_IDLE_S = 0.2
_BEATS_MISSED = 3
_NO_ROUTE_S = 30.0


@dataclass(slots=True)
class LoopParts:
    """What the loop works with; made and closed by its caller.

    Attributes:
        sources: One client a cluster connection.
        discovery: Makes routes of topics, as they come and go.
        open_session: Makes the session of a route.
        rates: Bounds what an epoch reads.
        standby: A route that a live driver runs is waited for, not halted.
        slot_target: Says how many slots to ask the cluster for; None takes those that there are.
    """

    sources: dict[SourceAccess, SourceClient]
    runner: TaskRunner
    stop: StopSignal
    log: Log
    discovery: Discovery
    open_session: Callable[[RouteConfig], RouteSession]
    progress: Progress = field(default_factory=Progress)
    board: StatusBoard = field(default_factory=StatusBoard)
    rates: RateLimit = field(default_factory=RateLimit)
    standby: bool = False
    slot_target: SlotTarget | None = None


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
        self._seats = [Seat(parts.open_session(config)) for config in routes]
        self._discovered: dict[str, Seat] = {}
        self._parts = parts
        self._bounded = bounded
        self._dealer = Dealer(Spread(), parts.log)
        self._status_files = StatusFiles(parts.board, parts.log)
        self._pool = RoutePool()

    def run(self) -> None:
        """Start, read and commit, again and again. Called once.

        Raises:
            Fatal: No route is left; the worst reason.
            RunnerLostError: The runner is gone; a new process goes on.
        """
        self._status_files.start()
        # The first look at log ends is compared with this one: no hour closes by a single look.
        process_clock().now_us()
        try:
            while not self._parts.stop.asked() and self._some_left():
                self._settle(0.0)
                self._commit_staged()
                self._discover()
                self._note()
                self._start_due()
                turn_lanes(self._seats, self._pool, partial(self._settle, _COMMIT_GRACE_S))
                if not self._epoch():
                    self._pause()
            self._settle(None)
            while any(seat.staged is not None for seat in self._seats):
                self._commit_staged()
                self._settle(None)
            for seat in self._seats:
                if seat.session.started and seat.state is not RouteState.HALTED:
                    seat.work = self._pool.submit(seat.session.settle)
            self._settle(None)
        finally:
            for seat in self._seats:
                seat.next_try_ms = None
            self._note()
            self._status_files.close()
            # Closing may wait for the catalog, so all routes do it side by side.
            leaving = [self._pool.submit(seat.session.leave) for seat in self._seats]
            self._pool.wait(leaving, None)
            self._pool.close()
        halted = [seat.error for seat in self._seats if seat.state is RouteState.HALTED]
        if halted and len(halted) == len(self._seats) - self._count(RouteState.CAUGHT_UP):
            raise max(
                (error for error in halted if error is not None), key=lambda error: error.exit_code
            )
        failure = self._parts.discovery.failure
        if self._seats or failure is None:
            return
        if isinstance(failure, Fatal) or not self._parts.stop.by_request():
            # The time may be over, and no broker has told the topics: nothing was done.
            raise failure

    def snapshot(self) -> tuple[RouteStatus, ...]:
        """All routes as they are now. Any thread may ask; the loop does not wait for it."""
        return self._parts.board.snapshot()

    def _note(self) -> None:
        """Let others see how the routes are, and that the loop goes round."""
        for seat in self._seats:
            state, error = seat.shown()
            self._parts.board.note(seat.session, state, error, seat.next_try_ms)
        configs = [seat.session.config for seat in self._seats]
        longest = max((config.interval_s for config in configs), default=_NO_ROUTE_S)
        grace = max((config.straggler_timeout_s for config in configs), default=0.0)
        self._parts.board.beat(_BEATS_MISSED * longest + grace)

    def _some_left(self) -> bool:
        done = (RouteState.HALTED, RouteState.CAUGHT_UP)
        # A halted route that is just being started anew may be the one that is left.
        if any(seat.state not in done or seat.work is not None for seat in self._seats):
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
        if self._parts.standby and not self._count(RouteState.RUNNING):
            self._parts.runner.keep_warm()
        if busy:
            self._pool.wait(busy[:1], _IDLE_S)
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
        changed = [seat for seat in self._discovered.values() if seat.topics is not None]
        # They wait for the commit that is under way, and for no other one.
        self._settle(_COMMIT_GRACE_S, [seat for seat in changed if seat.ahead is not None])
        for seat in changed:
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
            seat = Seat(self._parts.open_session(config))
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
        starting = []
        for seat in self._seats:
            fresh = seat.state in (RouteState.STARTING, RouteState.WAITING)
            if fresh and seat.free():
                if seat.session.started:
                    seat.state = RouteState.RUNNING
                else:
                    seat.work = self._pool.submit(seat.session.start)
                    starting.append(seat)
        starting += self._try_halted()
        # The first epoch is for all; later nobody waits long for those that come.
        first = not self._count(RouteState.RUNNING)
        self._settle(_START_PATIENCE_S if first else _COMMIT_GRACE_S, starting)

    def _try_halted(self) -> list[Seat]:
        """Start those anew whose pause is over. A START fences, so topics are looked at before."""
        starting = []
        due = [s for s in self._seats if s.state is RouteState.HALTED and s.free()]
        views = self._look(due)
        for seat in due:
            config = seat.session.config
            view = views.get(config.source)
            if view is None:
                continue
            try:
                view.of(config.topics if not config.pattern else ())
            except SluicewayError as error:
                self._react(seat, error)
            else:
                seat.work = self._pool.submit(seat.session.start)
                starting.append(seat)
        return starting

    def _settle(self, timeout_s: float | None, seats: Iterable[Seat] | None = None) -> None:
        """Take in what the pool has finished.

        Args:
            timeout_s: How long to wait before for what is not done.
            seats: Those that are waited for; None all.
        """
        waited_for = self._seats if seats is None else seats
        self._pool.wait([seat.work for seat in waited_for if seat.work is not None], timeout_s)
        for seat in self._seats:
            if seat.work is None or not seat.work.done():
                continue
            work, seat.work = seat.work, None
            seat.ahead = seat.session.trouble = None
            try:
                work.result()
            except SluicewayError as error:
                self._react(seat, error)
            except Exception as error:  # noqa: BLE001 - the loop's boundary: one route, not the job
                self._react(seat, _bug(error))
            else:
                self._go_on(seat)

    def _go_on(self, seat: Seat) -> None:
        if seat.state is RouteState.HALTED:
            if seat.session.started:
                seat.come_back()
                config = seat.session.config
                self._parts.log.info("route_back", job=config.job, route=config.route)
        elif seat.state is not RouteState.CAUGHT_UP:
            seat.state = RouteState.RUNNING

    def _react(self, seat: Seat, error: SluicewayError) -> None:
        """The class of the error tells: wait and try again, or halt this route.

        An epoch that waits behind the failed one is dropped; its rows are read again.
        """
        config, staged = seat.session.config, seat.staged
        if staged is not None:
            seat.staged = None
            self._parts.log.info("epoch_thrown_away", route=config.route, epoch=staged.epoch)
            seat.session.figures.thrown_away(staged.answers)
        pause_s = seat.session.pause_s(error)
        if self._parts.standby and isinstance(error, LeaseHeldError):
            # The look at the lease took its time; the next one begins where this one ended.
            pause_s = 0.0
        if pause_s is None or seat.state is RouteState.HALTED:
            self._halt(seat, error)
            return
        again = isinstance(error, LeaseHeldError) and isinstance(seat.error, LeaseHeldError)
        seat.error = error
        seat.state = RouteState.WAITING
        seat.due = time.monotonic() + pause_s
        self._parts.progress.waiting(str(error), route=config.route, for_s=pause_s)
        if again:
            # A standby driver would say it at every look, for weeks.
            return
        self._parts.log.warning(
            "route_waits",
            job=config.job,
            route=config.route,
            code=error.code,
            error=str(error),
            retry_in_s=round(pause_s, 1),
        )

    def _halt(self, seat: Seat, error: SluicewayError) -> None:
        """Halt the route, or leave it halted when a new start of it has failed."""
        next_try_s = seat.halt(error)
        seat.work = self._pool.submit(seat.session.leave)
        config, reason = seat.session.config, seat.error or error
        report = halt_report(reason, config.route)
        # An outage that a new start met hides nothing of why the route has halted.
        other = {} if reason is error else {"retry_failed": str(error)}
        self._parts.log.error(
            "route_halted",
            job=config.job,
            route=config.route,
            code=reason.code,
            error=str(reason),
            evidence=report.evidence,
            commands=report.commands,
            retry_in_s=None if next_try_s is None else round(next_try_s, 1),
            **other,
        )

    # One epoch

    def _epoch(self) -> bool:
        """Plan, run and finish one epoch of all routes that can; False when there was none."""
        ready = [
            s for s in self._seats if s.plannable() and self._parts.rates.is_due(s.session.config)
        ]
        views = self._look(ready)
        configs = {id(seat): seat.session.config for seat in ready}
        planned = self._parts.rates.bound_epochs(configs, self._plan(ready, views))
        self._parts.progress.lag(sum(seat.session.lag_records for seat in self._seats))
        if not planned:
            return False
        by_route = {s.session.config.route: s for s in ready if id(s) in planned}
        epochs = {route: planned[id(seat)] for route, seat in by_route.items()}
        dealt = self._dealer.deal(epochs, self._slots(list(epochs.values())))
        planned = {id(by_route[route]): epoch for route, epoch in dealt.items()}
        answers = self._run_tasks(planned)
        if answers is None:
            return True
        if self._parts.slot_target is not None:
            self._parts.slot_target.note(dealt, answers)
        ledgers = {route: by_route[route].session.ledger for route in dealt}
        by_ledger = self._dealer.take(ledgers, dealt, answers)
        # Idle routes have no answer and nothing to finish; among many, most are idle.
        answered = [s for s in ready if id(s) in planned and s.session.ledger in by_ledger]
        for seat in answered:
            epoch = planned[id(seat)]
            seat.session.note_written(epoch)
            seat.staged = StagedEpoch(epoch, by_ledger[seat.session.ledger])
        self._settle(_COMMIT_GRACE_S, answered)
        self._commit_staged()
        # Those that cannot be planned ahead come along into the next epoch, if that takes no time.
        self._settle(_COMMIT_GRACE_S, [seat for seat in answered if not seat.plannable()])
        return True

    def _slots(self, epochs: Sequence[PlannedEpoch]) -> int:
        """Slots for the tasks of these epochs; an elastic job asks for what it needs first."""
        runner, target = self._parts.runner, self._parts.slot_target
        if target is not None:
            runner.ask_for(target.choose(epochs, runner.slots()))
        return runner.slots()

    def _commit_staged(self) -> None:
        """Begin the commit of what the tasks have read, where none is under way."""
        due = [seat for seat in self._seats if seat.staged is not None and seat.work is None]
        views = self._look(due)
        for seat in due:
            staged, seat.staged = seat.staged, None
            view = views.get(seat.session.config.source)
            if view is None or staged is None:
                continue
            planned, answers = staged.planned, staged.answers
            seat.ahead = seat.session.ahead_of(answers)
            seat.work = self._pool.submit(partial(seat.session.finish, planned, answers, view))

    def _look(self, seats: Iterable[Seat]) -> dict[SourceAccess, SourceView]:
        """One look a connection; a connection that does not answer makes its routes wait."""
        by_access: dict[SourceAccess, list[Seat]] = {}
        for seat in seats:
            by_access.setdefault(seat.session.config.source, []).append(seat)
        views = {}
        for access, sharing in by_access.items():
            topics = [topic for seat in sharing for topic in seat.session.config.topics]
            try:
                views[access] = look(self._parts.sources[access], topics)
            except SluicewayError as error:
                for seat in sharing:
                    # Where a commit is under way, its outcome comes first.
                    if seat.work is None:
                        self._react(seat, error)
        for news in process_clock().take_news():
            self._parts.log.warning(news.event, step_s=round(news.step_s, 3))
        return views

    def _plan(
        self, seats: Sequence[Seat], views: dict[SourceAccess, SourceView]
    ) -> dict[int, PlannedEpoch]:
        seen = [
            seat
            for seat in seats
            if seat.session.config.source in views
            and knows_start(seat, self._discovered, self._parts.discovery)
        ]
        planned = {}
        behind = []
        for seat in seen:
            if seat.ahead is not None:
                epoch = self._plan_ahead(seat, views[seat.session.config.source])
                if epoch is None:
                    behind.append(seat)
                else:
                    planned[id(seat)] = epoch
        self._settle(_COMMIT_GRACE_S, behind)
        seen = [seat for seat in seen if seat.work is None and seat.state is RouteState.RUNNING]
        pinning = [seat for seat in seen if self._pin(seat, views[seat.session.config.source])]
        # A put may have to wait for the store; the other routes do not.
        self._settle(_COMMIT_GRACE_S, pinning)
        for seat in seen:
            planned.pop(id(seat), None)  # Planned ahead: what was put since took later numbers.
            if seat.work is not None or seat.state is not RouteState.RUNNING:
                continue
            try:
                epoch = seat.session.plan(views[seat.session.config.source], bounded=self._bounded)
            except SluicewayError as error:
                self._react(seat, error)
                continue
            if epoch is not None:
                planned[id(seat)] = epoch
            elif seat.session.caught_up:
                seat.state = RouteState.CAUGHT_UP
        # Meanwhile a commit that others were planned ahead of may have failed.
        running = {id(seat) for seat in seats if seat.state is RouteState.RUNNING}
        return {key: epoch for key, epoch in planned.items() if key in running}

    def _plan_ahead(self, seat: Seat, view: SourceView) -> PlannedEpoch | None:
        """An epoch from what the one before has read, while that is committed.

        None when there is nothing to read, or something to do first: that is then done, or
        complained of, when the commit is known.
        """
        ahead = seat.ahead
        try:
            if seat.session.due_sources(view, ahead) is not None:
                return None
            return seat.session.plan(view, bounded=self._bounded, ahead=ahead)
        except SluicewayError as error:
            self._parts.log.info("not_planned_ahead", code=error.code, error=str(error))
            return None

    def _pin(self, seat: Seat, view: SourceView) -> bool:
        """Pin what is new to the route, or put what is asked for; whether anything was."""
        try:
            due = seat.session.due_sources(view)
        except SluicewayError as error:
            self._react(seat, error)
            return False
        if due is None and not seat.session.is_asked(view):
            return False
        seat.work = self._pool.submit(partial(seat.session.pin, due, view))
        return True

    def _run_tasks(self, planned: dict[int, PlannedEpoch]) -> list[TaskResult] | None:
        """Answers of the tasks, or None when none finished; the epoch is then planned again."""
        seats = [seat for seat in self._seats if id(seat) in planned]
        bundles: dict[int, list[TaskPlan]] = {}
        for seat in seats:
            for task, plan in seat.session.task_plans(planned[id(seat)]).items():
                bundles.setdefault(task, []).append(plan)
        running = [(seat, planned[id(seat)]) for seat in seats]
        early = EarlyEnd(running, self._parts.stop.asked, self._parts.log)

        def wait() -> None:
            self._parts.board.beat()
            early.look()

        longest = max(seat.session.config.interval_s for seat in seats)
        grace = max(seat.session.config.straggler_timeout_s for seat in seats)
        ordered: list[Bundle] = [tuple(bundles[task]) for task in sorted(bundles)]
        try:
            answers = self._parts.runner.run(ordered, wait=wait, give_up_after_s=longest + grace)
        except TaskFailedError as error:
            ledgers = {seat.session.config.route: seat.session.ledger for seat in seats}
            self._dealer.note_lost(ledgers, ordered)
            self._settle(_COMMIT_GRACE_S, seats)
            for seat in seats:
                seat.session.figures.died()
                alone = planned[id(seat)].alone
                # Of a route whose last commit failed, or is not known, more is not to be said.
                if seat.work is None and seat.state is RouteState.RUNNING:
                    self._react(seat, error if alone else TaskDiedError(error.message))
            return None
        return answers


def _bug(error: Exception) -> InvariantError:
    return InvariantError(
        f"{type(error).__name__}: {str(error)[:300]}",
        hint="a bug; nothing was committed by this step. Please report it with the log",
    )
