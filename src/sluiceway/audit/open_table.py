"""From a route to the parts that a check of its table needs."""

from dataclasses import dataclass

from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.errors import LedgerMismatchError, NotInThisVersionError
from sluiceway.job.config import RouteConfig
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.sinks.registry import METASTORE
from sluiceway.storage.contract import Storage
from sluiceway.storage.registry import open_storage


@dataclass(slots=True)
class OpenTable:
    """A route's table, opened for reading."""

    config: RouteConfig
    metastore: MetastoreClient
    storage: Storage
    layout: LedgerLayout


def open_table(config: RouteConfig) -> OpenTable:
    """Find the table of a route and where its ledger lies. Changes nothing.

    Raises:
        LedgerMismatchError: The table does not exist.
        MetastoreUnavailableError: The metastore does not answer.
        NotInThisVersionError: A plug-in's catalog holds the table.
        UnhealthyEnvironmentError: Its location is on a store that this version cannot read.
    """
    if config.catalog.kind != METASTORE:
        raise NotInThisVersionError(
            f"this command finds tables through a metastore only, not through {config.catalog.kind}"
        )
    metastore = MetastoreClient(config.hive.metastore, config.hive.timeout_s)
    table = metastore.get_table(config.hive.database, config.hive.table)
    if table is None:
        metastore.close()
        raise LedgerMismatchError(
            f"the table {config.hive.database}.{config.hive.table} does not exist",
            hint="`sluiceway run` creates it",
        )
    storage, root = open_storage(table.layout.location)
    return OpenTable(config, metastore, storage, LedgerLayout(root, config.route))
