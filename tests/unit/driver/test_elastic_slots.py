# ruff: noqa: N802 - the names of Spark's own methods
from typing import TYPE_CHECKING, Any, cast

from sluiceway.driver.spark.elastic_slots import ElasticSlots, elastic_settings
from sluiceway.observe.log import stderr_log
from sluiceway.schedule.slot_target import SlotBounds

if TYPE_CHECKING:
    from pyspark import SparkContext


class _Spark:
    """Its JVM side and its settings: executors come and go when a test says so."""

    def __init__(self, cores: str) -> None:
        self._jsc = self._jvm = self.PythonUtils = self
        self._cores = cores
        self.executors: list[str] = []
        self.calls: list[tuple[object, ...]] = []

    def getConf(self) -> dict[str, str]:
        return {"spark.executor.cores": self._cores}

    def sc(self) -> "_Spark":
        return self

    def toScalaMap(self, plain: object) -> object:
        return plain

    def toSeq(self, plain: object) -> object:
        return plain

    def getExecutorIds(self) -> "_Spark":
        return self

    def mkString(self, between: str) -> str:
        return between.join(self.executors)

    def requestTotalExecutors(self, count: int, *_: object) -> None:
        self.calls.append(("ask", count))

    def killExecutors(self, executors: list[str]) -> None:
        self.calls.append(("kill", *executors))


def _elastic(spark: _Spark) -> ElasticSlots:
    return ElasticSlots(
        cast("SparkContext", cast("Any", spark)), SlotBounds(1, 8, 10), stderr_log()
    )


def test_executors_that_are_ended_are_neither_counted_nor_asked_for_again() -> None:
    spark = _Spark("1")
    elastic = _elastic(spark)
    assert spark.calls == [("ask", 1)]
    assert elastic.count() == 1, "a task waits for the first one"
    spark.executors = ["10", "2", "9", "1"]
    spark.calls.clear()
    elastic.ask_for(2)
    # Spark takes those that it ends off what it was asked for: the number comes last.
    assert spark.calls == [("kill", "9", "10"), ("ask", 2)]
    assert elastic.count() == 2


def test_executors_are_asked_for_once_and_have_all_their_cores() -> None:
    spark = _Spark("4")
    elastic = _elastic(spark)
    spark.calls.clear()
    elastic.ask_for(5)
    elastic.ask_for(8)
    assert spark.calls == [("ask", 2)]
    spark.executors = ["1"]
    assert elastic.count() == 4


def test_settings_of_the_job_file_say_how_many_cores_an_executor_has() -> None:
    found = elastic_settings(SlotBounds(3, 9, 60), {"spark.executor.cores": "2"})
    assert found["spark.executor.instances"] == "2"
    assert found["spark.cores.max"] == "8"
