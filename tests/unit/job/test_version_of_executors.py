"""An archive of before, or another installation: plans of this version are not for it."""

import pickle
from collections.abc import Iterator
from dataclasses import make_dataclass
from typing import Any

import pyarrow as pa
import pytest

from sluiceway import __version__
from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.job import low_jobs, spark_task
from sluiceway.job.spark_task import of_this_version


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
    task = of_this_version(_ran)
    assert list(task(iter([batch]))) == [batch]
    monkeypatch.setattr(spark_task, "__version__", "0.0.9")
    with pytest.raises(
        UnhealthyEnvironmentError, match=rf"has .* 0\.0\.9, its driver {__version__}"
    ):
        list(task(iter([batch])))


def test_tasks_of_upkeep_are_of_this_version_too(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[spark_task.RunTask] = []

    class Jobs(low_jobs.LowJobs):
        def _collect(self, *args: Any) -> list[Any]:
            ran.append(args[3])
            return []

    jobs = Jobs(None, "x", "replay", 1)
    jobs.begin("a replay", 1, _ran, "x int", places=())
    jobs.close()
    monkeypatch.setattr(spark_task, "__version__", "0.0.9")
    with pytest.raises(UnhealthyEnvironmentError):
        list(ran[0](iter(())))
