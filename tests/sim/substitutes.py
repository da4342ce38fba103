"""What the product's modules see as time, threading, uuid and concurrent.futures.

The product is imported while these stand in `sys.modules`. Not a line of it knows: its threads,
locks, pools, pauses and ids are simulated ones, drawn from the seed.
"""

import concurrent.futures
import sys
import threading
import time
import types
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Generic, NamedTuple, TypeVar

from sim.scheduler import Scheduler
from sim.scheduler import Thread as SimThread

Value = TypeVar("Value")
_FIRST_SECOND = 1_795_161_600
_running: list[Scheduler] = []


def scheduler() -> Scheduler:
    """Of the run that goes on."""
    return _running[-1]


@contextmanager
def running(scheduler: Scheduler) -> Iterator[None]:
    """Simulated threads belong to this scheduler inside the block."""
    _running.append(scheduler)
    try:
        yield
    finally:
        _running.pop()


# time


def _sleep(seconds: float) -> None:
    scheduler().wait(None, seconds)


def _monotonic() -> float:
    return scheduler().now if _running else time.monotonic()


def _time_ns() -> int:
    found = scheduler()
    wrong_s = found.wrong_s(found.current.process.host) if found.current is not None else 0.0
    return int((_FIRST_SECOND + found.now + wrong_s) * 1_000_000_000)


# threading


class Lock:
    """Lock; reentrant, which hides nothing: the product's locks are never taken twice."""

    def __init__(self) -> None:
        self._owner: SimThread | None = None
        self._depth = 0
        self._channel: list[tuple[SimThread, int]] = []

    # No call is made here that is not needed: half of what a seed does is taking locks.
    def acquire(self) -> bool:
        if not _running or _running[-1].current is None:
            return True
        thread = _running[-1].alive()
        while self._owner is not None and self._owner is not thread:
            _running[-1].wait(self._channel, None)
        self._owner = thread
        self._depth += 1
        return True

    def release(self, *error: object) -> None:
        del error
        if not _running or _running[-1].current is None:
            return
        self._depth -= 1
        if self._depth <= 0:
            self._depth, self._owner = 0, None
            if self._channel:
                _running[-1].wake(self._channel)

    __enter__ = acquire
    __exit__ = release


class Condition:
    def __init__(self, lock: Lock | None = None) -> None:
        self._lock = lock or Lock()
        self._channel: list[tuple[SimThread, int]] = []

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        self._lock.release()
        woken = scheduler().wait(self._channel, timeout)
        self._lock.acquire()
        return woken

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        end = None if timeout is None else scheduler().now + timeout
        while not (result := predicate()):
            left = None if end is None else end - scheduler().now
            if left is not None and left <= 0:
                break
            self.wait(left)
        return result

    def notify_all(self) -> None:
        scheduler().wake(self._channel)

    def notify(self, n: int = 1) -> None:
        del n
        self.notify_all()


