"""Executors of an elastic job: counted, requested and released.

Spark's own dynamic allocation releases executors that were idle for a while. Epochs follow each
other so closely that no executor ever is, because each may get one of the few tasks. So the job
itself says how many it needs.
"""

from collections.abc import Mapping

from pyspark import SparkContext

from sluiceway.observe.log import Log
from sluiceway.schedule.slot_target import SlotBounds

_CORES = "spark.executor.cores"


def elastic_settings(bounds: SlotBounds, conf: Mapping[str, str]) -> dict[str, str]:
    """Spark settings under which executors can be requested.

    Args:
        bounds: Fewest and most slots of the job.
        conf: `run.spark_conf`, which wins.
    """
    cores = int(conf.get(_CORES, "1"))
    return {
        _CORES: str(cores),
        "spark.executor.instances": str(-(-bounds.least // cores)),
        # A standalone cluster would give all its cores.
        "spark.cores.max": str(max(bounds.most // cores, 1) * cores),
        "spark.dynamicAllocation.enabled": "false",
    }


class ElasticSlots:
    """The executors of one Spark application. Used by the loop's thread, while no task runs.

    Args:
        context: SparkContext of the application.
        bounds: Fewest and most slots of the job.
        log: Gets an event when the number of slots changes.
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
        """Slots that are up; 1 while none is, because a task waits for the first one."""
        # Executors that are being ended take no task, and are listed for a while.
        slots = min(len(self._executors()), self._requested) * self._cores
        if slots != self._told:
            self._log.info("slots", up=slots, asked=self._requested * self._cores)
            self._told = slots
        return max(slots, 1)

    def ask_for(self, slots: int) -> None:
        """Set the number of executors for at least so many slots; the cluster may take its time."""
        wanted = -(-min(slots, self._most) // self._cores)
        scala = self._spark._jsc.sc()  # noqa: SLF001 - PySpark does not offer it
        tools = self._spark._jvm.PythonUtils  # noqa: SLF001
        executors = self._executors()
        # The youngest go: the others have open consumers for longest.
        spare = sorted(executors, key=int)[wanted:]
        if spare:
            scala.killExecutors(tools.toSeq(spare))
        if spare or wanted != self._requested:
            # Spark subtracts executors that it ends from the requested number, so this comes after.
            self._requested = wanted
            scala.requestTotalExecutors(wanted, 0, tools.toScalaMap({}))

    def _executors(self) -> list[str]:
        text: str = self._spark._jsc.sc().getExecutorIds().mkString(",")  # noqa: SLF001
        return text.split(",") if text else []
