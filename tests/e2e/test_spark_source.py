"""The data source `sluiceway` in a real Spark: batches, and a stream that is killed."""

import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_sluiceway import read_spans
from tools import spark_query
from tools.rows_on_disk import RowsOnDisk, rows_on_disk
from tools.spark_query import SCHEMA, QueryProcess

pytestmark = [
    pytest.mark.slow,
    # Py4J leaves the connections of threads that have ended to the collector.
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
    ),
]

SEVEN, EIGHT = "dt=20261120/hr=07", "dt=20261120/hr=08"
PATIENCE_S = 300.0


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = spark_query.session("batches")
    yield session
    session.stop()
    gc.collect()


@pytest.fixture
def table(tmp_path: Path) -> RowsOnDisk:
    return rows_on_disk(tmp_path)


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.2)


def numbers_in(folder: Path) -> list[int]:
    """What a query of content `files` has written."""
    files = [path for path in folder.rglob("*.parquet") if "_temporary" not in path.parts]
    return sorted(row for path in files for row in pq.read_table(path)["ts"].to_pylist())


def test_batch_as_of_a_slot_is_the_same_after_compaction(
    spark: SparkSession, table: RowsOnDisk
) -> None:
    first = table.add(SEVEN, EIGHT)
    table.add(EIGHT, EIGHT)
    table.merge(EIGHT, 5)
    reads = spark.read.format("sluiceway").option("job", str(table.table.job))
    then = reads.option("asOf", f"slot:{first}").load()
    assert then.schema.simpleString() == "struct<ts:bigint,app:string,dt:string,hr:string>"
    assert sorted((row.ts, row.hr) for row in then.collect()) == [
        *((n, "07") for n in range(4)),
        *((n, "08") for n in range(4, 8)),
    ]
    assert then.where("hr = '08'").count() == 4
    meta = reads.option("meta", "true").option("columns", "ts").load()
    assert all(row.ts == row._sw_place for row in meta.where(f"_sw_slot <= {first}").collect())
    spans = reads.option("content", "files").option("columns", "").load()
    by_spark = read_spans(spans, SCHEMA)
    assert sorted((row.ts, row.hr) for row in by_spark.collect()) == sorted(
        (row.ts, row.hr) for row in then.collect()
    )
    with pytest.raises(PySparkException, match=r"slot 999 is not published"):
        reads.option("asOf", "slot:999").load().collect()


@pytest.mark.parametrize("content", ["rows", "files"])
def test_stream_that_is_killed_has_every_row_once(
    table: RowsOnDisk, tmp_path: Path, content: str, spark: SparkSession
) -> None:
    out = tmp_path / "out"

    def rows() -> list[int]:
        if content == "files" or not (out / "rows/_spark_metadata").exists():
            return numbers_in(out / "rows")
        found = spark.read.schema("ts bigint").parquet(str(out / "rows"))
        return sorted(row.ts for row in found.collect())

    table.add(SEVEN, EIGHT)
    query = QueryProcess(table.table.job, out, content)
    try:
        wait_for(lambda: len(rows()) >= 8 or not query.alive())
        for _ in range(10):
            table.add(EIGHT, rows=7)
        wait_for(lambda: len(rows()) >= 40 or not query.alive())
        assert query.alive(), (out / "query.log").read_text()[-2000:]
        query.kill()
        table.merge(EIGHT, 9)
        table.add(SEVEN, rows=5)
        query = QueryProcess(table.table.job, out, content)
        wait_for(lambda: len(rows()) >= table.written or not query.alive())
        assert query.alive(), (out / "query.log").read_text()[-2000:]
    finally:
        query.kill()
    assert rows() == list(range(table.written))


def test_second_query_of_a_name_ends_and_the_first_may_be_stopped_and_started_again(
    spark: SparkSession, table: RowsOnDisk, tmp_path: Path
) -> None:
    table.add(SEVEN, EIGHT)
    job = table.table.job
    first = spark_query.begin(spark, job, tmp_path / "out", "rows", "40")
    wait_for((tmp_path / "out/checkpoint/commits/0").exists)
    second = spark_query.begin(spark, job, tmp_path / "other", "rows", "40")
    wait_for(lambda: not second.isActive)
    assert "another query reads the table under the name `rows`" in str(second.exception())
    assert first.isActive
    first.stop()
    table.add(SEVEN)
    again = spark_query.begin(spark, job, tmp_path / "out", "rows", "40")
    wait_for(lambda: (tmp_path / "out/checkpoint/commits/1").exists() or not again.isActive)
    assert again.isActive, str(again.exception())
    again.stop()
    found = spark.read.schema("ts bigint").parquet(str(tmp_path / "out/rows"))
    assert sorted(row.ts for row in found.collect()) == list(range(table.written))
