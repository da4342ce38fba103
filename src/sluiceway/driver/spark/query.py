"""Reads a table as its users do: Spark SQL through the metastore."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from sluiceway.driver.spark.session import start_session
from sluiceway.host.java import find_java


def query_through_metastore(
    metastore_uri: str, statements: Sequence[str], settings: Mapping[str, str] | None = None
) -> list[list[tuple[object, ...]]]:
    """Run SQL statements in a Spark session of their own. Called by the demo and by tests.

    Args:
        metastore_uri: `thrift://host:port`.
        statements: SQL, made by the caller from names that it knows.
        settings: Spark's settings, for tables on other stores.

    Returns:
        The rows of each statement.

    Raises:
        UnhealthyEnvironmentError: Spark does not start.
    """
    session, log = open_hive_session(metastore_uri, settings or {})
    try:
        found = [[tuple(row) for row in session.sql(text).collect()] for text in statements]
    finally:
        session.stop()
    log.unlink(missing_ok=True)
    return found


def open_hive_session(metastore_uri: str, settings: Mapping[str, str]) -> tuple[SparkSession, Path]:
    """A quiet local session with the metastore's tables, and the path of its log.

    Raises:
        UnhealthyEnvironmentError: Spark does not start.
    """
    conf = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": metastore_uri,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        **settings,
    }
    return start_session("sluiceway-query", "local", conf, find_java())
