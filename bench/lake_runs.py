"""Runs of `lake_compare`: our job and the Iceberg sink of Flink, each into a table of its own."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog

from bench.check_output import WrongOutputError
from bench.flink import RECORD_COLUMNS, fetch_flink, flink_type, run_flink, sql_options
from bench.ours import COMMAND
from bench.process_tree import TreeUsage, measure_tree
from bench.standard_events import SHAPES
from bench.workloads import Totals
from sluiceway.host.java import find_java
from sluiceway.lab.jars import PinnedJar, default_cache_folder, ensure_jars, jars_folder
from sluiceway.lab.lab import Lab, StoreServer
from sluiceway.lab.support import ignore_progress

NATIVE, LIBRARY, FLINK = "native", "library", "flink"
ENGINES = (NATIVE, LIBRARY, FLINK)
NAMESPACE = "bench"
_PINS = Path(__file__).with_name("iceberg_flink_jars.json")
_COLUMNS = SHAPES["standard"].columns
_JOB = """\
version: 1
name: {name}
connections:
  broker: {{kafka: {{bootstrap_servers: "{servers}"}}}}
  lake: {{iceberg: {{rest: {{uri: "{catalog}"}}}}}}
source: {{connection: broker, topics: [{topic}], start: earliest}}
format: {{json: {{unknown_fields: ignore, engine: {engine}}}}}
table:
  iceberg: {{connection: lake, name: {namespace}.{table}, publish_interval: {publish}}}
  columns:
{columns}
  partition_by:
    - {{name: dt, event_time: "yyyyMMdd"}}
    - {{name: hr, event_time: "HH"}}
  meta: [topic, partition, offset, timestamp]
event_time: {{field: ts, unit: ms, timezone: UTC}}
run: {{interval: {interval}, master: "local"}}
"""


@dataclass(frozen=True, slots=True)
class Servers:
    """What all runs use.

    Attributes:
        broker: Kafka's address.
        catalog: The REST catalog's.
        class_path: Of Flink with its Iceberg sink.
    """

    broker: str
    catalog: str
    class_path: str = ""


@dataclass(frozen=True, slots=True)
class LakeRun:
    """A run that was checked.

    Attributes:
        snapshots: Of the table.
        files: Data files that a reader of the newest snapshot opens.
    """

    usage: TreeUsage
    snapshots: int
    files: int


@contextmanager
def lake_servers(folder: Path) -> Iterator[Servers]:
    """A lab with Kafka and a REST catalog, and Flink with its sink; removed at the end.

    Raises:
        UnhealthyEnvironmentError: A download failed, or a jar is not what was pinned.
        WrongOutputError: The lab has no catalog.
    """
    class_path = flink_with_iceberg()
    lab = Lab(folder / "lab", stores=[StoreServer.ICEBERG])
    try:
        endpoints = lab.up()
        if endpoints.iceberg is None:
            raise WrongOutputError("the lab has no catalog of Iceberg")
        yield Servers(endpoints.bootstrap_servers, endpoints.iceberg.uri, class_path)
    finally:
        lab.down(remove_data=True)


def flink_with_iceberg() -> str:
    """Flink's class path with the sink.

    Raises:
        UnhealthyEnvironmentError: A download failed, or a jar is not what was pinned.
    """
    cache = default_cache_folder(os.environ)
    pins = tuple(PinnedJar(**pin) for pin in json.loads(_PINS.read_text())["jars"])
    folder = jars_folder(cache, "iceberg-flink-1.11.0", pins)
    ensure_jars(folder, pins, java=find_java(), on_progress=ignore_progress)
    return f"{fetch_flink(cache)}:{folder}/*"


def job_text(
    servers: Servers, topic: str, table: str, engine: str, *, interval: str, publish: str
) -> str:
    """Our job file."""
    return _JOB.format(
        name=table.replace("_", "-"),
        servers=servers.broker,
        catalog=servers.catalog,
        topic=topic,
        engine=engine,
        namespace=NAMESPACE,
        table=table,
        interval=interval,
        publish=publish,
        columns="\n".join(
            f'    - {{name: {name}, type: "{kind}", required: {json.dumps(name in ("id", "ts"))}}}'
            for name, kind in _COLUMNS.items()
        ),
    )


def environment_of(engine: str) -> dict[str, str]:
    """For our command: the native module, or the library's path without it."""
    return {**os.environ, "SLUICEWAY_NATIVE": "1" if engine == NATIVE else "0"}


