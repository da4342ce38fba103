"""From a route to the parts that a check of its table needs."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from sluiceway.errors import (
    LedgerCorruptError,
    LedgerMismatchError,
    NotInThisVersionError,
    SluicewayError,
    StateConflictError,
)
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.driver_term import read_owner
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.route.ownership import check_ledger
from sluiceway.sinks.contract import InspectedTable, TableSink
from sluiceway.sinks.registry import find_table, open_sink
from sluiceway.storage.contract import Storage
from sluiceway.storage.locations import normalise_location
from sluiceway.storage.registry import open_storage

_WHOSE_JOB = "use the job file that fills this table"


class LedgerPlace(Protocol):
    """Where the ledger of a route lies."""

    @property
    def config(self) -> RouteConfig:
        """The config of the route."""

    @property
    def storage(self) -> Storage:
        """The store of its table."""

    @property
    def layout(self) -> LedgerLayout:
        """Names below the table's folder."""


@dataclass(frozen=True, slots=True)
class FoundLedger:
    """A `LedgerPlace` whose table was not read."""

    config: RouteConfig
    storage: Storage
    layout: LedgerLayout


@dataclass(slots=True)
class OpenTable:
    """A route's table, opened for reading; `table` is how its catalog described it then."""

    config: RouteConfig
    table: InspectedTable
    sink: TableSink
    storage: Storage
    layout: LedgerLayout

    def close(self) -> None:
        """End the connection to the catalog. Safe to repeat."""
        self.sink.close()


def open_table(config: RouteConfig) -> OpenTable:
    """Find the table of a route and where its ledger lies. Changes nothing.

    Raises:
        TableNotFoundError: The table does not exist.
        MetastoreUnavailableError: The metastore does not answer.
        NotInThisVersionError: It is a lake table, or a plug-in's that cannot answer this.
        UnhealthyEnvironmentError: Its location is on a store that this version cannot read.
    """
    if config.table.lake is not None:
        raise NotInThisVersionError(
            "this command does not know lake tables yet",
            where=f"{config.table.database}.{config.table.table}",
            hint="status, ledger, offsets, dirty and partitions do; engines read the table itself",
        )
    sink = open_sink(config.catalog, config.table)
    try:
        table = sink.inspect()
        storage, root = open_storage(table.identity.home, config.stores)
    except SluicewayError:
        sink.close()
        raise
    return OpenTable(config, table, sink, storage, LedgerLayout(root, config.route))


def refuse_lakes(routes: Iterable[RouteConfig], command: str, instead: str) -> None:
    """Refuse a command that moves partitions: lake tables have none.

    Args:
        routes: Routes of the job.
        command: The command that is refused.
        instead: What the user can do instead.

    Raises:
        NotInThisVersionError: A route fills a lake table.
    """
    for config in routes:
        if config.table.lake is not None:
            raise NotInThisVersionError(
                f"`sluiceway {command}` does not know lake tables in this version",
                where=f"{config.table.database}.{config.table.table}",
                hint=instead,
            )


def open_place(config: RouteConfig) -> LedgerPlace:
    """Where the ledger of a route lies, as its catalog says. Changes nothing.

    Raises:
        SluicewayError: As `open_table`; lake tables are found too.
    """
    storage, root = open_storage(find_table(config.catalog, config.table).home, config.stores)
    return FoundLedger(config, storage, LedgerLayout(root, config.route))


def find_ledger(config: RouteConfig) -> LedgerPlace:
    """Where the ledger of a route lies: as the job file says, else as the catalog does.

    A table can only lie where the job file says. The catalog is asked when it says nothing, or
    when no ledger is there yet.

    Raises:
        SluicewayError: As `open_place`, when the catalog is asked.
    """
    if config.table.location is not None and config.table.lake is None:
        storage, root = open_storage(normalise_location(config.table.location), config.stores)
        layout = LedgerLayout(root, config.route)
        if storage.status(layout.owner) is not None:
            return FoundLedger(config, storage, layout)
    return open_place(config)


