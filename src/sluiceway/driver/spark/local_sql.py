"""A Spark of this process for commands that show what a route's SQL makes of some rows."""

import atexit
from functools import cache

from pyspark import SparkContext

from sluiceway.driver.spark.session import start_context
from sluiceway.driver.spark.spark_sql import SparkSql
from sluiceway.driver.spark.unit_jobs import UnitJobs
from sluiceway.host.java import find_java

_NAME = "sluiceway-sql"


@cache
def local_sql() -> SparkSql:
    """The engine of SQL on a route; its Spark ends with the process.

    Raises:
        UnhealthyEnvironmentError: Spark does not start.
    """
    return SparkSql(_context(), _NAME)


@cache
def local_units() -> UnitJobs:
    """What runs SQL over units; likewise."""
    return UnitJobs(_context(), _NAME)


@cache
def _context() -> SparkContext:
    context, log = start_context(_NAME, "local[1]", {"spark.ui.enabled": "false"}, find_java())

    def end() -> None:
        context.stop()
        log.unlink(missing_ok=True)

    atexit.register(end)
    return context
