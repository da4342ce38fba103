"""What the metrics say of one route: its session reports events, the page reads the figures.

Rows count when they are committed, so rows that are read twice count once. The figures of a driver
add up to what its ledger has gained.
"""

import heapq
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.records import DataRecord, FilesRecord
from sluiceway.observe import metrics
from sluiceway.observe.figures import Figures, Labels, largest
from sluiceway.observe.metrics import EpochPhase, EpochResult, RecoveryKind
from sluiceway.observe.steps import Observer, Step
from sluiceway.route.epoch_report import EpochDone
from sluiceway.route.partition_survey import PartitionSurvey
from sluiceway.route.route_meter import Ends
from sluiceway.route.status import EpochTold
from sluiceway.sources.contract import LogBounds, SourcePartition
from sluiceway.storage.contract import Storage
from sluiceway.storage.measured import MeasuredStorage
from sluiceway.types.dirty import by_reason
from sluiceway.worker.plan import TaskResult
from sluiceway.worker.task_figures import seconds_before

_LOOK_EVERY_S = 2.0
_EPOCHS_TOLD = 12
_MICRO = 1_000_000
_PHASES = {
    Step.PREPARED: EpochPhase.PREPARE,
    Step.COMMITTED: EpochPhase.COMMIT,
    Step.PUBLISHED: EpochPhase.PUBLISH,
}


@dataclass(frozen=True, slots=True)
class _Unshown:
    """A commit whose new partitions the catalog does not show yet."""

    seq: int
    at: float


