"""Runs tasks in threads of the test's own process: real worker code, no JVM."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from sluiceway.job.runner import TaskRunner
from sluiceway.worker.plan import TaskPlan, TaskResult
from sluiceway.worker.task import run_task


class InlineRunner(TaskRunner):
    """A runner without Spark, for tests of everything around it."""

    def __init__(self, slots: int = 2) -> None:
        self._slots = slots
        self._pool = ThreadPoolExecutor(slots)

    def slots(self) -> int:
        return self._slots

    def run(
        self, plans: Sequence[TaskPlan], *, wait: Callable[[], None], give_up_after_s: float
    ) -> list[TaskResult]:
        futures = [self._pool.submit(run_task, plan) for plan in plans]
        give_up_at = time.monotonic() + give_up_after_s
        while not all(future.done() for future in futures):
            _wait_a_little(futures)
            wait()
            assert time.monotonic() < give_up_at
        return [future.result() for future in futures]

    def close(self) -> None:
        self._pool.shutdown()


def _wait_a_little(futures: list) -> None:  # type: ignore[type-arg]
    wait(futures, timeout=0.05)
