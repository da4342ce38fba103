"""A keyed lake table of many rows: what a publish of a few changes costs, in time and in memory.

The publisher that ships, on a SQL catalog and local files; slots are put by hand, so no broker and
no Spark take part. First all rows are loaded in large slots, then slots of a few thousand changes
are published one after the other (updates, deletes, inserts of keys chosen at random over the
whole table), then a new driver publishes one more: its index of keys is cold. At the end the keys
of the table are compared with those that the changes leave.

Memory is what the process holds of its own (RssAnon), sampled; what is mapped from disk comes and
goes as the machine has room, and is told apart.

`python -m bench.keys [--rows 10000000] [--changes 3000] [--commits 20] [--key bigint]` tells what
it does on standard error and ends with one JSON line; 1 is the exit code when keys differ.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

# The table and its ledger belong to the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from sluiceway.sinks.lake_options import LakeOptions
from sluiceway.types.row_kinds import KIND_COLUMN, RowKind
from sluiceway.types.schema import Field, IntegerType, Schema, StringType
from sluiceway.types.strict_json import BigInt
from tools.lake_under_test import LakeUnderTest, PublisherUnderTest
from tools.ledger_records import data, span

SLOT_ROWS = 500_000
UPDATED, DELETED = 0.6, 0.8
_SAMPLE_S = 0.02
_TEXT_DIGITS = 36
Numbers = NDArray[np.int64]


@dataclass(slots=True)
class Outcome:
    """The closing figures.

    Attributes:
        cold_s: The first publish of a driver whose index is cold.
        index_mb: Of the cache of keys on disk.
        *_anon_mb: The most that the process held of its own in that phase.
        mapped_mb: What it had mapped from files at the end.
        wrong: Keys that are not what the changes leave.
    """

    rows: int = 0
    key: str = ""
    changes: int = 0
    commits: int = 0
    data_files: int = 0
    delete_files: int = 0
    load_s: float = 0.0
    publish_s: float = 0.0
    publish_cpu_s: float = 0.0
    publish_most_s: float = 0.0
    cold_s: float = 0.0
    cold_cpu_s: float = 0.0
    index_mb: int = 0
    begin_anon_mb: int = 0
    load_anon_mb: int = 0
    publish_anon_mb: int = 0
    cold_anon_mb: int = 0
    mapped_mb: int = 0
    wrong: int = 0


class WideLake(LakeUnderTest):
    """A table of the width that tables have, with a key of whole numbers or of text."""

    def __init__(self, folder: Path, *, text: bool) -> None:
        key = Field("k", StringType() if text else IntegerType(64))
        rest = [Field(name, StringType()) for name in ("name", "city", "note")]
        meta = (Field("_partition", IntegerType(32)), Field("_offset", IntegerType(64)))
        self.columns = Schema((key, *rest, *meta))
        self._text = text
        options = LakeOptions(
            publish_interval_s=0.0,
            key=("k",),
            offset_column="_offset",
            partition_column="_partition",
        )
        super().__init__(folder, options)

    def commit_changes(self, keys: Numbers, kinds: Numbers) -> None:
        """Commit changes as the next epoch."""
        start = int(self.writer.fold.sources["orders", 0].end)
        read = span(0, start, start + len(keys))
        body = data(self.writer.term, self.writer.fold.last_epoch + 1, read)
        file = replace(body.files[0], rows=BigInt(len(keys)))
        staged = self.staged(file, self._changes(keys, kinds, start), "a")
        self.writer.commit(replace(body, files=(staged,)))

    def key(self, numbers: Numbers) -> pa.Array:
        """Keys as the table has them."""
        found = pa.array(numbers)
        if not self._text:
            return found
        return pc.utf8_lpad(found.cast(pa.string()), _TEXT_DIGITS, "k")

    def _changes(self, keys: Numbers, kinds: Numbers, start: int) -> pa.RecordBatch:
        numbers = pa.array(keys)
        dead = pa.array(kinds == RowKind.DELETE)
        none = pa.scalar(None, pa.string())
        texts = pc.binary_join_element_wise("row", numbers.cast(pa.string()), " ")
        cities = pa.array(["Berlin", "Köln", "上海", "Lima"]).take(pa.array(keys % 4))
        columns = {
            "k": self.key(keys),
            "name": pc.if_else(dead, none, texts),
            "city": pc.if_else(dead, none, cities),
            "note": pc.if_else(dead, none, pa.scalar("some words that are alike")),
            "_partition": pa.array(np.zeros(len(keys), np.int32)),
            "_offset": pa.array(np.arange(start, start + len(keys))),
            KIND_COLUMN: pa.array(kinds.astype(np.int32)),
        }
        return pa.RecordBatch.from_pydict(columns)


class Memory:
    """Samples what this process holds."""

    def __init__(self) -> None:
        self._most_mb = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go, daemon=True)
        self._thread.start()

    @contextmanager
    def phase(self) -> Iterator[list[int]]:
        """The most that was held within the block, in a list of one, once it is over."""
        found = [0]
        self._most_mb = 0
        yield found
        found[0] = max(self._most_mb, held_mb("RssAnon"))

    def _go(self) -> None:
        while not self._over.wait(_SAMPLE_S):
            self._most_mb = max(self._most_mb, held_mb("RssAnon"))


def held_mb(name: str) -> int:
    """A figure of the process's status, in MB."""
    status = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in status if line.startswith(f"{name}:"))
    return int(line.split()[1]) // 1024


