from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from sluiceway.eventtime.partition_time import TimePattern
from sluiceway.types.iso_time import MAX_TIME_US, MIN_TIME_US, parse_iso_timestamp


def formatted(pattern: str, zone: str, *times: str) -> list[str | None]:
    micros = pa.array([parse_iso_timestamp(time) for time in times], pa.int64())
    found: list[str | None] = TimePattern(pattern, zone).format(micros).to_pylist()
    return found


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyyMMdd", "20261120"),
        ("yyyy-MM-dd", "2026-11-20"),
        ("HH", "07"),
        ("yyyy_MM.dd HHmm", "2026_11.20 0705"),
    ],
)
def test_time_pattern_is_written_in_its_zone(pattern: str, text: str) -> None:
    assert formatted(pattern, "Asia/Shanghai", "2026-11-19T23:05:59.999999Z") == [text]


def test_time_pattern_of_a_zone_off_the_hour_cuts_hours_there() -> None:
    found = formatted("HH", "Asia/Kolkata", "2026-11-20T01:29:59Z", "2026-11-20T01:30:00Z")
    assert found == ["06", "07"]


def test_time_pattern_follows_summer_time() -> None:
    spring = formatted("ddHH", "Europe/Berlin", "2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z")
    autumn = formatted("ddHH", "Europe/Berlin", "2026-10-25T00:59:59Z", "2026-10-25T01:59:59Z")
    assert (spring, autumn) == (["2901", "2903"], ["2502", "2502"])


def test_time_pattern_follows_a_change_at_an_odd_minute() -> None:
    # Newfoundland changed its clocks one minute after midnight until 2011.
    times = ("2011-03-13T03:30:59.999999Z", "2011-03-13T03:31:00Z", "2011-03-13T03:44:59Z")
    assert formatted("HHmm", "America/St_Johns", *times) == ["0000", "0101", "0114"]
    assert formatted("HH", "America/St_Johns", *times) == ["00", "01", "01"]


def test_time_pattern_before_standard_time_counts_seconds() -> None:
    # Local mean time in Shanghai was 8:05:43 ahead.
    times = ("1899-12-31T15:54:16.999999Z", "1899-12-31T15:54:17Z")
    assert formatted("yyyy", "Asia/Shanghai", *times) == ["1899", "1900"]


def test_time_pattern_at_the_ends_of_the_calendar_is_null_beyond() -> None:
    ends = pa.array([MIN_TIME_US, MAX_TIME_US], pa.int64())
    assert TimePattern("yyyyMMdd", "UTC").format(ends).to_pylist() == ["00010101", "99991231"]
    assert TimePattern("yyyy", "Asia/Shanghai").format(ends).to_pylist() == ["0001", None]
    assert TimePattern("yyyy", "America/New_York").format(ends).to_pylist() == [None, "9999"]


def test_time_pattern_of_a_batch_has_few_texts() -> None:
    start = datetime(2026, 11, 20, tzinfo=UTC)
    times = [(start + timedelta(seconds=second)).isoformat() for second in range(7200)]
    micros = pa.array([parse_iso_timestamp(time) for time in times], pa.int64())
    found = TimePattern("HH", "UTC").format(micros)
    assert found.type == pa.dictionary(pa.int32(), pa.string())
    assert len(found.dictionary) <= 8
    assert found.to_pylist() == ["00"] * 3600 + ["01"] * 3600


@pytest.mark.parametrize("pattern", ["", "--", "yyyyMMddTHH", "ss", "dt=yyyy", "yyyy/MM", "YYYY"])
def test_time_pattern_with_another_letter_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        TimePattern(pattern, "UTC")
