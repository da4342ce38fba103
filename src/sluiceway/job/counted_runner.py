"""A runner that is watched: it tells how many records its tasks have read while they read."""

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sluiceway.schedule.replay_tasks import ReplayTasks
from sluiceway.schedule.rewrite_tasks import RewriteTasks
from sluiceway.schedule.runner import Bundle, TaskRunner
from sluiceway.worker.plan import TaskResult
from sluiceway.worker.read_tally import read_tally

_LOOK_EVERY_S = 0.25

Reading = Callable[[Mapping[str, int]], None]
"""(route -> records read by tasks since the run began, thrown away ones too)."""


class CountedRunner(TaskRunner):
    """Runs tasks as the runner behind it does.

    The tasks write what they have read into a folder of this machine; those of other machines
    tell nothing before they answer.

    Args:
        runner: What does the work; closed with this one.
        reading: Told a few times a second while tasks run.
    """

    def __init__(self, runner: TaskRunner, reading: Reading) -> None:
        self._runner = runner
        self._reading = reading
        self._folder = Path(tempfile.mkdtemp(prefix="sluiceway-reading-"))
        self._before: Counter[str] = Counter()
        self._runs = 0

    def slots(self) -> int:
        """See `TaskRunner`."""
        return self._runner.slots()

    def keep_warm(self) -> None:
        """See `TaskRunner`."""
        self._runner.keep_warm()

    def ask_for(self, slots: int) -> None:
        """See `TaskRunner`."""
        self._runner.ask_for(slots)

    def rewrites(self) -> RewriteTasks | None:
        """See `TaskRunner`."""
        return self._runner.rewrites()

    def replays(self) -> ReplayTasks | None:
        """See `TaskRunner`."""
        return self._runner.replays()

    def run(
        self, bundles: Sequence[Bundle], *, wait: Callable[[], None], give_up_after_s: float
    ) -> list[TaskResult]:
        """See `TaskRunner`."""
        self._runs += 1
        paths = [str(self._folder / f"{self._runs}-{number}") for number in range(len(bundles))]
        told: list[Bundle] = [
            tuple(replace(plan, tally=path) for plan in bundle)
            for path, bundle in zip(paths, bundles, strict=True)
        ]
        due = 0.0

        def look() -> None:
            nonlocal due
            wait()
            if time.monotonic() >= due:
                due = time.monotonic() + _LOOK_EVERY_S
                self._reading(self._before + self._counts(paths))

        try:
            answers = self._runner.run(told, wait=look, give_up_after_s=give_up_after_s)
        finally:
            so_far = self._counts(paths)
            for path in paths:
                Path(path).unlink(missing_ok=True)
        # What was read last is in the answers alone; what failed tasks have read is not in them.
        exact: Counter[str] = Counter()
        for answer in answers:
            exact[self._route_of(answer, bundles)] += int(answer.counts.read)
        self._before += so_far | exact
        self._reading(self._before)
        return answers

    def close(self) -> None:
        """See `TaskRunner`."""
        self._runner.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _counts(self, paths: Sequence[str]) -> Counter[str]:
        found: Counter[str] = Counter()
        for path in paths:
            found.update(read_tally(path))
        return found

    def _route_of(self, answer: TaskResult, bundles: Sequence[Bundle]) -> str:
        plans = (plan for bundle in bundles for plan in bundle)
        found = (p.route.layout.route for p in plans if p.route.ledger == answer.ledger)
        return next(found, "")
