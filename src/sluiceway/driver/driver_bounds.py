"""Limits of a driver on its machine: the JVM's heap, and threads of its own process."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sluiceway.driver.route_pool import PLACES as ROUTE_THREADS
from sluiceway.driver.spark.spark_work import GROUPS_AT_ONCE, SINGLES_AT_ONCE
from sluiceway.host.store_calls import MOST_THREADS as STORE_THREADS
from sluiceway.host.work_pool import MOST_THREADS as WORK_THREADS
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.lease_renewal import MAX_LANE_THREADS as LEASE_THREADS

HEAP = "spark.driver.memory"
OVERHEAD = "spark.driver.memoryOverhead"

PYTHON_MIB = 512
"""Memory of the driver's own process in the sum: an estimate, not a limit."""

_MIB_OF = {"": 1.0, "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0**2}
# The loop, the writer of status files, the health and metrics server, the thread that waits for
# Ctrl-C, and the thread that hands epochs to Spark.
_SINGLE_THREADS = 5


@dataclass(frozen=True, slots=True)
class DriverBounds:
    """The most that a driver takes.

    Attributes:
        heap_mib: Heap of the JVM, in MiB.
        overhead: Memory of the container on top of the heap, as the job file has it; empty for
            Spark's own choice.
        threads: Threads of the Python process while stores and servers answer. A route with a call
            that hangs takes one more until it is answered.
    """

    heap_mib: int
    overhead: str
    threads: int

    @property
    def memory_mib(self) -> int:
        """Heap and Python process together."""
        return self.heap_mib + PYTHON_MIB


def driver_bounds(routes: list[RouteConfig], settings: Mapping[str, str]) -> DriverBounds:
    """Limits of the driver that runs these routes.

    Args:
        routes: Routes of the job, as far as they are known.
        settings: Spark's settings.
    """
    stores = {route.stores for route in routes}
    threads = (
        _SINGLE_THREADS
        + ROUTE_THREADS
        + WORK_THREADS
        + STORE_THREADS
        + GROUPS_AT_ONCE
        + SINGLES_AT_ONCE
        + LEASE_THREADS * max(len(stores), 1)
    )
    return DriverBounds(memory_mib(settings[HEAP]), settings.get(OVERHEAD, ""), threads)


def memory_mib(text: str) -> int:
    """A size as Spark writes it, such as `512m` or `1g`; a bare number is MiB.

    Raises:
        ValueError: Spark could not read it either.
    """
    found = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)b?\s*", text.lower())
    if found is None:
        raise ValueError(f"expected a size such as 512m or 1g, got {text!r}")
    return int(int(found[1]) * _MIB_OF[found[2]])
