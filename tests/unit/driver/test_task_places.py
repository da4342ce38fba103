"""Which executor and which Python worker the task of a slot runs in."""

from typing import Any

import pytest

from sluiceway.driver.spark.spark_jobs import TaskPlace, task_places


class Executors:
    """A SparkContext that has executors; none runs on this machine."""

    def __init__(self, master: str, cores: int, executors: str) -> None:
        self.master = master
        self.defaultParallelism = cores
        self.mkString = lambda between: executors.replace(" ", between)
        self._jsc: Any = self

    def sc(self) -> "Executors":
        return self

    def getExecutorIds(self) -> "Executors":  # noqa: N802 - Spark's name
        return self


@pytest.mark.parametrize(
    ("cores", "executors", "expected"),
    [
        (2, "1 0", [(0, "0"), (0, "1"), (0, "0")]),
        (4, "10 9", [(0, "9"), (1, "9"), (0, "10")]),
        (2, "7", [(0, "7"), (1, "7"), (0, "7")]),
        (2, "", [(0, ""), (1, ""), (0, "")]),
        # One of the two has just come, and Spark does not count its cores yet.
        (1, "0 1", [(0, "0"), (0, "1"), (0, "0")]),
    ],
)
def test_slots_fill_one_executor_after_the_other(
    cores: int, executors: str, expected: list[tuple[int, str]]
) -> None:
    context: Any = Executors("spark://a:7077", cores, executors)
    places = task_places(context, [0, 1, 2], owned=True)
    assert places == [TaskPlace(core, executor) for core, executor in expected]
    assert task_places(context, [2, 0], owned=True) == [places[2], places[0]]


def test_tasks_name_no_executor_in_local_mode_or_where_others_have_jobs() -> None:
    local: Any = Executors("local[2]", 2, "driver")
    cores = [TaskPlace(0), TaskPlace(1), TaskPlace(0)]
    assert task_places(local, [0, 1, 2], owned=True) == cores
    foreign: Any = Executors("yarn", 2, "1 2")
    assert task_places(foreign, [0, 1, 2], owned=False) == cores
