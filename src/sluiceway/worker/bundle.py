"""What one task runs: parts of one or many routes, read together, written apart.

One route's failure is a value in that route's answer; the others of the bundle go on.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sluiceway.errors import (
    SluicewayError,
    SourceUnavailableError,
    StorageUnavailableError,
    TaskDiedError,
    TaskFailedError,
)
from sluiceway.observe.failpoints import Role, arm, reach
from sluiceway.sources.contract import SourceBatch, SplitEnd, SplitReader
from sluiceway.sources.registry import SourceAccess, open_reader
from sluiceway.storage.contract import Storage
from sluiceway.storage.registry import open_storage
from sluiceway.types.strict_json import decode
from sluiceway.worker.answers import TaskTimes, failed_result, finished_result, put_result
from sluiceway.worker.pipeline import RowPipeline
from sluiceway.worker.plan import NO_FIGURES, TaskPlan, TaskResult
from sluiceway.worker.task_memory import DEFAULT_BYTES, ReadTally, TaskMemory
from sluiceway.worker.write_behind import WriteBehind

_READ_TIMEOUT_S = 0.2
_STOP_POLL_S = 0.2
_PAID_STOP_POLL_S = 1.0


@dataclass(slots=True)
class _Part:
    """One route's share of the bundle."""

    plan: TaskPlan
    storage: Storage
    times: TaskTimes
    writes: WriteBehind
    pipeline: RowPipeline | None = None
    ends: dict[int, SplitEnd] = field(default_factory=dict)
    failure: SluicewayError | None = None
    answer: TaskResult | None = None
    described: bool = False

    def opened(self) -> RowPipeline:
        """The pipeline, made when the first row comes: idle routes cost nothing."""
        if self.pipeline is None:
            self.pipeline = RowPipeline(
                self.plan, self.storage, self.writes.lane(), started=self.times.started
            )
        return self.pipeline

    def fail(self, error: SluicewayError) -> None:
        self.failure = self.failure or error
        # Files of a result that was described may be named by it already.
        if self.pipeline is not None and not self.described:
            self.pipeline.abort()


@dataclass(slots=True)
class _Reading:
    """One reader, and whose split each of its splits is."""

    reader: SplitReader
    owners: list[tuple[_Part, int]]
    spoilt: bool = False


def run_bundle(plans: Sequence[TaskPlan], *, attempt: int = 0) -> tuple[TaskResult, ...]:
    """Run one attempt at one task of an epoch. Called once per attempt, in a Python worker.

    Args:
        plans: One a route, all of the same task; the latest deadline holds for all.
        attempt: How often the task has failed before. A retry starts late: it reads nothing, so
            that the others need not wait for it, and hands over what an earlier attempt has put.

    Returns:
        Answers of the routes whose ends moved or that failed; the others have nothing to say.
    """
    arm(Role.WORKER)
    reach("task.start", f"attempt-{attempt}")
    writes = WriteBehind(_task_memory(plans))
    parts, refused = _begin_all(plans, writes)
    if attempt > 0:
        return (*refused, *(_after_retry(part) for part in parts))
    open_parts = [part for part in parts if part.answer is None and part.failure is None]
    deadline = time.monotonic() + max((plan.deadline_s for plan in plans), default=0.0)
    readings = _open_readings(open_parts)
    try:
        _read_all(readings, open_parts, deadline, ReadTally(plans))
        for reading in readings:
            _read_ends(reading)
        for part in open_parts:
            _close(part)
    except BaseException:
        for reading in readings:
            reading.reader.close(reusable=False)
        for part in open_parts:
            part.fail(TaskFailedError("the task was ended"))
        raise
    finally:
        writes.close()
    for reading in readings:
        failed = reading.spoilt or any(part.failure for part, _ in reading.owners)
        reading.reader.close(reusable=not failed)
    reach("task.return")
    answers = (_answer(part) for part in parts)
    return (*refused, *(answer for answer in answers if answer is not None))


