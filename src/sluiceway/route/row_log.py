"""What the log says of single rows of an epoch, dirty ones and late ones, within limits."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sluiceway.ledger.data_parts import NO_LATE_ROWS
from sluiceway.ledger.records import DataRecord
from sluiceway.observe.log import Log
from sluiceway.types.dirty import by_reason
from sluiceway.worker.plan import TaskResult

_LINES_PER_REASON = 3
_INTERVAL_S = 60.0
_MOST_NAMED = 5


@dataclass(slots=True)
class _Shown:
    """Lines of one reason since `since`, and rows without a line."""

    since: float
    lines: int = 0
    unseen: int = 0


class RowLog:
    """One route's. Used by one thread at a time.

    Args:
        log: The route's log.
        route: Its name.
        clock: Monotonic seconds.
    """

    def __init__(self, log: Log, route: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._route = route
        self._clock = clock
        self._reasons: dict[str, _Shown] = {}
        self._dirty: Counter[str] = Counter()
        self._read = 0
        self._late = NO_LATE_ROWS
        self._warned: dict[str, float] = {}

    def log_rows(self, record: DataRecord, results: Sequence[TaskResult]) -> None:
        """Log what there is to say, within limits. Called once per commit.

        Args:
            record: Record of the epoch.
            results: Answers of its tasks.
        """
        self._dirty.update(record.dirty_reasons)
        self._read += record.counts.read
        if self._dirty and self._is_due("rows_dirty"):
            self._warn_of_dirty_rows()
        self._log_samples(results)
        self._late = self._late.plus(record.late_rows)
        if self._late.total and self._is_due("rows_late"):
            self._log.warning("rows_late", rows=self._late.total, **self._late.as_counts())
            self._late = NO_LATE_ROWS

    def _is_due(self, event: str) -> bool:
        """Whether a warning may be written now: one a minute."""
        now, last = self._clock(), self._warned.get(event)
        due = last is None or now - last >= _INTERVAL_S
        if due:
            self._warned[event] = now
        return due

    def _warn_of_dirty_rows(self) -> None:
        """Count the rows since the warning before, and name their commonest reasons.

        The rows that were read in that time are counted too: all of them are dirty where a name is
        misspelt.
        """
        named = self._dirty.most_common(_MOST_NAMED)
        more = len(self._dirty) - len(named)
        reasons = [f"{name} {rows:,}" for name, rows in named]
        self._log.warning(
            "rows_dirty",
            reason=", ".join([*reasons, f"{more} more"] if more else reasons),
            rows=self._dirty.total(),
            read=self._read,
            hint=f"`sluiceway dirty show JOB --route {self._route}` shows them",
        )
        self._dirty, self._read = Counter(), 0

    def _log_samples(self, results: Sequence[TaskResult]) -> None:
        """Write at most three lines a reason and minute.

        A message holds the value as the column's policy lets it; `redact: true` shows none. Rows
        without a line since the line before are counted in the next one.
        """
        for result in results:
            for reason, number in by_reason(result.dirty_reasons).items():
                self._shown(reason).unseen += number
        for sample in (sample for result in results for sample in result.dirty_samples):
            shown = self._shown(sample.reason)
            if shown.lines >= _LINES_PER_REASON:
                continue
            shown.lines += 1
            unseen, shown.unseen = shown.unseen - 1, 0
            self._log.info(
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
        now = self._clock()
        shown = self._reasons.setdefault(reason, _Shown(now))
        if now - shown.since >= _INTERVAL_S:
            shown.since, shown.lines = now, 0
        return shown
