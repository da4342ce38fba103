"""Tells people what an epoch has committed: the log line and the progress line."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sluiceway.job.dirty_limits import PREPARED_AT
from sluiceway.job.planner import PlannedEpoch
from sluiceway.ledger.records import DataRecord
from sluiceway.observe.log import Log
from sluiceway.observe.profile import EpochTimes
from sluiceway.observe.progress import EpochRows, Progress
from sluiceway.worker.plan import TaskResult


@dataclass(frozen=True, slots=True)
class EpochDone:
    """An epoch that was committed and published.

    Attributes:
        seq: Slot of its record.
        results: Of the tasks that finished.
        planned: What was asked for.
        ran: When its tasks had answered.
    """

    seq: int
    record: DataRecord
    results: Sequence[TaskResult]
    planned: PlannedEpoch
    ran: float


def tell_epoch(log: Log, progress: Progress, route: str, done: EpochDone) -> None:
    """Called once per commit, after everything else of the epoch."""
    now, started = time.monotonic(), done.planned.started
    counts = done.record.counts
    spent_ms = {
        name: value for name, value in done.record.timings_ms.items() if name != PREPARED_AT
    }
    rows = EpochRows(int(counts.read), int(counts.dirty), int(counts.filtered))
    progress.epoch(done.seq, rows, now - started, route=route)
    log.info(
        "committed",
        seq=done.seq,
        epoch=done.record.epoch,
        read=counts.read,
        written=counts.written,
        dirty=counts.dirty,
        filtered=counts.filtered,
        late=done.record.late_rows.total,
        skipped=counts.skipped,
        **_notes(done.results),
        files=len(done.record.files),
        run_ms=int((done.ran - started) * 1000),
        commit_ms=int((now - done.ran) * 1000),
        consumers_reused=sum(result.consumer_reused for result in done.results),
        tasks=len(done.results),
        ahead=done.planned.ahead,
        timings_ms=spent_ms,
        **({"dirty_reasons": done.record.dirty_reasons} if done.record.dirty_reasons else {}),
    )
    progress.profile.epoch(
        EpochTimes(
            rows=rows.read,
            tasks_ms=spent_ms,
            longest_task_ms=max((r.timings_ms.get("task", 0) for r in done.results), default=0),
            run_ms=int((done.ran - started) * 1000),
            commit_ms=int((now - done.ran) * 1000),
        )
    )


def _notes(results: Sequence[TaskResult]) -> dict[str, dict[str, int]]:
    """What the format has counted besides; not in the line where that is nothing."""
    notes: Counter[str] = Counter()
    for result in results:
        notes.update(result.notes)
    return {"notes": dict(sorted(notes.items()))} if notes else {}
