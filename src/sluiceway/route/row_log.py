"""What the log says of single rows of an epoch: dirty ones, late ones."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sluiceway.ledger.late_records import NO_LATE_ROWS, LateRows
from sluiceway.ledger.records import DataRecord
from sluiceway.observe.log import Log
from sluiceway.route.dirty_log import DirtyLog, DirtyWarning
from sluiceway.worker.plan import TaskResult

_INTERVAL_S = 60.0


@dataclass(slots=True)
class LateLog:
    """One route's. Used by one thread at a time.

    Attributes:
        log: Of the route.
        clock: Monotonic seconds.
    """

    log: Log
    clock: Callable[[], float] = time.monotonic
    _untold: LateRows = NO_LATE_ROWS
    _told: float | None = None

    def log_rows(self, record: DataRecord) -> None:
        """Take in the late rows of an epoch that was committed. Called once per commit."""
        self._untold = self._untold.plus(record.late_rows)
        now = self.clock()
        waits = self._told is not None and now - self._told < _INTERVAL_S
        if not self._untold.total or waits:
            return
        self.log.warning("rows_late", rows=self._untold.total, **self._untold.as_counts())
        self._untold, self._told = NO_LATE_ROWS, now


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
