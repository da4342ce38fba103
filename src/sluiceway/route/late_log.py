"""Warns of late rows, at most once a minute: each line tells those since the line before."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from sluiceway.ledger.late_records import NO_LATE_ROWS, LateRows
from sluiceway.ledger.records import DataRecord
from sluiceway.observe.log import Log

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
