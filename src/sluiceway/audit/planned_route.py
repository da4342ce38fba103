"""What a start of a route would find: its table, its ledger, its start offsets.

Writes, creates and reports nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sluiceway.audit.open_table import FoundLedger, read_ledger
from sluiceway.audit.upstream import reads_table
from sluiceway.errors import OffsetsLostError, SluicewayError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.route.clients import open_source
from sluiceway.route.registry_columns import registry_columns
from sluiceway.route.sql_columns import sql_columns, unit_columns
from sluiceway.schedule.planner import new_partitions, readable_start
from sluiceway.schedule.source_view import SourceView, is_same_log, read_route_view
from sluiceway.schedule.start_offsets import resolve_start
from sluiceway.sinks.contract import PlannedTable
from sluiceway.sinks.registry import open_sink
from sluiceway.sources.contract import SourceClient, SourcePartition, Split
from sluiceway.storage.contract import Storage
from sluiceway.storage.registry import open_storage


@dataclass(frozen=True, slots=True)
class PlannedRoute:
    """A route before it starts.

    Attributes:
        config: Its config, with the columns from the registry.
        table: The table as it is, or as it would be created.
        storage: The store of the table.
        layout: Where its ledger is, or would be.
        fold: Fold of its ledger; empty when it has none.
    """

    config: RouteConfig
    table: PlannedTable
    storage: Storage
    layout: LedgerLayout
    fold: Fold

    @property
    def ledger_place(self) -> str:
        """Folder of the ledger, for display; empty where only the table's catalog knows it."""
        return LedgerLayout(self.place, self.layout.route).root if self.place else ""

    @property
    def place(self) -> str:
        """Folder that the ledger lies below, for display; empty likewise."""
        return self.table.home_to_be or (self.layout.table_root if self.table.home else "")


def foresee_route(config: RouteConfig) -> PlannedRoute:
    """Read the state of a route's table and ledger.

    Raises:
        TableMismatchError: The table is not what the job file says, or is missing and not created.
        NotInThisVersionError: A plug-in's catalog holds the table, and cannot answer this.
        StateConflictError: Its ledger is another's, or damaged.
        SluicewayError: A server does not answer or refuses.
    """
    config = registry_columns(config)
    if config.sql is not None and config.units is None:
        from sluiceway.audit.sql_preview import sql_engine  # noqa: PLC0415 - loads Arrow

        config = sql_columns(config, config.sql, sql_engine())
    elif config.sql is not None and not config.sql.of_table:
        from sluiceway.audit.sql_preview import unit_engine  # noqa: PLC0415 - likewise

        config = unit_columns(config, config.sql, unit_engine)
    sink = open_sink(config.catalog, config.table)
    try:
        table = sink.foresee()
    finally:
        sink.close()
    # Nothing is read or written below a table whose catalog has not placed it yet.
    storage, root = open_storage(table.home or "/", config.stores)
    layout = LedgerLayout(root, config.route)
    fold = Fold()
    if table.home and storage.status(layout.owner) is not None:
        fold = read_ledger(FoundLedger(config, storage, layout)).fold
    return PlannedRoute(config.at(fold), table, storage, layout, fold)


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """Where a source partition would be read from.

    Attributes:
        offset: The first offset.
        how: `committed`, or how the offset was found, in the words of a job file's start.
        log_start: First offset that can still be read.
        log_end: First offset that cannot be read yet.
        base: The `newest_slot` of splits of a log that ends before rows of its table were removed.
            Its rows before `offset` may have expired. -1 for other logs.
    """

    partition: SourcePartition
    offset: int
    how: str
    log_start: int
    log_end: int
    base: int = -1

    @property
    def waiting(self) -> int:
        """How many offsets a run would have to read."""
        return max(0, self.log_end - max(self.offset, self.log_start))


@dataclass(frozen=True, slots=True)
class PlannedSource:
    """What a route would read.

    Attributes:
        starts: Where each source partition begins, in order; partitions without a leader are left
            out.
        problems: What would keep the route from reading.
        lost: Why a log does not continue what was read of it; its records can be looked at.
    """

    starts: tuple[PlannedStart, ...]
    problems: tuple[SluicewayError, ...]
    lost: tuple[OffsetsLostError, ...] = ()


COMMITTED = "committed"


def foresee_source(route: PlannedRoute) -> PlannedSource:
    """Ask the brokers where a run would begin.

    Raises:
        SourceUnavailableError: No broker answers.
        SluicewayError: The table that is read is not fit, or was dropped.
    """
    config, fold = route.config, route.fold
    source = open_source(config)
    try:
        view = read_route_view(source, config.subscription.topics, fold)
        if view.missing and reads_table(config):
            # Nothing else of the run can be said.
            raise next(iter(view.missing.values()))
        problems: list[SluicewayError] = [*view.missing.values()]
        topics = view.present(config.subscription.topics)
        found = view.of(topics)
        begins = {
            SourcePartition(*key): (int(known.end), COMMITTED)
            for key, known in fold.sources.items()
            if not known.retired
        }
        new = [
            one for one in new_partitions(fold, config.subscription, found) if one in view.bounds
        ]
        try:
            resolved = resolve_start(config.start, new, view.bounds, source)
            begins |= {one: (start.offset, start.how) for one, start in resolved.items()}
        except SluicewayError as error:
            problems.append(error)
        lost = tuple(lost_offsets(fold, view, source))
    finally:
        source.close()
    # Units are read whole: their table has no offsets.
    starts = _starts(view, begins) if config.units is None else ()
    return PlannedSource(starts, tuple(problems), lost)


def lost_offsets(fold: Fold, view: SourceView, source: SourceClient) -> Iterator[OffsetsLostError]:
    """Why logs do not continue what was read of them; nothing where all do.

    Args:
        fold: Ledger of a route.
        view: What it reads, see `view_of_route`.
        source: Where that was asked for.
    """
    for key, known in sorted(fold.sources.items()):
        one = SourcePartition(*key)
        bounds = None if known.retired else view.bounds.get(one)
        if bounds is not None and is_same_log(one, known, view):
            try:
                readable_start(fold, one, bounds)
                epoch, slot = known.end_epoch, known.newest_slot
                source.refuse_lost(Split(one, known.end, leader_epoch=epoch, newest_slot=slot))
            except OffsetsLostError as error:
                yield error


def _starts(
    view: SourceView, begins: dict[SourcePartition, tuple[int, str]]
) -> tuple[PlannedStart, ...]:
    starts = []
    listed = (each for found in view.by_topic.values() for each in found)
    pinned = {each.partition: each.newest_slot for each in listed}
    for one, bounds in sorted(view.bounds.items()):
        # A partition that is new under an unchanged subscription begins at its first offset.
        offset, how = begins.get(one, (bounds.start_offset, "earliest"))
        base = pinned[one] if bounds.removals and one in pinned else -1
        log = bounds.start_offset, bounds.end_offset
        starts.append(PlannedStart(one, offset, how, *log, base))
    return tuple(starts)
