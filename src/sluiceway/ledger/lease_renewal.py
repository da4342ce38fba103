"""Renews all leases of a process from few threads, each lease in its own time.

The leases of one volume share a lane: a leader waits for the next lease that is due, hands the lead
on and renews it. A call that hangs holds one thread of its lane, and another one leads. A volume
that hangs altogether holds the few threads of its lane, and the other volumes go on.
"""

import heapq
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Final

MAX_LANE_THREADS: Final = 4
_MAX_FOLLOWERS: Final = 1
_LINGER_S: Final = 5.0
_AFTER_BUG_S: Final = 4.0
# The fractions of its multiples are as even as points can be that are not known beforehand.
_GOLDEN_RATIO: Final = 0.618_033_988_749_895


@dataclass(eq=False, slots=True)
class Renewal:
    """One lease's place in a lane; its fields belong to the lane."""

    lane: "_Lane"
    renew: Callable[[], float | None]
    running: bool = False
    ended: bool = False

    def end(self, timeout_s: float) -> bool:
        """Renew no more. Safe to repeat.

        Args:
            timeout_s: How long a renewal that runs now is waited for.

        Returns:
            False when it runs still.
        """
        return self.lane.end(self, timeout_s)


class _Lane:
    """The leases of one volume, and the threads that renew them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._sooner = threading.Condition(self._lock)
        self._lead_free = threading.Condition(self._lock)
        self._stood_still = threading.Condition(self._lock)
        self._waiting: list[tuple[float, int, Renewal]] = []
        self._order = count()
        self._led = False
        self._threads = 0
        self._followers = 0

    def add(self, renewal: Renewal, due: float) -> None:
        with self._lock:
            self._put(renewal, due)
            self._call_leader()
            self._sooner.notify()

    def end(self, renewal: Renewal, timeout_s: float) -> bool:
        with self._lock:
            renewal.ended = True
            return self._stood_still.wait_for(lambda: not renewal.running, timeout_s)

    def _put(self, renewal: Renewal, due: float) -> None:
        heapq.heappush(self._waiting, (due, next(self._order), renewal))

    def _call_leader(self) -> None:
        """Have one thread wait for the next lease; called with the lock held."""
        if self._led or not self._waiting:
            return
        if self._followers:
            self._lead_free.notify()
        elif self._threads < MAX_LANE_THREADS:
            self._threads += 1
            threading.Thread(target=self._run, name=f"lease-{self._name}", daemon=True).start()

    def _run(self) -> None:
        while (renewal := self._next()) is not None:
            began = time.monotonic()
            pause_s = _renewed(renewal)
            with self._lock:
                renewal.running = False
                if renewal.ended:
                    self._stood_still.notify_all()
                elif pause_s is not None:
                    self._put(renewal, began + pause_s)

    def _next(self) -> Renewal | None:
        """The lease that is due, once it is; None when this thread is not needed any more."""
        with self._lock:
            if not self._take_lead():
                self._threads -= 1
                return None
            renewal = self._wait_for_due()
            self._led = False
            if renewal is None:
                self._threads -= 1
                # The next one finds out, too, that nothing is left to do.
                self._lead_free.notify()
            self._call_leader()
            return renewal

    def _take_lead(self) -> bool:
        if self._led and self._followers >= _MAX_FOLLOWERS:
            return False
        self._followers += 1
        leads = self._lead_free.wait_for(lambda: not self._led, _LINGER_S)
        self._followers -= 1
        self._led = self._led or leads
        return leads

    def _wait_for_due(self) -> Renewal | None:
        while self._waiting:
            left_s = self._waiting[0][0] - time.monotonic()
            if left_s > 0:
                self._sooner.wait(left_s)
                continue
            _, _, renewal = heapq.heappop(self._waiting)
            if not renewal.ended:
                renewal.running = True
                return renewal
        return None


class LeaseRenewals:
    """All leases that a process holds. Safe for several threads; idle, it has no thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lanes: dict[str, _Lane] = {}
        self._added = 0

    def add(self, volume: str, renew: Callable[[], float | None], interval_s: float) -> Renewal:
        """Renew a lease again and again. Called once per lease.

        Args:
            volume: What may hang as a whole; `Storage.volume` of the lease.
            renew: Does it once; returns the seconds until the next time, None when there is none.
            interval_s: The first time is somewhere within it, so that leases which begin at once
                are not renewed at once.
        """
        with self._lock:
            lane = self._lanes.setdefault(volume, _Lane(volume))
            self._added += 1
            first_s = interval_s * share_of_interval(self._added)
        renewal = Renewal(lane, renew)
        lane.add(renewal, time.monotonic() + first_s)
        return renewal


_RENEWALS: Final = LeaseRenewals()


def process_renewals() -> LeaseRenewals:
    """The renewals that all drivers of this process share."""
    return _RENEWALS


def share_of_interval(number: int) -> float:
    """Where in an interval the lease of this number begins: evenly spread, however many."""
    return number * _GOLDEN_RATIO % 1.0


def _renewed(renewal: Renewal) -> float | None:
    try:
        return renewal.renew()
    except Exception:  # noqa: BLE001 - a bug in one lease's renewal must not end the others'
        kind, error, trace = sys.exc_info()
        arguments = (kind, error, trace, threading.current_thread())
        threading.excepthook(threading.ExceptHookArgs(arguments))
        return _AFTER_BUG_S
