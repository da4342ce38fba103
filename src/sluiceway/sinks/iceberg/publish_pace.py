"""When the next snapshot is due: at the commit that lies nearest to the end of its interval.

A snapshot that comes between two commits lets the rows of the next one wait for a whole interval.
So it is made half a pause between commits early, or late, and the intervals are counted from when
each one should have begun: on the average there are as many as were asked for.
"""

import threading
from dataclasses import dataclass


@dataclass(slots=True)
class _Commits:
    """What is known of them.

    Attributes:
        last_s: When the newest one was noted.
        gap_s: From one to the next, as of late, and no more than an interval; None before there
            were two.
    """

    last_s: float | None = None
    gap_s: float | None = None


class PublishPace:
    """Of one table. Any thread may call.

    Args:
        interval_s: From one snapshot to the next.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._commits = _Commits()
        self._due_s: float | None = None

    def add_commit(self, now_s: float) -> None:
        """An epoch was committed."""
        with self._lock:
            commits = self._commits
            if commits.last_s is not None:
                # A night without commits says nothing of their pace.
                gap_s = min(now_s - commits.last_s, self._interval_s)
                commits.gap_s = gap_s if commits.gap_s is None else (commits.gap_s + gap_s) / 2
            commits.last_s = now_s

    def add_publish(self, began_s: float) -> None:
        """A snapshot landed whose making had begun then."""
        with self._lock:
            due_s, half_s = self._due_s, self._half_s()
            on_time = due_s is not None and abs(began_s - due_s) <= half_s
            self._due_s = (due_s if due_s is not None and on_time else began_s) + self._interval_s

    def wait_s(self, now_s: float) -> float:
        """Seconds until the next snapshot should be begun, as far as is known now; 0.0: now."""
        with self._lock:
            if self._due_s is None:
                return 0.0
            half_s, last_s = self._half_s(), self._commits.last_s
            if last_s is None or self._commits.gap_s is None:
                return max(0.0, self._due_s - now_s)
            if last_s >= self._due_s - half_s:
                return 0.0
            next_is_nearest = last_s + self._commits.gap_s >= self._due_s - half_s
            return max(0.0, self._due_s + (half_s if next_is_nearest else 0.0) - now_s)

    def _half_s(self) -> float:
        """Half of a pause between commits, at most of an interval."""
        return (self._commits.gap_s or 0.0) / 2
