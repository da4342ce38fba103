"""Periods of prefixes against the zones' own clocks, instant by instant."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from sluiceway.eventtime.partition_time import TimePattern
from sluiceway.eventtime.prefix_periods import PrefixPeriods

HOURS = (("dt", "yyyyMMdd"), ("hr", "HH"))
_MINUTE_US = 60_000_000


def micros(text: str) -> int:
    """Of an ISO time with an offset."""
    since = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1)


def test_period_of_an_hour_in_utc() -> None:
    period = PrefixPeriods(HOURS, "UTC").at(micros("2026-11-20T08:59:59.999999+00:00"))

    assert period.prefix == "dt=20261120/hr=08"
    assert period.begin_us == micros("2026-11-20T08:00+00:00")
    assert period.end_us == micros("2026-11-20T09:00+00:00")


def test_period_of_an_hour_that_comes_twice_ends_with_the_second() -> None:
    periods = PrefixPeriods(HOURS, "Europe/Berlin")

    period = periods.of("dt=20261025/hr=02")

    assert period is not None
    assert period.begin_us == micros("2026-10-25T02:00+02:00")
    assert period.end_us == micros("2026-10-25T03:00+01:00")
    after = periods.after(period)
    assert after is not None
    assert after.begin_us == period.end_us


def test_hour_that_clocks_skip_has_no_period() -> None:
    periods = PrefixPeriods(HOURS, "Europe/Berlin")

    assert periods.of("dt=20260329/hr=02") is None
    before = periods.of("dt=20260329/hr=01")
    assert before is not None
    after = periods.after(before)
    assert after is not None
    assert after.prefix == "dt=20260329/hr=03"
    assert after.begin_us == before.end_us


def test_day_that_a_zone_skipped_has_no_period() -> None:
    periods = PrefixPeriods((("dt", "yyyy-MM-dd"),), "Pacific/Apia")

    before = periods.of("dt=2011-12-29")
    assert before is not None
    after = periods.after(before)

    assert after is not None
    assert after.prefix == "dt=2011-12-31"
    assert periods.of("dt=2011-12-30") is None


@pytest.mark.parametrize(
    ("zone", "around"),
    [
        ("Europe/Berlin", "2026-10-25T01:00+00:00"),
        ("America/New_York", "2026-03-08T07:00+00:00"),
        ("Australia/Lord_Howe", "2026-04-04T15:00+00:00"),
        ("Australia/Lord_Howe", "2026-10-03T15:30+00:00"),
        ("America/St_Johns", "2010-11-07T02:31+00:00"),
        ("Asia/Kathmandu", "1985-12-31T18:30+00:00"),
        ("Pacific/Apia", "2011-12-30T10:00+00:00"),
        ("Africa/Monrovia", "1972-01-07T00:44:30+00:00"),
    ],
)
@pytest.mark.parametrize("pattern", ["yyyyMMddHH", "yyyyMMdd", "yyyyMMddHHmm"])
def test_periods_around_a_change_are_those_of_every_single_minute(
    zone: str, around: str, pattern: str
) -> None:
    periods = PrefixPeriods((("p", pattern),), zone)
    text = TimePattern(pattern, zone)
    middle = micros(around)
    seconds = 30_000_000
    instants = range(middle - 1800 * _MINUTE_US, middle + 1800 * _MINUTE_US, seconds)
    begins: dict[str, int] = {}
    ends: dict[str, int] = {}
    for instant in instants:
        name = f"p={text.format_one(instant)}"
        begins.setdefault(name, instant)
        ends[name] = instant + seconds
    names = list(begins)
    # The first and the last ones are cut off by the range.
    inner = [name for name in names[2:-2] if ends[name] < instants[-1] - 1560 * _MINUTE_US]
    inner = [name for name in inner if begins[name] > instants[0] + 1500 * _MINUTE_US] or inner
    for name in inner[:400]:
        period = periods.of(name)
        assert period is not None, name
        assert (period.begin_us, period.end_us) == (begins[name], ends[name]), name
        assert periods.at(period.begin_us) == period
    walked = periods.of(names[2])
    assert walked is not None
    for name in sorted(names)[sorted(names).index(names[2]) + 1 : -2]:
        walked = periods.after(walked)
        assert walked is not None
        assert walked.prefix == name


@pytest.mark.parametrize(
    "name",
    ["dt=20261120", "dt=20261320/hr=08", "dt=20261120/hr=24", "dt=x/hr=08", "hr=08/dt=20261120"],
)
def test_folder_that_is_no_time_has_no_period(name: str) -> None:
    assert PrefixPeriods(HOURS, "UTC").of(name) is None


def test_partition_below_a_prefix_has_the_period_of_the_prefix() -> None:
    found = PrefixPeriods(HOURS, "UTC").of("dt=20261120/hr=08/app=web")

    assert found is not None
    assert found.prefix == "dt=20261120/hr=08"


@pytest.mark.parametrize("pattern", ["HH", "yyyyHH", "MMdd", "yyyyddHH"])
def test_columns_that_leave_out_a_part_of_the_time_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="no time of its own"):
        PrefixPeriods((("p", pattern),), "UTC")


def test_columns_that_contradict_each_other_name_no_period() -> None:
    periods = PrefixPeriods((("dt", "yyyyMMdd"), ("hour", "yyyyMMddHH")), "UTC")

    assert periods.of("dt=20261120/hour=2026112108") is None
    found = periods.of("dt=20261121/hour=2026112108")
    assert found is not None


def test_month_and_year_are_periods_too() -> None:
    month = PrefixPeriods((("m", "yyyyMM"),), "UTC").of("m=202612")
    year = PrefixPeriods((("y", "yyyy"),), "UTC").of("y=2026")

    assert month is not None
    assert month.end_us == micros("2027-01-01T00:00+00:00")
    assert year is not None
    assert year.end_us == micros("2027-01-01T00:00+00:00")


def test_end_of_the_calendar_has_no_period_behind_it() -> None:
    periods = PrefixPeriods((("dt", "yyyyMMdd"),), "UTC")
    last = periods.of("dt=99991229")

    assert last is not None
    assert ZoneInfo("UTC").key == "UTC"
    walked = periods.after(last)
    assert walked is None or periods.after(walked) is None


@pytest.mark.parametrize(
    ("zone", "day", "begin"),
    [
        ("Africa/Cairo", "20260424", "2026-04-24T01:00+03:00"),
        ("Asia/Beirut", "20260329", "2026-03-29T01:00+03:00"),
    ],
)
def test_a_day_without_midnight_has_a_period(zone: str, day: str, begin: str) -> None:
    periods = PrefixPeriods((("dt", "yyyyMMdd"),), zone)
    period = periods.of(f"dt={day}")
    assert period is not None
    assert period.begin_us == micros(begin)
    assert period.end_us - period.begin_us == 23 * 60 * _MINUTE_US
    assert periods.at(period.begin_us) == period
