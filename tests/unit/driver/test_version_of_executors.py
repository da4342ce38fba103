"""An archive of before, or another installation: plans of this version are not for it."""

import io
import pickle
from collections.abc import Iterator
from dataclasses import make_dataclass
from typing import Any

import pytest

from sluiceway import __version__
from sluiceway.driver.spark import background_jobs, spark_task
from sluiceway.driver.spark.spark_runner import SparkRunner
from sluiceway.driver.spark.spark_task import require_same_version
from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.observe.log import stderr_log
from tools.spark_calls import RecordedContext


def _ran(shares: Iterator[bytes]) -> Iterator[bytes]:
    yield from shares


def _made(fields: list[str], values: dict[str, int]) -> Any:
    made = make_dataclass(
        "Plan", fields, frozen=True, slots=True, namespace={"__module__": __name__}
    )
    globals()["Plan"] = made
    return made(**values)


def test_plan_of_another_version_would_be_read_wrongly() -> None:
    packed = pickle.dumps(_made(["start", "end"], {"start": 1, "end": 2}))
    _made(["start", "limit", "end"], {"start": 0, "limit": 0, "end": 0})
    assert pickle.loads(packed).limit == 2  # noqa: S301 - made above


def test_task_of_another_version_is_refused_before_its_plans_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = require_same_version(_ran)
    assert list(task(iter([b"1"]))) == [b"1"]
    monkeypatch.setattr(spark_task, "__version__", "0.0.9")
    with pytest.raises(
        UnhealthyEnvironmentError, match=rf"has .* 0\.0\.9, its driver {__version__}"
    ):
        list(task(iter([b"1"])))


def test_tasks_of_upkeep_are_of_this_version_too(monkeypatch: pytest.MonkeyPatch) -> None:
    context: Any = RecordedContext()
    jobs = background_jobs.LowJobs(context, "x", "replay", 1)
    assert jobs.begin("a replay", [b""], _ran, places=()).wait(30) == []
    jobs.close()
    monkeypatch.setattr(spark_task, "__version__", "0.0.9")
    (task,) = context.tasks
    with pytest.raises(UnhealthyEnvironmentError):
        list(task(iter(())))


def test_tasks_of_epochs_and_those_that_warm_up_are_of_this_version_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context: Any = RecordedContext()
    runner = SparkRunner(context, stderr_log(stream=io.StringIO()))
    runner.warm_up(lambda: False)
    runner.run([()], wait=lambda: None, give_up_after_s=30)
    runner.close()
    assert len(context.tasks) == 2
    monkeypatch.setattr(spark_task, "__version__", "0.0.9")
    for task in context.tasks:
        with pytest.raises(UnhealthyEnvironmentError, match="this executor has"):
            list(task(iter(())))
