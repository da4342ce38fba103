"""The few threads of a process that do recurring work, however many routes it has.

A work is called again and again, never twice at once: when it is woken, and after the pause that
its last turn asked for. Works of one connection share four threads at most, so that a server which
does not answer holds up no work of others.
"""

import heapq
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Final

MOST_THREADS: Final = 16
MOST_ON_ONE_CONNECTION: Final = 4
_LINGER_S: Final = 5.0
_AFTER_BUG_S: Final = 60.0


@dataclass(eq=False, slots=True)
class Work:
    """Something that a pool calls. Made by `WorkPool.add`; its fields belong to the pool."""

    pool: "WorkPool"
    act: Callable[[], float | None]
    connection: str
    due: float | None = None
    queued: bool = False
    running: bool = False
    again: bool = False
    ended: bool = False

    def wake(self) -> None:
        """Request a call soon; during a call, request one more. Returns at once."""
        self.pool.wake(self)

    def end(self, timeout_s: float | None = None) -> bool:
        """Stop the calls. Safe to repeat, also from its own turn.

        Args:
            timeout_s: Longest wait for a running turn, in seconds; None without a limit.

        Returns:
            False when the turn still runs.
        """
        return self.pool.end(self, timeout_s)


class WorkPool:
    """Threads that are made when there is work, and end when there is none for a while.

    Args:
        most_threads: Most threads of the pool.
        most_on_one: Turns at once of the works of one connection.
    """

    name = "follow"

    def __init__(
        self, most_threads: int = MOST_THREADS, most_on_one: int = MOST_ON_ONE_CONNECTION
    ) -> None:
        self._most_threads = most_threads
        self._most_on_one = most_on_one
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._stood_still = threading.Condition(self._lock)
        self._timers: list[tuple[float, int, Work]] = []
        self._ready: deque[Work] = deque()
        self._busy: Counter[str] = Counter()
        self._order = count()
        self._threads = self._idle = 0
        # When the idle thread that watches the timers wakes; None while none does.
        self._watched: float | None = None

    def add(self, act: Callable[[], float | None], connection: str = "") -> Work:
        """A work that is called when it is first woken.

        Args:
            act: One turn; returns the seconds until the next one, None until it is woken. It
                handles its errors: an error that it raises is printed on standard error, and the
                work goes on after a minute.
            connection: Server of its calls; works with an empty one have no limit.
        """
        return Work(self, act, connection)

    def wake(self, work: Work) -> None:
        """See `Work.wake`."""
        with self._lock:
            if work.running:
                work.again = True
            else:
                self._make_ready(work)
            self._call_for_help()

    def end(self, work: Work, timeout_s: float | None) -> bool:
        """See `Work.end`."""
        with self._lock:
            work.ended = True
            return self._stood_still.wait_for(lambda: not work.running, timeout_s)

    def _make_ready(self, work: Work) -> None:
        if not (work.queued or work.ended):
            work.due, work.queued = None, True
            self._ready.append(work)

    def _call_for_help(self) -> None:
        """Make sure that a thread sees what has changed; called with the lock held."""
        is_needed = self._ready or not self._threads or (self._timers and self._watched is None)
        if self._idle:
            self._changed.notify()
        elif self._threads < self._most_threads and is_needed:
            self._threads += 1
            name = f"{self.name}-{self._threads}"
            threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            pause_s = _turn(work)
            with self._lock:
                work.running = False
                self._busy[work.connection] -= 1
                if work.again:
                    work.again = False
                    self._make_ready(work)
                elif pause_s is not None and not work.ended:
                    work.due = time.monotonic() + pause_s
                    heapq.heappush(self._timers, (work.due, next(self._order), work))
                self._stood_still.notify_all()

    def _next(self) -> Work | None:
        """The next work to call, once there is one; None when this thread may end."""
        with self._lock:
            waited_since = time.monotonic()
            while True:
                self._ready_due()
                work = self._startable()
                if work is not None:
                    self._call_for_help()
                    return work
                if time.monotonic() - waited_since >= _LINGER_S and self._is_spare():
                    self._threads -= 1
                    return None
                self._idle += 1
                self._rest()
                self._idle -= 1

    def _is_spare(self) -> bool:
        """Whether a thread may end: there is no timer, or another thread watches it."""
        return not self._timers or self._watched is not None

    def _rest(self) -> None:
        """Wait until something may be due: one idle thread watches the timers, the others linger.

        A thread with an earlier timer than the watched one takes over the watch.
        """
        due = self._timers[0][0] if self._timers else None
        if due is None or (self._watched is not None and self._watched <= due):
            self._changed.wait(_LINGER_S)
            return
        self._watched = due
        # A due work waits for its connection; the thread that frees it looks again.
        self._changed.wait(max(0.0, due - time.monotonic()))
        if self._watched == due:
            self._watched = None

    def _ready_due(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            due, _, work = heapq.heappop(self._timers)
            if work.due == due and not work.running:
                self._make_ready(work)

    def _startable(self) -> Work | None:
        """The first ready work whose connection is below its limit."""
        for _ in range(len(self._ready)):
            work = self._ready.popleft()
            if work.ended:
                work.queued = False
                continue
            if work.connection and self._busy[work.connection] >= self._most_on_one:
                self._ready.append(work)
                continue
            work.queued, work.running = False, True
            self._busy[work.connection] += 1
            return work
        return None


class UpkeepPool(WorkPool):
    """For work that requests records and waits for them: it must not keep followers waiting."""

    name = "upkeep"


_POOL: Final = WorkPool()
_UPKEEP: Final = UpkeepPool()


def process_pool() -> WorkPool:
    """The pool that all routes of this process share."""
    return _POOL


def process_upkeep() -> UpkeepPool:
    """The pool of the upkeep that routes of this process do while epochs run."""
    return _UPKEEP


def _turn(work: Work) -> float | None:
    try:
        return work.act()
    except Exception:  # noqa: BLE001 - a bug in one work must not end the others'
        kind, error, trace = sys.exc_info()
        arguments = (kind, error, trace, threading.current_thread())
        threading.excepthook(threading.ExceptHookArgs(arguments))
        return _AFTER_BUG_S
