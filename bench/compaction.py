"""What compaction costs: the files of an hour of epochs, written by the worker, then merged.

Each epoch is one task that decodes, routes and writes standard events of one hour, in this
process, from memory: its CPU is that of the pipeline without broker, driver and JVM, so that the
share that is told is the largest it can be. The merging is that of a driver, in a process of its
own. DuckDB, which the product does not use, compares the rows on both sides, each with all of its
columns.

`python -m bench.compaction --epochs 360 --records 2000` prints one JSON line. `cpu_share` is CPU
of the merging by that of the pipeline.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from uuid import uuid4

import duckdb

from bench.worker_cost import TOPIC, rows_of, task_plan
from bench.workloads import Workload, workload_events
from sluiceway.errors import SluicewayError
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.places import intent_folder
from sluiceway.sources.contract import SourcePartition
from sluiceway.storage.contract import Storage
from sluiceway.storage.registry import open_storage
from sluiceway.upkeep.compaction_choice import ideal_files
from sluiceway.upkeep.rewriting import WorkRewriter
from sluiceway.worker.pipeline import RowPipeline
from sluiceway.worker.plan import FileRules, TaskPlan
from sluiceway.worker.write_behind import WriteBehind

_SLICES = 8


@dataclass(frozen=True, slots=True)
class Hour:
    """The files of an hour's epochs, at their final names.

    Attributes:
        cpu_s: Of the pipeline that has written them.
    """

    storage: Storage
    layout: LedgerLayout
    plan: TaskPlan
    files: tuple[FileRecord, ...]
    cpu_s: float


def write_hour(root: Path, epochs: int, records: int) -> Hour:
    """Run so many epochs of so many records each into one partition.

    Raises:
        RuntimeError: A record was not written.
    """
    workload = Workload(hours=1)
    plan = task_plan(root, workload)
    storage, _ = open_storage(plan.route.layout.table_root)
    layout = plan.route.layout
    storage.make_folders(layout.stage)
    events = (payload for _, payload in workload_events(workload, epochs * records))
    files: list[FileRecord] = []
    cpu_s, first = 0.0, 0
    for epoch in range(epochs):
        payloads = list(islice(events, records))
        task = replace(plan, epoch=epoch)
        batches = [rows_of(payloads, 0, first).batch(0, SourcePartition(TOPIC, 0))]
        first += records
        began_s = time.process_time()
        writes = WriteBehind()
        pipeline = RowPipeline(task, storage, writes.lane())
        pipeline.write(batches)
        written = pipeline.close()
        writes.close()
        cpu_s += time.process_time() - began_s
        if written.counts.written != records:
            raise RuntimeError(f"{records} records became {written.counts}")
        files += written.files
    for file in files:
        storage.publish(
            layout.attempt(file.staged),
            layout.final(file.final),
            size_bytes=int(file.size_bytes),
            crc32c=file.crc32c,
        )
    return Hour(storage, layout, plan, tuple(files), cpu_s)


def measure(root: Path, epochs: int, records: int, target_bytes: int) -> dict[str, object]:
    """Write an hour, merge its files, compare all rows.

    Raises:
        RuntimeError: A record was not written.
        SluicewayError: The files could not be merged.
    """
    hour = write_hour(root, epochs, records)
    folder = hour.layout.attempt(intent_folder(1, uuid4().hex))
    hour.storage.make_folders(folder)
    rewriter = WorkRewriter(hour.layout, hour.plan.route.files, FileRules(target_bytes))
    began_s = time.monotonic()
    (made,) = rewriter.rewrite([(folder, hour.files)], until=None)
    if isinstance(made, SluicewayError):
        raise made
    wall_s = time.monotonic() - began_s
    before = [Path(hour.layout.final(file.final)) for file in hour.files]
    after = [Path(hour.layout.attempt(file.staged)) for file in made.files]
    size_before = sum(int(file.size_bytes) for file in hour.files)
    size_after = sum(int(file.size_bytes) for file in made.files)
    return {
        "epochs": epochs,
        "records": epochs * records,
        "files_before": len(before),
        "files_after": len(after),
        "most_files": ideal_files(size_after, target_bytes) + 1,
        "bytes_before": size_before,
        "bytes_after": size_after,
        "pipeline_cpu_s": round(hour.cpu_s, 2),
        "compaction_cpu_s": round(made.cpu_s, 2),
        "compaction_wall_s": round(wall_s, 2),
        "cpu_share": round(made.cpu_s / hour.cpu_s, 3),
        "rows": epochs * records,
        "rows_unequal": rows_unequal(before, after),
    }


def rows_unequal(before: Sequence[Path], after: Sequence[Path]) -> int:
    """Rows, with all their columns, that only one side has, or has more often."""
    names = [[str(path) for path in paths] for paths in (before, after)]
    found = 0
    for number in range(_SLICES):
        sides = [_slice(paths, number) for paths in names]
        for one, other in (sides, sides[::-1]):
            query = f"SELECT count(*) FROM ({one} EXCEPT ALL {other})"  # noqa: S608
            ((count,),) = duckdb.execute(query).fetchall()
            found += int(count)
    return found


def _slice(paths: Sequence[str], number: int) -> str:
    listed = ", ".join(f"'{path}'" for path in paths)
    return (
        f"SELECT * FROM read_parquet([{listed}], hive_partitioning=false) "  # noqa: S608
        f'WHERE "offset" % {_SLICES} = {number}'
    )


def _numbers(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("expected a number of at least 1")
    return number


def _arguments(words: Sequence[str] | None) -> Iterator[int]:
    parser = argparse.ArgumentParser(prog="python -m bench.compaction")
    parser.add_argument("--epochs", type=_numbers, default=360)
    parser.add_argument("--records", type=_numbers, default=2_000, help="of each epoch")
    parser.add_argument("--target-bytes", type=_numbers, default=128 << 20)
    given = parser.parse_args(words)
    yield from (given.epochs, given.records, given.target_bytes)


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print; 1 when a row is another or there are too many files."""
    epochs, records, target_bytes = _arguments(words)
    with tempfile.TemporaryDirectory(prefix="bench-compaction-") as folder:
        found = measure(Path(folder), epochs, records, target_bytes)
    print(json.dumps(found))
    few = int(str(found["files_after"])) <= int(str(found["most_files"]))
    return 0 if few and found["rows_unequal"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
