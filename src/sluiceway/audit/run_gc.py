"""`gc` of one route: what may go under its stage folder goes."""

from sluiceway.audit.open_table import open_ledger
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.collect import Collected, garbage_of

_ALL = 1 << 62


def collect_route(config: RouteConfig, *, dry_run: bool) -> Collected:
    """Remove the garbage of a route, or only say what would go. A live driver may go on.

    Writes nothing to the log and takes no fence: what the log lets go once it lets go for ever.

    Raises:
        TableNotFoundError: There is no such table.
        LedgerMismatchError: Its ledger is another job's or route's.
        LedgerCorruptError: The log is damaged; nothing is removed then.
        StorageUnavailableError: The store failed.
        MetastoreUnavailableError: It is not known where the table is.
    """
    ledger = open_ledger(config)
    return garbage_of(ledger.log, ledger.fold).collect(dry_run=dry_run, most=_ALL)
