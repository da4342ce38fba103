"""How many slots of a cluster a job asks for: more at once when it lags, fewer after a while."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sluiceway.schedule.planner import PlannedEpoch
from sluiceway.worker.plan import TaskResult

# A task that is expected to use its epoch fully has nothing in hand for a burst.
_USED_SHARE = 0.8
_NEWEST_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class SlotBounds:
    """What a job may ask for.

    Attributes:
        least: Kept also when there is nothing to read.
        most: Never more than these.
        idle_s: How long fewer must be enough before some are given back.
    """

    least: int
    most: int
    idle_s: float


class SlotTarget:
    """Decides for all routes of a job. Owned by its loop.

    Args:
        bounds: Of the job file.
        clock: Monotonic seconds.
    """

    def __init__(self, bounds: SlotBounds, clock: Callable[[], float] = time.monotonic) -> None:
        self._bounds = bounds
        self._clock = clock
        self._target = bounds.least
        self._records_a_slot = 0.0
        self._enough_since: float | None = None
        self._most_needed = bounds.least

    def choose(self, epochs: Sequence[PlannedEpoch], slots: int) -> int:
        """The number of slots to ask for now. Called once an epoch, before it is dealt out.

        Args:
            epochs: Of all routes that read.
            slots: That are up.
        """
        expected = sum(each.expected_records for epoch in epochs for each in epoch.splits)
        lag = sum(each.lag_records for epoch in epochs for each in epoch.splits)
        needed = self._needed(expected, lag, slots)
        needed = min(max(needed, self._bounds.least), self._bounds.most)
        now = self._clock()
        if needed >= self._target:
            self._target, self._enough_since = needed, None
        elif self._enough_since is None:
            self._enough_since, self._most_needed = now, needed
        else:
            self._most_needed = max(self._most_needed, needed)
            if now - self._enough_since >= self._bounds.idle_s:
                self._target, self._enough_since = self._most_needed, None
        return self._target

    def note(self, epochs: Mapping[str, PlannedEpoch], answers: Sequence[TaskResult]) -> None:
        """Learn from an epoch what a slot reads in one. Called once its tasks have answered."""
        by_task: dict[int, int] = {}
        for answer in answers:
            moved = sum(split.end - split.start for split in answer.splits)
            by_task[answer.task] = by_task.get(answer.task, 0) + moved
        if not by_task:
            return
        lag = sum(each.lag_records for epoch in epochs.values() for each in epoch.splits)
        read, best = sum(by_task.values()), max(by_task.values())
        if read < lag:
            # All slots were busy to the end: that is what they can do.
            busy = read / len(by_task)
            known = self._records_a_slot or busy
            self._records_a_slot = known + (busy - known) * _NEWEST_SHARE
        else:
            self._records_a_slot = max(self._records_a_slot, float(best))

    def _needed(self, expected: int, lag: int, slots: int) -> int:
        if not expected:
            return self._bounds.least
        if not self._records_a_slot:
            # Nothing is known yet of what a slot reads.
            return slots
        if lag > self._records_a_slot * slots:
            # It does not end with this epoch: the sooner there are more, the better.
            return max(2 * slots, math.ceil(lag / self._records_a_slot / 2))
        return math.ceil(expected / (self._records_a_slot * _USED_SHARE))
