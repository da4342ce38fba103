"""What SQL on a route costs, what an epoch of few rows and a unit cost, and what others cost.

Both sides of the route decode the same JSON and write the same columns to Parquet, in one process;
with SQL the rows go through landed files and Spark. CPU is that of this process and all below it,
JVM included. A unit of rows is counted by country, as `mode: recompute` does it.

Flink SQL and Spark Structured Streaming refine the same JSON, lines of local files, in a process
tree of their own, whose start is left out: the slope of a small and of a large run. No side reads a
broker; the others account for no row, and have no dirty rows.

    python -m bench.sql --records 100000 --rounds 3

The last line is JSON. A side that could not run is null, with the reason in `left_out`.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from bench.check_output import WrongOutputError
from bench.figures import slope_of
from bench.flink import fetch_flink, run_flink
from bench.process_tree import TreeUsage, measure_tree
from sluiceway.chains.unit_tables import PartitionFiles, UnitFiles
from sluiceway.driver.spark.session import start_context
from sluiceway.driver.spark.spark_sql import SparkSql
from sluiceway.driver.spark.unit_jobs import UnitJobs
from sluiceway.errors import SluicewayError
from sluiceway.host.java import find_java
from sluiceway.host.machine import cpu_below
from sluiceway.jobfile.blocks.transform import SqlPlaces
from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.lab.jars import default_cache_folder
from sluiceway.schedule.unit_sql import UnitQuery
from sluiceway.sinks.files.contract import FileFormat
from sluiceway.sinks.table_options import ReadableTable
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema
from sluiceway.worker.plan import PartitionRule
from sluiceway.worker.unit_files import UnitPlan
from tools.landed_epoch import land_epoch
from tools.small_task import route_plan

SQL = "SELECT id, upper(city) AS city, amount * 2 AS twice FROM input WHERE id % 10 <> 3"
DECODED = Schema(
    tuple(
        Field(name, parse_hive_type(kind))
        for name, kind in (("id", "bigint"), ("city", "string"), ("amount", "decimal(18,2)"))
    )
)
RULE = SqlRule(SQL, "UTC", (), (), of_table=False, places=SqlPlaces())
UNIT_SQL = "SELECT country, count(*) AS n FROM input GROUP BY country"
FLINK_SQL = (
    "SELECT id, UPPER(city), CAST(amount * 2 AS DECIMAL(20, 2)) FROM source WHERE MOD(id, 10) <> 3"
)
_SMALL = 10
_LEFT_OUT = 3
_UNIT_FILES = 4


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


def columns(**kinds: str) -> Schema:
    """Columns by name and Hive type."""
    return Schema(tuple(Field(name, parse_hive_type(kind)) for name, kind in kinds.items()))


def written_unit(folder: Path, rows: int) -> UnitFiles:
    """Files of one hour with so many rows."""
    paths, share = [], rows // _UNIT_FILES
    for number in range(_UNIT_FILES):
        path = folder / f"input-{number}.parquet"
        ids = range(number * share, (number + 1) * share)
        names = [f"country-{n % 200}" for n in range(200)]
        made = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "country": pa.array([names[n % 200] for n in ids]),
                "amount": pa.array([n * 0.25 for n in ids], pa.float64()),
            }
        )
        pq.write_table(made, path, compression="zstd")
        paths.append(str(path))
    return UnitFiles((PartitionFiles(("20261120", "08"), tuple(paths)),), share * _UNIT_FILES)


def unit_cpu_s(context: Any, rows: int, rounds: int) -> float:
    """CPU seconds of one recompute of a unit, in a Spark that has done one before."""
    jobs = UnitJobs(context, "bench-sql")
    names = ("dt", "hr")
    table = ReadableTable(
        (("id", "bigint"), ("country", "string"), ("amount", "double")),
        tuple((name, "string") for name in names),
        FileFormat.PARQUET,
        "",
        1,
    )
    used = []
    with tempfile.TemporaryDirectory(prefix="bench-sql-") as name:
        folder = Path(name)
        unit = written_unit(folder, rows)
        route = route_plan(
            name,
            event_time=None,
            partitions=tuple(PartitionRule(each, None, None, "unit") for each in names),
            schema=columns(country="string", n="bigint"),
        )
        rule = SqlRule(UNIT_SQL, "UTC", (), (), of_table=True, places=SqlPlaces())
        for number in range(rounds + 1):
            attempt = f"i{number}-{'a' * 32}"
            Path(route.layout.attempt(attempt)).mkdir(parents=True)
            query = UnitQuery(rule, table, unit, UnitPlan(route, attempt, ("20261120", "08")))
            used.append(cpu_s(partial(_recompute, jobs, query)))
    jobs.close()
    return statistics.median(used[1:])


def _recompute(jobs: UnitJobs, query: UnitQuery) -> None:
    result = jobs.run(query, lambda: None)
    if (result.read, sum(int(file.rows) for file in result.files)) != (query.files.rows, 200):
        raise WrongOutputError(f"the unit has {result.read} rows read, {len(result.files)} files")


def write_lines(folder: Path, records: int) -> None:
    """The events as lines of JSON."""
    folder.mkdir(parents=True)
    with (folder / "events.json").open("w") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in events(records))


def events(records: int) -> list[dict[str, Any]]:
    """What all sides read."""
    return [
        {"id": n, "city": f"city-{n % 500}", "amount": f"{n % 1000}.25"} for n in range(records)
    ]


def run_streaming(lines: Path, folder: Path) -> TreeUsage:
    """One run of Spark Structured Streaming."""
    folder.mkdir()
    log = folder / "spark.log"
    command = [sys.executable, "-m", "bench.sql_stream", lines.as_uri(), str(folder / "table")]
    usage = measure_tree(command, cwd=Path(__file__).parents[1], output=log)
    if usage.exit_code != 0:
        raise WrongOutputError(f"Spark ended with {usage.exit_code}: {log.read_text()[-1000:]}")
    return usage


def run_flink_sql(lines: Path, folder: Path) -> TreeUsage:
    """One run of Flink SQL."""
    folder.mkdir()
    sink = (folder / "table").as_uri()
    statements = [
        "CREATE TABLE source (id BIGINT, city STRING, amount DECIMAL(18, 2)) WITH "
        f"('connector' = 'filesystem', 'path' = '{lines.as_uri()}', 'format' = 'json', "
        "'json.ignore-parse-errors' = 'true')",
        "CREATE TABLE sink (id BIGINT, city STRING, twice DECIMAL(20, 2)) WITH "
        f"('connector' = 'filesystem', 'path' = '{sink}', 'format' = 'parquet', "
        "'parquet.compression' = 'ZSTD')",
        f"INSERT INTO sink {FLINK_SQL}",
    ]
    class_path = fetch_flink(default_cache_folder(os.environ))
    return run_flink(class_path, statements, folder / "job", parallelism=2)


Run = Callable[[Path, Path], TreeUsage]
ENGINES: dict[str, Run] = {"flink": run_flink_sql, "spark_streaming": run_streaming}


def other_engines(records: int, rounds: int) -> tuple[dict[str, float | None], dict[str, str]]:
    """CPU microseconds a record of each, and why one was left out; nothing of no records."""
    if not records:
        return {}, {}
    found: dict[str, float | None] = {}
    left_out: dict[str, str] = {}
    counts = (records // 5, records)
    with tempfile.TemporaryDirectory(prefix="bench-sql-") as name:
        folder = Path(name)
        for count in counts:
            write_lines(folder / f"lines-{count}", count)
        for engine, run in ENGINES.items():
            try:
                runs = [
                    [
                        _counted(run, folder / f"lines-{count}", folder / f"{engine}-{count}-{n}")
                        for n in range(rounds)
                    ]
                    for count in counts
                ]
            except (SluicewayError, WrongOutputError, OSError) as error:
                found[f"{engine}_us"], left_out[engine] = None, str(error)[:300]
                continue
            found[f"{engine}_us"] = slope_of(counts, runs).cpu_us_per_record
    return found, left_out


def _counted(run: Run, lines: Path, folder: Path) -> TreeUsage:
    usage = run(lines, folder)
    with (lines / "events.json").open("rb") as file:
        wanted = sum(1 for number, _ in enumerate(file) if number % 10 != _LEFT_OUT)
    table = folder / "table"
    files = [str(path) for path in table.rglob("*") if path.is_file() and _is_data(path)]
    rows = ds.dataset(files, format="parquet").count_rows()
    if rows != wanted:
        raise WrongOutputError(f"{table} has {rows} rows, not {wanted}")
    return usage


def _is_data(path: Path) -> bool:
    return (
        path.stat().st_size > 0
        and not path.name.startswith((".", "_"))
        and ("_spark_metadata" not in path.parts)
    )


def route_figures(engine: SparkSql, rows: list[dict[str, Any]], rounds: int) -> Mapping[str, float]:
    """What the SQL costs a record, and an epoch of few."""
    made = columns(**dict(engine.columns(RULE, DECODED)))
    for _ in range(3):
        sql_epoch(rows[: len(rows) // 4], engine, made)
    plain, sql, small = [], [], []
    for _ in range(rounds):
        plain.append(cpu_s(lambda: plain_epoch(rows)))
        sql.append(cpu_s(lambda: sql_epoch(rows, engine, made)))
        small.append(cpu_s(lambda: sql_epoch(rows[:_SMALL], engine, made)))
    of_small, of_plain = statistics.median(small), statistics.median(plain)
    extra_s = statistics.median(sql) - of_small - of_plain
    return {
        "sql_extra_us": round(extra_s / len(rows) * 1e6, 2),
        "small_epoch_cpu_ms": round(of_small * 1000),
        "plain_us": round(of_plain / len(rows) * 1e6, 2),
    }


def main() -> None:
    """Measure at the sizes of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--unit-rows", type=int, default=3_600_000)
    parser.add_argument("--other-records", type=int, default=5_000_000)
    options = parser.parse_args()
    settings = {"spark.ui.enabled": "false"}
    context, log = start_context("bench-sql", "local[2]", settings, find_java())
    engine = SparkSql(context, "bench-sql")
    figures = dict(route_figures(engine, events(options.records), options.rounds))
    unit_s = unit_cpu_s(context, options.unit_rows, options.rounds)
    figures["recompute_3_6M_cpu_s"] = round(unit_s, 2)
    sys.stderr.write(json.dumps(figures) + "\n")
    context.stop()
    log.unlink(missing_ok=True)
    others, left_out = other_engines(options.other_records, options.rounds)
    found = {
        **figures,
        **others,
        "records": options.records,
        "unit_rows": options.unit_rows,
        "left_out": left_out,
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
