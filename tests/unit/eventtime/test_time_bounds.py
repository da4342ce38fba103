import pyarrow as pa
import pytest

from sluiceway.eventtime.event_time import TimeBounds
from sluiceway.types.dirty import DirtyReason

HOUR_US = 3_600_000_000
NOW_US = 1_795_176_000_000_000


def test_time_on_a_bound_is_inside() -> None:
    bounds = TimeBounds(HOUR_US, NOW_US - HOUR_US, "ts")
    times = pa.array([NOW_US - HOUR_US, NOW_US, NOW_US + HOUR_US, None], pa.int64())
    assert bounds.outside(times, NOW_US) == ()


def test_times_beyond_either_bound_are_dirty_each_with_its_reason() -> None:
    bounds = TimeBounds(HOUR_US, NOW_US - HOUR_US, "ts")
    times = [NOW_US + HOUR_US + 1, NOW_US, NOW_US - HOUR_US - 1]
    found = bounds.outside(pa.array(times, pa.int64()), NOW_US)
    assert [(row.index, row.stage, row.reason, row.path) for row in found] == [
        (0, "event_time", DirtyReason.FUTURE_TIME, "ts"),
        (2, "event_time", DirtyReason.OLD_TIME, "ts"),
    ]
    assert "is more than 3600 s after 2026-11-20T12:00:00Z, when it was read" in found[0].message
    assert "2026-11-20T10:59:59.999999Z is before 2026-11-20T11:00:00Z" in found[1].message


@pytest.mark.parametrize("values", [[], [None, None]])
def test_no_times_are_inside(values: list[int | None]) -> None:
    assert TimeBounds(0, NOW_US, "ts").outside(pa.array(values, pa.int64()), NOW_US) == ()


def test_without_a_first_time_any_past_is_inside() -> None:
    assert TimeBounds(0, None, "ts").outside(pa.array([-NOW_US], pa.int64()), NOW_US) == ()
