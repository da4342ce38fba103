"""Tasks: real staged files, answers and results; simulated reading; attempts that die or last."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sim.broker import CLEAN, DIRTY, FILTERED, Broker, Log, outcome, repaired
from sim.readiness import event_time_us
from sim.scheduler import Process, Scheduler
from sim.sql import SEVERAL, SimSqlWorld, fails_in_sql, lines_of
from sim.weather import Weather
from sluiceway.errors import SluicewayError, StorageUnavailableError, TaskFailedError
from sluiceway.ledger.data_parts import LateRows
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.offset_sum import offset_sum
from sluiceway.ledger.records import RowCounts
from sluiceway.schedule.runner import Bundle, TaskRunner, finished_results
from sluiceway.schedule.sql_engine import SqlEngine
from sluiceway.sinks.change_judge import ChangeJudge
from sluiceway.sources.contract import Split
from sluiceway.sources.kafka import log_cuts
from sluiceway.sources.kafka.log_cuts import LogCut
from sluiceway.sources.kafka.progress import SplitProgress
from sluiceway.storage.contract import FileSeal, StagedWriter, Storage
from sluiceway.types.strict_json import BigInt
from sluiceway.worker import answers, lane_task
from sluiceway.worker.landing import LandedFiles, first_number
from sluiceway.worker.plan import LatePlace, LatePolicy, SplitResult, TaskPlan, TaskResult
from sluiceway.worker.staged_files import StagedFiles

if TYPE_CHECKING:
    import pyarrow as pa

_POLL_S = 0.1
LATE = "late"


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """What a closed file of rows was."""

    path: str
    rows: int
    seal: FileSeal
    column_bounds: tuple[tuple[str, tuple[str, str]], ...] = ()


class RowsFormat:
    """Stands in for a file format."""

    extension = ".parquet"

    def __init__(self, schema: object, choice: object) -> None:
        del schema, choice

    def new_file(self, writer: StagedWriter) -> "RowsFile":
        return RowsFile(writer)

    def check(self, storage: Storage, path: str, *, size_bytes: int, rows: int) -> None:
        """Look at a closed file through a fresh handle."""
        try:
            with storage.open_read(path) as stream:
                content = stream.read()
        except OSError as error:
            raise StorageUnavailableError("it cannot be read", where=path) from error
        if len(content) != size_bytes or content.count(b"\n") != rows:
            raise TaskFailedError("the file is not what was written", where=path)


class RowsFile:
    """Stands in for a Parquet file: one line `partition:offset` a row."""

    buffered_bytes = flushable_bytes = written_bytes = 0
    keeps_batches = False

    def __init__(self, writer: StagedWriter) -> None:
        self._writer = writer
        self._rows: list[tuple[Any, ...]] = []

    def write(self, rows: "list[tuple[Any, ...]] | pa.RecordBatch") -> None:
        self._rows += lines_of(rows)

    def close(self) -> WrittenRows:
        text = "".join(":".join(map(str, row)) + "\n" for row in self._rows)
        self._writer.handle().write(text.encode())
        return WrittenRows(self._writer.path, len(self._rows), self._writer.seal())

    def abort(self) -> None:
        self._writer.abort()


class Cluster(Protocol):
    """The world, as tasks see it."""

    scheduler: Scheduler
    weather: Weather
    broker: Broker
    sql: SimSqlWorld

    @property
    def is_timed(self) -> bool: ...

    def storage(self) -> Storage: ...

    def value(self, partition: int, offset: int) -> str: ...

    def spoil_staged(self, results: Sequence[TaskResult]) -> None: ...
    def check_start(self, split: Split) -> None: ...


@dataclass(slots=True)
class _Reading:
    """A split as it is read; how far, and under which leader epoch, the product's own code says."""

    progress: SplitProgress
    offsets: list[int] = field(default_factory=list)
    begun: bool = False

    @property
    def split(self) -> Split:
        return self.progress.split

    @property
    def end(self) -> int:
        return self.progress.next_offset


