from datetime import UTC, datetime

import pytest

from sluiceway.types.iso_time import WallTime, instant_us
from sluiceway.types.time_format import compile_time_format


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("yyyyMMdd", "20261120", WallTime(datetime(2026, 11, 20, tzinfo=UTC))),
        (
            "dd.MM.yyyy HH:mm:ss.SSSXXX",
            "20.11.2026 08:01:02.123+08:00",
            WallTime(datetime(2026, 11, 20, 8, 1, 2, tzinfo=UTC), "123", 28_800_000_000),
        ),
        (
            "yyyy-MM-dd'T'HH:mmXXX",
            "2026-11-20T08:01Z",
            WallTime(datetime(2026, 11, 20, 8, 1, tzinfo=UTC), "", 0),
        ),
        ("yyyy'y'''MMdd", "2026y'1120", WallTime(datetime(2026, 11, 20, tzinfo=UTC))),
        (
            "iso8601",
            "2026-11-20 08:01:02.5-00:30",
            WallTime(datetime(2026, 11, 20, 8, 1, 2, tzinfo=UTC), "5", -1_800_000_000),
        ),
    ],
)
def test_text_of_a_format_is_read(pattern: str, text: str, expected: WallTime) -> None:
    assert compile_time_format(pattern).read(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("20.11.2026 08:01:02.12+08:00", "20.11.2026 08:01:02.123", " 20.11.2026 08:01:02.123Z"),
        *("20.13.2026 08:01:02.123Z", "30.02.2026 08:01:02.123Z", "20.11.2026 24:01:02.123Z"),
        *("20.11.2026 08:01:60.123Z", "20.11.2026 08:01:02.123+24:00", "2026-11-20 08:01:02.123Z"),
        *("20.11.0000 08:01:02.123Z", "\u0662\u0660.11.2026 08:01:02.123Z", ""),
    ],
)
def test_text_that_is_not_of_the_format_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        compile_time_format("dd.MM.yyyy HH:mm:ss.SSSXXX").read(text)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("", "has yyyy, MM and dd"),
        ("HH:mm", "has yyyy, MM and dd"),
        ("yyyyMM", "has yyyy, MM and dd"),
        ("yyyyMMddMM", "each of its parts once"),
        ("yyyyMMdd mm", "mm has HH"),
        ("yyyyMMdd HH.SSS", "one with S has ss"),
        ("yyyyMMddXXX", "XXX has HH"),
        ("yyyyMMddHHmmssSSSSSSSSSS", "at most 9 digits"),
        ("yyyyMMdd'T", 'not "\'"'),
        ("yyyyMMddEEE", "not 'E'"),
        ("yyMMdd", "not 'y'"),
        ("yyyyMMdd" + " " * 60, "at most 60 characters"),
    ],
)
def test_pattern_that_is_no_format_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compile_time_format(pattern)


@pytest.mark.parametrize(
    ("fraction", "mode", "micros"),
    [
        ("1234565", "ROUND_HALF_EVEN", 123_456),
        ("1234565", "ROUND_HALF_UP", 123_457),
        ("1234569", "ROUND_DOWN", 123_456),
        ("9999999", "ROUND_UP", 1_000_000),
    ],
)
def test_fraction_is_rounded_forward_also_before_the_epoch(
    fraction: str, mode: str, micros: int
) -> None:
    wall = WallTime(datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), fraction, 0)
    assert instant_us(wall, None, mode) == micros - 1_000_000
