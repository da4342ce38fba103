"""The Python of the page of chains, run in one session as a notebook would, on a table of a job.

`python -m tools.chain_guide JOB TABLE SERVERS TOPIC OUT` is a process of its own: a JVM that has
run before takes no further jars. It prints how many rows it wrote to the topic.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sluiceway.ledger.partition_records import ReadyRecord
from sluiceway.ledger.records import DataRecord
from tools import spark_query
from tools.job_files import COLUMNS, JobFile, event
from tools.page_commands import blocks_of
from tools.route_runs import RouteRun
from tools.spark_query import LAKE_TABLE
from tools.topic_writer import TopicWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = "guides/chains.md"
EIGHT_MS, HOUR_MS = 1_795_161_600_000, 3_600_000
HOUR = "dt=20261120/hr=08"
SETTINGS = {
    "columns": COLUMNS.replace("18,2", "12,2"),
    "event_time": "{field: ts, unit: ms, out_of_orderness: 0s, idle_after: 30d}",
    "ready": "{}",
    # Iceberg keeps the name `_partition` for itself.
    "meta": "[offset]",
}
"""Of the job: as the page's table."""


def code(*marks: str) -> str:
    """The one Python block of the page that has all of these."""
    (found,) = [each for each in blocks_of(PAGE, "python") if all(mark in each for mark in marks)]
    return found


class GuideCode:
    """Runs blocks of the page.

    Args:
        spark: The session.
        run: The job, without rows so far.
        write: Puts rows into its topic.
        out: Folder for what the blocks write.
    """

    def __init__(
        self,
        spark: "SparkSession",
        run: RouteRun,
        write: Callable[[Sequence[bytes]], None],
        out: str,
    ) -> None:
        self._spark, self._run, self._write, self._out = spark, run, write, out
        self.written = 0

    def check(self) -> None:
        """Every block does what the page says, the streams also over two starts."""
        slot = self._fill(20)
        before = self.written
        self._fill(5, hours=3)
        self._check_batches(slot, before)
        for _ in range(2):
            self._streams()
            self._fill(10, hours=3)
        self._streams()

    def _fill(self, count: int, hours: int = 0) -> int:
        """Rows of an hour, counted from the first one; the slot that has them."""
        numbers = range(self.written, self.written + count)
        self._write([event(n, ts_ms=EIGHT_MS + hours * HOUR_MS) for n in numbers])
        self.written += count
        self._run.catch_up()
        return max(each.seq for each in self._run.records() if isinstance(each.body, DataRecord))

    def _run_block(self, block: str, out: str, **names: object) -> dict[str, object]:
        names["spark"] = self._spark
        for old, new in (
            ('"orders.yaml"', repr(str(self._run.job.path))),
            ("/warehouse", f"{self._out}/{out}"),
            ("dt=20261128/hr=08", HOUR),
        ):
            block = block.replace(old, new)
        exec(block, names)  # noqa: S102 - the page is ours
        for query in self._spark.streams.active:
            query.processAllAvailable()
            query.stop()
        return names

    def _check_batches(self, slot: int, rows: int) -> None:
        batch = code("asOf").replace("slot:1204", f"slot:{slot}")
        found = self._run_block(batch, "batch")["orders"]
        assert found.count() == rows  # type: ignore[attr-defined]
        announced = [
            each.body for each in self._run.records() if isinstance(each.body, ReadyRecord)
        ]
        assert [(each.prefix, int(each.rows)) for each in announced][:1] == [(HOUR, rows)]
        self._run_block(code('option("ready"'), "hour")
        hour = self._spark.read.parquet(f"{self._out}/hour/hourly/{HOUR}")
        assert sorted(row.id for row in hour.collect()) == list(range(rows))

    def _streams(self) -> None:
        wanted = list(range(self.written))
        self._run_block(code("maxRowsPerTrigger"), "rows")
        self._run_block(code("read_spans"), "spans")
        for folder in ("rows", "spans"):
            found = self._spark.read.parquet(f"{self._out}/{folder}/refined")
            assert sorted(row.id for row in found.collect()) == wanted, folder
        reads = self._spark.readStream.format("sluiceway").option("query", "lake")
        stream = reads.option("job", str(self._run.job.path)).load()
        block = code("toTable").replace("lake.db.refined", LAKE_TABLE)
        self._run_block(block, "lake", stream=stream)
        table = self._spark.read.table(LAKE_TABLE)
        assert sorted(row.id for row in table.collect()) == wanted


def main() -> int:
    """Run all blocks."""
    job, table, servers, topic, out = sys.argv[1:]
    write = partial(TopicWriter(servers).write, topic, partition=0)
    spark = spark_query.session("guide", f"{out}/lake")
    try:
        guide = GuideCode(spark, RouteRun(JobFile(Path(job), table)), write, out)
        guide.check()
    finally:
        spark.stop()
    sys.stdout.write(f"{guide.written}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
