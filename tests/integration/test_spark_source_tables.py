"""The Spark data source on tables that the engine has filled, merged and let go of."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql.types import (
    DecimalType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

import sluiceway
from pyspark_sluiceway import DefaultSource
from sluiceway.cli.app import run_command
from sluiceway.errors import RowsLetGoError
from sluiceway.ledger.records import RecordType
from tools.job_files import event
from tools.route_faults import NewRun
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

pytestmark = pytest.mark.slow

COLUMNS = {
    "_offset": LongType(),
    "_timestamp": TimestampType(),
    "amount": DecimalType(18, 2),
    "hr": StringType(),
}
SCHEMA = StructType([StructField(name, kind) for name, kind in COLUMNS.items()])


@dataclass
class Reads:
    """Reads the table of a run as Spark does, without its JVM."""

    run: RouteRun

    def __call__(self, **options: str) -> list[dict[str, Any]]:
        given = {"job": str(self.run.job.path), "columns": ", ".join(COLUMNS), **options}
        reader = DefaultSource(given).reader(SCHEMA)
        batches = (batch for each in reader.partitions() for batch in reader.read(each))
        rows = [row for batch in batches for row in batch.to_pylist()]
        return sorted(rows, key=lambda row: row["_offset"])


@pytest.fixture
def filled(new_run: NewRun, writer: TopicWriter) -> Callable[[], tuple[RouteRun, list[int]]]:
    """Makes a table of four commits with ten rows each; their slots."""

    def make() -> tuple[RouteRun, list[int]]:
        run, topic = new_run()
        for start in range(0, 40, 10):
            writer.write(topic, [event(n) for n in range(start, start + 10)], partition=0)
            run.catch_up()
        records = run.records()
        return run, [each.seq for each in records if each.type is RecordType.DATA]

    return make


def test_rows_of_a_slot_are_the_same_before_and_after_the_engine_has_merged_the_files(
    filled: Callable[[], tuple[RouteRun, list[int]]], capsys: pytest.CaptureFixture[str]
) -> None:
    run, slots = filled()
    read = Reads(run)
    before = [read(asOf=f"slot:{slot}") for slot in slots]
    assert [len(rows) for rows in before] == [10, 20, 30, 40]
    assert [row["_offset"] for row in before[1]] == list(range(20))
    assert str(before[0][3]["amount"]) == "3.25"
    assert {row["hr"] for row in before[3]} == {"08"}
    schema = DefaultSource({"job": str(run.job.path)}).schema().simpleString()
    assert schema.endswith("dt:string,hr:string>")
    assert "amount:decimal(18,2)" in schema
    assert run_command(["compact", str(run.job.path), "dt=20261120"]) == 0
    assert RecordType.REPLACE in {each.type for each in run.records()}
    assert [read(asOf=f"slot:{slot}") for slot in slots] == before
    point = sluiceway.read_at(run.job.path, slot=slots[1])
    assert [(each.first_row, each.rows) for each in point.files] == [(0, 20)]
    (ends,) = point.spark_offsets.values()
    assert ends["0"] == 20
    run.assert_verified()


def test_partition_that_an_operator_let_go_of_is_named(
    filled: Callable[[], tuple[RouteRun, list[int]]], capsys: pytest.CaptureFixture[str]
) -> None:
    run, slots = filled()
    reads = {"job": str(run.job.path), "columns": "_offset"}
    stream = DefaultSource(reads).streamReader(SCHEMA)
    try:
        end, start = stream.latestOffset(), stream.initialOffset()
        assert len(stream.partitions(start, end)) == 1
        command = ["partitions", "forget", str(run.job.path), "dt=20261120", "--reason", "a test"]
        assert run_command([*command, "--yes"]) == 0
        with pytest.raises(RowsLetGoError, match="a test"):
            stream.partitions(start, end)
    finally:
        stream.stop()
    with pytest.raises(RowsLetGoError, match=r"dt=20261120/hr=08"):
        Reads(run)(asOf=f"slot:{slots[0]}")
    assert Reads(run)() == []
    run.assert_verified()