class RouteFigures:
    """Figures of one route while its session lives; a new START goes on counting.

    The session's threads call it, one at a time for each kind of call. The catalog's thread calls
    `applied`, and any thread the store's measure.

    Args:
        config: The route.
        clock: Monotonic seconds.

    Attributes:
        figures: What has been counted.
        announced: Prefixes that were announced last, and when, in seconds since 1970.
        phases: Phase -> seconds that it took in the last committed epoch.
        epochs: The last commits of rows, the oldest first.
        watermark_us: The route's watermark when it was read last; None before there is one.
    """

    def __init__(self, config: RouteConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self.figures = Figures(config.figure_limits)
        self.announced: deque[tuple[str, float]] = deque(maxlen=8)
        self._clock = clock
        self._survey = PartitionSurvey(config, self.figures, self.announced)
        self._planning: float | None = None
        self._last_step: float | None = None
        self._left = False
        self._took: dict[EpochPhase, float] = {}
        self.phases: dict[EpochPhase, float] = {}
        self.epochs: deque[EpochTold] = deque(maxlen=_EPOCHS_TOLD)
        self.watermark_us: int | None = None
        self._looked: float | None = None
        self._unshown: deque[_Unshown] = deque(maxlen=1000)
        self._applied_through = 0

    # The steps of an epoch

    def watching(self, observe: Observer) -> Observer:
        """An observer that times steps before it passes each to `observe`."""

        def step(at: Step) -> None:
            self._time_step(at)
            observe(at)

        return step

    def planning(self) -> None:
        """An epoch is about to be planned."""
        self._planning = self._clock()

    def finishing(self) -> None:
        """The commit of an epoch begins; the outcome of the one before is known."""
        self._took, self._left = {}, False
        self._last_step = self._clock()

    def publishing_left(self) -> None:
        """The commit has waited for its files' names long enough, and goes on without them.

        Its phase ends here. Readers see the rows when the catalog has them: the files come first.
        """
        self._time_step(Step.PUBLISHED)
        self._left = True

    def _time_step(self, step: Step) -> None:
        now = self._clock()
        if step is Step.PLANNED and self._planning is not None:
            self.figures.observe(
                metrics.EPOCH_DURATION, now - self._planning, EpochPhase.PLAN.value
            )
            self._planning = None
        phase = _PHASES.get(step)
        if phase is not None and self._last_step is not None:
            self._took[phase] = now - self._last_step
            self._last_step = now

    def record_commit(self, done: EpochDone, landed: FilesRecord, fold: Fold) -> None:
        """Count an epoch that was committed.

        Args:
            done: The epoch.
            landed: Its record, as it has landed.
            fold: The fold, with this record.
        """
        took, self._took, self._last_step = self._took, {}, None
        self.phases = took
        now_ms = time.time_ns() // 1_000_000
        # Rows are late by as much as it took from their commit to this call.
        committed_ms = now_ms - int(1000 * took.get(EpochPhase.PUBLISH, 0.0))
        took[EpochPhase.RUN] = max(0.0, done.ran - done.planned.started)
        for phase, seconds in took.items():
            self.figures.observe(metrics.EPOCH_DURATION, seconds, phase.value)
        self.figures.add(metrics.EPOCHS, 1, EpochResult.COMMITTED.value)
        self.figures.put_one(metrics.LAST_COMMIT, committed_ms / 1000)
        self._count_tasks(done.results, committed_ms)
        if isinstance(landed, DataRecord):
            self._count_rows(landed)
            self.epochs.append(_epoch_summary(done.seq, committed_ms, landed, took))
            self._time_readable(done.seq, landed, fold, took.get(EpochPhase.PUBLISH, 0.0))
        self._survey.update(fold, changed=True)

    def _count_rows(self, record: DataRecord) -> None:
        add, counts = self.figures.add, record.counts
        by_topic: Counter[str] = Counter()
        for span in record.ranges:
            by_topic[span.topic] += int(span.rows)
            if span.copies:
                add(metrics.COPIES_DROPPED, int(span.copies), span.topic)
        for topic, rows in by_topic.items():
            add(metrics.RECORDS_READ, rows, topic)
        add(metrics.RECORDS_WRITTEN, int(counts.written))
        add(metrics.RECORDS_FILTERED, int(counts.filtered))
        add(metrics.RECORDS_SKIPPED, int(counts.skipped))
        add(metrics.FILES_WRITTEN, len(record.files))
        add(metrics.BYTES_WRITTEN, sum(int(file.size_bytes) for file in record.files))
        for reason, rows in by_reason(record.dirty_reasons).items():
            add(metrics.RECORDS_DIRTY, rows, reason)
        for policy, rows in record.late_rows.as_counts().items():
            add(metrics.RECORDS_LATE, rows, policy)

    def _count_tasks(self, results: Sequence[TaskResult], committed_ms: int) -> None:
        figures = self.figures
        for result in results:
            told = result.figures
            for topic, size in told.bytes_read.items():
                figures.add(metrics.BYTES_READ, size, topic)
            appended = seconds_before(told.appended, committed_ms)
            figures.observe_all(metrics.END_TO_END, *appended)
            happened = seconds_before(told.happened, committed_ms)
            figures.observe_all(metrics.ARCHIVE_DELAY, *happened)
            spent_ms = result.timings_ms.get("write", 0) + result.timings_ms.get("close", 0)
            figures.observe(metrics.WRITE_LATENCY, spent_ms / 1000)
        if results:
            figures.put_one(metrics.OPEN_WRITERS, sum(each.figures.open_files for each in results))
            memory = max(each.figures.memory_bytes for each in results)
            figures.put_one(metrics.WORKER_MEMORY, memory)

    # What did not become a commit

    def failed(self, answers: Sequence[TaskResult]) -> None:
        """Count the tasks of an epoch that have failed. Called once an epoch, also with none."""
        lost = [each for each in answers if each.failure is not None]
        if not lost:
            return
        self.figures.add(metrics.EPOCHS, 1, EpochResult.FAILED.value)
        rows = sum(each.figures.rows_read for each in lost)
        self.figures.add(metrics.WRITE_FAILED_RECORDS, rows)
        size = sum(sum(each.figures.bytes_read.values()) for each in lost)
        self.figures.add(metrics.WRITE_FAILED_BYTES, size)

    def died(self) -> None:
        """Count an epoch of which no task has answered."""
        self.figures.add(metrics.EPOCHS, 1, EpochResult.FAILED.value)

    def thrown_away(self, answers: Sequence[TaskResult]) -> None:
        """Count an epoch that was planned on an epoch that did not land: it is read again."""
        self.figures.add(metrics.EPOCHS, 1, EpochResult.THROWN_AWAY.value)
        rows = sum(int(each.counts.read) for each in answers if each.failure is None)
        self.figures.add(metrics.DUPLICATES_PREVENTED, rows)

    def put_repeated(self) -> None:
        """A put of a record is repeated, as its outcome is not known."""
        self.figures.add(metrics.COMMIT_RETRIES, 1)

    def passed_over(self) -> None:
        """A snapshot of the table that is read has removed rows, and is passed over."""
        self.figures.add(metrics.SNAPSHOTS_PASSED_OVER, 1)

    def recovered(self, kind: RecoveryKind, count: int = 1) -> None:
        """A START has done what was left to do."""
        self.figures.add(metrics.RECOVERIES, count, kind.value)

    # Looks at source and ledger

    def looked(self, fold: Fold, bounds: Mapping[SourcePartition, LogBounds]) -> None:
        """Take in log ends, at most every two seconds. No commit is under way."""
        now = self._clock()
        if self._looked is not None and now - self._looked < _LOOK_EVERY_S:
            return
        self._looked = now
        self._set_lag(fold, bounds)
        self.figures.put_one(metrics.DIRTY_ROWS_OPEN, fold.dirty_rows_open)
        watermark = self.watermark_us = fold.watermark.us
        self.figures.put_one(metrics.WATERMARK, None if watermark is None else watermark / _MICRO)
        self._survey.update(fold)

    def _set_lag(self, fold: Fold, bounds: Mapping[SourcePartition, LogBounds]) -> None:
        by_topic: dict[str, float] = {}
        lags, times = [], []
        for (topic, number), known in fold.sources.items():
            if known.retired:
                continue
            place = bounds.get(SourcePartition(topic, number))
            lag = 0 if place is None else place.waiting(known.end)
            if place is not None:
                by_topic[topic] = by_topic.get(topic, 0) + lag
            lags.append((-lag, topic, number, known.end))
            if known.max_event_time_us is not None:
                times.append((known.max_event_time_us, topic, number))
        most = self.figures.limits.partitions
        if len(lags) > most:
            self.figures.cut("partition", len(lags) - most)
        self._put_lag(by_topic)
        furthest = heapq.nsmallest(most, lags)
        ends: dict[Labels, float] = {(topic, str(n)): end for _, topic, n, end in furthest}
        self.figures.put(metrics.COMMITTED_OFFSET, ends)
        oldest = heapq.nsmallest(most, times)
        self.figures.put(
            metrics.SOURCE_WATERMARK, {(topic, str(n)): us / _MICRO for us, topic, n in oldest}
        )

    def looked_beside(self, ends: Ends, bounds: Mapping[SourcePartition, LogBounds]) -> None:
        """Take in log ends of a route that goes round no more, and what the clock says of it.

        Args:
            ends: What is committed of the logs that are read.
            bounds: The log ends; empty when no leader answers.
        """
        by_topic: Counter[str] = Counter()
        for one, place in bounds.items():
            by_topic[one.topic] += place.waiting(ends[one].end)
        if bounds:
            self._put_lag(by_topic)
        self._survey.count_overdue()

    def _put_lag(self, by_topic: Mapping[str, float]) -> None:
        topics, cut = largest(by_topic, self.figures.limits.topics)
        if cut:
            self.figures.cut("topic", cut)
        self.figures.put(metrics.LAG_RECORDS, {(topic,): lag for topic, lag in topics.items()})

    # What works after the commit

    def applied(self, through: int) -> None:
        """The catalog has what all records below `through` ask for."""
        self._applied_through = max(self._applied_through, through)
        while self._unshown and self._unshown[0].seq < through:
            shown = self._unshown.popleft()
            self.figures.observe(metrics.READABLE_DELAY, self._clock() - shown.at)

    def _time_readable(self, seq: int, landed: DataRecord, fold: Fold, published_s: float) -> None:
        """Rows of known partitions are seen with their files, others when the catalog has them."""
        if not landed.files:
            return
        is_shown = seq < self._applied_through or not (
            self._left
            or any(file.values and _is_new(fold, file.final, seq) for file in landed.files)
        )
        if is_shown:
            self.figures.observe(metrics.READABLE_DELAY, published_s)
        else:
            self._unshown.append(_Unshown(seq, self._clock() - published_s))

    def measured(self, store: Storage) -> Storage:
        """The same store, with its calls timed."""
        return MeasuredStorage(
            store,
            lambda operation, seconds: self.figures.observe(
                metrics.STORE_OPERATION, seconds, operation
            ),
        )


def _epoch_summary(
    seq: int, committed_ms: int, record: DataRecord, took: Mapping[EpochPhase, float]
) -> EpochTold:
    counts = record.counts
    return EpochTold(
        seq=seq,
        committed_ms=committed_ms,
        rows_read=int(counts.read),
        rows_written=int(counts.written),
        rows_dirty=int(counts.dirty),
        files=len(record.files),
        phases={phase.value: round(seconds, 4) for phase, seconds in took.items()},
    )


def _is_new(fold: Fold, final: str, seq: int) -> bool:
    """Whether the catalog needs the partition of a file since this slot."""
    folder = final.rpartition("/")[0]
    known = fold.partitions.get(fold.moved.get(folder, folder))
    return known is not None and known.placed_seq >= seq
