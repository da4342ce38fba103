"""Iceberg's sink for Kafka Connect, the third engine of `lake_compare`: its jars, its runs.

One worker in standalone mode with the sink, as its users run it: JSON without schemas, the four
columns of the record by Connect's own `InsertField`. The release of Iceberg is that of the catalog
and of Flink's sink. Fair settings, found by trying:

- tasks = cores, the heap that Flink has, a commit every 10 s as the others have
- `offset.flush.interval.ms` of a second: a task that waits for records hears of a commit only when
  that is over, a minute by default; 600,000 records took 125 s with it, and 31 to 41 s with this
- 500 records a poll, as it comes: 5,000 took as much CPU
- the table is there before the worker starts, so that nothing is found out from records; by its
  hidden partitions it is cut by the hour, and no record is changed for that

The worker does not end by itself. It is told to when the catalog has as many rows as the topic.
It does less than ours: no columns of day and hour, no dirty rows. A record that does not parse or
fit ends its task.

`iceberg-kafka-connect-runtime`, the archive to unpack, is not in Maven's central repository. So a
folder for plug-ins is made of the sink's jars and all that they need, by `mvn`, once, in the cache.
"""

import hashlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import TruncateTransform

from bench.cdc_servers import CONNECT as WORKER
from bench.cdc_servers import ServerFailedError, copy_with_dependencies, free_port
from bench.check_output import WrongOutputError
from bench.figures import Slope, ratio
from bench.flink import HEAP, RECORD_COLUMNS
from bench.lake_runs import LIBRARY, NAMESPACE, NATIVE, LakeRun, Servers, checked
from bench.process_tree import TreeUsage, measure_tree
from bench.standard_events import HOUR_MS, SHAPES, create_topic
from bench.workloads import Totals
from sluiceway.host.java import find_java
from sluiceway.sinks.iceberg.column_types import iceberg_schema
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field

CONNECT = "connect"
SINK = (
    "org.apache.iceberg:iceberg-kafka-connect:1.11.0",
    "org.apache.iceberg:iceberg-parquet:1.11.0",
    # Without it no writer of Parquet is found either.
    "org.apache.iceberg:iceberg-orc:1.11.0",
    "org.apache.hadoop:hadoop-client-runtime:3.4.2",
)
COMMITS_MS = 10_000
PATIENCE_S = 120.0
_POLL_S = 0.5
_LINES = 30
# The JVM's own, when it ends as SIGTERM asks.
_ENDED_AS_TOLD = 128 + signal.SIGTERM
_RECORD_COLUMNS = dict(
    zip(RECORD_COLUMNS, ("string", "int", "bigint", "timestamp with local time zone"), strict=True)
)


@dataclass(slots=True)
class ConnectSide:
    """The runs of the sink; what stops it is told, and stops no other engine.

    Attributes:
        cache: Where its jars are kept.
        runs: Those that were checked.
        not_measured: Why there are no more; empty while all is well.
        rows_exact: False once a table was not its topic.
    """

    cache: Path
    runs: list[LakeRun] = field(default_factory=list)
    not_measured: str = ""
    rows_exact: bool = True

    def take_in(
        self, servers: Servers, topic: str, table: str, expected: Totals, folder: Path
    ) -> LakeRun | None:
        """Take a topic in to its end, and check the table; None when that was not done."""
        if self.not_measured:
            return None
        try:
            jars = fetch_sink(self.cache)
        except ServerFailedError as error:
            self._stop("Maven did not fetch its jars", error)
            return None
        try:
            usage = run_connect(servers, jars, topic, table, expected.rows, folder)
        except WrongOutputError as error:
            self._stop("its worker failed", error)
            return None
        try:
            run = checked(_catalog(servers), table, expected, usage)
        except WrongOutputError as error:
            self.rows_exact = False
            self._stop("its table is not its topic", error)
            return None
        self.runs.append(run)
        return run

    def _stop(self, why: str, error: Exception) -> None:
        self.not_measured = why
        print(f"Kafka Connect was not measured, {why}: {error}", file=sys.stderr, flush=True)

    def figures(self, slopes: Mapping[str, Slope]) -> dict[str, Any]:
        """Of the closing line: files and snapshots are those of the large run."""
        if self.not_measured:
            return {
                "connect_not_measured": self.not_measured,
                "connect_rows_exact": self.rows_exact,
            }
        connect_us = slopes[CONNECT].cpu_us_per_record
        return {
            "connect_cpu_us": connect_us,
            "connect_ratio_native": ratio(connect_us, slopes[NATIVE].cpu_us_per_record),
            "connect_ratio_library": ratio(connect_us, slopes[LIBRARY].cpu_us_per_record),
            "connect_rows_exact": self.rows_exact,
            "connect_files": self.runs[-1].files,
            "connect_snapshots": self.runs[-1].snapshots,
        }


def fetch_sink(cache: Path) -> Path:
    """Have the jars in a folder of the cache: `worker`, `plugins`.

    Raises:
        ServerFailedError: `mvn` is not installed, or failed.
    """
    digest = hashlib.sha256("".join((*WORKER, *SINK)).encode()).hexdigest()
    home = cache / f"iceberg-connect-1.11.0-{digest[:12]}"
    if not (home / "whole").exists():
        shutil.rmtree(home, ignore_errors=True)
        copy_with_dependencies(WORKER, home / "worker")
        copy_with_dependencies(SINK, home / "plugins" / "iceberg")
        (home / "whole").touch()
    return home


