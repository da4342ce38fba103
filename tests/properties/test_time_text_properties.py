"""A column of texts is read as each text alone, and that as the standard library reads it."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sluiceway.eventtime.time_text import TimeText

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = (
    *("UTC", "Asia/Shanghai", "Asia/Kathmandu", "Europe/Berlin", "Europe/Dublin", "Pacific/Apia"),
    *("America/New_York", "America/St_Johns", "Australia/Lord_Howe", "Africa/Monrovia"),
    *("Africa/Casablanca", "America/Caracas", "Antarctica/Troll"),
)
FORMS = {
    "yyyy-MM-dd HH:mm:ss": "%Y-%m-%d %H:%M:%S",
    "dd/MM/yyyy HH:mm:ss.SSSSSS": "%d/%m/%Y %H:%M:%S.%f",
    "iso8601": "%Y-%m-%d %H:%M:%S.%f",
}
# Clocks are set forward and back in these months, and a day is soon hit.
WALLS = st.datetimes(datetime(1965, 1, 1), datetime(2040, 1, 1)) | st.builds(  # noqa: DTZ001
    lambda year, day, minute: datetime(year, *day) + timedelta(minutes=minute),  # noqa: DTZ001
    st.integers(1972, 2037),
    st.sampled_from([(1, 7), (3, 29), (10, 25), (11, 1), (4, 5), (10, 4), (12, 30)]),
    st.integers(0, 48 * 60),
)


def expected_us(wall: datetime, zone: str) -> int | None:
    """The first instant at which the zone's clocks show a time; None when they never do."""
    local = wall.replace(tzinfo=ZoneInfo(zone), fold=0)
    instant = local.astimezone(UTC)
    if instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None) != wall:
        return None
    return (instant - EPOCH) // timedelta(microseconds=1)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(ZONES), st.sampled_from(sorted(FORMS)), st.lists(WALLS, min_size=1))
def test_local_times_equal_the_standard_library(
    zone: str, form: str, walls: list[datetime]
) -> None:
    if "SSS" not in form and form != "iso8601":
        walls = [wall.replace(microsecond=0) for wall in walls]
    texts = pa.array([wall.strftime(FORMS[form]) for wall in walls], pa.string())
    reader = TimeText(form, zone)
    found = reader.read(texts).to_pylist()
    assert found == [expected_us(wall, zone) for wall in walls]
    assert found == [reader.read_one(text) for text in texts.to_pylist()]


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(ZONES),
    st.sampled_from(["yyyy-MM-dd HH:mm:ss", "yyyyMMddHHmmssSSS", "iso8601", "yyyy-MM-dd'T'HHXXX"]),
    st.lists(
        st.from_regex(
            r"[0-9]{4}-?[01][0-9]-?[0-3][0-9][T ]?[0-2][0-9]:?([0-6][0-9]:?([0-6][0-9]"
            r"(\.?[0-9]{1,9})?)?)?(Z|[+-][0-2][0-9]:?[0-6][0-9])?",
            fullmatch=True,
        )
        | st.text(max_size=12)
        | st.none(),
        max_size=20,
    ),
)
def test_column_equals_single_texts(zone: str, form: str, texts: list[str | None]) -> None:
    reader = TimeText(form, zone)
    found = reader.read(pa.array(texts, pa.string())).to_pylist()
    assert found == [None if text is None else reader.read_one(text) for text in texts]
