"""A streaming query over a table, in a process that may be killed at any moment.

Started as `python -m tools.spark_query JOB FOLDER CONTENT ROWS`. Rows go to `FOLDER/rows`, and
`FOLDER/checkpoint` is the checkpoint. Content `rows` is written by the file sink of Spark. Of
`files` each batch is written to a folder of its own, again where the batch comes again. Rows of
content `iceberg` go to the Iceberg table `lake.db.rows` in `FOLDER/lake`; that query is started
again in the same session when it ends.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluiceway.driver.spark.session import start_session
from sluiceway.host.java import find_java
from sluiceway.lab.jars import PinnedJar, default_cache_folder, ensure_jars, jars_folder
from sluiceway.lab.support import ignore_progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ICEBERG, LAKE_TABLE = "iceberg", "lake.db.rows"
ENDED = "the query has ended: "
SCHEMA = "ts bigint, app string, dt string, hr string"
_ICEBERG_JARS = Path(__file__).resolve().parents[2] / "bench" / "iceberg_spark_jars.json"
_CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
}


def session(
    name: str = "query", lake: Path | str | None = None, more: Mapping[str, str] | None = None
) -> "SparkSession":
    """A session of a user's own, with the Iceberg catalog `lake` in a folder where one is given.

    Args:
        name: Of the application.
        lake: The folder.
        more: Settings of a store.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = {} if lake is None else lake_conf(type="hadoop", warehouse=str(lake))
    for key, value in (more or {}).items():
        conf[key] = f"{conf[key]},{value}" if key in conf else value
    found, _ = start_session(name, "local[2]", {**_CONF, **conf}, find_java())
    return found


def lake_conf(**catalog: str) -> dict[str, str]:
    """Settings of a session with the Iceberg catalog `lake`."""
    pins = tuple(PinnedJar(**pin) for pin in json.loads(_ICEBERG_JARS.read_text())["jars"])
    jars = jars_folder(default_cache_folder(os.environ), "iceberg-spark-1.12.0", pins)
    ensure_jars(jars, pins, java=find_java(), on_progress=ignore_progress)
    return {
        "spark.jars": str(jars / pins[0].file_name),
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        **{f"spark.sql.catalog.lake.{key}": value for key, value in catalog.items()},
    }


def begin(spark: "SparkSession", job: Path, folder: Path, content: str, most: str) -> Any:
    """Start the query."""
    reads = spark.readStream.format("sluiceway").option("job", str(job)).option("query", content)
    reads = reads.option("maxRowsPerTrigger", most)
    reads = reads.option("content", "files" if content == "files" else "rows")
    writes = reads.load().writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    writes = writes.trigger(processingTime="300 milliseconds")
    if content == "rows":
        return writes.format("parquet").option("path", str(folder / "rows")).start()

    if content == ICEBERG:
        spark.sql(f"CREATE TABLE IF NOT EXISTS {LAKE_TABLE} ({SCHEMA}) USING iceberg")
        return writes.format("iceberg").toTable(LAKE_TABLE)

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
        content: `rows`, `files` or `iceberg`.
        most: Rows a batch.
    """

    def __init__(self, job: Path, folder: Path, content: str, most: int = 40) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "query.log"
        self._log = self._path.open("ab")
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

    def tail(self) -> str:
        """The end of its log."""
        return self._path.read_text()[-3000:]

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
    spark = session(lake=Path(folder) / "lake" if content == ICEBERG else None)
    while True:
        query = begin(spark, Path(job), Path(folder), content, most)
        while query.isActive:
            time.sleep(0.1)
        sys.stderr.write(f"{ENDED}{query.exception()}\n")
        if content != ICEBERG:
            return


if __name__ == "__main__":
    main()
