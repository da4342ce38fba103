"""The job's loop: one Spark job an epoch for all routes, each route's commit its own.

The next epoch is planned and runs while the one before is committed. Its own commit begins when the
other's outcome is known, and never after a commit that did not land (commit rule 3).

A route that fails waits alone and comes back by itself, or halts alone. A halted route is started
again from time to time if its cause can go away. A route whose epoch waits for a commit of unknown
outcome is left out of the next one; the others go on.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from sluiceway.driver.discovery import Discovery
from sluiceway.driver.route_pool import RoutePool, turn_lanes
from sluiceway.driver.route_slot import (
    EarlyEnd,
    RouteSlot,
    awaits_tables,
    bug_of,
    gave_way,
    knows_start,
    pause_after,
    pin_sources,
    pop_new_tables,
    table_topic,
)
from sluiceway.driver.status_board import StatusBoard, StatusFiles
from sluiceway.driver.stop import StopSignal
from sluiceway.errors import (
    Fatal,
    LeaseHeldError,
    SluicewayError,
    TaskDiedError,
    TaskFailedError,
)
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.observe.log import Log
from sluiceway.observe.progress import Progress
from sluiceway.route.halt_report import halt_report
from sluiceway.route.route_session import RouteSession
from sluiceway.route.status import RouteState, RouteStatus
from sluiceway.schedule.planner import PlannedEpoch
from sluiceway.schedule.rate_limit import RateLimit
from sluiceway.schedule.runner import Bundle, TaskRunner
from sluiceway.schedule.slot_target import SlotTarget
from sluiceway.schedule.source_view import SourceView, read_source_view
from sluiceway.schedule.spread import SplitAssigner
from sluiceway.schedule.steady_clock import process_clock
from sluiceway.schedule.task_packer import TaskPacker
from sluiceway.sources.contract import SourceClient
from sluiceway.sources.registry import SourceAccess
from sluiceway.worker.plan import TaskPlan, TaskResult

_COMMIT_GRACE_S = 2.0
_START_WAIT_S = 10.0
_IDLE_S = 0.2
_BEATS_MISSED = 3
_NO_ROUTE_S = 30.0


@dataclass(slots=True)
class LoopParts:
    """Parts that the loop uses; made and closed by its caller.

    Attributes:
        sources: One client for each cluster connection.
        discovery: Makes routes of topics, as they come and go.
        open_session: Makes the session of a route.
        rates: Limits what an epoch reads.
        standby: Whether to wait for a route that a live driver runs, instead of halting.
        slot_target: Decides how many slots to request from the cluster; None uses the present ones.
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
        routes: Routes with listed topics; `parts.discovery` brings the others.
        parts: Parts that all routes share.
        bounded: End at the log ends that each route reads first; topics are listed once.
    """

    def __init__(
        self, routes: Sequence[RouteConfig], parts: LoopParts, *, bounded: bool = False
    ) -> None:
        self._route_slots = [RouteSlot(parts.open_session(config)) for config in routes]
        self._discovered: dict[str, RouteSlot] = {}
        self._parts = parts
        self._bounded = bounded
        self._dealer = TaskPacker(SplitAssigner(), parts.log)
        self._status_files = StatusFiles(parts.board, parts.log)
        self._pool = RoutePool()

    def run(self) -> None:
        """Start, read and commit, again and again. Called once.

        Raises:
            Fatal: No route is left; the worst reason.
            RunnerLostError: The runner is gone; a new process goes on.
        """
        self._status_files.start()
        # Later log ends are compared with these: no hour closes by a single look.
        process_clock().now_us()
        try:
            while not self._parts.stop.requested() and self._some_left():
                self._process_done(0.0)
                self._commit_staged()
                self._discover()
                self._leave_rooms()
                self._publish_states()
                self._start_due()
                turn_lanes(
                    self._route_slots, self._pool, partial(self._process_done, _COMMIT_GRACE_S)
                )
                if not self._epoch():
                    self._pause()
            self._process_done(None)
            while any(route_slot.staged is not None for route_slot in self._route_slots):
                self._commit_staged()
                self._process_done(None)
            for route_slot in self._route_slots:
                if route_slot.session.started and route_slot.state is not RouteState.HALTED:
                    route_slot.work = self._pool.submit(route_slot.session.finish_effects)
            self._process_done(None)
        finally:
            for route_slot in self._route_slots:
                route_slot.next_try_ms = None
            self._publish_states()
            self._status_files.close()
            # Closing may wait for the catalog, so all routes close in parallel.
            leaving = [
                self._pool.submit(route_slot.session.leave) for route_slot in self._route_slots
            ]
            self._pool.wait(leaving, None)
            self._pool.close()
        halted = [
            route_slot.error
            for route_slot in self._route_slots
            if route_slot.state is RouteState.HALTED
        ]
        if halted and len(halted) == len(self._route_slots) - self._count(RouteState.CAUGHT_UP):
            raise max(
                (error for error in halted if error is not None), key=lambda error: error.exit_code
            )
        failure = self._parts.discovery.failure
        if self._route_slots or failure is None:
            return
        if isinstance(failure, Fatal) or not self._parts.stop.by_request():
            # The time may be over before any broker has listed topics: then nothing was done.
            raise failure

    def snapshot(self) -> tuple[RouteStatus, ...]:
        """States of all routes now. Any thread may ask; the loop does not wait for it."""
        return self._parts.board.snapshot()

    def _publish_states(self) -> None:
        """Publish the routes' states, and that the loop goes round."""
        for route_slot in self._route_slots:
            state, error = route_slot.shown()
            self._parts.board.update(route_slot.session, state, error, route_slot.next_try_ms)
        configs = [route_slot.session.config for route_slot in self._route_slots]
        longest = max((config.interval_s for config in configs), default=_NO_ROUTE_S)
        grace = max((config.straggler_timeout_s for config in configs), default=0.0)
        self._parts.board.beat(_BEATS_MISSED * longest + grace)

    def _some_left(self) -> bool:
        if not all(route_slot.is_over() for route_slot in self._route_slots):
            return True
        discovery = self._parts.discovery
        if isinstance(discovery.failure, Fatal):
            return False
        # Without a route yet, a job waits for the first topic.
        return discovery.pending or not (self._route_slots or self._bounded)

    def _count(self, state: RouteState) -> int:
        return sum(route_slot.state is state for route_slot in self._route_slots)

    def _pause(self) -> None:
        busy = [route_slot.work for route_slot in self._route_slots if route_slot.work is not None]
        if self._parts.standby and not self._count(RouteState.RUNNING):
            self._parts.runner.keep_warm()
        if busy:
            self._pool.wait(busy[:1], _IDLE_S)
        else:
            dues = [s.due for s in self._route_slots if s.state is RouteState.WAITING]
            soonest = min(dues, default=0.0) - time.monotonic()
            self._parts.stop.sleep(max(_IDLE_S, min(soonest, 1.0)))

    # Routes that come, start, wait or end

    def _discover(self) -> None:
        """Add the routes of new topics; give the others their present topics."""
        named = pop_new_tables(self._route_slots)
        if self._parts.discovery.due(once=self._bounded, named=named):
            for config in self._parts.discovery.read_topics():
                self._place(config)
        changed = [
            route_slot for route_slot in self._discovered.values() if route_slot.topics is not None
        ]
        # They wait for the running commit, and for no other one.
        self._process_done(
            _COMMIT_GRACE_S, [route_slot for route_slot in changed if route_slot.ahead is not None]
        )
        for route_slot in changed:
            if route_slot.topics is not None and route_slot.work is None:
                route_slot.session.planner.set_topics(route_slot.topics)
                route_slot.topics = None

    def _place(self, config: RouteConfig) -> None:
        route_slot = self._discovered.get(config.route)
        if route_slot is not None:
            route_slot.topics = config.topics
            return
        self._parts.log.info(
            "route_found",
            job=config.job,
            route=config.route,
            table=f"{config.table.database}.{config.table.table}",
            topics=len(config.topics),
        )
        try:
            route_slot = RouteSlot(self._parts.open_session(config))
        except SluicewayError as error:
            self._refuse(config, error)
            return
        self._discovered[config.route] = route_slot
        self._route_slots.append(route_slot)

    def _leave_rooms(self) -> None:
        """Release routes that another room is to have; from then on this driver is a standby."""
        for route_slot in self._route_slots:
            session = route_slot.session
            to = session.rooms.leave_to
            if to is None or route_slot.work is not None or route_slot.staged is not None:
                continue
            if session.started:
                # A fresh session has what a new process has: another driver id and no ledger.
                route_slot.work = self._pool.submit(partial(session.leave, to))
                self._process_done(None, [route_slot])
            route_slot.session = self._parts.open_session(session.config)
            route_slot.state, route_slot.error, route_slot.due = RouteState.STARTING, None, 0.0
            if not self._parts.standby:
                self._halt(route_slot, gave_way(to))

    def _refuse(self, config: RouteConfig, error: SluicewayError) -> None:
        self._parts.log.error(
            "route_refused", route=config.route, code=error.code, error=str(error)
        )

    def _start_due(self) -> None:
        starting = []
        for route_slot in self._route_slots:
            fresh = route_slot.state in (RouteState.STARTING, RouteState.WAITING)
            if fresh and route_slot.free():
                if route_slot.session.started:
                    route_slot.state = RouteState.RUNNING
                else:
                    route_slot.work = self._pool.submit(route_slot.session.start)
                    starting.append(route_slot)
        starting += self._try_halted()
        # The first epoch waits for all routes; later ones do not wait long for new routes.
        first = not self._count(RouteState.RUNNING)
        self._process_done(_START_WAIT_S if first else _COMMIT_GRACE_S, starting)

    def _try_halted(self) -> list[RouteSlot]:
        """Start halted routes whose pause is over. A START fences, so topics are read before."""
        starting = []
        due = [s for s in self._route_slots if s.state is RouteState.HALTED and s.free()]
        views = self._read_sources(due)
        for route_slot in due:
            config = route_slot.session.config
            view = views.get(config.source)
            if view is None:
                continue
            try:
                view.of(config.topics if not config.pattern else ())
            except SluicewayError as error:
                self._react(route_slot, error)
            else:
                route_slot.work = self._pool.submit(route_slot.session.start)
                starting.append(route_slot)
        return starting

    def _process_done(
        self, timeout_s: float | None, route_slots: Iterable[RouteSlot] | None = None
    ) -> None:
        """Process what the pool has finished.

        Args:
            timeout_s: How long to wait for unfinished work first, in seconds; None without a limit.
            route_slots: Routes that are waited for; None for all.
        """
        waited_for = self._route_slots if route_slots is None else route_slots
        self._pool.wait(
            [route_slot.work for route_slot in waited_for if route_slot.work is not None], timeout_s
        )
        for route_slot in self._route_slots:
            if route_slot.work is None or not route_slot.work.done():
                continue
            work, route_slot.work = route_slot.work, None
            route_slot.ahead = route_slot.session.trouble = None
            try:
                work.result()
            except SluicewayError as error:
                self._react(route_slot, error)
            except Exception as error:  # noqa: BLE001 - the loop's boundary: one route, not the job
                self._react(route_slot, bug_of(error))
            else:
                route_slot.go_on(self._parts.log)

    def _react(self, route_slot: RouteSlot, error: SluicewayError) -> None:
        """React by the class of the error: wait and try again, or halt this route.

        An epoch that waits for the failed one is dropped; its rows are read again.
        """
        config, staged = route_slot.session.config, route_slot.staged
        if staged is not None:
            route_slot.staged = None
            self._parts.log.info("epoch_discarded", route=config.route, epoch=staged.epoch)
            route_slot.session.figures.thrown_away(staged.answers)
        pause_s = pause_after(route_slot, error, standby=self._parts.standby)
        if pause_s is None or route_slot.state is RouteState.HALTED:
            self._halt(route_slot, error)
            return
        again = isinstance(error, LeaseHeldError) and type(error) is type(route_slot.error)
        route_slot.error = error
        route_slot.state = RouteState.WAITING
        route_slot.due = time.monotonic() + pause_s
        self._parts.progress.waiting(str(error), route=config.route, for_s=pause_s)
        if again:
            # A standby driver would log it at every look, for weeks.
            return
        self._parts.log.warning(
            "route_waits",
            job=config.job,
            route=config.route,
            code=error.code,
            error=str(error),
            retry_in_s=round(pause_s, 1),
        )

    def _halt(self, route_slot: RouteSlot, error: SluicewayError) -> None:
        """Halt the route, or leave it halted when a new start of it has failed."""
        next_try_s = route_slot.halt(error)
        route_slot.work = self._pool.submit(partial(route_slot.session.leave_halted, error))
        config, reason = route_slot.session.config, route_slot.error or error
        report = halt_report(reason, config.route)
        # An outage during a new start does not replace the reason of the halt.
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
            s
            for s in self._route_slots
            if s.plannable()
            and self._parts.rates.is_due(s.session.config)
            and not awaits_tables(s, self._route_slots)
        ]
        views = self._read_sources(ready)
        configs = {id(route_slot): route_slot.session.config for route_slot in ready}
        planned = self._parts.rates.bound_epochs(configs, self._plan(ready, views))
        self._parts.progress.lag(
            sum(route_slot.session.meter.lag for route_slot in self._route_slots)
        )
        if not planned:
            return False
        by_route = {s.session.config.route: s for s in ready if id(s) in planned}
        epochs = {route: planned[id(route_slot)] for route, route_slot in by_route.items()}
        dealt = self._dealer.deal(epochs, self._slots(list(epochs.values())))
        planned = {id(by_route[route]): epoch for route, epoch in dealt.items()}
        answers = self._run_tasks(planned)
        if answers is None:
            return True
        if self._parts.slot_target is not None:
            self._parts.slot_target.update(dealt, answers)
        ledgers = {route: by_route[route].session.ledger for route in dealt}
        by_ledger = self._dealer.add_answers(ledgers, dealt, answers)
        # Idle routes have no answer and nothing to finish; among many routes, most are idle.
        answered = [s for s in ready if id(s) in planned and s.session.ledger in by_ledger]
        for route_slot in answered:
            epoch = planned[id(route_slot)]
            route_slot.session.planner.set_written(epoch)
            route_slot.stage(epoch, by_ledger[route_slot.session.ledger])
        self._process_done(_COMMIT_GRACE_S, answered)
        self._commit_staged()
        # Routes that cannot be planned ahead join the next epoch, if that takes no time.
        self._process_done(
            _COMMIT_GRACE_S, [route_slot for route_slot in answered if not route_slot.plannable()]
        )
        return True

    def _slots(self, epochs: Sequence[PlannedEpoch]) -> int:
        """Slots for the tasks of these epochs; an elastic job requests what it needs first."""
        runner, target = self._parts.runner, self._parts.slot_target
        if target is not None:
            runner.ask_for(target.choose(epochs, runner.slots()))
        return runner.slots()

    def _commit_staged(self) -> None:
        """Begin the commit of answered epochs, where none is running."""
        due = [
            route_slot
            for route_slot in self._route_slots
            if route_slot.staged is not None and route_slot.work is None
        ]
        views = self._read_sources(due)
        for route_slot in due:
            staged, route_slot.staged = route_slot.staged, None
            view = views.get(route_slot.session.config.source)
            if view is None or staged is None:
                continue
            planned, answers = staged.planned, staged.answers
            route_slot.ahead = route_slot.session.planner.ahead_of(answers)
            route_slot.work = self._pool.submit(
                partial(route_slot.session.committer.commit_epoch, planned, answers, view)
            )

    def _read_sources(self, route_slots: Iterable[RouteSlot]) -> dict[SourceAccess, SourceView]:
        """Read log ends once for each connection; without an answer its routes wait."""
        by_access: dict[SourceAccess, list[RouteSlot]] = {}
        for route_slot in route_slots:
            by_access.setdefault(route_slot.session.config.source, []).append(route_slot)
        views = {}
        for access, sharing in by_access.items():
            topics = [topic for route_slot in sharing for topic in route_slot.session.config.topics]
            try:
                views[access] = read_source_view(self._parts.sources[access], topics)
            except SluicewayError as error:
                for route_slot in sharing:
                    # Where a commit is running, its outcome comes first.
                    if route_slot.work is None:
                        self._react(route_slot, error)
        for news in process_clock().pop_news():
            self._parts.log.warning(news.event, step_s=round(news.step_s, 3))
        return views

    def _plan(
        self, route_slots: Sequence[RouteSlot], views: dict[SourceAccess, SourceView]
    ) -> dict[int, PlannedEpoch]:
        seen = [
            route_slot
            for route_slot in route_slots
            if route_slot.session.config.source in views
            and knows_start(route_slot, self._discovered, self._parts.discovery)
        ]
        planned = {}
        behind = []
        for route_slot in seen:
            if route_slot.ahead is not None:
                epoch = self._plan_ahead(route_slot, views[route_slot.session.config.source])
                if epoch is None:
                    behind.append(route_slot)
                else:
                    planned[id(route_slot)] = epoch
        self._process_done(_COMMIT_GRACE_S, behind)
        seen = [
            route_slot
            for route_slot in seen
            if route_slot.work is None and route_slot.state is RouteState.RUNNING
        ]
        pinning = [
            route_slot
            for route_slot in seen
            if self._pin(route_slot, views[route_slot.session.config.source])
        ]
        # A put may have to wait for the store; the other routes do not.
        self._process_done(_COMMIT_GRACE_S, pinning)
        for route_slot in seen:
            planned.pop(id(route_slot), None)  # Planned ahead: later puts took later numbers.
            if route_slot.work is not None or route_slot.state is not RouteState.RUNNING:
                continue
            fed = self._aim_again(route_slot)
            try:
                epoch = route_slot.session.planner.plan(
                    views[route_slot.session.config.source], bounded=self._bounded
                )
            except SluicewayError as error:
                self._react(route_slot, error)
                continue
            route_slot.session.rooms.refused = None
            if epoch is not None:
                planned[id(route_slot)] = epoch
            elif route_slot.session.planner.caught_up and not fed:
                route_slot.state = RouteState.CAUGHT_UP
        # Meanwhile a commit that others were planned upon may have failed.
        running = {
            id(route_slot) for route_slot in route_slots if route_slot.state is RouteState.RUNNING
        }
        return {key: epoch for key, epoch in planned.items() if key in running}

    def _aim_again(self, route_slot: RouteSlot) -> bool:
        """Whether a route of this job still fills the table that this one reads to its end."""
        if not self._bounded:
            return False
        topics = route_slot.session.config.topics
        done = (RouteState.CAUGHT_UP, RouteState.HALTED)
        fed = any(
            table_topic(other.session.config.table) in topics
            for other in self._route_slots
            if other.state not in done
        )
        if fed or route_slot.fed:
            # Also once after the other is through: its last rows count.
            route_slot.session.planner.aim_again(at_end=not fed)
        route_slot.fed = fed
        return fed

    def _plan_ahead(self, route_slot: RouteSlot, view: SourceView) -> PlannedEpoch | None:
        """Plan an epoch from the end of the one before, while that is committed.

        None when there is nothing to read, or another step comes first. That step, or its error,
        follows when the commit's outcome is known.
        """
        ahead = route_slot.ahead
        try:
            if route_slot.session.planner.due_sources(view, ahead) is not None:
                return None
            return route_slot.session.planner.plan(view, bounded=self._bounded, ahead=ahead)
        except SluicewayError as error:
            self._parts.log.info("not_planned_ahead", code=error.code, error=str(error))
            return None

    def _pin(self, route_slot: RouteSlot, view: SourceView) -> bool:
        """Pin new source partitions, or put requested records; returns whether anything was put."""
        try:
            due = route_slot.session.planner.due_sources(view)
        except SluicewayError as error:
            self._react(route_slot, error)
            return False
        if due is None and not route_slot.session.committer.is_record_due(view):
            return False
        route_slot.work = self._pool.submit(partial(pin_sources, route_slot.session, due, view))
        return True

    def _run_tasks(self, planned: dict[int, PlannedEpoch]) -> list[TaskResult] | None:
        """Answers of the tasks; None when none finished, and the epoch is planned again."""
        route_slots = [route_slot for route_slot in self._route_slots if id(route_slot) in planned]
        bundles: dict[int, list[TaskPlan]] = {}
        for route_slot in route_slots:
            planner = route_slot.session.planner
            for task, plan in planner.task_plans(planned[id(route_slot)]).items():
                bundles.setdefault(task, []).append(plan)
        running = [(route_slot, planned[id(route_slot)]) for route_slot in route_slots]
        early = EarlyEnd(running, self._parts.stop.requested, self._parts.log)

        def wait() -> None:
            self._parts.board.beat()
            early.check()

        longest = max(route_slot.session.config.interval_s for route_slot in route_slots)
        grace = max(route_slot.session.config.straggler_timeout_s for route_slot in route_slots)
        ordered: list[Bundle] = [tuple(bundles[task]) for task in sorted(bundles)]
        try:
            answers = self._parts.runner.run(ordered, wait=wait, give_up_after_s=longest + grace)
        except TaskFailedError as error:
            ledgers = {
                route_slot.session.config.route: route_slot.session.ledger
                for route_slot in route_slots
            }
            self._dealer.add_lost(ledgers, ordered)
            self._process_done(_COMMIT_GRACE_S, route_slots)
            for route_slot in route_slots:
                route_slot.session.figures.died()
                alone = planned[id(route_slot)].alone
                # A route whose last commit failed, or is not known, reports no more.
                if route_slot.work is None and route_slot.state is RouteState.RUNNING:
                    self._react(route_slot, error if alone else TaskDiedError(error.message))
            return None
        return answers