def _task_memory(plans: Sequence[TaskPlan]) -> TaskMemory:
    """The routes of a bundle are of one job, whose tasks all have the same memory."""
    return TaskMemory(min((plan.route.memory_bytes for plan in plans), default=DEFAULT_BYTES))


def _begin_all(
    plans: Sequence[TaskPlan], writes: WriteBehind
) -> tuple[list[_Part], list[TaskResult]]:
    """The parts, and answers of the routes whose store refuses access here."""
    parts, refused = [], []
    for plan in plans:
        try:
            parts.append(_begin(plan, writes))
        except SluicewayError as error:
            refused.append(failed_result(plan, error))
        except Exception as error:  # noqa: BLE001 - the task's boundary: one route, not the bundle
            refused.append(failed_result(plan, _unexpected(error)))
    return parts, refused


def _begin(plan: TaskPlan, writes: WriteBehind) -> _Part:
    storage, _ = open_storage(plan.route.layout.table_root, plan.route.stores)
    part = _Part(plan, storage, TaskTimes(), writes)
    try:
        # A retry after an attempt that had finished: the first one to finish has won.
        earlier = storage.read(plan.result_path)
        part.answer = decode(earlier, TaskResult) if earlier is not None else None
    except SluicewayError as error:
        part.failure = error
    return part


def _after_retry(part: _Part) -> TaskResult:
    if part.answer is None and part.failure is None:
        part.failure = TaskDiedError(
            f"an earlier attempt at task {part.plan.task} died",
            hint="a worker that was killed, often for its memory, or a bug; see Spark's log",
        )
    return part.answer or failed_result(part.plan, part.failure or TaskDiedError(""))


def _open_readings(parts: Sequence[_Part]) -> list[_Reading]:
    """One reader for all splits of a cluster; a second one where two routes share a log."""
    groups: dict[tuple[SourceAccess, int], list[tuple[_Part, int]]] = {}
    seen: dict[tuple[SourceAccess, object], int] = {}
    for part in parts:
        for index, split in enumerate(part.plan.splits):
            key = (part.plan.route.source, split.partition)
            seen[key] = seen.get(key, -1) + 1
            groups.setdefault((part.plan.route.source, seen[key]), []).append((part, index))
    readings = []
    for (source, _), owners in groups.items():
        try:
            readings.append(_open_reading(source, owners))
        except SluicewayError as error:
            for part, _ in owners:
                part.fail(error)
    return readings


def _open_reading(source: SourceAccess, owners: list[tuple[_Part, int]]) -> _Reading:
    tokens = sorted({part.plan.route.owner_token for part, _ in owners})
    splits = [part.plan.splits[index] for part, index in owners]
    reader = open_reader(source, splits, owner=",".join(tokens))
    if reader.reused:
        for part, _ in owners:
            part.times.consumer_reused = True
    return _Reading(reader, owners)


def _read_all(
    readings: Sequence[_Reading], parts: Sequence[_Part], deadline: float, tally: ReadTally
) -> None:
    next_look = 0.0
    live = [reading for reading in readings if not reading.reader.finished()]
    while live and (left := deadline - time.monotonic()) > 0:
        if time.monotonic() >= next_look:
            storage = live[0].owners[0][0].storage
            next_look = time.monotonic() + (
                _STOP_POLL_S if storage.looks_are_cheap else _PAID_STOP_POLL_S
            )
            if _stop_requested(live[0]):
                return
            for part in parts:
                _tend(part)
        for reading in live:
            _read_once(reading, min(left, _READ_TIMEOUT_S / len(live)))
        tally.write({p.plan.route.layout.route: p.pipeline.rows_read for p in parts if p.pipeline})
        live = [r for r in live if not r.spoilt and not r.reader.finished()]


