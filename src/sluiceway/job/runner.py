"""Contract of what runs the tasks of an epoch."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from sluiceway.storage.registry import open_storage
from sluiceway.types.strict_json import decode
from sluiceway.worker.plan import TaskPlan, TaskResult


class TaskRunner(ABC):
    """Runs the tasks of one epoch at a time. Owned by one driver."""

    @abstractmethod
    def slots(self) -> int:
        """How many tasks can run at once now. Asked before each epoch."""

    @abstractmethod
    def run(
        self, plans: Sequence[TaskPlan], *, wait: Callable[[], None], give_up_after_s: float
    ) -> list[TaskResult]:
        """Run all tasks and return what those that finished answered, in task order.

        Args:
            plans: At most `slots()` tasks.
            wait: Called every 50 to 100 ms while the tasks run; may raise to abandon the epoch.
            give_up_after_s: Then the tasks still running are cancelled; those that finished are
                returned all the same.

        Raises:
            TaskFailedError: No task finished; the epoch is planned again.
            RunnerLostError: The runner itself is gone.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop what was started. Safe to repeat."""


def finished_results(plans: Sequence[TaskPlan]) -> list[TaskResult]:
    """Results that tasks have put by name, when the runner could not hand all of them over.

    Only the tasks that were launched are asked for, by name; nothing is listed.

    Raises:
        StorageUnavailableError: The store failed.
    """
    if not plans:
        return []
    storage, _ = open_storage(plans[0].route.layout.table_root)
    found = [storage.read(plan.result_path) for plan in plans]
    return [decode(raw, TaskResult) for raw in found if raw is not None]
