"""Spark with Iceberg's own runtime: another writer beside ours, and a reader.

`python -m bench.lake_spark JAR CATALOG_JSON` answers each line of JSON on standard input with one
on standard output. `{"sql": ...}` gives rows of whole numbers; the catalog is called `lake`. With
`{"metadata": FILE, "sql": ...}` the view `rows` is the table of that metadata file.
`{"maintain": "ods.t"}` rewrites small files and expires snapshots. An error is an answer, too.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

KEPT_SNAPSHOTS = 5
EXPIRED_AFTER_S = 20


def open_session(jar: str, catalog: dict[str, str]) -> SparkSession:
    """A session that knows the catalog."""
    name = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    builder = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", jar)
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.extensions", name)
        .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
        # What is read is what is there now.
        .config("spark.sql.catalog.lake.cache-enabled", "false")
    )
    for key, value in catalog.items():
        builder = builder.config(f"spark.sql.catalog.lake.{key}", value)
    return builder.getOrCreate()


def answer(spark: SparkSession, asked: dict[str, str]) -> dict[str, Any]:
    """What one line asks for."""
    if "metadata" in asked:
        table = spark.read.format("iceberg").load(asked["metadata"])
        table.createOrReplaceTempView("rows")
    if "sql" in asked:
        return {
            "rows": [[int(value) for value in row] for row in spark.sql(asked["sql"]).collect()]
        }
    table = asked["maintain"]
    rewritten = spark.sql(
        f"CALL lake.system.rewrite_data_files(table => '{table}', "
        "options => map('min-input-files', '3'))"
    ).collect()[0]
    before = datetime.now(UTC) - timedelta(seconds=EXPIRED_AFTER_S)
    expired = spark.sql(
        f"CALL lake.system.expire_snapshots(table => '{table}', retain_last => {KEPT_SNAPSHOTS}, "
        f"older_than => TIMESTAMP '{before:%Y-%m-%d %H:%M:%S}')"
    ).collect()[0]
    return {
        "rewritten": int(rewritten["rewritten_data_files_count"]),
        "deleted": int(expired["deleted_data_files_count"]),
        "deleted_lists": int(expired["deleted_manifest_lists_count"]),
    }


def main() -> int:
    """Answer until standard input ends."""
    spark = open_session(sys.argv[1], json.loads(sys.argv[2]))
    print(json.dumps({"version": spark.version}), flush=True)
    for line in sys.stdin:
        try:
            told = answer(spark, json.loads(line))
        except Exception as error:  # noqa: BLE001 - a catalog that is down; the asker judges
            told = {"error": f"{type(error).__name__}: {str(error)[:500]}"}
        print(json.dumps(told), flush=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
