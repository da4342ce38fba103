"""The Spark data source on a table that lies in an S3 store: batch, stream, lease, the page."""

import gc
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from pyspark_sluiceway import DefaultSource
from sluiceway.lab.lab import Lab
from sluiceway.lab.s3 import S3Endpoint
from tools import spark_query
from tools.chain_guide import SETTINGS, GuideCode
from tools.job_files import write_job
from tools.lab_fixture import TopicFactory
from tools.route_runs import RouteRun
from tools.rows_on_disk import RowsOnDisk, rows_on_disk
from tools.s3_gateway import s3_gateway
from tools.stores_under_test import S3UnderTest
from tools.topic_writer import TopicWriter

EIGHT = "dt=20261120/hr=08"
NUMBERS = StructType([StructField("ts", LongType())])
LOCATION = 'location: "file://{}"'


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RowsOnDisk]:
    """A table whose files lie below a bucket's folder, and a job file that says so."""
    folder = tmp_path / "data" / "lake"
    folder.mkdir(parents=True)
    made = rows_on_disk(folder)
    secret = tmp_path / "secret"
    secret.write_text("s" * 40)
    like = S3Endpoint("", "me", "s" * 40, secret, "lake", folder)
    with s3_gateway(like, folder.parent) as endpoint:
        store = S3UnderTest(endpoint)
        for name, value in store.environment().items():
            monkeypatch.setenv(name, value)
        text = made.table.job.read_text()
        text = text.replace("connections:\n", f"connections:\n{store.connection()}\n")
        place = LOCATION.format(folder / "t")
        assert place in text
        text = text.replace(place, f'location: "{store.root}/t", storage: lake')
        made.table.job.write_text(text)
        yield made


def _numbers(reader: Any, partitions: Any) -> list[int]:
    found = (batch for each in partitions for batch in reader.read(each))
    return sorted(row["ts"] for batch in found for row in batch.to_pylist())


def test_batch_and_stream_read_from_the_store_and_the_lease_lies_there(table: RowsOnDisk) -> None:
    first = table.add(EIGHT)
    table.add(EIGHT)
    table.merge(EIGHT, 3)
    asked = {"job": str(table.table.job), "columns": "ts"}
    batch = DefaultSource({**asked, "asOf": f"slot:{first}"}).reader(NUMBERS)
    assert _numbers(batch, batch.partitions()) == [0, 1, 2, 3]
    stream = DefaultSource(asked).streamReader(NUMBERS)
    try:
        end = stream.latestOffset()
        start = stream.initialOffset()
        copy = DefaultSource(asked).streamReader(NUMBERS)
        assert _numbers(copy, stream.partitions(start, end)) == list(range(8))
        stream.commit(end)
    finally:
        stream.stop()
    assert (table.root / "_sluiceway/orders/readers/spark-orders.json").is_file()


@pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
)
def test_python_of_the_page_works_as_written_on_the_store(
    lab: Lab,
    s3: S3Endpoint,
    new_topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, topic, ends = S3UnderTest(s3), new_topic(), lab.endpoints()
    for name, value in store.environment().items():
        monkeypatch.setenv(name, value)
    job = write_job(
        tmp_path,
        bootstrap_servers=ends.bootstrap_servers,
        metastore_uri=ends.metastore_uri,
        topic=topic,
        connections=store.connection(),
        hive=f', storage: lake, location: "{store.root}/warehouse/{topic}"',
        **SETTINGS,
    )
    write = partial(TopicWriter(ends.bootstrap_servers).write, topic, partition=0)
    out = f"{store.root}/{topic}"
    spark = spark_query.session("guide", f"{out}/lake", store.spark_settings(lab))
    try:
        guide = GuideCode(spark, RouteRun(job), write, out)
        guide.check()
        assert guide.written == 45
    finally:
        spark.stop()
        gc.collect()
