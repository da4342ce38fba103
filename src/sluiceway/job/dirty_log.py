"""Shows a few dirty rows in the log: sampled by the tasks, limited by reason and time."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sluiceway.observe.log import Log
from sluiceway.types.dirty import by_reason
from sluiceway.worker.plan import TaskResult

_LINES_PER_REASON = 3
_INTERVAL_S = 60.0


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

    def tell(self, results: Sequence[TaskResult]) -> None:
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
