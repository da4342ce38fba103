"""Executors of an elastic job: counted, asked for and given back.

Spark's own dynamic allocation gives back what was idle for a while; epochs follow each other so
closely that no executor ever is, as each may get one of the few tasks. So the job says itself how
many it needs (ADR 0050).
"""

from collections.abc import Mapping

from pyspark import SparkContext

from sluiceway.observe.log import Log
from sluiceway.schedule.slot_target import SlotBounds

_CORES = "spark.executor.cores"


def elastic_settings(bounds: SlotBounds, conf: Mapping[str, str]) -> dict[str, str]:
    """What Spark is started with, so that executors can be asked for.

    Args:
        bounds: Of the job.
        conf: `run.spark_conf`, which wins.
    """
    cores = int(conf.get(_CORES, "1"))
    return {
        _CORES: str(cores),
        "spark.executor.instances": str(-(-bounds.least // cores)),
        # A standalone cluster would give all that it has.
        "spark.cores.max": str(max(bounds.most // cores, 1) * cores),
        "spark.dynamicAllocation.enabled": "false",
    }


class ElasticSlots:
    """The executors of one Spark application. Used by the loop's thread, while no task runs.

    Args:
        context: Of the application.
        bounds: Of the job.
        log: Told when the number of slots changes.
    """

    def __init__(self, context: SparkContext, bounds: SlotBounds, log: Log) -> None:
        self._spark = context
        self._cores = int(context.getConf().get(_CORES, "1") or 1)
        self._log = log
        self._most = bounds.most
        self._requested = 0
        self._told = 0
        self.ask_for(bounds.least)

    def count(self) -> int:
        """Slots that are up; 1 while none is, since a task waits for the first one."""
        # Those that are being ended take no task any more, and are told for a while yet.
        slots = min(len(self._executors()), self._requested) * self._cores
        if slots != self._told:
            self._log.info("slots", up=slots, asked=self._requested * self._cores)
            self._told = slots
        return max(slots, 1)

    def ask_for(self, slots: int) -> None:
        """Have executors for at least so many slots, once the cluster gives them; no more."""
        wanted = -(-min(slots, self._most) // self._cores)
        scala = self._spark._jsc.sc()  # noqa: SLF001 - PySpark does not offer it
        tools = self._spark._jvm.PythonUtils  # noqa: SLF001
        executors = self._executors()
        # The youngest go: the others have their consumers longest.
        spare = sorted(executors, key=int)[wanted:]
        if spare:
            scala.killExecutors(tools.toSeq(spare))
        if spare or wanted != self._requested:
            # Spark counts those that it ends as no longer asked for, so this comes after.
            self._requested = wanted
            scala.requestTotalExecutors(wanted, 0, tools.toScalaMap({}))

    def _executors(self) -> list[str]:
        text: str = self._spark._jsc.sc().getExecutorIds().mkString(",")  # noqa: SLF001
        return text.split(",") if text else []
