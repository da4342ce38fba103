"""Dates and times that only SQL makes are found wherever a row has them."""

from datetime import date, datetime

import pyarrow as pa
import pytest

from sluiceway.types.iso_time import MAX_TIME_US, MIN_TIME_US
from sluiceway.worker.far_times import FarTimes

DAY, TIME = pa.date32(), pa.timestamp("us")
FIRST, LAST = (each.toordinal() - date(1970, 1, 1).toordinal() for each in (date.min, date.max))


def find(kind: pa.DataType, values: list[object]) -> dict[int, str]:
    array = pa.array([None, *values], kind).slice(1)
    rows = pa.RecordBatch.from_arrays([pa.array(range(len(values))), array], ["id", "at"])
    return FarTimes(rows.schema).find(rows)


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [(DAY, FIRST, LAST), (TIME, MIN_TIME_US, MAX_TIME_US)],
    ids=["date", "timestamp"],
)
def test_bounds_are_the_first_and_the_last_that_a_calendar_has(
    kind: pa.DataType, low: int, high: int
) -> None:
    assert find(kind, [low, None, high]) == {}
    assert find(kind, [low - 1, None, 0, high + 1]) == {0: "at", 3: "at"}


def test_values_inside_of_others_are_found() -> None:
    far = LAST + 1
    assert find(pa.list_(DAY), [[0], None, [], [0, far], [far, far]]) == {3: "at", 4: "at"}
    assert find(pa.struct([("a", pa.int32()), ("b", DAY)]), [{"b": 0}, None, {"b": far}]) == {
        2: "at"
    }
    inner = pa.map_(pa.string(), pa.list_(pa.struct([("t", TIME)])))
    fine, bad = [{"t": datetime(2026, 1, 1)}], [{"t": MAX_TIME_US + 1}]  # noqa: DTZ001 - no zone
    assert find(inner, [[("a", fine)], None, [("a", fine), ("b", bad)]]) == {2: "at"}


@pytest.mark.parametrize(("days", "wanted"), [([9, 0, 0], {}), ([0, 0, 9], {2: "at"})])
def test_value_that_a_null_row_hides_is_none_and_moves_no_other(
    days: list[int], wanted: dict[int, str]
) -> None:
    values = pa.array([LAST + day for day in days], DAY)
    offsets, hidden = pa.array([0, 1, 2, 3], pa.int32()), pa.array([True, False, False])
    lists = pa.ListArray.from_arrays(offsets, values, mask=hidden)
    maps = pa.MapArray.from_arrays(offsets, values, values, mask=hidden)
    for array in (lists, maps):
        rows = pa.RecordBatch.from_arrays([array], ["at"])
        assert FarTimes(rows.schema).find(rows) == wanted


def test_columns_without_times_are_not_looked_at() -> None:
    assert find(pa.int64(), [1 << 62]) == {}
