"""A plug-in that pip installed fills a table: real Kafka and metastore, Spark's own workers."""

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tools.job_files import write_job
from tools.lab_fixture import TopicFactory
from tools.plugin_packages import environment_with, install_example
from tools.topic_writer import TopicWriter

ROWS = 300
FIRST_MS = 1_795_161_600_000
PATIENCE_S = 300


@pytest.mark.slow
def test_delimited_rows_reach_the_table_exactly(
    bootstrap_servers: str,
    metastore_uri: str,
    warehouse: Path,
    new_topic: TopicFactory,
    tmp_path: Path,
) -> None:
    install_example(tmp_path / "installed")
    topic = new_topic(3)
    writer = TopicWriter(bootstrap_servers)
    for partition in range(3):
        numbers = range(partition, ROWS, 3)
        lines = [rf"{n}|{FIRST_MS + n}|Bad\|Homburg {n}|{n}.25".encode() for n in numbers]
        writer.write(topic, [*lines, b"no fields", b"\xff|1|x|1"], partition=partition)
    job = write_job(
        tmp_path, bootstrap_servers=bootstrap_servers, metastore_uri=metastore_uri, topic=topic
    )
    text = job.path.read_text()
    assert "{json: {tombstones: skip}}" in text
    delimited = 'format: {delimited: {delimiter: "|", fields: "id,ts,city,amount"}}'
    job.path.write_text(text.replace("format: {json: {tombstones: skip}}", delimited))

    def run(*command: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "sluiceway", *command, str(job.path)],
            env=environment_with(tmp_path / "installed"),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == code, done.stderr
        return done.stdout

    run("run", "--until-caught-up")
    run("verify", "--deep")
    rows = _rows(_parquet_files(warehouse, job.table))
    assert [(row[0], row[1], str(row[2])) for row in rows] == [
        (n, f"Bad|Homburg {n}", f"{n}.25") for n in range(ROWS)
    ]
    # So many dirty rows among so few need somebody, and `status` says so.
    (route,) = json.loads(run("status", "-o", "json", code=1))["routes"]
    assert (route["rows_written"], route["rows_dirty"]) == (ROWS, 6)


def _parquet_files(warehouse: Path, table: str) -> list[str]:
    database, _, name = table.partition(".")
    root = warehouse / f"{database}.db" / name
    return [str(path) for path in root.glob("dt=*/hr=*/*.parquet")]


def _rows(files: list[str]) -> list[tuple[object, ...]]:
    query = "SELECT id, city, amount FROM read_parquet(?, hive_partitioning=false) ORDER BY id"
    return list(duckdb.execute(query, [files]).fetchall())
