"""An archive of before, or another installation: plans of this version are not for it."""

import io
import pickle
from collections.abc import Iterator
from dataclasses import make_dataclass
from typing import Any

import pyarrow as pa
import pytest

from sluiceway import __version__
from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.job import background_jobs, spark_task
from sluiceway.job.spark_runner import SparkRunner
from sluiceway.job.spark_task import require_same_version
from sluiceway.observe.log import stderr_log
from tools.spark_calls import RecordedContext


def _ran(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


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
    batch = pa.RecordBatch.from_pydict({"id": [1]})
    task = require_same_version(_ran)
    assert list(task(iter([batch]))) == [batch]
    monkeypatch.setattr(spark_task, "__version__", "0.0.9")
    with pytest.raises(
        UnhealthyEnvironmentError, match=rf"has .* 0\.0\.9, its driver {__version__}"
    ):
        list(task(iter([batch])))


def test_tasks_of_upkeep_are_of_this_version_too(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = Session()
    jobs = background_jobs.LowJobs(session, "x", "replay", 1)
    assert jobs.begin("a replay", 1, _ran, "x int", places=()).wait(30) == []
    jobs.close()
    monkeypatch.setattr(spark_task, "__version__", "0.0.9")
    (task,) = session.tasks
    with pytest.raises(UnhealthyEnvironmentError):
        list(task(iter(())))


class Session:
    """Keeps what executors would be given."""

    def __init__(self) -> None:
        self.sparkContext = RecordedContext()
        self.tasks: list[spark_task.RunTask] = []

    def range(self, *_: int, numPartitions: int) -> "Session":  # noqa: N803
        assert numPartitions > 0
        return self

    def mapInArrow(self, task: spark_task.RunTask, _: str) -> "Session":  # noqa: N802
        self.tasks.append(task)
        return self

    def collect(self) -> list[object]:
        return []

    def stop(self) -> None:
        return


def test_tasks_of_epochs_and_those_that_warm_up_are_of_this_version_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session: Any = Session()
    runner = SparkRunner(session, stderr_log(stream=io.StringIO()))
    runner.warm_up(lambda: False)
    runner.run([()], wait=lambda: None, give_up_after_s=30)
    runner.close()
    assert len(session.tasks) == 2
    monkeypatch.setattr(spark_task, "__version__", "0.0.9")
    for task in session.tasks:
        with pytest.raises(UnhealthyEnvironmentError, match="this executor has"):
            list(task(iter(())))
