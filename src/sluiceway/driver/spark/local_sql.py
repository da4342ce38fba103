"""A Spark of this process for commands that show what a route's SQL makes of some rows."""

import atexit
from functools import cache

from sluiceway.driver.spark.session import start_context
from sluiceway.driver.spark.spark_sql import SparkSql
from sluiceway.host.java import find_java


@cache
def local_sql() -> SparkSql:
    """The engine, started when it is first needed; it ends with the process.

    Raises:
        UnhealthyEnvironmentError: Spark does not start.
    """
    context, log = start_context(
        "sluiceway-sql", "local[1]", {"spark.ui.enabled": "false"}, find_java()
    )

    def end() -> None:
        context.stop()
        log.unlink(missing_ok=True)

    atexit.register(end)
    return SparkSql(context, "sluiceway-sql")
