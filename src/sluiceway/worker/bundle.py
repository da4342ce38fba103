"""What one task runs: parts of one or many routes, read together, written apart.

Routes with equal splits get the same fetched records, which are fetched once. One route's failure
is a value in that route's answer; the others of the bundle go on.
"""

import time
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace

from sluiceway.errors import (
    SluicewayError,
    SourceUnavailableError,
    StorageUnavailableError,
    TaskDiedError,
    TaskFailedError,
)
from sluiceway.observe.failpoints import Role, arm, reach
from sluiceway.sources.contract import SourceBatch, Split, SplitEnd, SplitReader
from sluiceway.sources.registry import SourceAccess, open_reader
from sluiceway.storage.contract import Storage
from sluiceway.storage.registry import open_storage
from sluiceway.types.strict_json import decode
from sluiceway.worker.answers import TaskTimes, failed_result, finished_result, put_result
from sluiceway.worker.pipeline import RowPipeline
from sluiceway.worker.plan import NO_FIGURES, TaskPlan, TaskResult
from sluiceway.worker.read_stages import ReadStages, dealt_rows, read_key
from sluiceway.worker.row_batch import RowBatch
from sluiceway.worker.task_memory import DEFAULT_BYTES, ReadTally, TaskMemory
from sluiceway.worker.write_behind import WriteBehind

_READ_TIMEOUT_S = 0.2
_STOP_POLL_S = 0.2
_PAID_STOP_POLL_S = 1.0
# Rows that wait for more are written after it, however few they are.
_WAIT_FOR_ROWS_S = 2.0
# From so many routes on, what their stages cost once a read counts.
_MANY_ROUTES = 4


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

    def opened(self, reads: ReadStages | None = None) -> RowPipeline:
        """The pipeline, made when the first row comes: idle routes cost nothing.

        Args:
            reads: Stages before its own; it makes them itself when no row was read.
        """
        if self.pipeline is None:
            reads = reads or ReadStages(self.plan, self.times.started)
            self.pipeline = RowPipeline(self.plan, self.storage, self.writes.lane(), reads=reads)
        return self.pipeline

    def fail(self, error: SluicewayError) -> None:
        self.failure = self.failure or error
        # Files of a result that was described may be named by it already.
        if self.pipeline is not None and not self.described:
            self.pipeline.abort()


@dataclass(slots=True)
class _Audience:
    """Routes that read the same and decode alike.

    Attributes:
        reads: Their common stages, made when the first row comes.
        waiting: Batches that wait for more, so that the stages of many routes run seldom.
        waiting_bytes: Bytes of their payloads.
    """

    parts: list[_Part]
    reads: ReadStages | None = None
    waiting: list[SourceBatch] = field(default_factory=list)
    waiting_bytes: int = 0

    def add(self, batches: Sequence[SourceBatch]) -> bool:
        """Add batches; returns whether enough rows wait."""
        self.waiting += batches
        route = self.parts[0].plan.route
        # Changes of a key, and rows for SQL, are written as they were read.
        if len(self.parts) < _MANY_ROUTES or route.key is not None or route.sql is not None:
            return True
        self.waiting_bytes += sum(batch.value_bytes() for batch in batches)
        return self.waiting_bytes >= self.parts[0].writes.memory.shares.queue_bytes

    def live(self) -> list[_Part]:
        """Routes that have not failed."""
        return [part for part in self.parts if part.failure is None]


_Owner = tuple[_Part, int]
"""A route's part, and the number of a split in its plan."""


@dataclass(slots=True)
class _Reading:
    """One reader, and whose splits each of its splits is.

    Attributes:
        audiences: By part.
    """

    reader: SplitReader
    owners: list[list[_Owner]]
    audiences: dict[int, _Audience]
    spoilt: bool = False

    def parts(self) -> list[_Part]:
        """Parts that it reads for, each once."""
        return list({id(part): part for each in self.owners for part, _ in each}.values())


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
            _write_waiting(reading)
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
        # A log whose routes have all failed is read again from where it was.
        failed = any(all(part.failure for part, _ in each) for each in reading.owners)
        reading.reader.close(reusable=not (reading.spoilt or failed))
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
    """One reader for all splits of a cluster; routes with equal splits share them.

    A second reader serves splits of the same log that differ.
    """
    shared: dict[tuple[SourceAccess, Split], list[_Owner]] = {}
    alike: dict[object, _Audience] = {}
    audiences: dict[int, _Audience] = {}
    for part in parts:
        audience = audiences[id(part)] = alike.setdefault(read_key(part.plan), _Audience([]))
        audience.parts.append(part)
        for index, split in enumerate(part.plan.splits):
            shared.setdefault((part.plan.route.source, split), []).append((part, index))
    groups: dict[tuple[SourceAccess, int], list[list[_Owner]]] = {}
    seen: dict[tuple[SourceAccess, object], int] = {}
    for (source, split), owners in shared.items():
        key = (source, split.partition)
        seen[key] = seen.get(key, -1) + 1
        groups.setdefault((source, seen[key]), []).append(owners)
    readings = []
    for (source, _), group in groups.items():
        try:
            readings.append(_open_reading(source, group, audiences))
        except SluicewayError as error:
            for part, _ in (owner for owners in group for owner in owners):
                part.fail(error)
    return readings


