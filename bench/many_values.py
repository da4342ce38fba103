"""Very many partition values in one epoch of one task: rows, files and memory.

A worker process of its own takes standard events, spread evenly over the values, as a fetch brings
them, and writes them into files of a fresh folder: no broker, no JVM. Peak RSS is that of the whole
process: interpreter, libraries and all buffers.

`python -m bench.many_values --values 10000 --records 300000 --memory-mib 512` prints one JSON line.
With `--route` a whole job does it, and its small files are merged then: see `values_route`.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from bench.values_route import RouteRun, run_route
from bench.worker_cost import FETCH, fetches, task_plan
from bench.workloads import Workload
from sluiceway.storage.registry import open_storage
from sluiceway.worker.pipeline import RowPipeline
from sluiceway.worker.task_memory import TaskMemory
from sluiceway.worker.write_behind import WriteBehind

_MIB = 1 << 20


def run_worker(values: int, records: int, memory_mib: int) -> dict[str, float]:
    """Run one task in this process.

    Returns:
        What it wrote and took.

    Raises:
        RuntimeError: A record was not accounted for.
    """
    workload = Workload(values=values)
    with tempfile.TemporaryDirectory(prefix="many-values-") as folder:
        plan = task_plan(Path(folder), workload)
        plan = replace(plan, route=replace(plan.route, memory_bytes=memory_mib * _MIB))
        storage, _ = open_storage(plan.route.layout.table_root)
        storage.make_folders(plan.route.layout.stage)
        before_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        memory = TaskMemory(plan.route.memory_bytes)
        writes = WriteBehind(memory)
        pipeline = RowPipeline(plan, storage, writes.lane())
        began = time.monotonic()
        for batches in fetches(workload, records):
            pipeline.write(batches)
        read_s = time.monotonic() - began
        written = pipeline.close()
        writes.close()
        closed_s = time.monotonic() - began - read_s
    per_value = Counter(file.values for file in written.files)
    rows = sum(int(file.rows) for file in written.files)
    if rows != records or int(written.counts.written) != records:
        raise RuntimeError(f"{records} records became {rows} rows: {written.counts}")
    return {
        "values": len(per_value),
        "rows": rows,
        "files": len(written.files),
        "most_files_of_a_value": max(per_value.values()),
        "kept_peak_mib": round(memory.peak_bytes / _MIB, 1),
        "rss_before_mib": round(before_mib, 1),
        "rss_peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "read_s": round(read_s, 1),
        "close_s": round(closed_s, 1),
    }


def run_process(values: int, records: int, memory_mib: int) -> dict[str, float]:
    """The same in a process of its own, so that its peak is its own.

    Raises:
        RuntimeError: It failed, or was killed.
    """
    options = ("--values", values, "--records", records, "--memory-mib", memory_mib)
    done = subprocess.run(
        [sys.executable, "-m", "bench.many_values", "--worker", *map(str, options)],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the worker ended with {done.returncode}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Measure once and print it."""
    parser = argparse.ArgumentParser(prog="python -m bench.many_values")
    parser.add_argument("--values", type=int, default=10_000)
    parser.add_argument("--records", type=int, default=30 * FETCH)
    parser.add_argument("--memory-mib", type=int, default=512)
    parser.add_argument("--route", action="store_true", help="with Kafka, metastore and Spark")
    parser.add_argument("--again", type=int, default=500, help="values of a second epoch")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.route:
        route = RouteRun(given.values, given.records, given.memory_mib, given.again)
        print(json.dumps(run_route(route)))
        return 0
    run = run_worker if given.worker else run_process
    print(json.dumps(run(given.values, given.records, given.memory_mib)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
