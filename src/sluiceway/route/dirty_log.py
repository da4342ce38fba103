"""Warns of dirty rows, and shows a few in the log: limited by reason and time."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sluiceway.ledger.records import DataRecord
from sluiceway.observe.log import Log
from sluiceway.types.dirty import by_reason
from sluiceway.worker.plan import TaskResult

_LINES_PER_REASON = 3
_INTERVAL_S = 60.0
_MOST_NAMED = 5


@dataclass(slots=True)
class _Shown:
    """Lines of one reason since `since`, and rows that none was written for."""

    since: float
    lines: int = 0
    unseen: int = 0


@dataclass(slots=True)
class DirtyLog:
    """One route's. Used by one thread at a time.

    Attributes:
        log: Of the route.
        clock: Monotonic seconds.
    """

    log: Log
    clock: Callable[[], float] = time.monotonic
    _reasons: dict[str, _Shown] = field(default_factory=dict)

    def log_rows(self, results: Sequence[TaskResult]) -> None:
        """Write at most three lines a reason and minute. Called once per commit.

        A message holds the value as the column's policy lets it; `redact: true` shows none. What
        was left out since the line before is counted in the next one.

        Args:
            results: Of the tasks of the epoch that was committed.
        """
        rows: dict[str, int] = {}
        for result in results:
            for reason, number in by_reason(result.dirty_reasons).items():
                rows[reason] = rows.get(reason, 0) + number
        for reason, number in rows.items():
            self._shown(reason).unseen += number
        for sample in (sample for result in results for sample in result.dirty_samples):
            shown = self._shown(sample.reason)
            if shown.lines >= _LINES_PER_REASON:
                continue
            shown.lines += 1
            unseen, shown.unseen = shown.unseen - 1, 0
            self.log.info(
                "dirty_row",
                topic=sample.topic,
                partition=sample.partition,
                offset=sample.offset,
                stage=sample.stage,
                reason=sample.reason,
                path=sample.path,
                why=sample.message,
                others=max(0, unseen),
            )

    def _shown(self, reason: str) -> _Shown:
        now = self.clock()
        shown = self._reasons.setdefault(reason, _Shown(now))
        if now - shown.since >= _INTERVAL_S:
            shown.since, shown.lines = now, 0
        return shown


@dataclass(slots=True)
class DirtyWarning:
    """Warns that rows of a route are dirty, at most once a minute. Used by one thread at a time.

    Attributes:
        log: Of the route.
        clock: Monotonic seconds.
        route: Its name.
    """

    log: Log
    clock: Callable[[], float] = time.monotonic
    route: str = ""
    _untold: Counter[str] = field(default_factory=Counter)
    _read: int = 0
    _told: float | None = None

    def log_share(self, record: DataRecord) -> None:
        """Take in the dirty rows of an epoch that was committed. Called once per commit.

        A warning counts the rows since the one before, names their commonest reasons, and says
        how many rows were read in that time: all of them are dirty where a name is misspelt.

        Args:
            record: Of the epoch.
        """
        self._untold.update(record.dirty_reasons)
        self._read += record.counts.read
        now = self.clock()
        waits = self._told is not None and now - self._told < _INTERVAL_S
        if not self._untold or waits:
            return
        named = self._untold.most_common(_MOST_NAMED)
        more = len(self._untold) - len(named)
        told = [f"{name} {rows:,}" for name, rows in named] + ([f"{more} more"] if more else [])
        self.log.warning(
            "rows_dirty",
            reason=", ".join(told),
            rows=self._untold.total(),
            read=self._read,
            hint=f"`sluiceway dirty show JOB --route {self.route}` shows them",
        )
        self._untold, self._read, self._told = Counter(), 0, now
