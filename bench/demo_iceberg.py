"""A lake table in one command, with no server but Kafka: filled, killed once, read by two engines.

The catalog is a file of SQLite, the warehouse a folder. A broker is started, rows are written into
a topic, `sluiceway run` fills `ods.orders`; it is killed with all that it started, and the next run
goes on. Then DuckDB and Spark count the table by its newest metadata file, each by its own code.

`python -m bench.demo_iceberg [--rows 50000] [--folder .sluiceway/demo-iceberg]` ends with one JSON
line; 1 is the exit code when a row is missing or doubled. The folder stays, to look around.
"""

import argparse
import json
import shutil
import sys
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.catalog.sql import SqlCatalog

from bench.lake_readers import ROOT, ReaderFailedError, SparkBeside, ask_duckdb, duckdb_python
from bench.tidy_end import end_tidily
from sluiceway.lab.lab import Lab

# The driver's handle belongs to the tests.
sys.path.insert(0, str(ROOT / "tests"))

from tools.driver_process import DriverProcess
from tools.job_files import JobFile
from tools.table_proofs import assert_verified

TOPIC, TABLE, PARTITIONS = "orders", "ods.orders", 2
START_MS = 1_795_161_600_000
TIMEOUT_S = 600.0
_SQL = "SELECT count(*), count(DISTINCT id), sum(id) FROM {table}"
_JOB = """\
version: 1
name: orders
connections:
  main: {{kafka: {{bootstrap_servers: "{servers}"}}}}
  lake: {{iceberg: {{sql: {{uri: "sqlite:///{folder}/catalog.db", warehouse: "file://{folder}/warehouse"}}}}}}
source: {{connection: main, topics: [orders], start: earliest}}
format: {{json: {{}}}}
table:
  iceberg: {{connection: lake, name: ods.orders, publish_interval: 2s}}
  columns:
    - {{name: id, type: bigint, required: true}}
    - {{name: ts, type: timestamp, unit: ms}}
    - {{name: city, type: string}}
  partition_by: [{{column: ts, transform: hour}}]
  meta: [partition, offset]
run: {{interval: 1s, master: "local[2]"}}
"""


def write_rows(servers: str, first: int, count: int) -> None:
    """Orders with numbers from `first` on."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
    for number in range(first, first + count):
        ts_ms = START_MS + number * 100
        body = {"id": number, "ts": ts_ms, "city": f"city {number % 97}"}
        producer.produce(TOPIC, json.dumps(body).encode(), partition=number % PARTITIONS)
        producer.poll(0)
    producer.flush(TIMEOUT_S)


def run(folder: Path, rows: int) -> dict[str, object]:
    """The demo's steps in a folder of its own; the closing figures."""
    tell("starting Kafka, and nothing else")
    lab = Lab(folder / "lab", metastore=False)
    try:
        servers = lab.up().bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(TIMEOUT_S)
        (folder / "warehouse").mkdir()
        path = folder / "orders.yaml"
        path.write_text(_JOB.format(servers=servers, folder=folder))
        job = JobFile(path, TABLE)
        write_rows(servers, 0, rows // 2)
        with DriverProcess(job, folder) as driver:
            tell(f"sluiceway run {path}")
            driver.wait_for_event("committed")
            driver.kill_group()
            driver.wait()
        tell("killed the driver and its Spark after a commit; once more")
        write_rows(servers, rows // 2, rows - rows // 2)
        with DriverProcess(job, folder, "--until-caught-up") as driver:
            ended = driver.wait(TIMEOUT_S)
        if ended.exit_code != 0:
            raise ReaderFailedError(ended.stderr[-3000:])
        tell(f"sluiceway verify --deep {path}")
        assert_verified(job)
    finally:
        lab.down()
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
    )
    metadata = catalog.load_table(TABLE).metadata_location
    tell(f"DuckDB reads iceberg_scan('{metadata.removeprefix('file://')}')")
    by_duckdb = ask_duckdb(metadata, _SQL.format(table="lake"))
    tell(f"Spark reads spark.read.format('iceberg').load('{metadata}')")
    beside = {"type": "hadoop", "warehouse": f"file://{folder}/warehouse"}
    with SparkBeside(beside) as spark:
        by_spark = spark.ask(_SQL.format(table="rows"), metadata)
    wanted = [[rows, rows, rows * (rows - 1) // 2]]
    return {
        "rows": rows,
        "duckdb": by_duckdb[0][0],
        "spark": by_spark[0][0],
        "exactly_once": by_duckdb == by_spark == wanted,
        "table": metadata,
    }


def tell(text: str) -> None:
    """What it does, on standard error."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Run it once."""
    end_tidily()
    parser = argparse.ArgumentParser(prog="python -m bench.demo_iceberg")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--folder", type=Path, default=ROOT / ".sluiceway" / "demo-iceberg")
    given = parser.parse_args()
    folder = given.folder.absolute()
    if folder.exists() and not (folder / "orders.yaml").exists() and any(folder.iterdir()):
        tell(f"{folder} is not empty, and holds no demo: take another with --folder")
        return 1
    if folder.exists():
        Lab(folder / "lab", metastore=False).down()
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    duckdb_python()
    try:
        told = run(folder, given.rows)
    except (ReaderFailedError, AssertionError) as error:
        tell(f"the demo failed: {error}")
        return 1
    print(json.dumps(told))
    return int(not told["exactly_once"])


if __name__ == "__main__":
    sys.exit(main())
