"""The refinement of `bench.sql` as Spark Structured Streaming: lines of files to a Parquet table.

Run by `sql` in a tree that is measured: `python -m bench.sql_stream FILES TABLE`.
"""

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from sluiceway.host.java import find_java

SCHEMA = "id bigint, city string, amount decimal(18,2)"


def refine(files: str, table: str) -> None:
    """Read all lines below a folder in one trigger, write the table."""
    os.environ["JAVA_HOME"] = str(find_java().path)
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.compression.codec", "zstd")
        .getOrCreate()
    )
    try:
        lines = session.readStream.text(files)
        rows = lines.select(f.from_json("value", SCHEMA).alias("row")).select("row.*")
        refined = rows.where("id % 10 <> 3").selectExpr(
            "id", "upper(city) AS city", "amount * 2 AS twice"
        )
        query = (
            refined.writeStream.format("parquet")
            .option("checkpointLocation", f"{table}-checkpoint")
            .trigger(availableNow=True)
            .start(table)
        )
        query.awaitTermination()
    finally:
        session.stop()


if __name__ == "__main__":
    refine(*sys.argv[1:3])
    sys.exit(0)
