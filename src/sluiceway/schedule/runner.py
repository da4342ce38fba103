"""Contract of what runs the tasks of an epoch."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from sluiceway.schedule.sql_engine import SqlEngine
from sluiceway.schedule.unit_sql import UnitSql
from sluiceway.storage.registry import open_storage
from sluiceway.types.strict_json import decode
from sluiceway.work.request import ClusterWork
from sluiceway.worker.plan import TaskPlan, TaskResult

Bundle = tuple[TaskPlan, ...]
"""What one task runs: its share of one or many routes."""


class TaskRunner(ABC):
    """Runs the tasks of one epoch at a time. Owned by one driver."""

    @abstractmethod
    def slots(self) -> int:
        """How many tasks can run at once now. Asked before each epoch.

        Raises:
            RunnerLostError: The runner is gone.
        """

    def warm_up(self, stopped: Callable[[], bool]) -> None:
        """Wait until tasks can be run. Called once, before the first epoch, on a cluster.

        A runner whose slots are there does nothing.

        Args:
            stopped: Whether to wait no longer.

        Raises:
            UnhealthyEnvironmentError: They cannot, and waiting does not help.
            RunnerLostError: The runner is gone.
        """
        del stopped

    def keep_warm(self) -> None:  # noqa: B027 - most runners have nothing to do
        """Be ready, so that the first epoch begins at once. Called often, while a standby waits.

        Does not wait. A runner that is always ready does nothing.

        Raises:
            RunnerLostError: The runner is gone.
        """

    def ui_address(self) -> str | None:
        """Address of Spark's pages about the tasks; empty where they are off.

        None where it is not known, for example without Spark. Asked once, before the first task.
        """
        return None

    def ask_for(self, slots: int) -> None:
        """Ask the cluster for so many slots, or give some back. Called while no task runs.

        They come and go when they do; `slots` counts them. Does nothing where slots are given.

        Args:
            slots: Number of slots, at least 1.

        Raises:
            RunnerLostError: The runner is gone.
        """
        del slots

    def work(self) -> ClusterWork | None:
        """What carries out work outside of epochs. Asked once a route, when that starts.

        None where one machine does all.
        """
        return None

    def sql(self) -> SqlEngine | None:
        """What runs the SQL of routes. Asked once a route, when that starts.

        None where tasks do not run in Spark.
        """
        return None

    def unit_sql(self) -> UnitSql | None:
        """What runs the SQL of routes that compute units. Asked once a route, when that starts.

        None where there is no Spark.
        """
        return None

    @abstractmethod
    def run(
        self, bundles: Sequence[Bundle], *, wait: Callable[[], None], give_up_after_s: float
    ) -> list[TaskResult]:
        """Run all bundles and return the answers of the finished ones.

        Args:
            bundles: Bundles, at most `slots()`, none empty.
            wait: Called every 50 to 100 ms while the tasks run; may raise to abandon the epoch.
            give_up_after_s: Then the tasks still running are cancelled; finished tasks' answers are
                returned all the same.

        Returns:
            Answers of routes whose ends moved or that failed; at most one a route and task.

        Raises:
            TaskFailedError: No task finished; the epoch is planned again.
            RunnerLostError: The runner itself is gone.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop what was started. Safe to repeat."""


def finished_results(bundles: Sequence[Bundle]) -> list[TaskResult]:
    """Results that tasks have put by name, when the runner could not hand all of them over.

    Only the tasks that were launched are asked for, by name; nothing is listed.

    Raises:
        StorageUnavailableError: The store failed.
    """
    found = []
    for plan in (plan for bundle in bundles for plan in bundle):
        storage, _ = open_storage(plan.route.layout.table_root, plan.route.stores)
        raw = storage.read(plan.result_path)
        if raw is not None:
            found.append(decode(raw, TaskResult))
    return found
