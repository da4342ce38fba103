"""Reads a table as its users do: Spark SQL through the metastore."""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from sluiceway.job.session import start_session


def query_through_metastore(
    metastore_uri: str, statements: Sequence[str]
) -> list[list[tuple[object, ...]]]:
    """Run SQL statements in a Spark session of their own. Called by the demo and by tests.

    Args:
        metastore_uri: `thrift://host:port`.
        statements: SQL, made by the caller from names that it knows.

    Returns:
        The rows of each statement.

    Raises:
        UnhealthyEnvironmentError: Spark does not start.
    """
    session = open_hive_session(metastore_uri)
    try:
        return [[tuple(row) for row in session.sql(text).collect()] for text in statements]
    finally:
        session.stop()


def open_hive_session(metastore_uri: str) -> SparkSession:
    """A quiet local session whose tables are the metastore's.

    Raises:
        UnhealthyEnvironmentError: Spark does not start.
    """
    conf = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": metastore_uri,
        "spark.sql.session.timeZone": "UTC",
    }
    session, _ = start_session("sluiceway-query", "local", conf)
    return session
