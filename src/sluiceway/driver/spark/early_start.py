"""Starts Spark at the same time as the driver loads what its routes need."""

from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Self

from pyspark import SparkContext

from sluiceway.driver.spark.session import start_context, with_slot_for_sql
from sluiceway.host.java import JavaHome, find_java
from sluiceway.host.kerberos import KerberosLogin
from sluiceway.jobfile.blocks.models import JobSpec
from sluiceway.jobfile.blocks.values import revealed
from sluiceway.jobfile.compile.stores import job_login


@dataclass(frozen=True, slots=True)
class SparkStart:
    """Arguments of `start_context`.

    Attributes:
        master: With a slot for SQL where a route has SQL.
    """

    name: str
    master: str
    conf: dict[str, str]
    java: JavaHome
    login: KerberosLogin | None

    @classmethod
    def of(cls, name: str, spec: JobSpec) -> Self:
        """Those of a job.

        Args:
            name: Name of the Spark application.
            spec: The job.

        Raises:
            UnhealthyEnvironmentError: This machine has no Java that Spark can use.
        """
        conf = {key: revealed(value) for key, value in spec.run.spark_conf.items()}
        if spec.run.slots is not None:
            # Only for a cluster, where nothing is started early.
            from sluiceway.driver.spark.elastic_slots import elastic_settings  # noqa: PLC0415
            from sluiceway.schedule.slot_target import slot_bounds  # noqa: PLC0415

            bounds = slot_bounds(spec)
            conf = conf if bounds is None else {**elastic_settings(bounds, conf), **conf}
        with_sql = any(route.transform is not None for route in spec.routes)
        master = with_slot_for_sql(spec.run.master) if with_sql else spec.run.master
        return cls(name, master, conf, find_java(), job_login(spec.routes[0]))

    def context(self) -> tuple[SparkContext, Path]:
        """See `start_context`."""
        return start_context(self.name, self.master, self.conf, self.java, self.login)


Starting = Future[tuple[SparkContext, Path]]
"""A start of Spark that goes on: the context and the file of Spark's log, or why there is none."""


def begin_spark(spec: JobSpec) -> Starting | None:
    """Begin the start of Spark in a thread. Called by the command `run`, which ends its process.

    The JVM ends with its process, whether the driver used it or not.

    Returns:
        None where something comes first: a login, or the executors of a cluster.
    """
    if not spec.run.master.startswith("local") or job_login(spec.routes[0]) is not None:
        return None
    starting: Starting = Future()

    def start() -> None:
        try:
            starting.set_result(SparkStart.of(f"sluiceway-{spec.name}", spec).context())
        except BaseException as error:  # noqa: BLE001 - raised where the context is needed
            starting.set_exception(error)

    Thread(target=start, name="spark-start", daemon=True).start()
    return starting