def run_connect(
    servers: Servers, jars: Path, topic: str, table: str, rows: int, folder: Path
) -> TreeUsage:
    """Run a worker with a group and a control topic of its own until the table has all rows.

    Raises:
        WrongOutputError: It ended, failed, or makes no more rows.
    """
    folder.mkdir(parents=True)
    control = f"control-{table}"
    create_topic(servers.broker, control, partitions=1)
    catalog = _catalog(servers)
    catalog.create_namespace_if_not_exists(NAMESPACE)
    create_table(catalog, table)
    settings = {"worker": worker_settings(servers, jars, folder)}
    settings["sink"] = sink_settings(servers, topic, table, control)
    for name, of_file in settings.items():
        lines = [f"{key}={value}\n" for key, value in of_file.items()]
        (folder / f"{name}.properties").write_text("".join(lines))
    log, pid = folder / "connect.log", folder / "pid"
    command = [
        *("sh", "-c", f'echo $$ >{pid.name}; exec "$@"', "sh"),
        *(str(find_java().executable), f"-Xmx{HEAP}", "-cp", f"{jars}/worker/*"),
        "org.apache.kafka.connect.cli.ConnectStandalone",
        *("worker.properties", "sink.properties"),
    ]
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(measure_tree, command, cwd=folder, output=log)
        try:
            _wait_for_rows(catalog, table, rows, running, log)
        finally:
            _end(pid, running)
    usage = running.result()
    if usage.exit_code not in (0, _ENDED_AS_TOLD):
        raise WrongOutputError(f"{table} ended with {usage.exit_code}:\n{_told(log)}")
    return usage


def worker_settings(servers: Servers, jars: Path, folder: Path) -> dict[str, str]:
    """Those of the worker."""
    converter = "org.apache.kafka.connect.json.JsonConverter"
    return {
        "bootstrap.servers": servers.broker,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": converter,
        "value.converter.schemas.enable": "false",
        "offset.storage.file.filename": f"{folder}/offsets",
        "offset.flush.interval.ms": "1000",
        "plugin.path": f"{jars}/plugins",
        "plugin.discovery": "service_load",
        "listeners": f"http://127.0.0.1:{free_port()}",
    }


def sink_settings(servers: Servers, topic: str, table: str, control: str) -> dict[str, str]:
    """Those of the connector; its name makes its group."""
    return {
        "name": table,
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "tasks.max": str(os.cpu_count() or 1),
        "topics": topic,
        "iceberg.catalog.type": "rest",
        "iceberg.catalog.uri": servers.catalog,
        "iceberg.tables": f"{NAMESPACE}.{table}",
        "iceberg.control.topic": control,
        "iceberg.control.commit.interval-ms": str(COMMITS_MS),
        "iceberg.kafka.bootstrap.servers": servers.broker,
        "transforms": "record",
        "transforms.record.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        **{f"transforms.record.{key}.field": name for name, (_, key) in RECORD_COLUMNS.items()},
    }


def create_table(catalog: Catalog, table: str) -> None:
    """A new table of the events' columns and those of the record, partitioned by the hour."""
    columns = {**SHAPES["standard"].columns, **_RECORD_COLUMNS}
    schema = iceberg_schema(
        tuple(Field(name, parse_hive_type(kind)) for name, kind in columns.items())
    )
    time_id = schema.find_field("ts").field_id
    catalog.create_table(
        f"{NAMESPACE}.{table}",
        schema,
        partition_spec=PartitionSpec(
            PartitionField(time_id, 1_000, TruncateTransform(HOUR_MS), "hour_ms")
        ),
        properties={"format-version": "2", "write.parquet.compression-codec": "zstd"},
    )


def _wait_for_rows(
    catalog: Catalog, table: str, rows: int, running: Future[TreeUsage], log: Path
) -> None:
    held, changed_s = 0, time.monotonic()
    while held < rows:
        if running.done() or time.monotonic() - changed_s > PATIENCE_S:
            raise WrongOutputError(f"{table} has {held} rows of {rows}:\n{_told(log)}")
        time.sleep(_POLL_S)
        snapshot = catalog.load_table(f"{NAMESPACE}.{table}").current_snapshot()
        if snapshot is not None and snapshot.summary is not None:
            found = int(snapshot.summary["total-records"] or 0)
            if found != held:
                held, changed_s = found, time.monotonic()


def _end(pid: Path, running: Future[TreeUsage]) -> None:
    """As a user does, or else as a power cut would."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if running.done():
            return
        # It may have ended, or not have begun.
        with suppress(FileNotFoundError, ProcessLookupError, ValueError):
            os.kill(int(pid.read_text()), number)
        wait([running], timeout=PATIENCE_S)


def _told(log: Path) -> str:
    """What stopped it: from the first error on, or else the end."""
    lines = log.read_text(errors="replace").splitlines()
    first = next((n for n, line in enumerate(lines) if " ERROR " in line), len(lines) - _LINES)
    return "\n".join(lines[max(first, 0) :][:_LINES])


def _catalog(servers: Servers) -> Catalog:
    return load_catalog("lake", type="rest", uri=servers.catalog)
