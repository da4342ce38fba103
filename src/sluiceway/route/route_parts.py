"""What a route's session is lent by its job."""

from dataclasses import dataclass

from sluiceway.observe.log import Log
from sluiceway.observe.progress import Progress
from sluiceway.observe.steps import Observer
from sluiceway.sinks.contract import TableSink
from sluiceway.sources.contract import SourceClient
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
    """

    source: SourceClient
    sink: TableSink
    log: Log
    observe: Observer
    progress: Progress
    replaces: int | None = None
    work: ClusterWork | None = None
    background: tuple[BeginWork, ...] = ()