def run_ours(servers: Servers, topic: str, table: str, engine: str, folder: Path) -> TreeUsage:
    """Take a topic in to its end.

    Raises:
        WrongOutputError: The command failed.
    """
    folder.mkdir(parents=True)
    job = folder / "job.yaml"
    job.write_text(job_text(servers, topic, table, engine, interval="10s", publish="10s"))
    return run_job(job, engine, "--until-caught-up")


def run_job(job: Path, engine: str, *options: str) -> TreeUsage:
    """Run a job in its folder, which is named as its table, until it ends or is told to.

    Raises:
        WrongOutputError: The command failed.
    """
    log = job.with_name("job.log")
    command = [COMMAND, "run", str(job), *options, "--log-level", "info"]
    usage = measure_tree(command, cwd=job.parent, env=environment_of(engine), output=log)
    if usage.exit_code != 0:
        tail = log.read_text(errors="replace")[-2_000:]
        raise WrongOutputError(f"{job.parent.name} ended with {usage.exit_code}:\n{tail}")
    return usage


def run_flink_sink(servers: Servers, topic: str, table: str, folder: Path) -> TreeUsage:
    """The same by Flink's SQL, a checkpoint every 10 s, each of them a snapshot.

    Raises:
        WrongOutputError: The job failed.
    """
    sql = sink_statements(servers, topic, table)
    return run_flink(servers.class_path, sql, folder, parallelism=os.cpu_count() or 1)


def sink_statements(servers: Servers, topic: str, table: str) -> list[str]:
    """The SQL of one run; the last one inserts."""
    own = [f"`{name}` {flink_type(kind)}" for name, kind in _COLUMNS.items()]
    virtual = [
        f"`{name}` {kind} METADATA FROM '{key}' VIRTUAL"
        for name, (kind, key) in RECORD_COLUMNS.items()
    ]
    written = [f"`{name}` {kind}" for name, (kind, _) in RECORD_COLUMNS.items()]
    sink = ", ".join([*own, *written, "`dt` STRING", "`hr` STRING"]).replace(
        "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)"
    )
    instant = "TO_TIMESTAMP_LTZ(`ts`, 3)"
    kept = [f"`{name}`" for name in (*_COLUMNS, *RECORD_COLUMNS)]
    kept += [f"DATE_FORMAT({instant}, '{pattern}')" for pattern in ("yyyyMMdd", "HH")]
    source = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": servers.broker,
        "scan.startup.mode": "earliest-offset",
        "scan.bounded.mode": "latest-offset",
        "format": "json",
        "json.ignore-parse-errors": "true",
    }
    catalog = {"type": "iceberg", "catalog-type": "rest", "uri": servers.catalog}
    settings = {
        "format-version": "2",
        "write.parquet.compression-codec": "zstd",
        "write.distribution-mode": "none",
    }
    name = f"lake.{NAMESPACE}.{table}"
    return [
        f"CREATE TABLE source ({', '.join([*own, *virtual])}) WITH ({sql_options(source)})",
        f"CREATE CATALOG lake WITH ({sql_options(catalog)})",
        f"CREATE DATABASE IF NOT EXISTS lake.{NAMESPACE}",
        f"CREATE TABLE {name} ({sink}) PARTITIONED BY (`dt`, `hr`) WITH ({sql_options(settings)})",
        f"INSERT INTO {name} SELECT {', '.join(kept)} FROM source",  # noqa: S608 - our own names
    ]


def checked(catalog: Catalog, table: str, expected: Totals, usage: TreeUsage) -> LakeRun:
    """What a run has made, compared with the rule of its topic.

    Raises:
        WrongOutputError: It holds something else.
    """
    held = catalog.load_table(f"{NAMESPACE}.{table}")
    summed = ("quantity", "amount", "user_id")
    rows = held.scan(selected_fields=("id", "ts", *summed)).to_arrow()
    found: tuple[Any, ...] = (
        rows.num_rows,
        pc.count_distinct(rows["id"]).as_py(),
        pc.sum(rows["id"]).as_py(),
        # Milliseconds of more than five million rows are more than 64 bits hold.
        pc.sum(rows["ts"].cast(pa.decimal128(38, 0))).as_py(),
        *(pc.sum(_widened(rows[name])).as_py() for name in summed),
    )
    wanted = (expected.rows, expected.ids, expected.id_sum, expected.ts_sum, *expected.sums)
    if found != wanted:
        raise WrongOutputError(f"{table}: {found} instead of {wanted}")
    files = len(list(held.scan().plan_files()))
    return LakeRun(usage, len(held.metadata.snapshots), files)


def _widened(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_decimal(column.type):
        return column.cast(pa.decimal128(38, column.type.scale))
    return column.cast(pa.int64())
