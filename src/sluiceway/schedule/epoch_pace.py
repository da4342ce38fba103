"""How long the tasks of an epoch read, so that a route commits once an interval."""

import statistics
import time
from collections import deque

from sluiceway.schedule.planner import PlannedEpoch
from sluiceway.worker.plan import TaskPlan

_LOOKS = 5
_LEAST_LOOKS = 3
_MOST_SHARE = 0.25


class EpochPace:
    """Of one route. Owned by its session, used by one thread.

    An epoch takes longer than its tasks read: they have to begin, close their files and answer.
    With that much less reading, as it was in the epochs before, commits follow each other by the
    interval; a quarter of it is the most, so that a slow store leaves time to read.

    Args:
        interval_s: From one commit to the next.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._told_s = interval_s
        self._rests_s: deque[float] = deque(maxlen=_LOOKS)

    def task_plans(self, planned: PlannedEpoch) -> dict[int, TaskPlan]:
        """What each task is told. Called once the splits are dealt out."""
        self._told_s = self._interval_s - self._rest_s()
        return planned.task_plans(self._told_s)

    def set_answered(self, planned: PlannedEpoch) -> None:
        """The tasks that were told last have answered."""
        planned.answered = time.monotonic()
        rest_s = planned.answered - planned.started - self._told_s
        # Tasks that had nothing more to read say nothing about it.
        if rest_s > 0:
            self._rests_s.append(rest_s)

    def _rest_s(self) -> float:
        if len(self._rests_s) < _LEAST_LOOKS:
            return 0.0
        return min(statistics.median(self._rests_s), self._interval_s * _MOST_SHARE)
