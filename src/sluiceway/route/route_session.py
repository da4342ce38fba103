"""One route while its driver lives: who owns what, from START to the end."""

from dataclasses import replace
from uuid import uuid4

from sluiceway.errors import (
    FencedError,
    SluicewayError,
    StateConflictError,
    StorageRefusedError,
    StorageUnavailableError,
    UnhealthyEnvironmentError,
)
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.observe.failpoints import reach
from sluiceway.observe.steps import Step
from sluiceway.route.committer import EpochCommitter
from sluiceway.route.owned_route import OwnedRoute
from sluiceway.route.rooms import RouteRooms
from sluiceway.route.route_context import RouteContext, RouteParts
from sluiceway.route.route_figures import RouteFigures
from sluiceway.route.route_meter import RouteMeter
from sluiceway.route.route_planner import RoutePlanner
from sluiceway.route.route_start import begin_following, fence_route, start_route
from sluiceway.route.takeover import ReleasedLedger, TakeoverHooks
from sluiceway.storage.contract import Storage
from sluiceway.upkeep.lanes import Lanes

_SETTLE_S = 20.0


class RouteSession:
    """One route while its driver lives. `JobLoop` decides which step comes when.

    Used by one thread at a time, except that the next epoch may be planned and its tasks may get
    their plans while `committer.commit_epoch` runs.

    Args:
        config: What to do.
        parts: What to do it with.

    Attributes:
        planner: SOURCES and PLAN.
        committer: PREPARE, COMMIT and what follows.
        figures: What the metrics say of it, for any thread.
        meter: What its status says of it, for any thread.
        read_before: Pattern of topics in the ledger at the first START; None without sources.
        rooms: What it has of its job's rooms.
    """

    def __init__(self, config: RouteConfig, parts: RouteParts) -> None:
        self.figures = RouteFigures(config)
        self.meter = RouteMeter(config.interval_s, on_look=self.figures.looked)
        self._context = RouteContext(
            config,
            replace(parts, observe=self.figures.watching(parts.observe)),
            parts.log.bind(job=config.job, route=config.route),
            self.figures,
            self.meter,
        )
        self.planner = RoutePlanner(self._context)
        self.committer = EpochCommitter(self._context, self.planner)
        self._driver = uuid4().hex
        self._replaces = parts.replaces
        self._left: ReleasedLedger | None = None
        self._status_place: tuple[Storage, str] | None = None
        self.read_before: str | None = None
        self.rooms = RouteRooms.of(self._context, self._driver)

    @property
    def config(self) -> RouteConfig:
        """What to do. It may be replaced before a START."""
        return self._context.config

    @config.setter
    def config(self, config: RouteConfig) -> None:
        self._context.config = config

    @property
    def trouble(self) -> SluicewayError | None:
        """What a put that is repeated waits for, or a move that is not published."""
        return self._context.trouble

    @trouble.setter
    def trouble(self, trouble: SluicewayError | None) -> None:
        self._context.trouble = trouble

    @property
    def started(self) -> bool:
        """Whether START has been done."""
        return self._context.held is not None

    @property
    def state(self) -> OwnedRoute:
        """What the session owns from START to its end.

        Raises:
            InvariantError: The route was not started.
        """
        return self._context.state

    @property
    def lanes(self) -> Lanes:
        """Replays and purges of dirty rows."""
        return self.state.background.lanes

    @property
    def ledger(self) -> str:
        """Which answers are this route's."""
        return self.state.owned.owner.ledger

    def status_place(self) -> tuple[Storage, str] | None:
        """Where the route's status is written; None before it held a ledger. For any thread."""
        return self._status_place

    def start(self) -> None:
        """START and RECOVER: fence, publish what is owed, begin to apply effects.

        Repeated by the loop while it fails, and after `leave` when a halted route is tried again.

        Raises:
            UnhealthyEnvironmentError: The store refuses what a ledger needs.
            SluicewayError: The class says what the loop does next.
        """
        try:
            self._start()
        except StorageRefusedError as error:
            raise UnhealthyEnvironmentError(
                f"the store refuses: {error.message}",
                where=error.where,
                hint=error.hint
                or "the driver and the tasks must be allowed to write in the table's folder",
            ) from error

    def _start(self) -> None:
        context = self._context
        hooks = TakeoverHooks(
            observe=self._observe_start,
            on_wait=self._on_put_wait,
            replaces=self._replaces,
            driver=self._driver,
            measured=self.figures.measured,
            room=self.rooms.standby,
        )
        owned = fence_route(context, hooks, self._left)
        try:
            composed = start_route(context, self.committer, owned)
        except BaseException:
            self._left = ReleasedLedger.of(owned)
            owned.lease.release()
            raise
        if self._status_place is None and (known := owned.fold.subscription) is not None:
            self.read_before = known.pattern
        self._status_place = owned.storage, owned.layout.status
        whole = self.rooms.owes_comparison(owned)
        begin_following(context, self.committer, composed, whole=whole)
        self.rooms.begin(self.state)

    def _observe_start(self, step: Step) -> None:
        if step is Step.FENCED:
            # Said for one fence: if the rest of START fails, the latest term is this driver's own.
            self._replaces = None
        self._context.observe(step)

    def _on_put_wait(self, attempts: int, error: StorageUnavailableError) -> None:
        if isinstance(error, StorageRefusedError) and not self.started:
            # Waiting is for what is owed, and a START owes nothing: a fence that did land after
            # all only makes the next term one higher.
            raise error
        self.trouble = error
        self.figures.put_repeated()
        self._context.log.warning("commit_unknown", attempts=attempts, error=str(error))

    def end_following(self) -> None:
        """A table has handed over to its topics: the session has to start again, with them."""
        self._context.source.leave(self.config.group)
        self.planner.begin_source()
        self.leave()

    def finish_effects(self) -> None:
        """Give the catalog a last while to follow. Called once, after the last epoch.

        Raises:
            Fatal: The table is gone.
        """
        reach("run.settle")
        self._settle()
        self.state.followers.refuse_if_failed()

    def leave_halted(self, reason: SluicewayError) -> None:
        """Give the catalog a last while to follow, and leave. Called when the route has halted.

        Readers see what is committed, however long the halt lasts.

        Args:
            reason: Why it has halted; after a conflict the table may be another driver's.
        """
        if self.started and not isinstance(reason, StateConflictError):
            self._settle()
        self.leave()

    def _settle(self) -> None:
        left = self.state.followers.finish(_SETTLE_S)
        if left:
            names = ", ".join(left)
            hint = "the next start goes on"
            self._context.log.warning("followers_left", followers=names, hint=hint)

    def leave(self, to: str = "") -> None:
        """Give back all that is held, and remember how the ledger was left. Safe to repeat.

        What is not in the catalog yet is left to the next START.

        Args:
            to: Room that the lease is released to; empty for any.
        """
        self.rooms.close()
        held, self._context.held = self._context.held, None
        if held is not None:
            self._left = ReleasedLedger.of(held.owned)
            held.record_queue.end(FencedError("the route was left"))
            held.background.close_work()
            held.followers.close()
            held.background.housekeeper.close()
            held.owned.lease.release(to)
        self._context.parts.sink.close()
        self.planner.retry_pause.begin_anew()
