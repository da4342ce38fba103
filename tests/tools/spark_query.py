"""A streaming query over a table, in a process that may be killed at any moment.

Started as `python -m tools.spark_query JOB FOLDER CONTENT ROWS`. Rows go to `FOLDER/rows`, and
`FOLDER/checkpoint` is the checkpoint. Content `rows` is written by the file sink of Spark. Of
`files` each batch is written to a folder of its own, again where the batch comes again.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluiceway.driver.spark.session import start_session
from sluiceway.host.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "ts bigint, app string, dt string, hr string"
_CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
}


def session(name: str = "query") -> "SparkSession":
    """A session of a user's own."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    found, _ = start_session(name, "local[2]", _CONF, find_java())
    return found


def begin(spark: "SparkSession", job: Path, folder: Path, content: str, most: str) -> Any:
    """Start the query."""
    reads = spark.readStream.format("sluiceway").option("job", str(job)).option("query", content)
    reads = reads.option("maxRowsPerTrigger", most).option("content", content)
    writes = reads.load().writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    writes = writes.trigger(processingTime="300 milliseconds")
    if content == "rows":
        return writes.format("parquet").option("path", str(folder / "rows")).start()

    def write(spans: "DataFrame", number: int) -> None:
        from pyspark_sluiceway import read_spans  # noqa: PLC0415 - on the driver, by its name

        rows = read_spans(spans, SCHEMA)
        rows.coalesce(1).write.mode("overwrite").parquet(str(folder / f"rows/batch={number}"))

    return writes.foreachBatch(write).start()


class QueryProcess:
    """The query in a process group of its own: driver, JVM and workers.

    Args:
        job: Of the table.
        folder: Of output, checkpoint and log.
        content: `rows` or `files`.
        most: Rows a batch.
    """

    def __init__(self, job: Path, folder: Path, content: str, most: int = 40) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = (folder / "query.log").open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tools.spark_query", str(job), str(folder), content, str(most)],
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,
        )

    def alive(self) -> bool:
        """Whether the query goes on."""
        return self._process.poll() is None

    def wait(self, patience_s: float = 600.0) -> None:
        """Wait until it has ended by itself."""
        self._process.wait(patience_s)

    def kill(self) -> None:
        """End all of it at once. Safe to repeat."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()


def main() -> None:
    """Run until the query ends: killed, or by an error of its own."""
    job, folder, content, most = sys.argv[1:]
    spark = session()
    query = begin(spark, Path(job), Path(folder), content, most)
    while query.isActive:
        time.sleep(0.2)
    sys.stderr.write(f"{query.exception()}\n")


if __name__ == "__main__":
    main()