def _stop_requested(reading: _Reading) -> bool:
    part, _ = reading.owners[0]
    try:
        return part.storage.has_file(part.plan.stop_path)
    except StorageUnavailableError:
        # The deadline ends the reading all the same.
        return False


def _read_once(reading: _Reading, timeout_s: float) -> None:
    started = time.monotonic()
    try:
        batches = reading.reader.read(timeout_s)
    except SluicewayError as error:
        reading.spoilt = True
        _blame(reading, error)
        return
    except Exception as error:  # noqa: BLE001 - the task's boundary: one source, not the bundle
        reading.spoilt = True
        _blame(reading, _unexpected(error))
        return
    spent = time.monotonic() - started
    for part, own in _by_part(reading, batches):
        part.times.fetch_s += spent * len(own) / len(batches)
        _write(part, own)


def _by_part(
    reading: _Reading, batches: Sequence[SourceBatch]
) -> list[tuple[_Part, list[SourceBatch]]]:
    grouped: dict[int, tuple[_Part, list[SourceBatch]]] = {}
    for batch in batches:
        part, index = reading.owners[batch.split_index]
        batch.split_index = index
        grouped.setdefault(id(part), (part, []))[1].append(batch)
    return list(grouped.values())


def _write(part: _Part, batches: list[SourceBatch]) -> None:
    if part.failure is not None:
        return
    try:
        reach("task.write", part.plan.task)
        part.opened().write(batches)
    except SluicewayError as error:
        part.fail(error)
    except Exception as error:  # noqa: BLE001 - the task's boundary: one route, not the bundle
        part.fail(_unexpected(error))


def _tend(part: _Part) -> None:
    """Files age while no row comes."""
    if part.failure is not None or part.pipeline is None:
        return
    try:
        part.pipeline.poll()
    except SluicewayError as error:
        part.fail(error)
    except Exception as error:  # noqa: BLE001 - the task's boundary: one route, not the bundle
        part.fail(_unexpected(error))


def _blame(reading: _Reading, error: SluicewayError) -> None:
    """A reader that failed ends the epoch of all its routes; only the log it names is at fault."""
    named = [
        part
        for part, index in reading.owners
        if error.where.startswith(str(part.plan.splits[index].partition))
    ]
    for part, _ in reading.owners:
        if not named or part in named:
            part.fail(error)
        else:
            part.fail(
                SourceUnavailableError("another route's log ended the reader; read again later")
            )


def _read_ends(reading: _Reading) -> None:
    if reading.spoilt:
        return
    for (part, index), end in zip(reading.owners, reading.reader.ends(), strict=True):
        part.ends[index] = end


def _close(part: _Part) -> None:
    if part.failure is not None:
        return
    splits = part.plan.splits
    ends = [part.ends.get(i, SplitEnd(s.start_offset, 0, 0, None)) for i, s in enumerate(splits)]
    moved = any(end.end_offset > s.start_offset for end, s in zip(ends, splits, strict=True))
    if not moved:
        return
    try:
        reach("task.close", part.plan.task)
        result = finished_result(part.plan, part.opened(), ends, part.times)
        part.described = True
        result = replace(result, store_requests=part.storage.pop_request_count())
        reach("task.put", part.plan.task)
        part.answer = put_result(part.plan, part.storage, result)
    except SluicewayError as error:
        part.fail(error)
    except Exception as error:  # noqa: BLE001 - the task's boundary: one route, not the bundle
        part.fail(_unexpected(error))


def _unexpected(error: Exception) -> TaskFailedError:
    return TaskFailedError(
        f"{type(error).__name__}: {str(error)[:300]}",
        hint="a bug, or rows that this version cannot take; nothing was committed of them",
    )


def _answer(part: _Part) -> TaskResult | None:
    if part.failure is not None:
        lost = NO_FIGURES if part.pipeline is None else part.pipeline.figures.lost()
        return failed_result(part.plan, part.failure, lost)
    return part.answer