class Event:
    def __init__(self) -> None:
        self._set = False
        self._channel: list[tuple[SimThread, int]] = []

    def set(self) -> None:
        self._set = True
        if _running:
            scheduler().wake(self._channel)

    def clear(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set:
            scheduler().wait(self._channel, timeout)
        return self._set


class Barrier:
    def __init__(self, parties: int) -> None:
        self._missing = parties
        self._event = Event()

    def wait(self, timeout: float | None = None) -> int:
        self._missing -= 1
        if self._missing <= 0:
            self._event.set()
        self._event.wait(timeout)
        return 0


class Thread:
    """A thread of the process that made it."""

    def __init__(
        self,
        *,
        target: Callable[..., object],
        args: tuple[object, ...] = (),
        name: str = "thread",
        daemon: bool = False,
    ) -> None:
        del daemon
        self.name = name
        self._target = target
        self._args = args
        self._begun = False
        self._done = Event()

    def start(self) -> None:
        self._begun = True
        scheduler().spawn(scheduler().alive().process, self._run, self.name)

    def _run(self) -> None:
        try:
            self._target(*self._args)
        finally:
            self._done.set()

    def is_alive(self) -> bool:
        return self._begun and not self._done.is_set()

    def join(self, timeout: float | None = None) -> None:
        self._done.wait(timeout)


# concurrent.futures


class Future(Generic[Value]):
    _numbers = count()

    def __init__(self) -> None:
        self.number = next(self._numbers)
        self._event = Event()
        self._value: Any = None
        self._error: BaseException | None = None

    def run(self, function: Callable[..., Any], *arguments: Any) -> None:
        try:
            self._value = function(*arguments)
        except Exception as error:  # noqa: BLE001 - handed to who asks for the result
            self._error = error
        self._event.set()

    def set_result(self, value: Any) -> None:
        self._value = value
        self._event.set()

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._event.set()

    def done(self) -> bool:
        return self._event.is_set()

    def exception(self) -> BaseException | None:
        return self._error

    def result(self, timeout: float | None = None) -> Any:
        if not self._event.wait(timeout):
            raise concurrent.futures.TimeoutError
        if self._error is not None:
            raise self._error
        return self._value


class ThreadPoolExecutor:
    """Pool in which no work waits for a free thread."""

    def __init__(self, max_workers: int | None = None, thread_name_prefix: str = "pool") -> None:
        del max_workers
        self._name = thread_name_prefix

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        process = scheduler().alive().process
        scheduler().spawn(process, lambda: future.run(function, *arguments), self._name)
        return future

    def map(self, function: Callable[..., Any], *iterables: Iterable[Any]) -> Iterator[Any]:
        futures = [self.submit(function, *arguments) for arguments in zip(*iterables, strict=False)]
        return (future.result() for future in futures)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        del wait, cancel_futures

    def __enter__(self) -> "ThreadPoolExecutor":
        return self

    def __exit__(self, *error: object) -> None:
        return


class DoneAndNotDone(NamedTuple):
    done: set[Future[Any]]
    not_done: set[Future[Any]]


def _wait(
    futures: Iterable[Future[Any]], timeout: float | None = None, return_when: str = "ALL_COMPLETED"
) -> "DoneAndNotDone":
    """As `concurrent.futures.wait`."""
    # A set of them has another order in each process.
    waiting = sorted(futures, key=lambda future: future.number)
    end = None if timeout is None else scheduler().now + timeout
    enough = 1 if return_when == "FIRST_COMPLETED" else len(waiting)
    while sum(future.done() for future in waiting) < enough:
        left = None if end is None else end - scheduler().now
        if left is not None and left <= 0:
            break
        next(future for future in waiting if not future.done())._event.wait(
            left if return_when != "FIRST_COMPLETED" else min(left or 0.1, 0.1)
        )
    done = {future for future in waiting if future.done()}
    return DoneAndNotDone(done, set(waiting) - done)


# uuid


def _uuid4() -> uuid.UUID:
    if not _running:
        return uuid.uuid4()
    return uuid.UUID(int=scheduler().rng.getrandbits(128), version=4)


def _standing_in(original: types.ModuleType, **names: object) -> types.ModuleType:
    module = types.ModuleType(original.__name__)
    module.__dict__.update(original.__dict__)
    module.__dict__.update(names)
    return module


@contextmanager
def substituted() -> Iterator[None]:
    """Modules of the product that are imported inside the block see simulated ones.

    Raises:
        RuntimeError: The product was imported before.
    """
    if any(name.startswith("sluiceway") for name in sys.modules):
        raise RuntimeError("the product was imported before it could be simulated")
    own = {
        "time": _standing_in(time, sleep=_sleep, monotonic=_monotonic, time_ns=_time_ns),
        "threading": _standing_in(
            threading,
            Lock=Lock,
            RLock=Lock,
            Condition=Condition,
            Event=Event,
            Barrier=Barrier,
            Thread=Thread,
        ),
        "concurrent.futures": _standing_in(
            concurrent.futures, Future=Future, ThreadPoolExecutor=ThreadPoolExecutor, wait=_wait
        ),
        "uuid": _standing_in(uuid, uuid4=_uuid4),
    }
    before = {name: sys.modules[name] for name in own}
    sys.modules.update(own)
    try:
        yield
    finally:
        sys.modules.update(before)
