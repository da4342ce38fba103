import pyarrow as pa
import pytest

from sluiceway.eventtime.event_time import EventTimeReader
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.iso_time import MAX_TIME_US, MIN_TIME_US

NOON_US = 1_795_176_000_000_000


def batch(values: list[object], kind: pa.DataType) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, kind)], names=["ts"])


def times_of(values: list[object], kind: pa.DataType, unit: str) -> list[int | None]:
    rows = batch(values, kind)
    found: list[int | None] = (
        EventTimeReader(("ts",), unit, rows.schema).read(rows).micros.to_pylist()
    )
    return found


@pytest.mark.parametrize(
    ("unit", "number", "time_us"),
    [
        ("s", 1_795_176_000, NOON_US),
        ("ms", 1_795_176_000_001, NOON_US + 1000),
        ("us", NOON_US, NOON_US),
        ("ns", NOON_US * 1000 + 999, NOON_US),
        ("ns", -1, -1),
        ("s", MIN_TIME_US // 1_000_000, MIN_TIME_US),
        ("us", MAX_TIME_US, MAX_TIME_US),
    ],
)
def test_event_time_of_a_number_is_scaled_by_its_unit(unit: str, number: int, time_us: int) -> None:
    assert times_of([number], pa.int64(), unit) == [time_us]


@pytest.mark.parametrize(
    ("unit", "number"),
    [("s", 2**63 - 1), ("s", MIN_TIME_US // 1_000_000 - 1), ("us", MAX_TIME_US + 1)],
)
def test_event_time_outside_of_the_calendar_is_dirty(unit: str, number: int) -> None:
    rows = batch([1, number, None], pa.int64())
    found = EventTimeReader(("ts",), unit, rows.schema).read(rows)
    assert found.micros.is_valid().to_pylist() == [True, False, False]
    assert [(row.index, row.stage, row.reason, row.path) for row in found.dirty] == [
        (1, "event_time", DirtyReason.BAD_TIME, "ts"),
        (2, "event_time", DirtyReason.NULL, "ts"),
    ]


def test_event_time_of_a_text_needs_its_offset() -> None:
    texts: list[object] = ["2026-11-20T20:00:00+08:00", "2026-11-20T12:00:00", "2026-11-20 12:00Z"]
    assert times_of(texts, pa.string(), "iso8601") == [NOON_US, None, NOON_US]


def test_event_time_of_a_timestamp_column_is_its_value() -> None:
    assert times_of([NOON_US], pa.timestamp("us"), "ms") == [NOON_US]


def test_event_time_of_a_null_struct_is_null() -> None:
    kind = pa.struct([("t", pa.int64())])
    rows = batch([{"t": 5}, None, {"t": None}], kind)
    found = EventTimeReader(("ts", "t"), "s", rows.schema).read(rows)
    assert found.micros.to_pylist() == [5_000_000, None, None]
    assert [row.path for row in found.dirty] == ["ts.t", "ts.t"]


@pytest.mark.parametrize(
    ("path", "unit"), [(("x",), "ms"), (("ts", "x"), "ms"), (("ts",), "iso8601"), ((), "ms")]
)
def test_event_time_field_that_does_not_fit_is_refused(path: tuple[str, ...], unit: str) -> None:
    with pytest.raises(ValueError, match="event time"):
        EventTimeReader(path, unit, pa.schema([("ts", pa.int64())]))
