"""What every backend of work outside the driver's process promises: a process, and Spark jobs."""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sluiceway.driver.spark.session import start_context
from sluiceway.driver.spark.spark_work import SparkWork
from sluiceway.errors import FileLostError, SluicewayError, TaskFailedError
from sluiceway.host.java import find_java
from sluiceway.work.process import ProcessWork
from sluiceway.work.request import WorkAnswer, WorkRequest, WorkRunner
from tools.work_functions import HINT, broken, doubled, endless, killed, lost, request

# Py4J leaves the connections of threads that have ended to the collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
)


class Spare:
    """Lends as many slots as are asked for."""

    def __init__(self) -> None:
        self.lent = 0

    def set_least(self, least: int) -> None:
        assert least > 1

    def acquire(self, most: int, check: Callable[[], None]) -> int:
        check()
        self.lent += most
        return most

    def acquire_now(self) -> bool:
        self.lent += 1
        return True

    def give_back(self, slots: int) -> None:
        self.lent -= slots


@pytest.fixture(scope="module")
def spark_work() -> Iterator[SparkWork]:
    # Workers find the functions as this process does.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        context, _ = start_context("work", "local[2]", {}, find_java())
        spare: Any = Spare()
        work = SparkWork(context, "test", spare)
        for jobs in (work._groups, work._singles):
            patch.setattr(jobs, "executors", lambda: 2)
        yield work
        assert spare.lent == 0
        work.close()
        context.stop()
        gc.collect()


@pytest.fixture(params=["process", pytest.param("spark", marks=pytest.mark.slow)])
def runner(request: pytest.FixtureRequest) -> WorkRunner:
    if request.param == "process":
        return ProcessWork("works for a test")
    found: SparkWork = request.getfixturevalue("spark_work")
    return found


def go_on() -> None:
    """Never give up."""


def outcomes(
    runner: WorkRunner, requests: list[WorkRequest], check: Callable[[], None] = go_on
) -> list[WorkAnswer]:
    """Answers; what is raised is the failure of each."""
    try:
        return runner.run(requests, check)
    except TaskFailedError as error:
        return [WorkAnswer(failure=error) for _ in requests]


def test_answers_come_in_the_order_of_their_requests(runner: WorkRunner) -> None:
    answers = runner.run([request(doubled, number) for number in range(5)], go_on)
    assert [answer.value[:2] for answer in answers] == [(2 * number, "") for number in range(5)]
    assert [answer.failure for answer in answers] == [None] * 5
    assert os.getpid() not in {answer.value[2] for answer in answers}
    assert all(answer.cpu_s >= 0 and answer.wall_s > 0 for answer in answers)


def test_request_that_fails_has_its_error_and_the_others_have_answers(runner: WorkRunner) -> None:
    requests = [request(lost, "/a"), request(doubled, 1), request(broken, "x"), request(doubled, 2)]
    gone, first, bug, second = runner.run(requests, go_on)
    assert isinstance(gone.failure, FileLostError)
    assert (gone.failure.message, gone.failure.where) == ("it is gone", "/a")
    assert isinstance(bug.failure, TaskFailedError)
    assert (bug.failure.message, bug.failure.hint) == ("ZeroDivisionError: x", HINT)
    assert (first.value[0], second.value[0]) == (2, 4)


def test_request_that_kills_its_worker_fails_alone(runner: WorkRunner) -> None:
    requests = [request(doubled, 1), request(killed, None), request(doubled, 2)]
    first, dead, second = runner.run(requests, go_on)
    assert (first.value[0], second.value[0]) == (2, 4)
    assert isinstance(dead.failure, TaskFailedError)
    assert "nothing was changed" in (dead.failure.hint or "").lower()


def test_work_that_is_not_wanted_is_not_begun(runner: WorkRunner, tmp_path: Path) -> None:
    def check() -> None:
        raise TaskFailedError("not wanted")

    begun = tmp_path / "begun"
    (answer,) = outcomes(runner, [request(endless, str(begun))], check)
    assert "not wanted" in str(answer.failure)
    assert not begun.exists()


def test_work_is_given_up_when_it_is_not_wanted_any_more(
    runner: WorkRunner, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"

    def check() -> None:
        if begun.exists():
            raise TaskFailedError("not wanted any more")

    answers = outcomes(runner, [request(endless, str(begun))], check)
    assert ["not wanted any more" in str(answer.failure) for answer in answers] == [True]
    # The next one finds a worker.
    assert runner.run([request(doubled, 3)], go_on)[0].value[0] == 6


@pytest.mark.slow
def test_single_request_is_carried_out_at_once_by_spark(
    spark_work: SparkWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = spark_work.run_now(request(doubled, 4), 600.0)
    assert answer is not None
    assert answer.value[0] == 8
    failed = spark_work.run_now(request(lost, "/a"), 600.0)
    assert failed is not None
    assert isinstance(failed.failure, FileLostError)
    with pytest.raises(SluicewayError, match="the task of a replay has died"):
        spark_work.run_now(request(killed, None), 600.0)
    monkeypatch.setattr(spark_work._spare, "acquire_now", lambda: False)
    assert spark_work.run_now(request(doubled, 4), 600.0) is None


@pytest.mark.slow
def test_single_request_that_takes_too_long_is_given_up(
    spark_work: SparkWork, tmp_path: Path
) -> None:
    with pytest.raises(TaskFailedError, match="a replay has not ended after 1 s"):
        spark_work.run_now(request(endless, str(tmp_path / "begun")), 1.0)
