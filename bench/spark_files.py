"""Plain Spark SQL on the same events from files: text -> from_json -> partitionBy, Parquet zstd.

Not the same task as the others': it reads lines of local files, not a topic, once and in order. It
is run by `compare` in a tree that is measured: `python -m bench.spark_files FILES TABLE SCHEMA`.
"""

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from sluiceway.host.java import find_java


def convert(files: str, table: str, schema: str) -> None:
    """Read all lines below a folder, write the table."""
    os.environ["JAVA_HOME"] = str(find_java().path)
    session = (
        SparkSession.builder.master(f"local[{os.cpu_count() or 1}]")
        .appName("spark-files")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.compression.codec", "zstd")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    try:
        lines = session.read.text(files)
        rows = lines.select(f.from_json("value", schema).alias("row")).select("row.*")
        instant = f.timestamp_millis(f.col("ts"))
        hours = rows.withColumn("dt", f.date_format(instant, "yyyyMMdd")).withColumn(
            "hr", f.date_format(instant, "HH")
        )
        hours.write.partitionBy("dt", "hr").parquet(table)
    finally:
        session.stop()


if __name__ == "__main__":
    convert(*sys.argv[1:4])
    sys.exit(0)
