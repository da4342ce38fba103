"""Many routes, each with an Iceberg table of its own, on one REST catalog; then many snapshots.

Real loop, sessions, ledgers, followers, files, tables and catalog; simulated source and tasks
(`bench.driver_cost`). Each epoch brings rows to every route. A proxy before the catalog counts how
many requests are on their way at once, and how long commits take. At the end every table has to
hold exactly the rows that its ledger was told of.

Then one table in a catalog of SQLite gets more and more snapshots. Those between the measured
sizes are copied into its metadata, the measured publishes are real ones. The last figures are of
publishes with an expiry after each hundred, as `keep_snapshots` has them.

`python -m bench.lake_routes [--routes 1000] [--snapshots 10000]` ends with one JSON line; its exit
code is 1 when more than four requests were on their way, or a table is not exact.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.serializers import ToOutputFile

from bench.driver_cost import InstantRunner, MemorySource, run_loop
from bench.tidy_end import end_tidily
from sluiceway.driver.stop import StopSignal
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.loader import parse_job
from sluiceway.lab.lab import Lab, StoreServer
from sluiceway.ledger.file_names import FileRecord
from sluiceway.route.clients import open_sink
from sluiceway.sinks.files.registry import open_format
from sluiceway.sinks.iceberg.catalog.catalog_pool import MOST_CLIENTS
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import TaskPlan
from tools.catalog_proxy import Asked, CatalogProxy
from tools.lake_under_test import BY_APP, LakeUnderTest

NAMESPACE = "ods"
LOG_PARTITIONS = 1
EPOCHS = 4
_SIZES: Final = (100, 1_000, 3_000, 10_000)
_MEASURED = 5
_KEPT_EVERY = 100
_WITH_EXPIRY = 300


class CountingProxy(CatalogProxy):
    """Counts what is on its way.

    Attributes:
        most: Requests at once, at most.
        requests: All of them.
        commit_ms: How long the catalog took for each commit.
    """

    def __init__(self, upstream: str) -> None:
        self._count = threading.Lock()
        self.now = self.most = self.requests = 0
        self.commit_ms: list[float] = []
        super().__init__(upstream)

    def _forward(self, asked: Asked) -> tuple[int, bytes]:
        with self._count:
            self.now += 1
            self.requests += 1
            self.most = max(self.most, self.now)
        began_s = time.monotonic()
        try:
            return super()._forward(asked)
        finally:
            with self._count:
                self.now -= 1
                if asked.is_commit:
                    self.commit_ms.append((time.monotonic() - began_s) * 1000)


class ParquetRunner(InstantRunner):
    """Answers for all routes in each epoch, with a real file of the table's columns."""

    active_share = 1

    def staged_file(self, plan: TaskPlan, attempt: str, name: str, rows: int) -> FileRecord:
        """See `InstantRunner.staged_file`."""
        path = f"{plan.route.layout.attempt(attempt)}/{name}"
        numbers = pa.array(range(rows), pa.int64())
        batch = pa.RecordBatch.from_pydict({"id": numbers, "ts": numbers})
        staged = open_format(batch.schema, plan.route.files).new_file(
            self.storage.create_staged(path)
        )
        staged.write(batch)
        seal = staged.close().seal
        return FileRecord(
            staged=f"{attempt}/{name}",
            final=name,
            values=(),
            rows=BigInt(rows),
            size_bytes=BigInt(seal.size_bytes),
            crc32c=seal.crc32c,
            bounds={},
        )


def job_text(routes: int, catalog: str) -> bytes:
    """A job file with so many routes; JSON is YAML."""
    columns = [{"name": name, "type": "bigint"} for name in ("id", "ts")]
    job = {
        "version": 1,
        "name": "lake-routes",
        "connections": {
            "broker": {"kafka": {"bootstrap_servers": "simulated:1"}},
            "lake": {"iceberg": {"rest": {"uri": catalog}}},
        },
        "source": {"connection": "broker", "start": "earliest"},
        "format": {"json": {"unknown_fields": "ignore"}},
        "table": {
            "iceberg": {"connection": "lake", "publish_interval": "1s"},
            "columns": columns,
            "partition_by": [],
        },
        "run": {"interval": "1s"},
        "routes": [
            {"topics": [f"topic_{number}"], "table": f"{NAMESPACE}.t_{number}"}
            for number in range(routes)
        ],
    }
    return json.dumps(job).encode()


