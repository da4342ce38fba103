"""Runs tasks in worker processes of its own: the worker code that Spark runs, without a JVM.

A nursery process, forked before the driver has any thread, forks the workers: a driver with
client libraries in it must not be forked any more. Spark's Python daemon does the same.
"""

import os
import pickle
import signal
import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from select import select
from typing import NoReturn

from sluiceway.errors import StorageUnavailableError, TaskFailedError
from sluiceway.schedule.runner import Bundle, TaskRunner, finished_results
from sluiceway.schedule.unit_sql import UnitSql
from sluiceway.types.strict_json import decode, encode
from sluiceway.worker.bundle import run_bundle
from sluiceway.worker.plan import TaskResult
from tools.duck_units import DuckUnits

_WAIT_S = 0.05
_ATTEMPTS = 4
_LENGTH = struct.Struct("!Q")
Answers = list[bytes] | str
"""Encoded results of an attempt, or how it failed."""


@dataclass(slots=True)
class _Worker:
    pid: int
    line: socket.socket


@dataclass(slots=True)
class _Task:
    """A bundle of the epoch on its way.

    Attributes:
        answers: None until an attempt has returned.
    """

    bundle: Bundle
    worker: _Worker | None = None
    attempt: int = 0
    answers: list[TaskResult] | None = None


class ProcessRunner(TaskRunner):
    """A runner of worker processes that live on between epochs. Make it before any thread.

    As with Spark, an attempt whose worker died or that raised is followed by another one, with
    its number; when all have failed, what the tasks have put by name counts.

    Args:
        slots: Workers.
    """

    def __init__(self, slots: int = 2) -> None:
        self._slots = slots
        self._nursery, nursery_end = socket.socketpair()
        if os.fork() == 0:
            self._nursery.close()
            _nurse(nursery_end)
        nursery_end.close()
        self._idle: list[_Worker] = []

    def slots(self) -> int:
        """See `TaskRunner.slots`."""
        return self._slots

    def unit_sql(self) -> UnitSql:
        """See `TaskRunner.unit_sql`: the driver's process runs it."""
        return DuckUnits()

    def run(
        self, bundles: Sequence[Bundle], *, wait: Callable[[], None], give_up_after_s: float
    ) -> list[TaskResult]:
        """See `TaskRunner.run`."""
        tasks = [_Task(bundle) for bundle in bundles]
        give_up_at = time.monotonic() + give_up_after_s
        try:
            for task in tasks:
                self._launch(task)
            while open_tasks := [task for task in tasks if task.answers is None]:
                busy = [task.worker.line for task in open_tasks if task.worker is not None]
                ready = select(busy, [], [], _WAIT_S)[0]
                for task in open_tasks:
                    if task.worker is not None and task.worker.line in ready:
                        self._take(task)
                wait()
                if any(task.attempt >= _ATTEMPTS for task in tasks):
                    return self._salvage(tasks, "an attempt failed four times")
                if time.monotonic() >= give_up_at and any(task.answers is None for task in tasks):
                    return self._salvage(tasks, "cancelled after the straggler time-out")
        finally:
            self._cancel(tasks)
        return [result for task in tasks for result in task.answers or ()]

    def close(self) -> None:
        """See `TaskRunner.close`."""
        # At the end of their lines nursery and workers end.
        for worker in self._idle:
            worker.line.close()
        self._idle = []
        self._nursery.close()

    def _launch(self, task: _Task) -> None:
        """Send the next attempt to a worker that lives."""
        message = pickle.dumps((task.bundle, task.attempt))
        while True:
            task.worker = self._idle.pop() if self._idle else self._new_worker()
            try:
                _send(task.worker.line, message)
            except OSError:
                # It was killed while it had nothing to do.
                task.worker.line.close()
            else:
                return

    def _take(self, task: _Task) -> None:
        """Take an attempt's answer; after a failed one launch the next."""
        worker, task.worker = task.worker, None
        assert worker is not None
        raw = _receive(worker.line)
        if raw is None:
            worker.line.close()
        else:
            self._idle.append(worker)
            answers: Answers = pickle.loads(raw)  # noqa: S301 - from a process of our own
            if not isinstance(answers, str):
                task.answers = [decode(each, TaskResult) for each in answers]
                return
        task.attempt += 1
        if task.attempt < _ATTEMPTS:
            self._launch(task)

    def _salvage(self, tasks: Sequence[_Task], cause: str) -> list[TaskResult]:
        self._cancel(tasks)
        try:
            results = finished_results([task.bundle for task in tasks])
        except StorageUnavailableError as error:
            raise TaskFailedError(f"no result of a task can be read: {error}") from error
        if not results:
            raise TaskFailedError(f"no task finished: {cause}")
        return results

    def _cancel(self, tasks: Sequence[_Task]) -> None:
        for task in tasks:
            worker, task.worker = task.worker, None
            if worker is not None:
                os.kill(worker.pid, signal.SIGKILL)
                worker.line.close()

    def _new_worker(self) -> _Worker:
        ours, theirs = socket.socketpair()
        socket.send_fds(self._nursery, [b"w"], [theirs.fileno()])
        theirs.close()
        greeting = _receive(ours)
        assert greeting is not None, "the nursery is gone"
        return _Worker(int(greeting), ours)


def _nurse(line: socket.socket) -> NoReturn:
    """Fork a worker for each line that comes, until the driver is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # Stopping is the driver's affair; a terminal would tell the whole group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        asked, descriptors, _, _ = socket.recv_fds(line, 1, 1)
        if not asked:
            os._exit(0)
        if os.fork() == 0:
            line.close()
            _work(socket.socket(fileno=descriptors[0]))
        os.close(descriptors[0])


def _work(line: socket.socket) -> NoReturn:
    """Run attempts until the driver is gone."""
    _send(line, b"%d" % os.getpid())
    while (message := _receive(line)) is not None:
        bundle, attempt = pickle.loads(message)  # noqa: S301 - from a process of our own
        answers: Answers
        try:
            answers = [encode(result) for result in run_bundle(bundle, attempt=attempt)]
        except Exception as error:  # noqa: BLE001 - as Spark: the driver gets it, the worker lives
            answers = f"{type(error).__name__}: {error}"
        try:
            _send(line, pickle.dumps(answers))
        except OSError:
            break
    os._exit(0)


def _send(line: socket.socket, message: bytes) -> None:
    line.sendall(_LENGTH.pack(len(message)) + message)


def _receive(line: socket.socket) -> bytes | None:
    """One message; None when the other side is gone."""
    head = _exactly(line, _LENGTH.size)
    return None if head is None else _exactly(line, _LENGTH.unpack(head)[0])


def _exactly(line: socket.socket, size: int) -> bytes | None:
    content = b""
    while len(content) < size:
        try:
            part = line.recv(size - len(content))
        except ConnectionError:
            return None
        if not part:
            return None
        content += part
    return content
