from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from sluiceway.types.iso_time import (
    MAX_TIME_US,
    MIN_TIME_US,
    parse_iso_date,
    parse_iso_timestamp,
    read_iso_dates,
    read_iso_timestamps,
)

SHANGHAI_MORNING_US = 1_795_132_800_000_000


@pytest.mark.parametrize(
    ("text", "time_us"),
    [
        ("2026-11-20T08:00:00+08:00", SHANGHAI_MORNING_US),
        ("2026-11-20 00:00:00Z", SHANGHAI_MORNING_US),
        ("2026-11-20T00:00Z", SHANGHAI_MORNING_US),
        ("2026-11-19T23:30:00.000001-0030", SHANGHAI_MORNING_US + 1),
        ("2026-11-20T00:00:00.1234560000+00", SHANGHAI_MORNING_US + 123_456),
        ("1970-01-01T00:00:00Z", 0),
        ("0001-01-01T00:00:00Z", MIN_TIME_US),
        ("9999-12-31T23:59:59.999999Z", MAX_TIME_US),
    ],
)
def test_iso_timestamp_with_offset_is_that_instant(text: str, time_us: int) -> None:
    assert parse_iso_timestamp(text) == time_us


@pytest.mark.parametrize(
    "text",
    [
        *("2026-11-20T08:00:00", "2026-11-20", "2026-11-20T24:00:00Z", "2016-12-31T23:59:60Z"),
        *("2026-02-29T00:00:00Z", "2026-11-20T08:00:00.1234567Z", "2026-11-20T08:00:00+24:00"),
        *("0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00Z"),
        *(" 2026-11-20T08:00:00Z", "2026-11-20T08:00:00Z\n", "1795132800"),
        "\u0662026-11-20T08:00:00Z",
    ],
)
def test_iso_timestamp_that_would_change_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_iso_timestamp(text)
    times, odd = read_iso_timestamps(pa.array([text]))
    assert times.to_pylist() == [None]
    assert odd.to_pylist() == [0]


@pytest.mark.parametrize(
    "text", ["2026-11-20t00:00:00z", "2026-11-20T00:00:00z", "2026-11-20t08:00:00+08:00"]
)
def test_letters_of_a_time_may_be_small(text: str) -> None:
    assert parse_iso_timestamp(text) == SHANGHAI_MORNING_US
    assert read_iso_timestamps(pa.array([text]))[1].to_pylist() == [0]


def test_a_day_of_debezium_in_iso_form_is_that_day() -> None:
    assert parse_iso_date("2026-11-20Z") == parse_iso_date("2026-11-20")
    assert read_iso_dates(pa.array(["2026-11-20Z"]))[1].to_pylist() == [0]


def test_iso_timestamp_without_offset_is_read_in_the_zone() -> None:
    zone = ZoneInfo("Asia/Shanghai")
    assert parse_iso_timestamp("2026-11-20T08:00:00", zone) == SHANGHAI_MORNING_US


@pytest.mark.parametrize("text", ["2026-10-25T02:30:00", "2026-03-29T02:30:00"])
def test_iso_timestamp_that_the_zone_has_twice_or_never_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="twice or never"):
        parse_iso_timestamp(text, ZoneInfo("Europe/Berlin"))


def test_iso_columns_agree_with_single_values_on_every_day_of_odd_years() -> None:
    texts = [
        f"{year:04}-{month:02}-{day:02}"
        for year in (0, 1, 4, 100, 400, 1582, 1900, 2000, 2023, 2024, 9999)
        for month in range(14)
        for day in range(33)
    ]
    days, odd = read_iso_dates(pa.array(texts))
    doubted = set(odd.to_pylist())
    for row, (text, day) in enumerate(zip(texts, days.cast(pa.int32()).to_pylist(), strict=True)):
        try:
            expected = parse_iso_date(text)
        except ValueError:
            assert row in doubted
        else:
            # Nothing real is left to the slow path, not even on a leap day.
            assert day == expected
            assert row not in doubted


def test_iso_columns_leave_nulls_alone() -> None:
    times, odd = read_iso_timestamps(pa.array([None, "2024-02-29T00:00:00Z"]))
    assert times.to_pylist() == [None, 1_709_164_800_000_000]
    assert len(odd) == 0
