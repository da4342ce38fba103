"""Contract of rewriting partitions as tasks of the cluster that runs the epochs."""

from collections.abc import Callable, Sequence
from typing import Protocol

from sluiceway.worker.rewrite import RewriteAnswer, RewritePlan


class RewriteTasks(Protocol):
    """Runs plans on executors, with low priority. Any thread of the driver may ask it."""

    def usable(self) -> bool:
        """Whether there is more than one executor now; else the driver's machine does the work."""

    def run(self, plans: Sequence[RewritePlan], check: Callable[[], None]) -> list[RewriteAnswer]:
        """Carry plans out, each once more where its executor is lost.

        Args:
            plans: At least one.
            check: Asked again and again; raises to give up.

        Returns:
            An answer to each, in their order.

        Raises:
            TaskFailedError: It was given up, by `check` or because it takes far too long.
        """
