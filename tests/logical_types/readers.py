"""What readers of the tables get: Spark of Hive's and Iceberg's, and pyiceberg."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession

from logical_types.tables import ID, WrittenTable, types_of
from sluiceway.host.java import find_java
from sluiceway.lab.jars import PinnedJar, default_cache_folder, ensure_jars, jars_folder
from sluiceway.lab.support import ignore_progress
from sluiceway.types.hive_types import format_hive_type

HIVE_BY_SPARK, LAKE_BY_SPARK, LAKE_BY_PYICEBERG = "Hive, Spark", "Iceberg, Spark", "pyiceberg"
READERS = (HIVE_BY_SPARK, LAKE_BY_SPARK, LAKE_BY_PYICEBERG)
_JARS = Path(__file__).resolve().parents[2] / "bench" / "iceberg_spark_jars.json"

Rows = Mapping[int, Mapping[str, Any]]
"""Row's id -> its values by column."""


def read_by_pyiceberg(table: WrittenTable) -> Rows:
    """What pyiceberg reads."""
    return {row["id"]: row for row in table.lake.scan().to_arrow().to_pylist()}


@contextmanager
def spark(folder: Path) -> Iterator[SparkSession]:
    """Spark with a metastore of its own, and Iceberg's runtime."""
    pins = tuple(PinnedJar(**pin) for pin in json.loads(_JARS.read_text())["jars"])
    jars = jars_folder(default_cache_folder(os.environ), "iceberg-spark-1.12.0", pins)
    ensure_jars(jars, pins, java=find_java(), on_progress=ignore_progress)
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", str(jars / pins[0].file_name))
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("javax.jdo.option.ConnectionURL", _derby(folder))
        .enableHiveSupport()
        .getOrCreate()
    )
    try:
        yield session
    finally:
        session.stop()


def _derby(folder: Path) -> str:
    return f"jdbc:derby:;databaseName={folder}/metastore;create=true"


def read_hive(session: SparkSession, table: WrittenTable) -> Rows:
    """What Spark reads of the files, as a table of Hive with these columns."""
    columns = {ID.name: format_hive_type(ID.type), **types_of(table)}
    told = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    session.sql(
        f"CREATE EXTERNAL TABLE {table.name} ({told}) STORED AS PARQUET "
        f"LOCATION '{table.hive.as_uri()}'"
    )
    return _rows(session.table(table.name).collect())


def read_lake(session: SparkSession, table: WrittenTable) -> Rows:
    """What Spark reads of the Iceberg table."""
    loaded = session.read.format("iceberg").load(table.lake.metadata_location)
    return _rows(loaded.collect())


def _rows(rows: list[Row]) -> Rows:
    return {row["id"]: row.asDict(recursive=True) for row in rows}
