"""From a route to the parts that a check of its table needs."""

from dataclasses import dataclass

from sluiceway.catalog.hive_table import HiveTable
from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.errors import LedgerMismatchError
from sluiceway.job.config import RouteConfig
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.storage.contract import Storage
from sluiceway.storage.registry import open_storage


@dataclass(slots=True)
class OpenTable:
    """A route's table, opened for reading; `table` is how the metastore described it then."""

    config: RouteConfig
    table: HiveTable
    metastore: MetastoreClient
    storage: Storage
    layout: LedgerLayout


def open_table(config: RouteConfig) -> OpenTable:
    """Find the table of a route and where its ledger lies. Changes nothing.

    Raises:
        LedgerMismatchError: The table does not exist.
        MetastoreUnavailableError: The metastore does not answer.
        UnhealthyEnvironmentError: Its location is on a store that this version cannot read.
    """
    metastore = MetastoreClient(config.hive.metastore, config.hive.timeout_s)
    table = metastore.get_table(config.hive.database, config.hive.table)
    if table is None:
        metastore.close()
        raise LedgerMismatchError(
            f"the table {config.hive.database}.{config.hive.table} does not exist",
            hint="`sluiceway run` creates it",
        )
    storage, root = open_storage(table.layout.location)
    return OpenTable(config, table, metastore, storage, LedgerLayout(root, config.route))
