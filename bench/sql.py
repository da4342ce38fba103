"""What SQL on a route costs: CPU a record over the same route without it, and an epoch of few rows.

Both sides decode the same JSON and write the same columns to Parquet, in one process; with SQL the
rows go through landed files and Spark. CPU is that of this process and all below it, JVM included.

    python -m bench.sql --records 100000 --rounds 3

The last line is JSON.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sluiceway.driver.spark.session import start_context
from sluiceway.driver.spark.spark_sql import SparkSql
from sluiceway.host.java import find_java
from sluiceway.host.machine import cpu_below
from sluiceway.jobfile.blocks.transform import SqlPlaces
from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema
from tools.landed_epoch import land_epoch

SQL = "SELECT id, upper(city) AS city, amount * 2 AS twice FROM input WHERE id % 10 <> 3"
DECODED = Schema(
    tuple(
        Field(name, parse_hive_type(kind))
        for name, kind in (("id", "bigint"), ("city", "string"), ("amount", "decimal(18,2)"))
    )
)
RULE = SqlRule(SQL, "UTC", (), (), of_table=False, places=SqlPlaces())
_SMALL = 10


def cpu_s(work: Callable[[], object]) -> float:
    """CPU seconds of this process and all below it while `work` runs."""
    before = sum((cpu_below() or {}).values())
    work()
    return sum((cpu_below() or {}).values()) - before


def plain_epoch(rows: list[dict[str, Any]]) -> None:
    """The route without SQL."""
    with tempfile.TemporaryDirectory(prefix="bench-sql-") as folder:
        land_epoch(Path(folder), DECODED, None, rows)


def sql_epoch(rows: list[dict[str, Any]], engine: SparkSql, made: Schema) -> None:
    """The same with SQL."""
    with tempfile.TemporaryDirectory(prefix="bench-sql-") as folder:
        land_epoch(Path(folder), DECODED, made, rows).transformed(RULE, engine)


def main() -> None:
    """Measure at the sizes of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows = [
        {"id": n, "city": f"city-{n % 500}", "amount": f"{n % 1000}.25"}
        for n in range(options.records)
    ]
    context, log = start_context(
        "bench-sql", "local[2]", {"spark.ui.enabled": "false"}, find_java()
    )
    engine = SparkSql(context, "bench-sql")
    found = engine.columns(RULE, DECODED)
    made = Schema(tuple(Field(name, parse_hive_type(kind)) for name, kind in found))
    for _ in range(3):
        sql_epoch(rows[: len(rows) // 4], engine, made)
    plain, sql, small = [], [], []
    for _ in range(options.rounds):
        plain.append(cpu_s(lambda: plain_epoch(rows)))
        sql.append(cpu_s(lambda: sql_epoch(rows, engine, made)))
        small.append(cpu_s(lambda: sql_epoch(rows[:_SMALL], engine, made)))
    context.stop()
    log.unlink(missing_ok=True)
    extra_s = statistics.median(sql) - statistics.median(small) - statistics.median(plain)
    figures = {
        "sql_extra_us": round(extra_s / len(rows) * 1e6, 2),
        "small_epoch_cpu_ms": round(statistics.median(small) * 1000),
        "plain_us": round(statistics.median(plain) / len(rows) * 1e6, 2),
        "records": len(rows),
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
