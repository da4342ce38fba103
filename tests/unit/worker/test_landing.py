"""Landed rows, and what a task of the SQL's job makes of them: every record counted once."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.jobfile.blocks.transform import SqlPlaces
from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.ledger.records import RowCounts
from sluiceway.schedule.sql_engine import SqlDataError, SqlJob
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.storage.registry import open_storage
from sluiceway.types.schema import Field, IntegerType, Schema, StringType
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.landing import AT, HIDDEN
from sluiceway.worker.pipeline import RowPipeline, Written
from sluiceway.worker.plan import (
    LatePolicy,
    LateRule,
    PartitionRule,
    PlannedMetaColumn,
    TaskPlan,
    TaskResult,
)
from sluiceway.worker.sql_task import CARRIED, SqlTask, reject_records, whole_records
from sluiceway.worker.write_behind import WriteBehind
from tools.small_task import AT_NOON, HOUR_US, NOW_US, SCHEMA, MadeBatch, made_batch, route_plan
from tools.sql_in_memory import Made, PythonSql, Row

MADE = Schema((Field("id", IntegerType(64)), Field("part", StringType())))
RULE = SqlRule("SELECT 1", "UTC", (), (), of_table=False, places=SqlPlaces())


def land(
    root: Path, reads: Sequence[Sequence[MadeBatch]], *, splits: int = 1, **route: object
) -> tuple[SqlTask, Written]:
    """Land what reads return, as one task."""
    plan = route_plan(str(root), sql=MADE, **route)  # type: ignore[arg-type]
    storage, _ = open_storage(str(root))
    storage.make_folders(plan.layout.stage)
    asked = tuple(Split(SourcePartition("orders", number), 0, None) for number in range(splits))
    task = TaskPlan(plan, 1, 2, asked, 600.0, AT_NOON)
    writes = WriteBehind()
    pipeline = RowPipeline(task, storage, writes.lane())
    for batches in reads:
        pipeline.write(batches)
    written = pipeline.close()
    writes.close()
    paths = tuple((2, plan.layout.attempt(file.staged)) for file in written.landed)
    return SqlTask(replace(task, task=3), {2: 0}, paths), written


def transform(task: SqlTask, made: Made, **more: object) -> TaskResult:
    job = SqlJob(RULE, SCHEMA, task, guarded=bool(more.get("guarded")))
    (result,) = PythonSql(made).run(job, lambda: None).results
    assert result.failure is None, result.failure
    return result


def halves(row: Row) -> list[Row]:
    """No row of record 1, two of the others."""
    parts = [] if row["id"] == 1 else ["a", "b"]
    return [{"id": row["id"], "part": part} for part in parts]


def order(number: int, **more: object) -> dict[str, object]:
    return {"id": number, "ts": NOW_US - HOUR_US, "app": "x", **more}


def counts(*numbers: int) -> RowCounts:
    return RowCounts(*map(BigInt, numbers))


def test_landed_rows_are_counted_by_the_sql_and_dirty_ones_at_once(tmp_path: Path) -> None:
    rows = [order(0), order(1), order(2), {"id": "x", "ts": NOW_US, "app": "x"}]
    task, written = land(tmp_path, [[made_batch(0, rows)]])
    assert written.counts == counts(4, 0, 1, 0, 0, 0, 0)
    assert (written.files, len(written.dirty_files)) == ((), 1)
    assert [int(file.rows) for file in written.landed] == [3]
    result = transform(task, halves)
    # Records with rows, rows written, and rows in addition to the first of each record.
    assert result.counts == counts(2, 4, 0, 0, 0, 0, 2)
    assert result.splits == ()
    (file,) = result.files
    assert file.final.startswith("dt=20261120/hr=11/")
    table = pq.read_table(tmp_path / "_sluiceway/orders/stage" / file.staged, partitioning=None)
    assert table.to_pylist() == [{"id": n, "part": part} for n in (0, 2) for part in "ab"]


def test_the_sql_sees_no_column_that_is_carried_and_files_hold_none(tmp_path: Path) -> None:
    task, written = land(tmp_path, [[made_batch(0, [order(0)])]])
    landed = pq.read_table(task.landed[0][1])
    assert [name for name in landed.schema.names if not name.startswith(HIDDEN)] == [
        "id",
        "ts",
        "app",
    ]
    assert landed[AT].to_pylist() == [2 << 40]
    assert written.landed[0].staged.partition("/")[0] != written.attempt


def test_meta_columns_and_partitions_of_columns_are_filled(tmp_path: Path) -> None:
    task, _ = land(
        tmp_path,
        [[made_batch(0, [order(5)], first=40), made_batch(1, [order(6)], first=70)]],
        splits=2,
        meta=(PlannedMetaColumn("partition", "_p"), PlannedMetaColumn("offset", "_o")),
        partitions=(PartitionRule("part", None, "part"),),
    )
    result = transform(task, halves)
    found = {}
    for file in result.files:
        table = pq.read_table(tmp_path / "_sluiceway/orders/stage" / file.staged, partitioning=None)
        found[file.final.partition("/")[0]] = table.to_pylist()
    rows = [{"id": 5, "_p": 0, "_o": 40}, {"id": 6, "_p": 1, "_o": 70}]
    assert found == {"part=a": rows, "part=b": rows}


def test_late_rows_go_where_their_record_goes(tmp_path: Path) -> None:
    rows = [order(0), order(2, ts=NOW_US - 48 * HOUR_US)]
    late = LateRule(LatePolicy.SIDE, window_us=24 * HOUR_US)
    task, _ = land(tmp_path, [[made_batch(0, rows)]], late=late)
    times = replace(AT_NOON, late_before_us=(NOW_US - 24 * HOUR_US,))
    task = replace(task, plan=replace(task.plan, times=times))
    result = transform(task, halves)
    assert result.counts == counts(2, 2, 0, 2, 0, 0, 2)
    assert [int(file.rows) for file in result.late_files] == [2]


def test_a_record_that_fails_is_one_dirty_row_with_its_payload(tmp_path: Path) -> None:
    def made(row: Row) -> list[Row]:
        if row["id"] == 1:
            raise ValueError("no")
        return halves(row)

    task, _ = land(tmp_path, [[made_batch(0, [order(n) for n in range(3)], first=7)]])
    with pytest.raises(SqlDataError):
        transform(task, made)
    result = transform(task, made, guarded=True)
    assert result.counts == counts(3, 4, 1, 0, 0, 0, 2)
    assert result.dirty_reasons == {"sql_failed": 1}
    (file,) = result.dirty_files
    (row,) = pq.read_table(tmp_path / "_sluiceway/orders/stage" / file.staged).to_pylist()
    assert (row["topic"], row["partition"], row["offset"]) == ("orders", 0, 8)
    assert (row["stage"], row["reason"]) == ("transform", "sql_failed")
    assert row["message"] == "`1 / n` cannot be (job.yaml:7:3)"
    assert json.loads(row["value"]) == order(1)


def test_one_bad_row_makes_its_record_dirty_whole(tmp_path: Path) -> None:
    task, _ = land(
        tmp_path,
        [[made_batch(0, [order(n) for n in range(3)])]],
        partitions=(PartitionRule("part", None, "part"),),
    )

    def made(row: Row) -> list[Row]:
        parts = ["a", "\0"] if row["id"] == 1 else ["a", "b"]
        return [{"id": row["id"], "part": part} for part in parts]

    result = transform(task, made)
    assert result.counts == counts(3, 4, 1, 0, 0, 0, 2)
    assert result.dirty_reasons == {"bad_partition_value part": 1}


def test_records_may_be_rejected_by_their_numbers(tmp_path: Path) -> None:
    task, _ = land(tmp_path, [[made_batch(0, [order(n) for n in range(5)], first=7)]])
    storage, _ = open_storage(str(tmp_path))
    result = reject_records(task, storage, [(2 << 40) + 1, (2 << 40) + 4], "[DIVIDE_BY_ZERO] no")
    assert result.counts == counts(2, 0, 2, 0, 0, 0, 0)
    (file,) = result.dirty_files
    rows = pq.read_table(tmp_path / "_sluiceway/orders/stage" / file.staged).to_pylist()
    assert [row["offset"] for row in rows] == [8, 11]
    assert rows[0]["message"] == "[DIVIDE_BY_ZERO] no"


@pytest.mark.parametrize("size", range(1, 8))
def test_batches_are_cut_where_records_end(size: int) -> None:
    numbers = [1, 1, 2, 3, 3, 3, 3, 3, 3, 4, 5, 5]
    carried = pa.array([{AT: number} for number in numbers], pa.struct([(AT, pa.int64())]))
    whole = pa.record_batch([pa.array(range(len(numbers))), carried], names=["row", CARRIED])
    batches = [whole.slice(begin, size) for begin in range(0, len(numbers), size)]
    found = [each.column(1).field(0).to_pylist() for each in whole_records(batches)]
    assert [number for each in found for number in each] == numbers
    ends = [each[-1] for each in found]
    assert len(set(ends)) == len(ends)
    assert all(before[-1] != after[0] for before, after in itertools.pairwise(found))
