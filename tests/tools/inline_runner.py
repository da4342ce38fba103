"""Runs tasks in threads of the test's own process: real worker code, no JVM.

A task that is not done in time is left alone, as a cancelled one on a machine that hangs: its
thread goes on, and what it writes later is of an epoch that is over.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from sluiceway.errors import TaskFailedError
from sluiceway.schedule.runner import Bundle, TaskRunner, finished_results
from sluiceway.schedule.unit_sql import UnitSql
from sluiceway.worker.bundle import run_bundle
from sluiceway.worker.plan import TaskResult
from tools.duck_units import DuckUnits


class InlineRunner(TaskRunner):
    """A runner without Spark, for tests of everything around it.

    Attributes:
        stragglers: Epochs that ended without all of their tasks.
        units: Runs the SQL of units.
    """

    stragglers = 0

    def __init__(self, slots: int = 2, units: UnitSql | None = None) -> None:
        self.units = units or DuckUnits()
        self._slots = slots
        self._pool = ThreadPoolExecutor(slots)

    def slots(self) -> int:
        return self._slots

    def unit_sql(self) -> UnitSql:
        return self.units

    def run(
        self, bundles: Sequence[Bundle], *, wait: Callable[[], None], give_up_after_s: float
    ) -> list[TaskResult]:
        futures = [self._pool.submit(run_bundle, bundle) for bundle in bundles]
        give_up_at = time.monotonic() + give_up_after_s
        while not all(future.done() for future in futures):
            _wait_a_little(futures)
            wait()
            if time.monotonic() >= give_up_at:
                return self._salvage(bundles)
        return [result for future in futures for result in future.result()]

    def _salvage(self, bundles: Sequence[Bundle]) -> list[TaskResult]:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = ThreadPoolExecutor(self._slots)
        self.stragglers += 1
        results = finished_results(bundles)
        if not results:
            raise TaskFailedError("no task finished")
        return results

    def close(self) -> None:
        self._pool.shutdown()


def _wait_a_little(futures: list) -> None:  # type: ignore[type-arg]
    wait(futures, timeout=0.05)
