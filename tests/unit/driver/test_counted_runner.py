"""Records that tasks have read are told while they read."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sluiceway.driver.run import CountedRunner
from sluiceway.ledger.records import NO_ROWS
from sluiceway.schedule.runner import Bundle, TaskRunner
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import TaskPlan, TaskResult
from tools.small_task import route_plan


class Runner(TaskRunner):
    """Two tasks that read on, a look between."""

    def __init__(self) -> None:
        self.folders: set[Path] = set()
        self.closed = False
        self.answered = 40

    def slots(self) -> int:
        return 3

    def run(
        self, bundles: Sequence[Bundle], *, wait: Callable[[], None], give_up_after_s: float
    ) -> list[TaskResult]:
        del give_up_after_s
        paths = [Path(bundle[0].tally) for bundle in bundles]
        assert len(set(paths)) == len(bundles)
        self.folders |= {path.parent for path in paths}
        for number, path in enumerate(paths):
            path.write_text(json.dumps({"orders": 10 + number}))
        wait()
        return [_answer(self.answered) for _ in bundles]

    def close(self) -> None:
        self.closed = True


def _answer(read: int) -> TaskResult:
    counts = replace(NO_ROWS, read=BigInt(read))
    return TaskResult("orders", 1, 1, 0, "a", (), (), (), counts, {}, {}, False, None)  # noqa: FBT003


def bundles(folder: Path) -> list[Bundle]:
    split = Split(SourcePartition("orders", 0), 0, None)
    return [(TaskPlan(route_plan(str(folder)), 1, task, (split,), 1.0),) for task in range(2)]


def test_reads_are_told_while_tasks_run_and_are_exact_when_they_have_answered(
    tmp_path: Path,
) -> None:
    told: list[dict[str, int]] = []
    inner = Runner()
    runner = CountedRunner(inner, lambda reads: told.append(dict(reads)))
    waits: list[int] = []
    runner.run(bundles(tmp_path), wait=lambda: waits.append(1), give_up_after_s=1.0)
    assert waits == [1]
    assert told == [{"orders": 21}, {"orders": 80}]
    runner.run(bundles(tmp_path), wait=lambda: None, give_up_after_s=1.0)
    assert told[-1] == {"orders": 160}
    assert runner.slots() == 3
    (folder,) = inner.folders
    assert list(folder.iterdir()) == []
    runner.close()
    assert inner.closed
    assert not folder.exists()


def test_what_was_read_never_falls_when_tasks_fail(tmp_path: Path) -> None:
    told: list[int] = []
    inner = Runner()
    inner.answered = 0
    runner = CountedRunner(inner, lambda reads: told.append(reads.get("orders", 0)))
    for _ in range(2):
        runner.run(bundles(tmp_path), wait=lambda: None, give_up_after_s=1.0)
    runner.close()
    assert told == sorted(told) == [21, 21, 42, 42]
