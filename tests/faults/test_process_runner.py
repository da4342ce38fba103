"""The runner of local worker processes does with attempts what Spark does with them."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from sluiceway.errors import TaskFailedError
from sluiceway.ledger.records import NO_ROWS
from sluiceway.worker.plan import TaskResult
from tools import process_runner
from tools.process_runner import ProcessRunner

if TYPE_CHECKING:
    from sluiceway.schedule.runner import Bundle

_PATIENCE_S = 60.0
_RESULT = TaskResult(
    ledger="x",
    term=1,
    epoch=0,
    task=0,
    attempt="",
    splits=(),
    files=(),
    dirty_files=(),
    counts=NO_ROWS,
    dirty_reasons={},
    timings_ms={},
    consumer_reused=False,
    failure=None,
)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a fake task does: it stands where a `TaskPlan` would."""

    number: int
    deed: str
    folder: Path


def _fake_bundle(plans: tuple[_Plan, ...], *, attempt: int = 0) -> tuple[TaskResult, ...]:
    (plan,) = plans
    with (plan.folder / f"task-{plan.number}").open("a") as log:
        log.write(f"{attempt} {os.getpid()}\n")
    if plan.deed == "die" and attempt == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if plan.deed == "raise":
        raise RuntimeError("as it must")
    if plan.deed == "sleep":
        (plan.folder / f"sleeps-{plan.number}").touch()
        time.sleep(_PATIENCE_S)
    return (replace(_RESULT, task=plan.number, attempt=str(attempt)),)


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessRunner]:
    # Before the fork, so that the workers have it too.
    monkeypatch.setattr(process_runner, "run_bundle", _fake_bundle)
    found = ProcessRunner()
    yield found
    found.close()


def _run(
    runner: ProcessRunner,
    folder: Path,
    *deeds: str,
    wait: Callable[[], None] = lambda: None,
    give_up_after_s: float = _PATIENCE_S,
) -> dict[int, str]:
    """Attempt that answered, by task."""
    bundles = [cast("Bundle", (_Plan(n, deed, folder),)) for n, deed in enumerate(deeds)]
    found = runner.run(bundles, wait=wait, give_up_after_s=give_up_after_s)
    return {result.task: result.attempt for result in found}


def _attempts(folder: Path, task: int) -> list[tuple[int, int]]:
    lines = (folder / f"task-{task}").read_text().splitlines()
    return [(int(number), int(pid)) for number, _, pid in (line.partition(" ") for line in lines)]


def test_workers_are_other_processes_and_live_on(runner: ProcessRunner, tmp_path: Path) -> None:
    for _ in range(2):
        assert _run(runner, tmp_path, "work", "work") == {0: "0", 1: "0"}
    pids = {pid for task in range(2) for _, pid in _attempts(tmp_path, task)}
    assert len(pids) == 2
    assert os.getpid() not in pids


def test_killed_worker_is_followed_by_another_attempt(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    assert _run(runner, tmp_path, "die", "work") == {0: "1", 1: "0"}
    (first, second) = _attempts(tmp_path, 0)
    assert [first[0], second[0]] == [0, 1]
    assert first[1] != second[1]


def test_worker_killed_while_idle_is_replaced(runner: ProcessRunner, tmp_path: Path) -> None:
    assert _run(runner, tmp_path, "work") == {0: "0"}
    ((_, pid),) = _attempts(tmp_path, 0)
    os.kill(pid, signal.SIGKILL)
    assert set(_run(runner, tmp_path, "work")) == {0}


def test_task_that_always_raises_fails_after_four_attempts(
    runner: ProcessRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def nothing(bundles: "Sequence[Bundle]") -> list[TaskResult]:
        asked.append(len(bundles))
        return []

    monkeypatch.setattr(process_runner, "finished_results", nothing)
    with pytest.raises(TaskFailedError, match="no task finished"):
        _run(runner, tmp_path, "raise", "work")
    assert [number for number, _ in _attempts(tmp_path, 0)] == [0, 1, 2, 3]
    assert asked == [2]


def test_stragglers_are_killed_and_the_results_that_were_put_count(
    runner: ProcessRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_runner, "finished_results", lambda bundles: [_RESULT])
    assert _run(runner, tmp_path, "work", "sleep", give_up_after_s=0.5) == {0: ""}
    ((_, pid),) = _attempts(tmp_path, 1)
    deadline = time.monotonic() + _PATIENCE_S
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()


def test_epoch_that_is_abandoned_leaves_no_worker_at_work(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    def abandon() -> None:
        if (tmp_path / "sleeps-0").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _run(runner, tmp_path, "sleep", wait=abandon)
    assert _run(runner, tmp_path, "work") == {0: "0"}