class _Asked:
    """What a consumer is asked about a log that was cut."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def get_watermark_offsets(self, place: object, *, timeout: float) -> tuple[int, int]:
        del place, timeout
        return self._log.first, len(self._log.rows)


class Attempt:
    """One attempt at a task."""

    def __init__(self, cluster: Cluster, bundle: Bundle) -> None:
        self._cluster = cluster
        self._bundle = bundle
        self.answers: list[TaskResult] | None = None
        self.slow = False

    def run(self) -> None:
        """The whole task; runs in a process of its own."""
        self.answers = [found for plan in self._bundle if (found := self._answer(plan)) is not None]

    def give_up(self) -> None:
        """What a retry of a dead attempt says: nothing was read, for this reason."""
        error = TaskFailedError("an attempt died")
        self.answers = [answers.failed_result(plan, error) for plan in self._bundle]

    def _answer(self, plan: TaskPlan) -> TaskResult | None:
        storage = self._cluster.storage()
        try:
            readings = self._read(plan, storage)
            if self.slow:
                self._cluster.scheduler.wait(None, 4 + self._cluster.scheduler.rng.random() * 30)
            if all(reading.end == reading.split.start_offset for reading in readings):
                return None
            return answers.put_result(plan, storage, self._write(plan, storage, readings))
        except SluicewayError as error:
            return answers.failed_result(plan, error)

    def _read(self, plan: TaskPlan, storage: Storage) -> list[_Reading]:
        scheduler = self._cluster.scheduler
        deadline = scheduler.now + plan.deadline_s
        readings = [_Reading(SplitProgress(split)) for split in plan.splits]
        while True:
            for reading in readings:
                self._fetch(reading)
            if scheduler.now >= deadline or all(each.progress.done for each in readings):
                return readings
            scheduler.wait(None, _POLL_S + scheduler.rng.random() * plan.deadline_s)
            try:
                if storage.status(plan.stop_path) is not None:
                    return readings
            except StorageUnavailableError:
                continue

    def _fetch(self, reading: _Reading) -> None:
        partition = reading.split.partition
        log = self._cluster.broker.topics[partition.topic][partition.number]
        if not reading.begun:
            reading.begun = True
            self._hold_against(reading.split, log)
        stop = reading.split.stop_offset
        end = min(log.stable_end, len(log.rows) if stop is None else stop)
        if end <= reading.end:
            return
        rng = self._cluster.scheduler.rng
        whole = rng.random() < 0.5
        until = end if whole else rng.randrange(reading.end, end + 1)
        found = [offset for offset in range(reading.end, until) if log.rows[offset]]
        reading.offsets += found
        # Between two rows it is unknown how far a hole goes.
        if found:
            reading.progress.count(found)
            reading.progress.set_leader_epoch(found[-1], log.epochs[found[-1]])
        if until == end:
            reading.progress.reach_end(end)

    def _hold_against(self, split: Split, log: Log) -> None:
        """What the library does when it meets a log with a leader epoch."""
        self._cluster.check_start(split)
        epoch, start = split.leader_epoch, split.start_offset
        if epoch is not None and log.end_of(epoch) < start:
            asked: Any = _Asked(log)
            raise log_cuts.cut_failure(asked, split, LogCut(start, epoch, log.end_of(epoch), epoch))

    def _split(self, reading: _Reading) -> SplitResult:
        found = _split_result(reading)
        if not self._cluster.is_timed:
            return found
        return replace(found, max_event_time_us=_newest(reading))

    def _write(self, plan: TaskPlan, storage: Storage, readings: list[_Reading]) -> TaskResult:
        if plan.route.sql is not None:
            return self._land(plan, storage, readings)
        files: Any = StagedFiles(storage, plan, None)
        counts = dict.fromkeys(("clean", "dirty", "filtered", "skipped", LATE), 0)
        reopened = 0
        for reading in readings:
            number = reading.split.partition.number
            for offset in reading.offsets:
                kind = outcome(number, offset)
                values = (self._cluster.value(number, offset),)
                closed = kind == CLEAN and f"hr={values[0]}" in plan.times.closed
                if closed and plan.route.late.policy is LatePolicy.SIDE:
                    files.write(LatePlace(values), [(number, offset)])
                    kind = LATE
                elif kind == CLEAN:
                    files.write(values, [(number, offset)])
                    reopened += closed
                elif kind == DIRTY:
                    files.write_dirty([(number, offset)])
                counts[kind] += 1
        clean, dirty, late = files.close()
        return TaskResult(
            ledger=plan.route.ledger,
            term=plan.route.term,
            epoch=plan.epoch,
            task=plan.task,
            attempt=files.attempt,
            splits=tuple(map(self._split, readings)),
            files=clean,
            dirty_files=dirty,
            counts=RowCounts(
                BigInt(sum(counts.values())),
                BigInt(counts["clean"]),
                BigInt(counts["dirty"]),
                BigInt(counts[LATE]),
                BigInt(counts["filtered"]),
                BigInt(counts["skipped"]),
            ),
            dirty_reasons={"broken": counts["dirty"]} if counts["dirty"] else {},
            timings_ms={},
            consumer_reused=False,
            failure=None,
            late_files=late,
            late_rows=LateRows(side=BigInt(counts[LATE]), reopen=BigInt(reopened)),
        )

    def _land(self, plan: TaskPlan, storage: Storage, readings: list[_Reading]) -> TaskResult:
        rows = [
            (each.split.partition.number, offset, index)
            for index, each in enumerate(readings)
            for offset in each.offsets
        ]
        kinds = [outcome(number, offset) for number, offset, _ in rows]
        several = self._cluster.sql.rows_of_record
        kinds = [
            SEVERAL if kind == CLEAN and several(row[:2]) > 1 else kind
            for row, kind in zip(rows, kinds, strict=True)
        ]
        return _landed_result(plan, storage, rows, kinds, tuple(map(self._split, readings)))


def _landed_result(
    plan: TaskPlan,
    storage: Storage,
    rows: Sequence[tuple[int, int, int]],
    kinds: Sequence[str],
    splits: tuple[SplitResult, ...],
) -> TaskResult:
    """What a task answers whose rows wait for the SQL; some are through before it.

    Args:
        rows: (partition, offset, split) of each row that was read.
        kinds: What has to become of each.
    """
    files: Any = LandedFiles(storage, plan, None)
    counts = dict.fromkeys((CLEAN, DIRTY, FILTERED, "skipped"), 0)
    at = first_number(plan.task)
    for (number, offset, index), kind in zip(rows, kinds, strict=True):
        if kind in (CLEAN, SEVERAL) or (kind in (DIRTY, FILTERED) and fails_in_sql(number, offset)):
            files.write((), [(number, offset, kind, at, index)])
            at += 1
            continue
        counts[kind] += 1
        if kind == DIRTY:
            files.write_dirty([(number, offset)])
    landed, dirty, _ = files.close()
    no = BigInt(0)
    return TaskResult(
        ledger=plan.route.ledger,
        term=plan.route.term,
        epoch=plan.epoch,
        task=plan.task,
        attempt=files.attempt,
        splits=splits,
        files=(),
        dirty_files=dirty,
        counts=RowCounts(
            BigInt(len(rows)),
            no,
            BigInt(counts[DIRTY]),
            no,
            BigInt(counts[FILTERED]),
            BigInt(counts["skipped"]),
        ),
        dirty_reasons={"broken": counts[DIRTY]} if counts[DIRTY] else {},
        timings_ms={},
        consumer_reused=False,
        failure=None,
        landed=landed,
    )


def _newest(reading: _Reading) -> BigInt | None:
    """Greatest event time of what was written."""
    number = reading.split.partition.number
    written = (each for each in reading.offsets if outcome(number, each) == CLEAN)
    times = [event_time_us(number, each) for each in written]
    return BigInt(max(times)) if times else None


def _split_result(reading: _Reading) -> SplitResult:
    split, rows = reading.split, len(reading.offsets)
    return SplitResult(
        topic=split.partition.topic,
        partition=split.partition.partition,
        start=BigInt(split.start_offset),
        end=BigInt(reading.end),
        rows=BigInt(rows),
        gaps=BigInt(reading.end - split.start_offset - rows),
        end_epoch=reading.progress.end().leader_epoch,
        max_event_time_us=None,
        offset_sum=offset_sum(split.partition.partition, np.array(reading.offsets, np.int64)),
    )


def _lane_result(split: Split, end: int) -> SplitResult:
    progress = SplitProgress(split)
    offsets = list(range(split.start_offset, end))
    if offsets:
        progress.count(offsets)
    return _split_result(_Reading(progress, offsets))


def run_lane_task(
    cluster: Cluster,
    plan: TaskPlan,
    storage: Storage,
    paths: Sequence[str],
    judge: ChangeJudge | None,
) -> TaskResult:
    """One epoch of a replay, in the driver; the deadline comes somewhere."""
    # No table of this world has a key.
    assert judge is None
    rng = cluster.scheduler.rng
    rows: list[tuple[int, int, int]] = []
    splits: list[SplitResult] = []
    for index, (split, path) in enumerate(zip(plan.splits, paths, strict=True)):
        with storage.open_read(path) as stream:
            lines = stream.read().decode().split()
        start, stop = split.start_offset, split.stop_offset or split.start_offset
        least = start if splits else start + 1
        end = stop if rng.random() < 0.6 else rng.randint(least, stop)
        for line in lines[start:end]:
            number, offset = map(int, line.split(":"))
            rows.append((number, offset, index))
        splits.append(_lane_result(split, end))
        if end < stop:
            break
    if plan.route.sql is not None:
        cluster.scheduler.wait(None, rng.random())
        kinds = [repaired(number, offset) for number, offset, _ in rows]
        return _landed_result(plan, storage, rows, kinds, tuple(splits))
    files: Any = StagedFiles(storage, plan, None)
    counts = dict.fromkeys((CLEAN, DIRTY), 0)
    for number, offset, _ in rows:
        kind = repaired(number, offset)
        counts[kind] += 1
        if kind == CLEAN:
            files.write((cluster.value(number, offset),), [(number, offset)])
        else:
            files.write_dirty([(number, offset)])
    cluster.scheduler.wait(None, rng.random())
    clean, dirty, _ = files.close()
    no = BigInt(0)
    written, again = BigInt(counts[CLEAN]), BigInt(counts[DIRTY])
    return TaskResult(
        ledger=plan.route.ledger,
        term=plan.route.term,
        epoch=plan.epoch,
        task=plan.task,
        attempt=files.attempt,
        splits=tuple(splits),
        files=clean,
        dirty_files=dirty,
        counts=RowCounts(BigInt(written + again), written, again, no, no, no),
        dirty_reasons={},
        timings_ms={},
        consumer_reused=False,
        failure=None,
    )


def copy_late_files(
    cluster: Cluster, plan: TaskPlan, storage: Storage, files: Sequence[FileRecord]
) -> TaskResult:
    """One epoch of a lane of late rows, in the driver: one file, or all that there are."""
    rng = cluster.scheduler.rng
    deadline_s = 0.0 if rng.random() < 0.4 else 3600.0
    cluster.scheduler.wait(None, rng.random())
    return lane_task.copy_late_files(replace(plan, deadline_s=deadline_s), storage, files)


@dataclass(slots=True)
class _Task:
    """A task and the attempts at it."""

    attempts: list[tuple[Attempt, Process]]
    deaths: int = 0

    def answers(self) -> list[TaskResult] | None:
        """Of the first attempt that has any."""
        done = (attempt.answers for attempt, _ in self.attempts)
        return next((each for each in done if each is not None), None)


class SimRunner(TaskRunner):
    """Runs tasks as Spark does: retries, second attempts, a cancelled rest."""

    def __init__(self, cluster: Cluster, slots: int) -> None:
        self._cluster = cluster
        self._slots = slots
        self.processes: list[Process] = []

    def slots(self) -> int:
        return self._slots

    def sql(self) -> SqlEngine:
        return self._cluster.sql.engine()

    def run(
        self, bundles: Sequence[Bundle], *, wait: Callable[[], None], give_up_after_s: float
    ) -> list[TaskResult]:
        scheduler = self._cluster.scheduler
        tasks = [_Task([self._launch(bundle)]) for bundle in bundles]
        for task, bundle in zip(tasks, bundles, strict=True):
            if scheduler.rng.random() < self._cluster.weather.rates.task_again:
                task.attempts.append(self._launch(bundle))
        give_up_at = scheduler.now + give_up_after_s
        while True:
            scheduler.wait(None, 0.05 + scheduler.rng.random() * 0.3)
            wait()
            found = [task.answers() for task in tasks]
            if all(each is not None for each in found):
                answered = [
                    answer
                    for each in found
                    for answer in each or ()
                    if answer.moved() or answer.failure is not None
                ]
                self._cluster.spoil_staged(answered)
                return answered
            if scheduler.now >= give_up_at:
                return self._salvage(bundles, tasks)
            self._retry(tasks, bundles)

    def close(self) -> None:
        return

    def _launch(self, bundle: Bundle) -> tuple[Attempt, Process]:
        scheduler, rates = self._cluster.scheduler, self._cluster.weather.rates
        attempt = Attempt(self._cluster, bundle)
        plan = bundle[0]
        name = f"task {plan.route.term}-{plan.epoch}-{plan.task}"
        process = scheduler.process(name, "worker")
        attempt.slow = scheduler.rng.random() < rates.task_slow
        if scheduler.rng.random() < rates.task_dies:
            process.crash_in = scheduler.rng.randrange(60)
        scheduler.spawn(process, attempt.run, name)
        self.processes.append(process)
        return attempt, process

    def _retry(self, tasks: list[_Task], bundles: Sequence[Bundle]) -> None:
        """An attempt that died is answered for by another, which reads nothing."""
        del bundles
        for task in tasks:
            if task.answers() is None and all(process.dead for _, process in task.attempts):
                task.attempts[-1][0].give_up()

    def _salvage(self, bundles: Sequence[Bundle], tasks: list[_Task]) -> list[TaskResult]:
        """Cancel the stragglers, of whom some go on, and take what was put by name."""
        scheduler = self._cluster.scheduler
        for task in tasks:
            for _, process in task.attempts:
                if scheduler.rng.random() < 0.5:
                    scheduler.kill_soon(process)
        try:
            results = finished_results(bundles)
        except StorageUnavailableError as error:
            raise TaskFailedError(f"no result of a task can be read: {error}") from error
        if not results:
            raise TaskFailedError("no task finished")
        return results
