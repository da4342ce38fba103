"""`gc` of one route: removes garbage below its stage folder."""

from sluiceway.audit.open_table import open_ledger
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.collect import Collected, garbage_of

_ALL = 1 << 62


def collect_route(config: RouteConfig, *, dry_run: bool) -> Collected:
    """Remove the garbage of a route, or only list it. A live driver may go on.

    Writes no record and takes no fence: a file that the log no longer needs stays unneeded.

    Raises:
        TableNotFoundError: There is no such table.
        LedgerMismatchError: Its ledger is another job's or route's.
        LedgerCorruptError: The log is damaged; nothing is removed then.
        StorageUnavailableError: The store failed.
        MetastoreUnavailableError: The place of the table is not known.
    """
    ledger = open_ledger(config)
    return garbage_of(ledger.log, ledger.fold).collect(dry_run=dry_run, most=_ALL)