def measure_routes(routes: int, folder: Path) -> dict[str, Any]:
    """Run the job, and judge each table."""
    lab = Lab(folder / "lab", stores=[StoreServer.ICEBERG])
    try:
        endpoints = lab.up()
        if endpoints.iceberg is None:
            raise SystemExit("the lab has no catalog of Iceberg")
        with CountingProxy(endpoints.iceberg.uri) as proxy:
            text = job_text(routes, proxy.uri)
            job = compile_routes(parse_job(text, folder / "job.yaml", {}).spec)
            topics = [topic for one in job.routes for topic in one.topics]
            source, stop = MemorySource(topics, LOG_PARTITIONS), StopSignal()
            runner = ParquetRunner(source, EPOCHS, stop)
            threads = 0

            def watch() -> None:
                nonlocal threads
                while not stop.requested():
                    threads = max(threads, threading.active_count())
                    time.sleep(0.2)

            threading.Thread(target=watch, daemon=True).start()
            began_s, cpu_s = time.monotonic(), time.process_time()
            run_loop(job, runner, source, stop, open_sink)
            took_s, cpu_s = time.monotonic() - began_s, time.process_time() - cpu_s
        catalog = load_catalog("lake", type="rest", uri=endpoints.iceberg.uri)
        exact, snapshots = 0, 0
        for number in range(routes):
            table = catalog.load_table(f"{NAMESPACE}.t_{number}")
            snapshots += len(table.metadata.snapshots)
            head = table.current_snapshot()
            held = 0 if head is None or head.summary is None else head.summary["total-records"]
            wanted = sum(e for p, e in source.ends.items() if p.topic == f"topic_{number}")
            exact += int(held or 0) == wanted > 0
        return {
            "routes": routes,
            "threads": threads,
            "most_requests_at_once": proxy.most,
            "requests": proxy.requests,
            "requests_a_table": round(proxy.requests / routes, 1),
            "snapshots": snapshots,
            "commit_ms_p50": round(statistics.median(proxy.commit_ms), 1),
            "seconds": round(took_s, 1),
            "cpu_ms_a_snapshot": round(cpu_s / max(snapshots, 1) * 1000, 1),
            "exact": exact,
        }
    finally:
        lab.down(remove_data=True)


def measure_snapshots(snapshots: int, folder: Path) -> dict[str, Any]:
    """What a publish costs by the number of snapshots, and with an expiry now and then."""
    lake = LakeUnderTest(folder, BY_APP)
    publisher = lake.publisher()
    row, grown = 0, []
    for size in sorted({min(size, snapshots) for size in (*_SIZES, snapshots)}):
        times: list[float] = []
        for _ in range(_MEASURED + 1):
            row += 1
            lake.commit(row)
            began_s = time.process_time()
            publisher.publish()
            times.append((time.process_time() - began_s) * 1000)
            if len(times) == 1:
                _fill(lake, size)
        grown.append([size, _metadata_bytes(lake), round(statistics.median(times[1:]), 1)])
    lake.assert_exact()
    expiry = lake.expiry(least=_KEPT_EVERY)
    expiry.expire(0.0)
    largest, times = 0, []
    for number in range(_WITH_EXPIRY):
        row += 1
        lake.commit(row)
        began_s = time.process_time()
        publisher.publish()
        times.append((time.process_time() - began_s) * 1000)
        largest = max(largest, _metadata_bytes(lake))
        if number % _KEPT_EVERY == 0:
            expiry.expire(0.0)
    lake.assert_exact()
    return {
        "snapshots_bytes_cpu_ms": grown,
        "with_expiry_most_bytes": largest,
        "with_expiry_cpu_ms": round(statistics.median(times), 1),
    }


def _metadata_bytes(lake: LakeUnderTest) -> int:
    return Path(lake.table().metadata_location.removeprefix("file://")).stat().st_size


def _fill(lake: LakeUnderTest, size: int) -> None:
    """Older snapshots, copies of the newest one, until there are as many."""
    table = lake.table()
    metadata = table.metadata
    missing = size - len(metadata.snapshots)
    if missing <= 0:
        return
    like = metadata.snapshots[0]
    copies = [
        like.model_copy(update={"snapshot_id": like.snapshot_id ^ (number + 1)})
        for number in range(missing)
    ]
    more = metadata.model_copy(update={"snapshots": [*copies, *metadata.snapshots]})
    name = f"{table.metadata_location.rpartition('/')[0]}/x-{lake.unique()}.metadata.json"
    ToOutputFile.table_metadata(more, table.io.new_output(name))
    lake.put_back(name)


def main() -> int:
    """Measure what the arguments say, print the closing line."""
    end_tidily()
    parser = argparse.ArgumentParser(prog="python -m bench.lake_routes")
    parser.add_argument("--routes", type=int, default=1_000)
    parser.add_argument("--snapshots", type=int, default=10_000, help="0 leaves them out")
    given = parser.parse_args()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="lake-routes-") as folder:
        if given.routes:
            found = measure_routes(given.routes, Path(folder))
        if given.snapshots:
            inner = Path(folder) / "snapshots"
            inner.mkdir()
            found |= measure_snapshots(given.snapshots, inner)
    found["load"] = round(os.getloadavg()[0], 1)
    sys.stdout.write(json.dumps(found) + "\n")
    bounded = found.get("most_requests_at_once", 0) <= MOST_CLIENTS
    return int(not bounded or found.get("exact", 0) != given.routes)


if __name__ == "__main__":
    sys.exit(main())
