"""Reports what an epoch has committed: the log line and the progress line."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sluiceway.jobfile.compile.dirty_limits import PREPARED_AT
from sluiceway.ledger.layout import late_folder
from sluiceway.ledger.records import DataRecord, FilesRecord
from sluiceway.observe.log import Log
from sluiceway.observe.profile import EpochDurations
from sluiceway.observe.progress import EpochRows, Progress
from sluiceway.schedule.planner import PlannedEpoch
from sluiceway.storage.contract import NO_REQUESTS, RequestCount
from sluiceway.worker.plan import TaskResult


@dataclass(frozen=True, slots=True)
class EpochDone:
    """An epoch that was committed and published.

    Attributes:
        seq: Slot of its record.
        results: Answers of the tasks that finished.
        planned: What was asked for.
        ran: When its tasks had answered.
        own_requests: To the store, by the driver.
    """

    seq: int
    record: DataRecord
    results: Sequence[TaskResult]
    planned: PlannedEpoch
    ran: float
    own_requests: RequestCount = NO_REQUESTS


def log_epoch(log: Log, progress: Progress, route: str, done: EpochDone) -> None:
    """Called once per commit, after everything else of the epoch."""
    now, started = time.monotonic(), done.planned.started
    counts = done.record.counts
    spent_ms = {
        name: value for name, value in done.record.timings_ms.items() if name != PREPARED_AT
    }
    copies = sum(int(span.copies) for span in done.record.ranges)
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
        **_requests(done),
        **({"copies": copies} if copies else {}),
        **({"dirty_reasons": done.record.dirty_reasons} if done.record.dirty_reasons else {}),
    )
    progress.profile.epoch(
        EpochDurations(
            rows=rows.read,
            tasks_ms=spent_ms,
            longest_task_ms=max((r.timings_ms.get("task", 0) for r in done.results), default=0),
            run_ms=int((done.ran - started) * 1000),
            commit_ms=int((now - done.ran) * 1000),
        )
    )


def _requests(done: EpochDone) -> dict[str, dict[str, int]]:
    """What the epoch has cost in requests; not in the line of a store that is not paid by them."""
    total = sum((result.store_requests for result in done.results), done.own_requests)
    if total == NO_REQUESTS:
        return {}
    return {"store_requests": {"reads": total.reads, "writes": total.writes}}


def _notes(results: Sequence[TaskResult]) -> dict[str, dict[str, int]]:
    """What the format has counted in addition; left out of the line where that is nothing."""
    notes: Counter[str] = Counter()
    for result in results:
        notes.update(result.notes)
    return {"notes": dict(sorted(notes.items()))} if notes else {}


def log_sealed(log: Log, record: DataRecord, landed: FilesRecord) -> None:
    """Say that rows went aside, as their partitions take none any more. Called once per commit.

    Args:
        log: The route's log.
        record: The record as its tasks have answered.
        landed: The record as it landed.
    """
    if isinstance(landed, DataRecord) and landed.counts.late > record.counts.late:
        file = landed.late_files[len(record.late_files)]
        rows = landed.counts.late - record.counts.late
        log.warning("rows_for_sealed", rows=rows, first=late_folder(file.final))
