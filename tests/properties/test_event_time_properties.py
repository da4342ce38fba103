"""Partition texts of event times equal what the standard library says of each time alone."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sluiceway.eventtime.partition_time import TimePattern
from sluiceway.types.iso_time import parse_iso_timestamp, read_iso_timestamps

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = (
    *("UTC", "Asia/Shanghai", "Asia/Kolkata", "Asia/Kathmandu", "Europe/Berlin", "Europe/Dublin"),
    *("America/New_York", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia"),
    *("Africa/Monrovia", "Africa/Casablanca", "America/Caracas", "Antarctica/Troll"),
)
INSTANTS = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)) | st.datetimes(  # noqa: DTZ001
    datetime(1965, 1, 1),  # noqa: DTZ001
    datetime(2040, 1, 1),  # noqa: DTZ001
)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(ZONES),
    st.sampled_from([("yyyyMMdd", "%Y%m%d"), ("HH", "%H"), ("dd-HH.mm", "%d-%H.%M")]),
    INSTANTS,
    st.lists(st.integers(-3_600_000_000, 3_600_000_000), min_size=1, max_size=30),
)
def test_time_pattern_equals_the_standard_library(
    zone: str, pattern: tuple[str, str], start: datetime, shifts_us: list[int]
) -> None:
    moments = [start.replace(tzinfo=UTC) + timedelta(microseconds=shift) for shift in shifts_us]
    micros = pa.array([(moment - EPOCH) // timedelta(microseconds=1) for moment in moments])
    walls = [moment.astimezone(ZoneInfo(zone)) for moment in moments]
    # strftime writes years below 1000 without leading zeros.
    form = pattern[1].replace("%Y", "{year:04d}")
    expected = [wall.strftime(form.format(year=wall.year)) for wall in walls]
    assert TimePattern(pattern[0], zone).format(micros).to_pylist() == expected


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.from_regex(
            r"[0-9]{4}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-6][0-9](:[0-6][0-9](\.[0-9]{1,9})?)?"
            r"(Z|[+-][0-2][0-9]:?[0-6][0-9])?",
            fullmatch=True,
        )
        | st.text(max_size=12),
        min_size=1,
        max_size=20,
    )
)
def test_iso_column_equals_single_texts(texts: list[str]) -> None:
    times_us, odd = read_iso_timestamps(pa.array(texts, pa.string()))
    left = set(odd.to_pylist())
    for row, (text, time_us) in enumerate(zip(texts, times_us.to_pylist(), strict=True)):
        if row in left:
            assert time_us is None
        else:
            assert parse_iso_timestamp(text) == time_us
