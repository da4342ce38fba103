"""`make proofs NAME=spark-source`: a stream of the data source under compaction and kills.

A writer adds rows to a table and merges its files at the same time. Replaced files go at once where
no lease needs them, without the hour's grace that a driver gives. Every other kill takes the whole
query with its JVM, the others only the Python process of its source; the next run goes on from the
checkpoint. In the end each row has to be in the Iceberg table once, and a batch at a random slot
has to have the rows of that slot. A kill costs the start of a query and one batch.
"""

import argparse
import json
import math
import os
import random
import signal
import sys
import tempfile
import threading
import time
from bisect import bisect_right
from collections import Counter
from pathlib import Path

from sluiceway.ledger.reader_leases import ReaderLease, read_reader_lease
from tools import spark_query
from tools.rows_on_disk import RowsOnDisk, rows_on_disk
from tools.spark_query import ENDED, QueryProcess

HOURS = tuple(f"dt=20261120/hr={hour:02}" for hour in range(6))
CONTENT = spark_query.ICEBERG
_MOST_ROWS = 500
_PATIENCE_S = 600.0


class Writer:
    """Fills and merges a table in a thread.

    Attributes:
        slots: Of the commits.
        rows: In the table after each of them.
        merges: How many partitions were merged.
    """

    def __init__(self, table: RowsOnDisk, seed: int) -> None:
        self._table = table
        self._random = random.Random(seed)  # noqa: S311 - a reproducible order
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.slots: list[int] = []
        self.rows: list[int] = []
        self.merges = 0
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; raises what the thread has met."""
        self._stop.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.4):
                chosen = self._random.sample(HOURS, self._random.randint(1, 3))
                self.slots.append(self._table.add(*chosen, rows=self._random.randint(1, 9)))
                self.rows.append(self._table.written)
                known = sorted(self._table.table.writer.fold.partitions)
                if self._random.random() < 0.5:
                    name = self._random.choice(known)
                    self._table.merge(name, self._random.randint(5, 200))
                    self.merges += 1
        except BaseException as error:  # noqa: BLE001 - `stop` raises it
            self.failure = error


class Proof:
    """One run.

    Args:
        folder: For table, sink and checkpoint.
        seed: Of all choices.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._table = rows_on_disk(folder)
        self._out = folder / "out"
        self._random = random.Random(seed)  # noqa: S311 - a reproducible order
        self.writer = Writer(self._table, seed)
        self.source_kills = 0

    def stream(self, kills: int, minutes: float) -> int:
        """Have the query killed, then let it end what there is; the number of kills.

        Args:
            kills: How often.
            minutes: No kill begins later.
        """
        self.writer.start()
        until, killed = time.monotonic() + 60 * minutes, 0
        query = self._started()
        try:
            while killed < kills and time.monotonic() < until:
                self._progressed(query)
                time.sleep(self._random.uniform(0.0, 1.0))
                lease = self._lease()
                if killed % 2 and lease is not None:
                    os.kill(lease.pid, signal.SIGKILL)
                    self.source_kills += 1
                else:
                    query.kill()
                    query = self._started()
                killed += 1
                sys.stderr.write(f"kill {killed} of {kills}, {self._table.written} rows\n")
            self.writer.stop()
            last = self._table.table.writer.fold.next_seq - 1
            end = time.monotonic() + _PATIENCE_S
            while (lease := self._lease()) is None or lease.slot < last:
                assert time.monotonic() < end, f"the query does not end: {query.tail()}"
                time.sleep(0.1)
        finally:
            query.kill()
        return killed

    def _started(self) -> QueryProcess:
        return QueryProcess(self._table.table.job, self._out, CONTENT, _MOST_ROWS)

    def _progressed(self, query: QueryProcess) -> None:
        """Wait for one more batch."""
        wanted = self._batches() + 1
        end = time.monotonic() + _PATIENCE_S
        while self._batches() < wanted:
            assert time.monotonic() < end, f"the query makes no batches: {query.tail()}"
            time.sleep(0.05)

    def ended_by_itself(self) -> int:
        """How often the query has ended though its source was not killed."""
        ends = (self._out / "query.log").read_text().count(ENDED)
        return max(ends - self.source_kills, 0)

    def _batches(self) -> int:
        names = (each.name for each in (self._out / "checkpoint/commits").glob("[0-9]*"))
        return max((int(name) + 1 for name in names if name.isdigit()), default=0)

    def _lease(self) -> ReaderLease | None:
        log = self._table.table.log
        return read_reader_lease(log.storage, log.layout.reader(CONTENT))

    def verdict(self, points: int) -> tuple[dict[str, int], dict[str, int]]:
        """Rows of the sink, and of batches at random slots, against what was written."""
        spark = spark_query.session("proof", self._out / "lake")
        try:
            sink = spark.read.table(spark_query.LAKE_TABLE).select("ts").collect()
            found = Counter(row.ts for row in sink)
            lost = sum(1 for number in range(self._table.written) if number not in found)
            doubled = sum(count - 1 for count in found.values())
            differ = 0
            for _ in range(points):
                slot = self._random.randint(0, self._table.table.writer.fold.next_seq - 1)
                at = bisect_right(self.writer.slots, slot)
                wanted = range(self.writer.rows[at - 1] if at else 0)
                reads = spark.read.format("sluiceway").option("job", str(self._table.table.job))
                rows = reads.option("asOf", f"slot:{slot}").load().select("ts").collect()
                differ += sorted(row.ts for row in rows) != list(wanted)
        finally:
            spark.stop()
        return {"lost": lost, "doubled": doubled}, {"points": points, "differ": differ}


def main() -> None:
    """Run it; one closing line of JSON for the stream, and one for the batches."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=math.inf, help="for kills")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        proof = Proof(Path(folder), asked.seed)
        kills = proof.stream(asked.kills, asked.minutes)
        stream, batches = proof.verdict(asked.points)
        rows, merges = proof.writer.rows[-1], proof.writer.merges
        ended = proof.ended_by_itself()
    told = {"rows": rows, "merges": merges, "ended_by_itself": ended}
    print(json.dumps(told))
    print(json.dumps({**stream, "kills": kills}))
    print(json.dumps(batches))
    sys.exit(int(any((stream["lost"], stream["doubled"], batches["differ"]))))


if __name__ == "__main__":
    main()
