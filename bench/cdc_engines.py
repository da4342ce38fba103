"""The two engines of `cdc_compare`: our job and Flink's SQL, each into a keyed table of its own."""

import os
import signal
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from bench.cdc_changes import COLUMNS
from bench.check_output import WrongOutputError
from bench.flink import run_flink, sql_options
from bench.lake_runs import NAMESPACE, Servers
from bench.ours import COMMAND
from bench.process_tree import TreeUsage

OURS, FLINK = "ours", "flink"
ENGINES = (OURS, FLINK)
_JOB = """\
version: 1
name: {name}
connections:
  broker: {{kafka: {{bootstrap_servers: "{servers}"}}}}
  lake: {{iceberg: {{rest: {{uri: "{catalog}"}}}}}}
source: {{connection: broker, topics: [{topic}], start: earliest}}
format: {{debezium: {{}}}}
table:
  iceberg: {{connection: lake, name: {namespace}.{table}, publish_interval: {interval}}}
  key: [id]
  columns:
{columns}
  partition_by: []
  meta: [partition, offset]
run: {{interval: {interval}, master: "local"}}
"""
_FLINK_TYPES = {"string": "STRING"}


def write_our_job(servers: Servers, topic: str, table: str, interval: str, folder: Path) -> Path:
    """Our job file, in a folder that is made."""
    folder.mkdir(parents=True)
    columns = "\n".join(f'    - {{name: {name}, type: "{kind}"}}' for name, kind in COLUMNS.items())
    job = folder / "job.yaml"
    job.write_text(
        _JOB.format(
            name=table.replace("_", "-"),
            servers=servers.broker,
            catalog=servers.catalog,
            topic=topic,
            namespace=NAMESPACE,
            table=table,
            interval=interval,
            columns=columns,
        )
    )
    return job


def end_ours(job: Path, running: Future[TreeUsage], patience_s: float) -> TreeUsage:
    """End a job that runs in another thread, as a user does.

    Raises:
        WrongOutputError: It failed, or does not end.
    """
    began_s = time.monotonic()
    for process in _processes_of(job):
        os.kill(process, signal.SIGTERM)
    while not running.done():
        if time.monotonic() - began_s > patience_s:
            raise WrongOutputError(f"{job.parent.name} does not end")
        time.sleep(0.1)
    return running.result()


def _processes_of(job: Path) -> list[int]:
    """Of the command itself: not of its measurer, and not of what it started."""
    wanted = [COMMAND, "run", str(job)]
    found = []
    for at in Path("/proc").iterdir():
        if at.name.isdigit():
            try:
                told = (at / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            # An interpreter stands before a script.
            if told[:3] == wanted or told[1:4] == wanted:
                found.append(int(at.name))
    return found


def flink_statements(servers: Servers, topic: str, table: str, ends: Sequence[int]) -> list[str]:
    """The SQL of one run, up to these ends of the source partitions; the last one inserts.

    As Iceberg's documents have it: format version 2, a primary key, `write.upsert.enabled`. The
    sink sends each key to one writer by itself.
    """
    own = ", ".join(f"`{name}` {_flink_type(kind)}" for name, kind in COLUMNS.items())
    keyed = own.replace("`id` BIGINT", "`id` BIGINT NOT NULL")
    primary = "PRIMARY KEY (`id`) NOT ENFORCED"
    source = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": servers.broker,
        "scan.startup.mode": "earliest-offset",
        "scan.bounded.mode": "specific-offsets",
        "scan.bounded.specific-offsets": ";".join(
            f"partition:{number},offset:{end}" for number, end in enumerate(ends)
        ),
        "format": "debezium-json",
    }
    catalog = {"type": "iceberg", "catalog-type": "rest", "uri": servers.catalog}
    settings = {
        "format-version": "2",
        "write.upsert.enabled": "true",
        "write.parquet.compression-codec": "zstd",
    }
    name = f"lake.{NAMESPACE}.{table}"
    columns = ", ".join(f"`{name}`" for name in COLUMNS)
    return [
        f"CREATE TABLE source ({keyed}, {primary}) WITH ({sql_options(source)})",
        f"CREATE CATALOG lake WITH ({sql_options(catalog)})",
        f"CREATE DATABASE IF NOT EXISTS lake.{NAMESPACE}",
        f"CREATE TABLE {name} ({keyed}, {primary}) WITH ({sql_options(settings)})",
        f"INSERT INTO {name} SELECT {columns} FROM source",  # noqa: S608 - our own names
    ]


def run_flink_upsert(
    servers: Servers, sql: Sequence[str], folder: Path, *, checkpoints: str
) -> TreeUsage:
    """Take a topic in up to the ends that the SQL names, a snapshot at each checkpoint.

    Raises:
        WrongOutputError: The job failed.
    """
    return run_flink(
        servers.class_path,
        sql,
        folder,
        parallelism=os.cpu_count() or 1,
        checkpoints=checkpoints,
    )


def _flink_type(kind: str) -> str:
    return _FLINK_TYPES.get(kind, kind.upper())
