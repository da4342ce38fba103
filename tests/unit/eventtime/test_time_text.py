"""Event times as text: what the pattern says, in the zone that is given, to the letter."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from sluiceway.eventtime.event_time import EventTimeReader
from sluiceway.eventtime.time_text import TimeText
from sluiceway.types.dirty import DirtyReason

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SQL = "yyyy-MM-dd HH:mm:ss"


def read(form: str, zone: str, *texts: str | None) -> list[str | None]:
    """Instants of texts in UTC, as ISO 8601."""
    found = TimeText(form, zone).read(pa.array(texts, pa.string())).to_pylist()
    return [
        None if micros is None else (EPOCH + timedelta(microseconds=micros)).isoformat()[:-6]
        for micros in found
    ]


@pytest.mark.parametrize(
    ("form", "zone", "text", "instant"),
    [
        (SQL, "UTC", "2026-11-20 08:15:00", "2026-11-20T08:15:00"),
        (SQL, "Asia/Shanghai", "2026-11-20 08:15:00", "2026-11-20T00:15:00"),
        (f"{SQL}.SSS", "UTC", "2026-11-20 08:15:00.123", "2026-11-20T08:15:00.123000"),
        (f"{SQL}.SSSSSSSSS", "UTC", "2026-11-20 08:15:00.123456789", "2026-11-20T08:15:00.123456"),
        (f"{SQL}XXX", "Asia/Shanghai", "2026-11-20 08:15:00+01:00", "2026-11-20T07:15:00"),
        ("dd.MM.yyyy HH:mm", "UTC", "20.11.2026 08:15", "2026-11-20T08:15:00"),
        ("yyyyMMdd", "Europe/Berlin", "20261120", "2026-11-19T23:00:00"),
        ("yyyy-MM-dd'T'HH:mm:ss", "UTC", "2026-11-20T08:15:00", "2026-11-20T08:15:00"),
        ("yyyy年MM月dd日 HH", "UTC", "2026年11月20日 08", "2026-11-20T08:00:00"),
        # As Hive and MySQL print times: without an offset, with as many digits as there are.
        ("iso8601", "Asia/Shanghai", "2026-11-20 08:15:00", "2026-11-20T00:15:00"),
        ("iso8601", "Asia/Shanghai", "2026-11-20 08:15:00.5", "2026-11-20T00:15:00.500000"),
        ("iso8601", "UTC", "2026-11-20 08:15:00.123456789", "2026-11-20T08:15:00.123456"),
        ("iso8601", "Asia/Shanghai", "2026-11-20T08:15:00Z", "2026-11-20T08:15:00"),
        ("iso8601", "Asia/Shanghai", "2026-11-20 08:15:00.1234567Z", "2026-11-20T08:15:00.123456"),
        ("iso8601", "UTC", "2026-11-20 08:15", "2026-11-20T08:15:00"),
        # Before 1970 a fraction still counts forward.
        (f"{SQL}.SSSSSSS", "UTC", "1969-12-31 23:59:59.9999999", "1969-12-31T23:59:59.999999"),
    ],
)  # fmt: skip
def test_text_of_a_form_is_its_instant(form: str, zone: str, text: str, instant: str) -> None:
    assert read(form, zone, text) == [instant]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (SQL, "2026-11-20T08:15:00"),
        (SQL, "2026-11-20 08:15:00Z"),
        (SQL, "2026-11-20 08:15:00\n"),
        (SQL, " 2026-11-20 08:15:00"),
        (SQL, "2026-02-29 08:15:00"),
        (SQL, "2026-11-20 24:00:00"),
        (SQL, "0000-00-00 00:00:00"),
        (SQL, ""),
        ("yyyyMMdd", "2026-11-20"),
        ("iso8601", "2026-11-20"),
        ("iso8601", "2026-11-20 08:15:00 Europe/Berlin"),
    ],
)
def test_text_of_another_form_is_no_time(form: str, text: str) -> None:
    assert read(form, "UTC", text, None, "2026-11-20 08:15:00")[:2] == [None, None]


@pytest.mark.parametrize("form", [SQL, "iso8601"])
def test_local_time_that_comes_twice_is_the_first_one(form: str) -> None:
    """Clocks go back at 03:00 summer time, 01:00 UTC: the hour from 02:00 comes twice."""
    found = read(
        form,
        "Europe/Berlin",
        "2026-10-25 01:59:59",
        "2026-10-25 02:00:00",
        "2026-10-25 02:59:59",
        "2026-10-25 03:00:00",
    )
    assert found == [
        "2026-10-24T23:59:59",
        "2026-10-25T00:00:00",
        "2026-10-25T00:59:59",
        "2026-10-25T02:00:00",
    ]


@pytest.mark.parametrize("form", [SQL, "iso8601"])
def test_local_time_that_never_comes_is_no_time(form: str) -> None:
    """Clocks go from 02:00 to 03:00: nothing between is a time."""
    found = read(
        form,
        "Europe/Berlin",
        "2026-03-29 01:59:59",
        "2026-03-29 02:00:00",
        "2026-03-29 02:59:59",
        "2026-03-29 03:00:00",
    )
    assert found == ["2026-03-29T00:59:59", None, None, "2026-03-29T01:00:00"]


@pytest.mark.parametrize(
    ("form", "zone", "text", "begin"),
    [
        ("yyyy-MM-dd", "Africa/Cairo", "2026-04-23", "2026-04-22T22:00:00"),
        ("yyyy-MM-dd", "Africa/Cairo", "2026-04-24", "2026-04-23T22:00:00"),
        ("yyyy-MM-dd", "Africa/Cairo", "2026-04-25", "2026-04-24T21:00:00"),
        ("yyyyMMdd", "America/Sao_Paulo", "20181104", "2018-11-04T03:00:00"),
        # A day that clocks skip whole, and hours of which they skip all or half.
        ("yyyy-MM-dd", "Pacific/Apia", "2011-12-30", None),
        ("yyyyMMdd HH", "Africa/Cairo", "20260424 00", None),
        ("yyyyMMdd HH", "Europe/Berlin", "20260329 02", None),
        ("yyyyMMdd HH", "Australia/Lord_Howe", "20261004 02", "2026-10-03T15:30:00"),
        ("yyyyMMdd HHmm", "Australia/Lord_Howe", "20261004 0200", None),
    ],
)
def test_a_day_or_hour_whose_beginning_clocks_skip_begins_with_its_first_moment(
    form: str, zone: str, text: str, begin: str | None
) -> None:
    assert read(form, zone, text, text) == [begin, begin]
    assert read(form, zone, text, "19700101")[:1] == [begin]


def test_zone_that_changes_within_a_quarter_of_an_hour_is_exact() -> None:
    """Monrovia went from -0:44:30 to 0:00 at midnight of 1972-01-07."""
    found = read(
        SQL, "Africa/Monrovia", "1972-01-06 23:59:59", "1972-01-07 00:44:29", "1972-01-07 00:44:30"
    )
    assert found == ["1972-01-07T00:44:29", None, "1972-01-07T00:44:30"]  # fmt: skip


@pytest.mark.parametrize("text", ["0001-01-01 00:00:00", "9999-12-31 23:59:59"])
def test_time_that_its_zone_puts_outside_of_the_calendar_is_none(text: str) -> None:
    zone = "Asia/Shanghai" if text.startswith("0001") else "America/New_York"
    assert read(SQL, zone, text, "2026-11-20 08:15:00")[0] is None


@pytest.mark.parametrize("form", ["yyyy-MM", "HH:mm", "yyyy-MM-dd hh:mm", "yyyyMMdd" * 9])
def test_form_that_is_none_is_refused(form: str) -> None:
    with pytest.raises(ValueError, match="format"):
        TimeText(form, "UTC")


def test_reader_names_the_form_of_a_text_that_has_another() -> None:
    rows = pa.RecordBatch.from_pydict({"ts": ["2026-11-20 08:15:00", "soon", None]})
    reader = EventTimeReader(("ts",), None, rows.schema, text=TimeText(SQL, "UTC"))
    found = reader.read(rows)
    assert found.micros.is_valid().to_pylist() == [True, False, False]
    assert [(row.index, row.reason) for row in found.dirty] == [
        (1, DirtyReason.BAD_TIME),
        (2, DirtyReason.NULL),
    ]
    assert "'soon' is no event time in `yyyy-MM-dd HH:mm:ss`" in found.dirty[0].message


def test_form_for_a_number_is_refused() -> None:
    text = TimeText(SQL, "UTC")
    with pytest.raises(ValueError, match="is for text"):
        EventTimeReader(("ts",), None, pa.schema([("ts", pa.int64())]), text=text)
