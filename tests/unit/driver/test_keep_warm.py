"""A standby's Spark is kept ready: it ends Python workers that were idle for a minute."""

import io
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from sluiceway.driver.spark import spark_runner
from sluiceway.driver.spark.spark_runner import SparkRunner
from sluiceway.errors import RunnerLostError
from sluiceway.observe.log import stderr_log
from tools.spark_calls import RecordedContext
from tools.waiting import wait_for


def runner_of(context: Any) -> SparkRunner:
    return SparkRunner(context, stderr_log(stream=io.StringIO()))


def test_a_job_of_imports_runs_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    context = RecordedContext()
    runner = runner_of(context)
    for _ in range(100):
        runner.keep_warm()
    wait_for(lambda: len(context.tasks) == 1)
    runner.keep_warm()
    assert len(context.tasks) == 1
    monkeypatch.setattr(spark_runner, "_WARM_EVERY_S", 0.0)
    runner._warm_due = 0.0

    def warmed() -> bool:
        runner.keep_warm()
        return len(context.tasks) >= 3

    wait_for(warmed)
    runner.close()


def test_standby_whose_spark_is_gone_ends() -> None:
    def die() -> None:
        raise Py4JNetworkError("gone")

    runner = runner_of(RecordedContext(die))
    runner.keep_warm()

    def told() -> bool:
        runner._warm_due = 0.0
        try:
            runner.keep_warm()
        except RunnerLostError:
            return True
        return False

    wait_for(told)
    runner.close()
