"""Runs tasks in threads of the test's own process: real worker code, no JVM."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from sluiceway.job.runner import Bundle, TaskRunner
from sluiceway.worker.bundle import run_bundle
from sluiceway.worker.plan import TaskResult


class InlineRunner(TaskRunner):
    """A runner without Spark, for tests of everything around it."""

    def __init__(self, slots: int = 2) -> None:
        self._slots = slots
        self._pool = ThreadPoolExecutor(slots)

    def slots(self) -> int:
        return self._slots

    def run(
        self, bundles: Sequence[Bundle], *, wait: Callable[[], None], give_up_after_s: float
    ) -> list[TaskResult]:
        futures = [self._pool.submit(run_bundle, bundle) for bundle in bundles]
        give_up_at = time.monotonic() + give_up_after_s
        while not all(future.done() for future in futures):
            _wait_a_little(futures)
            wait()
            assert time.monotonic() < give_up_at
        return [result for future in futures for result in future.result()]

    def close(self) -> None:
        self._pool.shutdown()


def _wait_a_little(futures: list) -> None:  # type: ignore[type-arg]
    wait(futures, timeout=0.05)
