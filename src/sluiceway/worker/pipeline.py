"""From fetched batches to staged files: a list of stages, made for a route; every row counted."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from sluiceway.ledger.data_parts import NO_LATE_ROWS, LateRows
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.records import RowCounts
from sluiceway.sources.contract import SourceBatch
from sluiceway.storage.contract import Storage
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import NO_FIGURES, DirtySample, ObservedField, TaskFigures, TaskPlan
from sluiceway.worker.read_stages import ReadStages
from sluiceway.worker.row_batch import RowBatch, RowStage
from sluiceway.worker.row_files import RowFiles
from sluiceway.worker.row_shares import RowShares
from sluiceway.worker.row_stages import CountEventTimes, FindPlaces, FitToFiles, RejectDirty
from sluiceway.worker.row_times import partition_assigner
from sluiceway.worker.row_writer import RowWriter
from sluiceway.worker.staged_files import StagedFiles
from sluiceway.worker.task_figures import FigureTally, SplitTotals, TaskCounts
from sluiceway.worker.write_behind import WriteLane

if TYPE_CHECKING:
    from sluiceway.sinks.change_judge import ChangeJudge


@dataclass(frozen=True, slots=True)
class Written:
    """What one attempt wrote."""

    attempt: str
    files: tuple[FileRecord, ...]
    dirty_files: tuple[FileRecord, ...]
    counts: RowCounts
    dirty_reasons: dict[str, int]
    notes: dict[str, int]
    totals: tuple[SplitTotals, ...]
    timings_ms: dict[str, int]
    dirty_samples: tuple[DirtySample, ...]
    unknown_fields: tuple[ObservedField, ...]
    late_files: tuple[FileRecord, ...] = ()
    late_rows: LateRows = NO_LATE_ROWS
    unfilled: tuple[str, ...] | None = None
    figures: TaskFigures = NO_FIGURES
    landed: tuple[FileRecord, ...] = ()
    tables: tuple[str, ...] = ()


class RowPipeline:
    """Takes fetched batches until it is closed or aborted. One task; used by its thread.

    Args:
        plan: The task.
        storage: The table's storage.
        lane: Writes its files while the caller's thread goes on. What touches files or counts
            what was written runs there, until `close` or `abort` has waited for it.
        files: Takes the rows; None stages files.
        judge: Judges changes that are read once more; None for changes of the queue.
        reads: Stages before its own, which routes of the task may share; None makes them.

    Attributes:
        figures: What is counted for metrics alone.
    """

    def __init__(
        self,
        plan: TaskPlan,
        storage: Storage,
        lane: WriteLane,
        files: RowFiles | None = None,
        *,
        judge: "ChangeJudge | None" = None,
        reads: ReadStages | None = None,
    ) -> None:
        self._splits = [split.partition for split in plan.splits]
        self._reads = reads or ReadStages(plan, time.monotonic())
        self._counts = TaskCounts()
        self._newest = [SplitTotals() for _ in plan.splits]
        self.figures = FigureTally(self._splits, self._reads.done.figures.fetched)
        self._part, self._stages, file_schema = self._open_stages(plan, judge)
        self._share = plan.route.share
        self._tables: dict[str, None] = {}
        self._lands = plan.route.sql is not None
        self._files = files or self._open_files(plan, storage, file_schema)
        self._writer = RowWriter(self._files, lane.memory)
        self._lane = lane
        rules = plan.route.rolling
        due_s = min(rules.roll_interval_s, rules.idle_close_s)
        # In a shorter epoch no file grows that old.
        self._tend_every_s = due_s / 4 if due_s < plan.deadline_s else math.inf
        self._next_tend_s = time.monotonic() + self._tend_every_s

    def _open_files(self, plan: TaskPlan, storage: Storage, schema: pa.Schema) -> RowFiles:
        if not self._lands:
            return StagedFiles(storage, plan, schema)
        from sluiceway.worker.landing import LandedFiles  # noqa: PLC0415 - only where it is used

        return LandedFiles(storage, plan, schema)

    def _open_stages(
        self, plan: TaskPlan, judge: "ChangeJudge | None"
    ) -> tuple[str, list[RowStage], pa.Schema]:
        """Name of their share of the task's time, the stages after reading, and files' schema.

        The route's plan decides which there are: rows without a key load no code of changes.
        """
        route, counts, splits, schema = plan.route, self._counts, self._splits, self._reads.schema
        timed = CountEventTimes(self._newest, self.figures)
        if route.sql is not None:
            from sluiceway.worker.landing import LandRows  # noqa: PLC0415 - only where it is used

            landing = LandRows(plan, schema)
            return "land", [timed, landing, RejectDirty(route, counts)], landing.schema
        assigner = partition_assigner(route.partitions, route.event_time, schema)
        columns = FitToFiles(route, schema)
        place: list[RowStage] = [FindPlaces(plan, assigner, counts), columns]
        if route.key is not None:
            from sluiceway.worker import keyed_stages  # noqa: PLC0415 - only where it is used

            if judge is not None:
                place.append(keyed_stages.ReplayedChanges(judge, splits, counts))
            else:
                place.append(keyed_stages.NewChanges(assigner, columns, counts))
        return "route", [*place, timed, RejectDirty(route, counts)], columns.schema

    @property
    def rows_read(self) -> int:
        """Rows that were handed over so far."""
        return self._reads.done.counts.read

    def write(self, batches: Sequence[SourceBatch]) -> None:
        """Decode, convert and route what one read returned, and have it written.

        Returns before it is written, unless too much waits for that.

        Args:
            batches: As in `ReadStages.read`.

        Raises:
            StorageUnavailableError: The store failed, perhaps at what came before; the attempt is
                discarded.
            TaskFailedError: Rows cannot be written.
        """
        rows = self._reads.read(batches)
        if self._share is not None:
            (rows,) = RowShares([self._share]).deal(rows)
        self.write_rows(rows)

    def write_rows(self, rows: RowBatch) -> None:
        """As `write`, for what its `ReadStages` have made; the rows are the pipeline's own."""
        since = time.monotonic()
        self._counts.filtered += rows.elsewhere
        self._tables |= dict.fromkeys(rows.found)
        for stage in self._stages:
            stage.apply(rows)
        since = self._counts.add_time(self._part, since)
        self._submit(rows)
        self._counts.add_time("write_wait", since)

    def _submit(self, rows: RowBatch) -> None:
        """Have the rows written in the lane's thread."""
        clean, rejected = rows.columns, rows.rejected
        size_bytes = clean.nbytes + (0 if rejected is None else rejected.nbytes)
        self._lane.submit(size_bytes, partial(self._writer.write, clean, rows.places, rejected))

    def poll(self) -> None:
        """Have files closed that are open, or had no row, for too long. Called now and then.

        Raises:
            StorageUnavailableError: The store failed, perhaps at what came before; the attempt is
                discarded.
            TaskFailedError: A file is not what was written.
        """
        if time.monotonic() < self._next_tend_s:
            return
        self._next_tend_s = time.monotonic() + self._tend_every_s
        self._lane.submit(0, self._writer.poll)

    def close(self) -> Written:
        """Close and check the files. Called once, after the last batch.

        Raises:
            StorageUnavailableError: The store failed; the attempt is discarded.
            TaskFailedError: A file is not what was written.
        """
        started = time.monotonic()
        self._lane.finish()
        files, dirty_files, late_files = self._writer.close()
        counted, read = self._counts, self._reads.done
        late = counted.late_rows.plus(self._writer.late_rows)
        landed: tuple[FileRecord, ...] = ()
        if self._lands:
            # The SQL's job says how many of them are written.
            landed, files, self._writer.rows = files, (), 0
        counted.seconds["write"] += self._writer.seconds
        counted.seconds["close"] += time.monotonic() - started
        for part, spent in read.counts.seconds.items():
            counted.seconds[part] += spent / read.routes
        return Written(
            attempt=self._files.attempt,
            files=files,
            dirty_files=dirty_files,
            counts=RowCounts(
                BigInt(read.counts.read),
                BigInt(self._writer.rows),
                BigInt(counted.dirty),
                late.side,
                BigInt(counted.filtered + read.counts.filtered),
                BigInt(counted.skipped + read.counts.skipped),
                BigInt(counted.expanded),
            ),
            dirty_reasons=counted.reasons.counts(),
            notes=dict(counted.notes + read.counts.notes),
            totals=tuple(
                replace(total, max_event_time_us=newest.max_event_time_us)
                for total, newest in zip(read.totals, self._newest, strict=True)
            ),
            timings_ms={name: int(spent * 1000) for name, spent in counted.seconds.items()},
            dirty_samples=tuple(counted.reasons.samples),
            unknown_fields=self._reads.decode.unknown_fields(),
            late_files=late_files,
            late_rows=late,
            unfilled=self._reads.decode.unfilled(),
            figures=self.figures.finished(self._files.most_open),
            landed=landed,
            tables=tuple(self._tables),
        )

    def abort(self) -> None:
        """Drop what is open. Safe to repeat."""
        self._lane.drop()
        self._writer.abort()
