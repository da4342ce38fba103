"""The next epoch runs while the one before is committed, and lands behind it or not at all."""

import threading
from collections import Counter

import pytest

from sluiceway.errors import TaskFailedError
from sluiceway.observe.steps import Step
from sluiceway.worker.answers import check_staged_files
from tools.job_files import event
from tools.route_faults import NewRun, Pause, data_records, live, offsets, wait_until
from tools.topic_writer import TopicWriter

_TIMEOUT_S = 180.0
_COMMITTER = "sluiceway.route.committer"


class _Watch:
    """Observer that counts the steps, and may stand still at one."""

    def __init__(self, pause: Pause | None = None) -> None:
        self._pause = pause
        self.seen: Counter[Step] = Counter()

    def __call__(self, step: Step) -> None:
        self.seen[step] += 1
        if self._pause is not None:
            self._pause(step)


@pytest.mark.parametrize("step", [Step.PREPARED, Step.COMMITTED, Step.PUBLISHED])
def test_next_epoch_runs_while_a_commit_takes_long_and_lands_behind_it(
    new_run: NewRun, writer: TopicWriter, step: Step
) -> None:
    run, topic = new_run()
    writer.write(topic, [event(n) for n in range(10)])
    pause = Pause(step)
    watch = _Watch(pause)
    with live(run, watch) as running:
        assert pause.reached.wait(_TIMEOUT_S)
        landed = len(data_records(run))
        writer.write(topic, [event(n) for n in range(10, 25)])
        # The tasks of the second epoch have answered, and its commit has not begun.
        running.wait_for(lambda: watch.seen[Step.WRITTEN] == 2)
        assert watch.seen[Step.PREPARED] == 1
        assert len(data_records(run)) == landed
        # A third one is not begun: one epoch ahead, no more (commit rule 3).
        planned = watch.seen[Step.PLANNED]
        writer.write(topic, [event(n) for n in range(25, 30)])
        assert (watch.seen[Step.PLANNED], watch.seen[Step.WRITTEN]) == (planned, 2)
        pause.goes_on.set()
        running.wait_for(lambda: run.rows() == offsets(0, range(30)))
        running.stop()
    assert run.rows() == offsets(0, range(30))
    run.assert_verified()


def test_epoch_that_was_planned_ahead_of_a_refused_one_is_thrown_away_and_read_again(
    new_run: NewRun, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, topic = new_run()
    writer.write(topic, [event(n) for n in range(10)])
    watch = _Watch()
    refused = threading.Event()

    def refuse_the_first(*asked: object) -> None:
        if not refused.is_set():
            writer.write(topic, [event(n) for n in range(10, 25)])
            wait_until(lambda: watch.seen[Step.WRITTEN] == 2)
            refused.set()
            raise TaskFailedError("a file is not what was written")
        check_staged_files(*asked)  # type: ignore[arg-type]

    monkeypatch.setattr(f"{_COMMITTER}.check_staged_files", refuse_the_first)
    monkeypatch.setattr("sluiceway.schedule.task_failures.FIRST_RETRY_S", 0.1)
    with live(run, watch) as running:
        running.wait_for(refused.is_set)
        running.wait_for(lambda: run.rows() == offsets(0, range(25)))
        running.stop()
    assert refused.is_set()
    assert data_records(run)[0].epoch >= 2
    assert run.rows() == offsets(0, range(25))
    run.assert_verified()
