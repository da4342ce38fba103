"""What the log says of single rows of an epoch: dirty ones, late ones."""

from collections.abc import Sequence

from sluiceway.ledger.records import DataRecord
from sluiceway.observe.log import Log
from sluiceway.route.dirty_log import DirtyLog, DirtyWarning
from sluiceway.route.late_log import LateLog
from sluiceway.worker.plan import TaskResult


class RowLog:
    """One route's. Used by one thread at a time.

    Args:
        log: Of the route.
        route: Its name.
    """

    def __init__(self, log: Log, route: str) -> None:
        self._dirty = DirtyLog(log)
        self._warning = DirtyWarning(log, route=route)
        self._late = LateLog(log)

    def log_rows(self, record: DataRecord, results: Sequence[TaskResult]) -> None:
        """Say what there is to say, within limits. Called once per commit.

        Args:
            record: Of the epoch.
            results: Of its tasks.
        """
        self._warning.log_share(record)
        self._dirty.log_rows(results)
        self._late.log_rows(record)
