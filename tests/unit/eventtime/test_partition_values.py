from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sluiceway.eventtime.partition_time import TimeKind, TimePattern
from sluiceway.eventtime.partition_values import (
    NO_TIMES,
    ConstantColumn,
    PartitionAssigner,
    PartitionColumn,
    RowTimes,
    TimeColumn,
    TransformColumn,
    ValueColumn,
)
from sluiceway.sinks.partition_path import (
    DEFAULT_PARTITION,
    MAX_COMPONENT_BYTES,
    partition_folder,
)
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.iso_time import MAX_TIME_US


def no_slash(name: str, value: str | None) -> str | None:
    return f"{name} has a slash" if value and "/" in value else None


def assigned(values: list[object], kind: pa.DataType) -> list[str | None]:
    rows = pa.RecordBatch.from_arrays([pa.array(values, kind)], names=["c"])
    found = PartitionAssigner([ValueColumn("p", "c")], rows.schema, no_slash).assign(rows, NO_TIMES)
    return [found.values[code][0] for code in found.codes]


@pytest.mark.parametrize(
    ("kind", "values", "texts"),
    [
        (pa.string(), ["a", None, "b", "a"], ["a", None, "b", "a"]),
        (pa.int8(), [-5, None], ["-5", None]),
        (pa.int64(), [2**62], ["4611686018427387904"]),
        (pa.bool_(), [True, False, None], ["true", "false", None]),
        (pa.date32(), [date(2026, 11, 20), date(1, 1, 1)], ["2026-11-20", "0001-01-01"]),
        (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-0.01")], ["1.50", "-0.01"]),
        (pa.decimal128(12, 10), [Decimal("1e-10")], ["0.0000000001"]),
    ],
)
def test_partition_value_of_a_column_is_its_hive_text(
    kind: pa.DataType, values: list[object], texts: list[str | None]
) -> None:
    assert assigned(values, kind) == texts


def test_partition_value_of_an_empty_text_is_dirty_and_never_null() -> None:
    rows = pa.RecordBatch.from_pydict({"c": ["a", "", None, ""]})
    found = PartitionAssigner([ValueColumn("p", "c")], rows.schema, no_slash).assign(rows, NO_TIMES)
    assert [found.values[code][0] for code in found.codes if code >= 0] == ["a", None]
    assert found.codes[[1, 3]].tolist() == [-1, -1]
    told = [(row.index, row.reason, row.path) for row in found.dirty]
    assert told == [
        (1, DirtyReason.BAD_PARTITION_VALUE, "p"),
        (3, DirtyReason.BAD_PARTITION_VALUE, "p"),
    ]
    assert "read back as null" in found.dirty[0].message


@pytest.mark.parametrize(
    "kind", [pa.float64(), pa.timestamp("us"), pa.list_(pa.int32()), pa.struct([("a", pa.int8())])]
)
def test_partition_column_of_an_unfit_type_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(ValueError, match="cannot be of type"):
        PartitionAssigner([ValueColumn("p", "c")], pa.schema([("c", kind)]), no_slash)


def test_partition_column_that_is_missing_is_refused() -> None:
    with pytest.raises(ValueError, match="no column c"):
        PartitionAssigner([ValueColumn("p", "c")], pa.schema([("d", pa.int8())]), no_slash)


def test_partition_of_time_and_column_is_one_code_a_distinct_pair() -> None:
    rows = pa.RecordBatch.from_pydict({"app": ["a", "b", "a", "a/b", "a"]})
    hours = pa.array([0, 0, 1_800_000_000, 0, 3_600_000_000], pa.int64())
    columns = (TimeColumn("hr", TimePattern("HH", "UTC")), ValueColumn("app", "app"))
    found = PartitionAssigner(columns, rows.schema, no_slash).assign(rows, RowTimes(hours))
    assert len(set(found.values)) == len(found.values)
    pairs = [found.values[code] if code >= 0 else () for code in found.codes]
    assert pairs == [("00", "a"), ("00", "b"), ("00", "a"), (), ("01", "a")]
    (row,) = found.dirty
    assert (row.index, row.stage, row.reason) == (3, "partition", DirtyReason.BAD_PARTITION_VALUE)
    assert (row.path, row.message) == ("app", "app has a slash")


def test_partition_of_a_time_that_the_zone_has_not_is_dirty() -> None:
    rows = pa.RecordBatch.from_pydict({"x": [1, 2]})
    columns = [TimeColumn("dt", TimePattern("yyyyMMdd", "Asia/Shanghai"))]
    times = pa.array([0, MAX_TIME_US], pa.int64())
    found = PartitionAssigner(columns, rows.schema, no_slash).assign(rows, RowTimes(times))
    assert found.codes.tolist()[1] == -1
    assert [row.index for row in found.dirty] == [1]


def test_partition_of_many_columns_never_mixes_values() -> None:
    random = np.random.default_rng(7)
    names = [f"c{number}" for number in range(8)]
    rows = pa.RecordBatch.from_pydict(
        {name: [str(value) for value in random.permutation(2000)] for name in names}
    )
    columns = [ValueColumn(name, name) for name in names]
    found = PartitionAssigner(columns, rows.schema, no_slash).assign(rows, NO_TIMES)
    expected = [tuple(row.values()) for row in rows.to_pylist()]
    assert [found.values[code] for code in found.codes] == expected


def test_partition_without_columns_is_one() -> None:
    rows = pa.RecordBatch.from_pydict({"x": [1, 2]})
    found = PartitionAssigner([], rows.schema, no_slash).assign(rows, NO_TIMES)
    assert (found.values, found.codes.tolist(), found.dirty) == ([()], [0, 0], ())


def test_partition_of_each_kind_of_time_and_of_a_constant() -> None:
    rows = pa.RecordBatch.from_pydict({"x": [1, 2]})
    hour_us = 3_600_000_000
    times = RowTimes(
        pa.array([0, hour_us], pa.int64()), pa.array([5 * hour_us] * 2, pa.int64()), 9 * hour_us
    )
    hours = TimePattern("HH", "UTC")
    columns = (
        ConstantColumn("app", "web"),
        TimeColumn("hr", hours),
        TimeColumn("record", hours, TimeKind.RECORD),
        TimeColumn("seen", TimePattern("HH", "Asia/Shanghai"), TimeKind.PROCESSING),
    )
    assigner = PartitionAssigner(columns, rows.schema, no_slash)
    found = assigner.assign(rows, times)
    first, second = (found.values[code] for code in found.codes)
    assert first == ("web", "00", "05", "17")
    assert second == ("web", "01", "05", "17")
    assert assigner.moved(first, 3 * hour_us) == ("web", "03", "05", "17")


def test_partition_by_a_time_that_is_not_given_is_refused() -> None:
    rows = pa.RecordBatch.from_pydict({"x": [1]})
    columns = [TimeColumn("hr", TimePattern("HH", "UTC"), TimeKind.RECORD)]
    with pytest.raises(ValueError, match="hr needs record times"):
        PartitionAssigner(columns, rows.schema, no_slash).assign(rows, NO_TIMES)


@pytest.mark.parametrize(
    "column", [ValueColumn("p", "c"), TransformColumn("p", "c", "truncate[400]")]
)
def test_a_lake_table_holds_values_that_no_folder_of_hive_tells(column: PartitionColumn) -> None:
    values = ["a", "", None, "", DEFAULT_PARTITION, "x" * 300, "/" * 100, "x" * 299]
    rows = pa.RecordBatch.from_pydict({"c": values})
    found = PartitionAssigner([column], rows.schema, None).assign(rows, NO_TIMES)
    assert found.dirty == ()
    assert [found.values[code][0] for code in found.codes] == values
    folders = {partition_folder(["p"], each) for each in found.values}
    assert len(folders) == len(set(values))
    assert all(len(folder.encode()) <= MAX_COMPONENT_BYTES for folder in folders)


def test_a_nul_of_a_partitioner_is_dirty_in_a_lake_table_too() -> None:
    rows = pa.RecordBatch.from_pydict({"c": ["a\0b", "a"]})
    found = PartitionAssigner([ValueColumn("p", "c")], rows.schema, None).assign(rows, NO_TIMES)
    assert [(row.index, "NUL" in row.message) for row in found.dirty] == [(0, True)]


@pytest.mark.parametrize(
    ("kind", "least"), [(pa.int32(), -(2**31)), (pa.int64(), -(2**63)), (pa.int8(), -(2**7))]
)
@pytest.mark.parametrize("width", [1, 3, 10, 16, 1000])
def test_a_truncated_number_below_its_type_is_dirty_since_readers_miss_it(
    kind: pa.DataType, least: int, width: int
) -> None:
    values = [least, least + 1, min(least + width, 100), 0, -1, None]
    rows = pa.RecordBatch.from_arrays([pa.array(values, kind)], names=["c"])
    column = TransformColumn("p", "c", f"truncate[{width}]")
    found = PartitionAssigner([column], rows.schema, no_slash).assign(rows, NO_TIMES)
    smallest = -(2**63) if kind == pa.int64() else -(2**31)
    wrong = [n for n, value in enumerate(values) if value and value - value % width < smallest]
    assert [row.index for row in found.dirty] == wrong
    assert all("below the least number" in row.message for row in found.dirty)
    kept = [found.values[code][0] for code in found.codes if code >= 0]
    assert kept == [
        None if value is None else str(value - value % width)
        for n, value in enumerate(values)
        if n not in wrong
    ]