class Run:
    """One run, step by step."""

    def __init__(self, folder: Path, given: argparse.Namespace) -> None:
        self._given = given
        self._lake = WideLake(folder, text=given.key == "text")
        self._chance = np.random.default_rng(given.seed)
        self._memory = Memory()
        self._alive = np.zeros(given.rows * 2, np.bool_)
        self._next = 0
        self.outcome = Outcome(
            rows=given.rows, key=given.key, changes=given.changes, commits=given.commits
        )

    def go(self) -> None:
        """Load, change, begin anew, compare."""
        out = self.outcome
        out.begin_anon_mb = held_mb("RssAnon")
        publisher = self._lake.publisher()
        began_s = time.monotonic()
        with self._memory.phase() as found:
            while self._next < self._given.rows:
                keys = np.arange(self._next, min(self._next + SLOT_ROWS, self._given.rows))
                self._put(keys, np.full(len(keys), int(RowKind.IMAGE)))
                publisher.publish()
        out.load_s, out.load_anon_mb = round(time.monotonic() - began_s, 1), found[0]
        _tell(f"loaded: {asdict(out)}")
        times, cpu = [], []
        with self._memory.phase() as found:
            for number in range(self._given.commits):
                wall_s, cpu_s = self._publish_changes(publisher)
                # The first one looks at the last slots of the load, too.
                if number:
                    times.append(wall_s)
                    cpu.append(cpu_s)
        out.publish_s, out.publish_most_s = round(median(times), 3), round(max(times), 3)
        out.publish_cpu_s, out.publish_anon_mb = round(median(cpu), 3), found[0]
        cached = Path(tempfile.gettempdir()).glob("sluiceway-keys-*/*")
        sizes = [each.stat().st_size for each in cached]
        out.index_mb = sum(sizes) >> 20
        publisher.table.close()
        _tell(f"published: {asdict(out)}")
        with self._memory.phase() as found:
            wall_s, cpu_s = self._publish_changes(self._lake.publisher())
        out.cold_s, out.cold_cpu_s, out.cold_anon_mb = round(wall_s, 2), round(cpu_s, 2), found[0]
        out.mapped_mb = held_mb("RssFile")
        self._compare()

    def _publish_changes(self, publisher: PublisherUnderTest) -> tuple[float, float]:
        """Wall time and CPU of publishing a slot of changes."""
        count = self._given.changes
        kinds = self._chance.random(count)
        keys = self._chance.choice(np.flatnonzero(self._alive[: self._next]), count, replace=False)
        fresh = kinds >= DELETED
        keys[fresh] = np.arange(self._next, self._next + fresh.sum())
        dead = (kinds >= UPDATED) & ~fresh
        self._put(keys, np.where(dead, int(RowKind.DELETE), int(RowKind.IMAGE)))
        publisher.name_files()
        began = time.monotonic(), time.process_time()
        publisher.publish()
        return time.monotonic() - began[0], time.process_time() - began[1]

    def _put(self, keys: Numbers, kinds: Numbers) -> None:
        self._alive[keys] = kinds == RowKind.IMAGE
        self._next = max(self._next, int(keys.max()) + 1)
        self._lake.commit_changes(keys, kinds)

    def _compare(self) -> None:
        scan = self._lake.table().scan(selected_fields=("k",))
        tasks = list(scan.plan_files())
        self.outcome.data_files = len(tasks)
        self.outcome.delete_files = len({f.file_path for t in tasks for f in t.delete_files})
        found = scan.to_arrow()["k"]
        wanted = self._lake.key(np.flatnonzero(self._alive[: self._next]))
        there = pc.count_distinct(found).as_py()
        strange = len(found) - pc.sum(pc.is_in(found, value_set=wanted)).as_py()
        self.outcome.wrong = (len(found) - there) + abs(len(wanted) - there) + strange


def _tell(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Run once and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.keys")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--changes", type=int, default=3_000)
    parser.add_argument("--commits", type=int, default=20)
    parser.add_argument("--key", choices=("bigint", "text"), default="bigint")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, help="file that the line is added to")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluiceway-bench-") as folder:
        # Where the publisher's cache of keys goes, too, so that nobody else's is counted.
        tempfile.tempdir = folder
        run = Run(Path(folder), given)
        run.go()
    line = json.dumps(asdict(run.outcome))
    print(line)
    if given.results is not None:
        with given.results.open("a") as results:
            results.write(line + "\n")
    return int(run.outcome.wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
