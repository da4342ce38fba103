"""Slots for the SQL of routes: one more on this machine, one less for epochs."""

import io
from typing import Any

import pytest

from sluiceway.driver.spark.session import with_slot_for_sql
from sluiceway.driver.spark.spark_runner import SparkRunner
from sluiceway.observe.log import stderr_log


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local[2]", "local[3]"),
        ("yarn", "yarn"),
        ("spark://h:7077", "spark://h:7077"),
        ("k8s://https://h", "k8s://https://h"),
    ],
)
def test_a_local_master_gets_one_slot_more(master: str, expected: str) -> None:
    assert with_slot_for_sql(master) == expected


def test_plain_local_is_all_cores_and_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert with_slot_for_sql("local") == "local[5]"


class Context:
    """As much of a Spark context as is asked for."""

    master = "local[3]"
    uiWebUrl = None  # noqa: N815 - Spark's name

    def __init__(self, slots: int) -> None:
        self.defaultParallelism = slots


@pytest.mark.parametrize(("slots", "sql_slots", "left"), [(3, 1, 2), (1, 1, 1), (3, 0, 3)])
def test_epochs_leave_slots_to_the_sql(slots: int, sql_slots: int, left: int) -> None:
    context: Any = Context(slots)
    runner = SparkRunner(context, stderr_log(stream=io.StringIO()), sql_slots=sql_slots)
    assert runner.slots() == left
