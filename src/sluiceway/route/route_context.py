"""What the parts of one route's session have in common."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType

from sluiceway.errors import InvariantError, SluicewayError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.folding.fold import Fold
from sluiceway.observe.log import Log
from sluiceway.observe.progress import Progress
from sluiceway.observe.steps import Observer, Step
from sluiceway.route.owned_route import OwnedRoute
from sluiceway.route.route_figures import RouteFigures
from sluiceway.route.route_meter import RouteMeter
from sluiceway.schedule.sql_engine import SqlEngine
from sluiceway.schedule.unit_sql import UnitSql
from sluiceway.sinks.contract import TableSink
from sluiceway.sources.contract import LogBounds, SourceClient, SourcePartition
from sluiceway.upkeep.record_queue import BeginWork
from sluiceway.work.request import ClusterWork


@dataclass(frozen=True, slots=True)
class RouteParts:
    """What a route works with.

    Attributes:
        source: Shared by the routes of a connection; closed by its owner.
        sink: Owned by the session, which closes it.
        replaces: Term that may be replaced without waiting for its lease.
        work: Executors that may compact and replay; None has the driver's machine do it.
        background: Begin what else asks for records between the epochs.
        sql: Runs SQL; None where tasks do not run in Spark.
        upstream: Client of the table that a new route follows before its topics; likewise shared.
        slots: Number of task slots now, for the readiness of a standby; None for a command, which
            is none.
        unit_sql: Runs the SQL of a route that computes units; None for other routes.
        units_on_request: Whether only units that an operator asks for are computed.
    """

    source: SourceClient
    sink: TableSink
    log: Log
    observe: Observer
    progress: Progress
    replaces: int | None = None
    work: ClusterWork | None = None
    background: tuple[BeginWork, ...] = ()
    sql: SqlEngine | None = None
    upstream: SourceClient | None = None
    slots: Callable[[], int] | None = None
    unit_sql: UnitSql | None = None
    units_on_request: bool = False


@dataclass(slots=True)
class RouteContext:
    """What a session shares from its making to its end, whatever it owns meanwhile.

    Attributes:
        config: What to do. Becomes another one between epochs: columns of a registry, topics of a
            pattern.
        parts: What to do it with.
        topics: The route as its topics fill it, as long as `config` reads a table; else None.
        log: Bound to the route.
        figures: What the metrics say of it.
        meter: What its status says of it.
        held: What the session owns; None before START and after the session has left the ledger.
        copied: How far the other rooms have copies, by `log_name`; None where no row waits for one,
            and its answer is None while none does.
        log_ends: Where logs ended when the last epoch was planned, and when that was by the
            monotonic clock.
        trouble: What a put that is repeated waits for, or a move that is not published; any thread
            may read it.
    """

    config: RouteConfig
    parts: RouteParts
    log: Log
    figures: RouteFigures
    meter: RouteMeter
    held: OwnedRoute | None = None
    trouble: SluicewayError | None = None
    topics: RouteConfig | None = None
    copied: Callable[[], Mapping[str, int] | None] | None = None
    log_ends: tuple[float, Mapping[SourcePartition, LogBounds]] = (0.0, MappingProxyType({}))
    _epochs: Iterator[int] = field(default_factory=count)

    @property
    def state(self) -> OwnedRoute:
        """What the session owns from START to its end.

        Raises:
            InvariantError: The route was not started.
        """
        if self.held is None:
            raise InvariantError(f"route {self.config.route} is used before it was started")
        return self.held

    @property
    def source(self) -> SourceClient:
        """What is read now.

        Raises:
            InvariantError: The client of a table that is followed is missing.
        """
        if self.topics is None:
            return self.parts.source
        if self.parts.upstream is None:
            raise InvariantError(f"route {self.config.route} has no client of its table")
        return self.parts.upstream

    def choose_source(self, fold: Fold) -> None:
        """Read what the ledger says: a table first, or the topics. Called at each START."""
        whole = self.topics or self.config
        self.config = whole.at(fold)
        self.topics = None if self.config is whole else whole

    def next_epoch(self) -> int:
        """The next number of an epoch; the stream and lanes share one sequence."""
        return next(self._epochs)

    def observe(self, step: Step) -> None:
        """Called at each step of the protocol."""
        self.parts.observe(step)
