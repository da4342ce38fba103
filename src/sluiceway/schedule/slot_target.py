"""How many slots of a cluster a job asks for: more when it lags, fewer when few are amply enough.

Each change starts or ends executors, which takes longer than many epochs. So between "more" and
"fewer" lies a wide band in which nothing happens, and a change is not taken back for a while.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sluiceway.jobfile.blocks.models import JobSpec
from sluiceway.observe.log import Log
from sluiceway.schedule.planner import PlannedEpoch
from sluiceway.worker.plan import TaskResult

HOLD_S = 60.0
"""For so long at least a change is not followed by one the other way."""

LONGEST_IDLE_S = 1_800.0
"""Slots that are wanted again soon after they were given back stay longer, at most so long."""

# A task that is expected to use its epoch fully has nothing in hand for a burst.
_USED_SHARE = 0.8
# Fewer slots are amply enough when they would use no more of their epochs than this.
_AMPLE_SHARE = 0.5
# So many epochs of reading may wait before more slots are asked for, and
_BEHIND_EPOCHS = 1.5
# so many epochs in a row they have to be needed: a burst is read before they come.
_LASTING_EPOCHS = 3
# So much is not left waiting, whatever else.
_PRESSING_EPOCHS = 10.0
_NEWEST_SHARE = 0.3
# Wanted again within so many times the wait before they were given back.
_SOON = 3.0


@dataclass(frozen=True, slots=True)
class SlotBounds:
    """What a job may ask for.

    Attributes:
        least: Kept also when there is nothing to read.
        most: Never more than these.
        idle_s: How long fewer must be amply enough before some are given back.
    """

    least: int
    most: int
    idle_s: float

    def within(self, slots: int) -> int:
        """As many of these as may be asked for."""
        return min(max(slots, self.least), self.most)


def slot_bounds(spec: JobSpec) -> SlotBounds | None:
    """Slots that an elastic job may request; None for a job with a fixed number."""
    slots = spec.run.slots
    return None if slots is None else SlotBounds(slots.min, slots.max, slots.idle_ms / 1000)


class SlotTarget:
    """Decides for all routes of a job. Owned by its loop.

    Args:
        bounds: Bounds of the job file.
        clock: Monotonic seconds.
        log: Gets each change and each that is held, with the reason.
    """

    def __init__(
        self,
        bounds: SlotBounds,
        clock: Callable[[], float] = time.monotonic,
        log: Log | None = None,
    ) -> None:
        self._bounds = bounds
        self._clock = clock
        self._log = log
        self._target = bounds.least
        # Tasks at once -> what one of them reads in an epoch: they share machines.
        self._reads: dict[int, float] = {}
        self._enough_since: float | None = None
        self._most_needed = bounds.least
        self._needed_epochs = 0
        self._lowered = -math.inf
        self._idle_s = max(bounds.idle_s, HOLD_S)
        self._held = False

    def choose(self, epochs: Sequence[PlannedEpoch], slots: int) -> int:
        """The number of slots to ask for now. Called once an epoch, before it is dealt out.

        Args:
            epochs: Epochs of all routes that read.
            slots: Slots that are up.
        """
        expected = sum(each.expected_records for epoch in epochs for each in epoch.splits)
        lag = sum(each.lag_records for epoch in epochs for each in epoch.splits)
        now = self._clock()
        more = self._bounds.within(self._more(expected, lag, slots))
        ample = self._bounds.within(self._ample(expected, lag, slots))
        self._needed_epochs = self._needed_epochs + 1 if more > self._target else 0
        if more > self._target:
            self._enough_since = None
            self._raise(more, lag, slots, now)
        elif ample >= self._target:
            self._enough_since = None
        elif self._enough_since is None:
            self._enough_since, self._most_needed = now, ample
        else:
            self._most_needed = max(self._most_needed, ample)
            self._lower(now, now - self._enough_since)
        return self._target

    def update(self, epochs: Mapping[str, PlannedEpoch], answers: Sequence[TaskResult]) -> None:
        """Learn from an epoch what a slot reads in one. Called once its tasks have answered."""
        by_task: dict[int, int] = {}
        for answer in answers:
            moved = sum(split.end - split.start for split in answer.splits)
            by_task[answer.task] = by_task.get(answer.task, 0) + moved
        if not by_task:
            return
        lag = sum(each.lag_records for epoch in epochs.values() for each in epoch.splits)
        read, best = sum(by_task.values()), float(max(by_task.values()))
        known = self._reads.get(len(by_task), 0.0)
        # Slots that were not busy to the end could have read more: they say nothing of a limit.
        if read < lag or 0 < known < best:
            before = known or best
            self._reads[len(by_task)] = before + (best - before) * _NEWEST_SHARE

    def _a_slot(self, slots: int) -> float:
        """What one of so many reads in an epoch, by the number of slots next to it; 0 unknown.

        With fewer slots each reads as much at least, so more of them come before fewer.
        """
        nearest = min(self._reads, key=lambda n: (n < slots, abs(n - slots)), default=0)
        return self._reads.get(nearest, 0.0)

    def _fewest(self, records: float, share: float) -> int:
        """The least number of slots that read so many in this share of an epoch."""
        counts = range(self._bounds.least, self._bounds.most)
        fitting = (n for n in counts if records <= n * self._a_slot(n) * share)
        return next(fitting, self._bounds.most)

    def _more(self, expected: int, lag: int, slots: int) -> int:
        """As many as are needed at least."""
        if not expected:
            return self._bounds.least
        if not self._reads:
            # Nothing is known yet of what a slot reads; slots that are up cost nothing.
            return slots
        if lag > self._a_slot(slots) * slots * _BEHIND_EPOCHS:
            # It does not end soon: the sooner there are more, the better.
            return max(2 * slots, math.ceil(lag / self._a_slot(slots) / 2))
        return self._fewest(expected, _USED_SHARE)

    def _ample(self, expected: int, lag: int, slots: int) -> int:
        """As many as have half of their epochs to spare."""
        if not expected:
            return self._bounds.least
        if not self._reads:
            # Whatever came was read by the end of its epoch.
            return self._bounds.least if not lag else slots
        return self._fewest(max(expected, lag), _AMPLE_SHARE)

    def _raise(self, wanted: int, lag: int, slots: int, now: float) -> None:
        a_slot = self._a_slot(slots)
        # Unknown is pressing: more than are up are not asked for then.
        if lag <= a_slot * slots * _PRESSING_EPOCHS:
            if self._needed_epochs < _LASTING_EPOCHS:
                return
            if (since_s := now - self._lowered) < HOLD_S:
                self._hold(wanted, f"fewer were enough {since_s:.0f} s ago")
                return
        again = now - self._lowered < _SOON * self._idle_s
        idle_s = max(self._bounds.idle_s, HOLD_S)
        self._idle_s = min(2 * self._idle_s, max(idle_s, LONGEST_IDLE_S)) if again else idle_s
        reads = f", a slot reads about {a_slot:,.0f} in an epoch" if a_slot else ""
        self._change(wanted, f"{lag:,} records wait{reads}")

    def _lower(self, now: float, enough_s: float) -> None:
        if enough_s < self._idle_s:
            if enough_s >= self._bounds.idle_s:
                self._hold(self._most_needed, f"they are given back after {self._idle_s:.0f} s")
            return
        self._lowered, self._enough_since = now, None
        self._change(self._most_needed, f"they were amply enough for {enough_s:.0f} s")

    def _change(self, wanted: int, reason: str) -> None:
        before, self._target, self._held = self._target, wanted, False
        if self._log is not None:
            self._log.info("slots_wanted", slots=wanted, before=before, reason=reason)

    def _hold(self, wanted: int, reason: str) -> None:
        """Leave the number as it is; said once until it changes."""
        if not self._held and self._log is not None:
            self._log.info("slots_held", slots=self._target, instead_of=wanted, reason=reason)
        self._held = True
