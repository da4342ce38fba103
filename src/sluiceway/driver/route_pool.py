"""Threads for the routes' own work: starts, commits, publishes."""

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from sluiceway.driver.route_slot import RouteSlot
from sluiceway.route.status import RouteState

PLACES = 16
"""Most works of routes at the same time, without slow ones."""

_SLOW_S = 5.0
_MOST_THREADS = 10_000
_LOOK_S = 0.5


@dataclass(slots=True)
class _Work:
    act: Callable[[], None]
    future: Future[None]
    started: float = 0.0


class RoutePool:
    """Runs a few works at a time; a slow work gives its place to the next.

    A put that is repeated, or a store that hangs, delays its own route and no other, however many
    routes of the same store wait.

    Args:
        places: Works that run at once, slow ones not counted.
        slow_s: Seconds after which a work is slow.
    """

    def __init__(self, places: int = PLACES, slow_s: float = _SLOW_S) -> None:
        self._places = places
        self._slow_s = slow_s
        self._lock = threading.Lock()
        self._waiting: deque[_Work] = deque()
        self._running: list[_Work] = []
        # Threads start when there is work for them, and are reused.
        self._threads = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="route")

    def submit(self, act: Callable[[], None]) -> Future[None]:
        """Run `act` when there is a place; the future gets its error."""
        work = _Work(act, Future())
        with self._lock:
            self._waiting.append(work)
            self._begin()
        return work.future

    def wait(self, futures: Collection[Future[None]], timeout_s: float | None) -> None:
        """Return when all are done, or the time is over; None waits for ever."""
        give_up_at = None if timeout_s is None else time.monotonic() + timeout_s
        left = {future for future in futures if not future.done()}
        while left:
            with self._lock:
                self._begin()
            patience_s = _LOOK_S
            if give_up_at is not None:
                patience_s = min(patience_s, give_up_at - time.monotonic())
                if patience_s <= 0:
                    return
            left = wait(left, timeout=patience_s).not_done

    def close(self) -> None:
        """End the threads; all work is done by then."""
        self._threads.shutdown()

    def _begin(self) -> None:
        slow_since = time.monotonic() - self._slow_s
        taken = sum(work.started > slow_since for work in self._running)
        while self._waiting and taken < self._places:
            work = self._waiting.popleft()
            work.started = time.monotonic()
            self._running.append(work)
            self._threads.submit(self._run, work)
            taken += 1

    def _run(self, work: _Work) -> None:
        try:
            work.act()
        except BaseException as error:  # noqa: BLE001 - handed to whoever takes the answer
            work.future.set_exception(error)
        else:
            work.future.set_result(None)
        with self._lock:
            self._running.remove(work)
            self._begin()


def turn_lanes(
    route_slots: Sequence[RouteSlot], pool: RoutePool, settle: Callable[[Sequence[RouteSlot]], None]
) -> None:
    """Run replays and purges of routes without work in flight, for a short while.

    Called by the loop's thread between epochs.

    Args:
        route_slots: All routes.
        pool: Runs the turns.
        settle: Waits a little for the work of these routes.
    """
    running = [s for s in route_slots if s.state is RouteState.RUNNING and s.staged is None]
    due = [s for s in running if s.session.started and s.session.lanes.pressing]
    # They wait for the running commit, and for no other one.
    settle([route_slot for route_slot in due if route_slot.ahead is not None])
    due += [s for s in running if s not in due and s.work is None and s.session.lanes.is_read_due]
    due = [s for s in due if s.work is None and s.state is RouteState.RUNNING]
    for route_slot in due:
        route_slot.work = pool.submit(route_slot.session.lanes.turn)
    settle(due)
