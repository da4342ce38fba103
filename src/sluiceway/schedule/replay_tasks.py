"""Contract of reading dirty rows once more as tasks of the cluster that runs the epochs."""

from collections.abc import Sequence
from typing import Protocol

from sluiceway.worker.plan import TaskPlan, TaskResult


class ReplayTasks(Protocol):
    """Runs epochs of replays on executors, with low priority. Any thread of the driver may ask."""

    def run(self, plan: TaskPlan, paths: Sequence[str]) -> TaskResult | None:
        """Run the one task of a replay's epoch.

        Args:
            plan: See `run_lane_task`.
            paths: See `run_lane_task`.

        Returns:
            What it answers; None when it was not begun, as there are not several executors, or
            none of their slots is spared now: then the driver's process does it.

        Raises:
            StorageUnavailableError: The store failed; the attempt is thrown away.
            TaskFailedError: Rows cannot be written, the task has died, or it takes far too long.
        """