def _open_reading(
    source: SourceAccess, owners: list[list[_Owner]], audiences: dict[int, _Audience]
) -> _Reading:
    tokens = sorted({part.plan.route.owner_token for each in owners for part, _ in each})
    splits = [part.plan.splits[index] for (part, index), *_ in owners]
    reading = _Reading(open_reader(source, splits, owner=",".join(tokens)), owners, audiences)
    if reading.reader.reused:
        for part in reading.parts():
            part.times.consumer_reused = True
    return reading


def _read_all(
    readings: Sequence[_Reading], parts: Sequence[_Part], deadline: float, tally: ReadTally
) -> None:
    next_look, next_write = 0.0, time.monotonic() + _WAIT_FOR_ROWS_S
    live = [reading for reading in readings if not reading.reader.finished()]
    while live and (left := deadline - time.monotonic()) > 0:
        if time.monotonic() >= next_look:
            storage = live[0].owners[0][0][0].storage
            next_look = time.monotonic() + (
                _STOP_POLL_S if storage.looks_are_cheap else _PAID_STOP_POLL_S
            )
            if _stop_requested(live[0]):
                return
            if time.monotonic() >= next_write:
                next_write = time.monotonic() + _WAIT_FOR_ROWS_S
                for reading in live:
                    _write_waiting(reading)
            for part in parts:
                _tend(part)
        for reading in live:
            _read_once(reading, min(left, _READ_TIMEOUT_S / len(live)))
        tally.write({p.plan.route.layout.route: p.pipeline.rows_read for p in parts if p.pipeline})
        live = [r for r in live if not r.spoilt and not r.reader.finished()]


def _stop_requested(reading: _Reading) -> bool:
    part, _ = reading.owners[0][0]
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
    for audience, own in _by_audience(reading, batches):
        for part in audience.parts:
            part.times.fetch_s += spent * len(own) / (len(batches) * len(audience.parts))
        if audience.add(own):
            _write(audience)


def _by_audience(
    reading: _Reading, batches: Sequence[SourceBatch]
) -> list[tuple[_Audience, list[SourceBatch]]]:
    """Batches of routes that decode alike, with the numbers of the splits in their plans."""
    grouped: dict[int, tuple[_Audience, list[SourceBatch]]] = {}
    for batch in batches:
        found = {
            id(reading.audiences[id(part)]): (reading.audiences[id(part)], index)
            for part, index in reading.owners[batch.split_index]
        }
        for audience, index in found.values():
            own = batch if len(found) == 1 else copy(batch)
            own.split_index = index
            grouped.setdefault(id(audience), (audience, []))[1].append(own)
    return list(grouped.values())


def _write(audience: _Audience) -> None:
    """Have what waits decoded once, and written by each route."""
    batches, audience.waiting, audience.waiting_bytes = audience.waiting, [], 0
    parts = audience.live()
    if not batches or not parts:
        return
    try:
        for part in parts:
            reach("task.write", part.plan.task)
        first = parts[0]
        if audience.reads is None:
            count = len(audience.parts)
            audience.reads = ReadStages(first.plan, first.times.started, routes=count)
        read = audience.reads.read(batches)
        dealt = dealt_rows(read, [part.plan for part in parts])
    except SluicewayError as error:
        for part in parts:
            part.fail(error)
        return
    except Exception as error:  # noqa: BLE001 - the task's boundary: these routes, not the bundle
        for part in parts:
            part.fail(_unexpected(error))
        return
    for part, rows in zip(parts, dealt, strict=True):
        _write_rows(part, audience.reads, rows)


def _write_waiting(reading: _Reading) -> None:
    for audience in {id(each): each for each in reading.audiences.values()}.values():
        _write(audience)


def _write_rows(part: _Part, reads: ReadStages, rows: RowBatch) -> None:
    try:
        part.opened(reads).write_rows(rows)
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
    named = {
        id(part)
        for each in reading.owners
        for part, index in each
        if error.where.startswith(str(part.plan.splits[index].partition))
    }
    for part in reading.parts():
        if not named or id(part) in named:
            part.fail(error)
        else:
            part.fail(
                SourceUnavailableError("another route's log ended the reader; read again later")
            )


def _read_ends(reading: _Reading) -> None:
    if reading.spoilt:
        return
    for owners, end in zip(reading.owners, reading.reader.ends(), strict=True):
        for part, index in owners:
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
