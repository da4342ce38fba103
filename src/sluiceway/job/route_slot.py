"""A route's place in the job's loop: how it is, when it is due, what runs for it."""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluiceway.errors import Fatal, SluicewayError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.route.route_session import RouteSession
from sluiceway.route.status import RouteState
from sluiceway.schedule.planner import PlannedEpoch
from sluiceway.worker.plan import TaskResult

if TYPE_CHECKING:
    from concurrent.futures import Future

_FIRST_TRY_S = 30.0
_LONGEST_TRY_S = 300.0
_MOST_DOUBLINGS = 10


@dataclass(frozen=True, slots=True)
class StagedEpoch:
    """What was asked of the tasks, and what they have answered for this route."""

    planned: PlannedEpoch
    answers: Sequence[TaskResult]

    @property
    def epoch(self) -> int:
        """Its number."""
        return self.planned.epoch


@dataclass(slots=True)
class RouteSlot:
    """One route in the loop, whose thread alone writes here.

    A route that an error halted whose cause can go away is started anew: after 30 s, then after
    twice as long each time, at most after five minutes, until a START succeeds. A route that came
    back and halts again soon goes on with the longer pause.

    Attributes:
        due: Monotonic time before which the route is left alone; infinite when for good.
        error: Why it waits or has halted.
        work: What runs for the route in the pool now.
        ahead: While the work is a commit: what the next epoch may be planned from before it is
            known; None when that has to wait.
        staged: An epoch whose tasks have answered and whose commit has not begun.
        topics: What a pattern's route reads when its work is done; None when nothing changed.
        next_try_ms: When a halted route is started anew, since 1970; None when it never is.
    """

    session: RouteSession
    state: RouteState = RouteState.STARTING
    due: float = 0.0
    error: SluicewayError | None = None
    work: "Future[None] | None" = None
    ahead: Fold | None = None
    staged: StagedEpoch | None = None
    topics: tuple[str, ...] | None = None
    next_try_ms: int | None = None
    _halts: int = 0
    _came_back: float | None = None

    def plannable(self) -> bool:
        """Whether an epoch may be planned now: one is in flight at most, two with the new one."""
        if self.state is not RouteState.RUNNING or self.staged is not None:
            return False
        return self.work is None or (self.ahead is not None and self.topics is None)

    def free(self) -> bool:
        """Whether something may be begun for the route now."""
        return self.work is None and time.monotonic() >= self.due

    def halt(self, error: SluicewayError) -> float | None:
        """Take it out of the epochs.

        Returns:
            Seconds until it is tried again; None when it is not.
        """
        if self.state is not RouteState.HALTED or isinstance(error, Fatal) or self.error is None:
            # An outage that a new try meets is not why the route has halted.
            self.error = error
        self.state = RouteState.HALTED
        if not self.error.mendable:
            self.due, self.next_try_ms = float("inf"), None
            return None
        if self._came_back is not None and time.monotonic() - self._came_back > _LONGEST_TRY_S:
            self._halts = 0
        self._came_back = None
        # Routes that halted for one reason do not come back all at once.
        pause_s = min(_FIRST_TRY_S * 2.0**self._halts, _LONGEST_TRY_S)
        pause_s *= random.uniform(0.8, 1.2)  # noqa: S311 - no secret
        self._halts = min(self._halts + 1, _MOST_DOUBLINGS)
        self.due = time.monotonic() + pause_s
        self.next_try_ms = time.time_ns() // 1_000_000 + int(pause_s * 1000)
        return pause_s

    def come_back(self) -> None:
        """A new START has succeeded."""
        self.state, self.error, self.next_try_ms = RouteState.RUNNING, None, None
        self._came_back = time.monotonic()

    def shown(self) -> tuple[RouteState, SluicewayError | None]:
        """State and reason for others, also while a put or a publish is repeated in the pool."""
        trouble = self.session.trouble
        if self.work is not None and trouble is not None and self.state is not RouteState.HALTED:
            return RouteState.WAITING, trouble
        return self.state, self.error
