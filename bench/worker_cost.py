"""CPU of a worker's task without broker and JVM: decode, route and write, per kind of events.

Each round runs one task over the events of every workload in turn: batches of 10,000 records as a
fetch brings them, in memory, over four source partitions, into files of a fresh folder. The figure
is CPU of the whole process per record, its median over the rounds, and its ratio to `standard`.

`python -m bench.worker_cost --records 200000 --rounds 3` prints one JSON line. With
`SLUICEWAY_NATIVE=0` payloads are Python objects and the library's path reads them.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from confluent_kafka import TIMESTAMP_CREATE_TIME, Message

from bench.standard_events import BATCH, SHAPES, START_MS
from bench.workloads import WORKLOADS, Workload, workload_events
from sluiceway.formats.registry import JSON
from sluiceway.host.native_module import native_module
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.sinks.files.contract import PARQUET_FILES
from sluiceway.sources.contract import SourceBatch, SourcePartition, Split
from sluiceway.sources.kafka.fetch_result import LogRows
from sluiceway.sources.kafka.native_consumer import FetchedRows
from sluiceway.sources.kafka.reader import MessageRows
from sluiceway.sources.registry import SourceAccess
from sluiceway.storage.registry import open_storage
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema
from sluiceway.worker.pipeline import RowPipeline
from sluiceway.worker.plan import (
    EventTimeRule,
    PartitionRule,
    PlannedMetaColumn,
    RoutePlan,
    TaskPlan,
)
from sluiceway.worker.write_behind import WriteBehind

TOPIC = "events"
LOGS = 4
FETCH = 10_000
META = tuple(
    PlannedMetaColumn(kind, kind) for kind in ("topic", "partition", "offset", "timestamp")
)


def task_plan(root: Path, workload: Workload) -> TaskPlan:
    """One task of the benchmark's table: all of its source partitions."""
    columns = SHAPES[workload.shape].columns.items()
    by_hour = (PartitionRule("dt", "yyyyMMdd", None), PartitionRule("hr", "HH", None))
    by_value = (PartitionRule("app", None, "app"),)
    route = RoutePlan(
        ledger=TOPIC,
        term=1,
        layout=LedgerLayout(str(root), TOPIC),
        source=SourceAccess("kafka", ()),
        format=JSON,
        schema=Schema(tuple(Field(name, parse_hive_type(of)) for name, of in columns)),
        schema_version="1",
        meta=META,
        event_time=EventTimeRule(("ts",), "ms", "UTC"),
        partitions=by_value if workload.values else by_hour,
        files=PARQUET_FILES,
    )
    splits = tuple(Split(SourcePartition(TOPIC, log), 0, None) for log in range(LOGS))
    return TaskPlan(route, 1, 0, splits, deadline_s=600.0)


def fetches(workload: Workload, records: int) -> Iterator[list[SourceBatch]]:
    """What reads return; offsets rise within each log."""
    events = workload_events(workload, records)
    ends = [0] * LOGS
    while found := list(islice(events, FETCH)):
        logs: list[list[bytes]] = [[] for _ in range(LOGS)]
        for number, payload in found:
            logs[number // BATCH % LOGS].append(payload)
        batches = []
        for log, values in enumerate(logs):
            if values:
                rows = rows_of(values, log, ends[log])
                batches.append(rows.batch(log, SourcePartition(TOPIC, log)))
                ends[log] += len(values)
        yield batches


def rows_of(values: Sequence[bytes], log: int, first: int) -> LogRows:
    """Payloads of a log from this offset on, as a fetch brings them."""
    module = native_module()
    if module is not None:
        rows = FetchedRows(module.Records(list(values), START_MS))
        rows.offsets = rows.offsets + first
        return rows
    made = (TIMESTAMP_CREATE_TIME, START_MS)
    return MessageRows(
        [
            Message(topic=TOPIC, partition=log, offset=first + n, value=value, timestamp=made)
            for n, value in enumerate(values)
        ]
    )


def run_task(workload: Workload, records: int) -> tuple[float, int, int]:
    """Run a task over a workload.

    Returns:
        CPU seconds, clean rows, files.

    Raises:
        RuntimeError: A record was not accounted for.
    """
    with tempfile.TemporaryDirectory(prefix="worker-cost-") as folder:
        plan = task_plan(Path(folder), workload)
        storage, _ = open_storage(plan.route.layout.table_root)
        storage.make_folders(plan.route.layout.stage)
        writes = WriteBehind()
        pipeline = RowPipeline(plan, storage, writes.lane())
        reads = list(fetches(workload, records))
        began_s = time.process_time()
        for batches in reads:
            pipeline.write(batches)
        written = pipeline.close()
        spent_s = time.process_time() - began_s
        writes.close()
    counts = written.counts
    if counts.written + counts.dirty != records:
        raise RuntimeError(f"{records} records became {counts}")
    return spent_s, int(counts.written), len(written.files)


def main() -> int:
    """Measure all workloads and print them."""
    parser = argparse.ArgumentParser(prog="python -m bench.worker_cost")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workloads", nargs="+", choices=sorted(WORKLOADS), default=[])
    given = parser.parse_args()
    names = given.workloads or ["standard", "dirty_1pct", "dirty_all", "hours_24", "values_1000"]
    spent: dict[str, list[float]] = {name: [] for name in names}
    files: dict[str, int] = {}
    run_task(WORKLOADS[names[0]], FETCH)
    for _ in range(given.rounds):
        for name in names:
            seconds, _, files[name] = run_task(WORKLOADS[name], given.records)
            spent[name].append(seconds / given.records * 1e6)
    medians = {name: statistics.median(found) for name, found in spent.items()}
    base = medians[names[0]]
    told = {
        name: {"cpu_us": round(of, 3), "ratio": round(of / base, 2), "files": files[name]}
        for name, of in medians.items()
    }
    print(json.dumps({"native": native_module() is not None, "records": given.records, **told}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