@dataclass(frozen=True, slots=True)
class OpenLedger:
    """A route's ledger, read to its tail."""

    log: LedgerLog
    fold: Fold


def open_ledger(config: RouteConfig) -> OpenLedger:
    """Read the ledger of a route, and see that it is this job's. Changes nothing.

    Returns:
        The ledger; its fold is empty when no driver has ever fenced it.

    Raises:
        TableNotFoundError: The table does not exist.
        LedgerMismatchError: Its ledger belongs to another job or route.
        LedgerCorruptError: The log is damaged.
        MetastoreUnavailableError: The metastore does not answer.
        StorageUnavailableError: The store failed.
    """
    return read_ledger(open_place(config))


def read_ledger(table: LedgerPlace) -> OpenLedger:
    """Read a ledger whose place is known; as `open_ledger`.

    Raises:
        LedgerMismatchError: The ledger belongs to another job or route.
        LedgerCorruptError: The log is damaged.
        StorageUnavailableError: The store failed.
    """
    refuse_foreign_table(table)
    log = LedgerLog(table.storage, table.layout)
    found = OpenLedger(log, log.fold())
    refuse_foreign_log(table, found.fold)
    return found


def refuse_foreign_log(table: LedgerPlace, fold: Fold) -> None:
    """Refuse a log that another job or route has begun.

    Raises:
        LedgerMismatchError: So it is.
    """
    first = fold.first_fence
    if first is not None and (first.job, first.route) != (table.config.job, table.config.route):
        raise LedgerMismatchError(
            f"the ledger is of job {first.job}, route {first.route}",
            where=table.layout.log,
            hint=_WHOSE_JOB,
        )


def refuse_foreign_table(table: LedgerPlace) -> None:
    """Refuse a table that another job or route fills: none of its files is this route's.

    A log of this route under another's OWNER is damaged; `verify` reports that, not this function.

    Raises:
        LedgerMismatchError: OWNER names another job or route, and so does the log, if any.
        StorageUnavailableError: The store failed.
    """
    config, layout = table.config, table.layout
    try:
        owner = read_owner(table.storage, layout)
        if owner is None or (owner.job, owner.route) == (config.job, config.route):
            return
        first = LedgerLog(table.storage, layout).fold().first_fence
    except StateConflictError:
        # Whoever reads the whole log reports damage.
        return
    if first is None or (first.job, first.route) != (config.job, config.route):
        raise LedgerMismatchError(
            f"the table is filled by job {owner.job}, route {owner.route}; "
            f"this is job {config.job}, route {config.route}",
            where=layout.owner,
            hint=_WHOSE_JOB,
        )


def identity_problems(
    storage: Storage, layout: LedgerLayout, fold: Fold, table: InspectedTable, config: RouteConfig
) -> list[tuple[str, str]]:
    """What a driver's start would refuse about the table and its ledger. Changes nothing.

    Called by `verify`, once a route, after its log was folded.

    Returns:
        (where, message) of each problem; empty when all is right.

    Raises:
        StorageUnavailableError: The store failed.
    """
    try:
        owner = read_owner(storage, layout)
    except LedgerCorruptError as error:
        return [(layout.owner, error.message)]
    if owner is None:
        return [(layout.owner, "OWNER is gone")] if fold.next_seq else []
    problems = []
    if (owner.job, owner.route) != (config.job, config.route):
        text = f"names job {owner.job}, route {owner.route}; this is {config.job}, {config.route}"
        problems.append((layout.owner, text))
    first = fold.first_fence
    if first is not None and (first.job, first.route) != (owner.job, owner.route):
        text = f"the log is of job {first.job}, route {first.route}, OWNER says {owner.route}"
        problems.append((layout.log, text))
    try:
        check_ledger(table.state(), owner, fold)
    except SluicewayError as error:
        problems.append((str(table.identity), str(error)))
    return problems
