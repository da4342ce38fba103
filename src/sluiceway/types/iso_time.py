"""ISO 8601 text -> days and microseconds, one text or a column at a time, with equal outcomes.

The calendar is the proleptic Gregorian one, from 0001-01-01 to 9999-12-31. A leap second and
24:00 are refused: they would have to become another instant.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
MIN_TIME_US = (date.min.toordinal() - EPOCH_ORDINAL) * 86_400_000_000
MAX_TIME_US = (date.max.toordinal() + 1 - EPOCH_ORDINAL) * 86_400_000_000 - 1
MICROSECOND_DIGITS = 6

_MICROSECOND = timedelta(microseconds=1)
_OUTSIDE = "the {} is outside of the years 0001 to 9999"
# As databases write times without a day: infinity, years beyond, MySQL's zero dates.
_NO_DAY = re.compile(
    r"[+-]?[Ii][Nn][Ff][Ii][Nn][Ii][Tt][Yy]"
    r"|(?:[+-]?[0-9]{5,12}|-[0-9]{4})-[0-9]{2}-[0-9]{2}(?:[Tt ].*)?"
    r"|0000-00-00(?:[Tt ].*)?|[0-9]{4,12}-[0-9]{2}-[0-9]{2}(?:[Tt ].*)? BC"
)
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})Z?")
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,18}))?)?"
    r"([Zz]|([+-])([0-9]{2})(?::?([0-9]{2}))?)?"
)
# The shapes of which Arrow's own cast reads every match: it fails a whole column for one bad day.
_YEAR = r"(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_LEAP_YEAR = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_MONTH_DAY = (
    r"(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    r"|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
)
_DAY = rf"^(?:{_YEAR}-{_MONTH_DAY}|{_LEAP_YEAR}-02-29)"
_PLAIN_DAY = rf"{_DAY}$"
_PLAIN_INSTANT = (
    rf"{_DAY}[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(?:\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])$"
)


class ImpossibleTimeError(ValueError):
    """A time that no calendar has, or none of the years 0001 to 9999; a policy may null it."""


def unread_time(text: str, expected: str) -> ValueError:
    """Why a text is no time that was expected.

    Args:
        text: A text of another shape.
        expected: The shape, for people.
    """
    if _NO_DAY.fullmatch(text):
        return ImpossibleTimeError("no calendar has such a day")
    return ValueError(expected)


def day_of(year: int, month: int, day: int) -> datetime:
    """The beginning of a day, marked as UTC.

    Raises:
        ImpossibleTimeError: There is no such day.
    """
    try:
        return datetime(year, month, day, tzinfo=UTC)
    except ValueError as error:
        raise ImpossibleTimeError(str(error)) from error


def parse_iso_date(text: str) -> int:
    """Read `yyyy-MM-dd`, or `yyyy-MM-ddZ` as Debezium writes days in ISO form.

    Called for single values; `read_iso_dates` is the same for a column.

    Args:
        text: Nothing around it, no time.

    Returns:
        Days since 1970-01-01.

    Raises:
        ValueError: Another shape, or no such day; says which.
    """
    found = _DATE.fullmatch(text)
    if found is None:
        raise unread_time(text, "a date is written yyyy-MM-dd")
    return day_of(int(found[1]), int(found[2]), int(found[3])).toordinal() - EPOCH_ORDINAL


def parse_iso_timestamp(text: str, zone: tzinfo | None = None) -> int:
    """Read `yyyy-MM-ddTHH:mm[:ss[.f]]` with `Z` or an offset; a space may stand for `T`.

    As RFC 3339 allows, `t` and `z` are as good. Called for single values; `read_iso_timestamps`
    is the same for a column.

    Args:
        text: Nothing around it.
        zone: Zone of texts without an offset; None refuses them.

    Returns:
        Microseconds since the epoch, UTC.

    Raises:
        ValueError: Another shape, no such time, no offset, digits beyond microseconds, or outside
            0001 to 9999; or a local time that the zone has twice or never. Says which.
    """
    return instant_us(parse_iso_wall_time(text), zone)


@dataclass(frozen=True, slots=True)
class WallTime:
    """A time as a text says it.

    Attributes:
        second: Day and time of day, whole seconds; marked as UTC, whatever the offset.
        fraction: Digits of the second's fraction; none for a whole second.
        offset_us: How far ahead of UTC the text says it is; None when it does not say.
    """

    second: datetime
    fraction: str = ""
    offset_us: int | None = None


def parse_iso_wall_time(text: str) -> WallTime:
    """Read the same texts as `parse_iso_timestamp`, the offset being optional.

    Raises:
        ValueError: Another shape, or no such time; says which.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        expected = "a timestamp is written yyyy-MM-ddTHH:mm:ss with Z or an offset"
        raise unread_time(text, expected)
    second = datetime.fromordinal(parse_iso_date(found[1]) + EPOCH_ORDINAL).replace(
        hour=int(found[2]), minute=int(found[3]), second=int(found[4] or "0"), tzinfo=UTC
    )
    return WallTime(second, found[5] or "", _offset_us(found) if found[6] else None)


def instant_us(wall: WallTime, zone: tzinfo | None, rounding: str | None = None) -> int:
    """The instant of a time as written.

    Called for single values.

    Args:
        wall: The time.
        zone: Zone of a time without an offset; None refuses it.
        rounding: Mode of `decimal` for a fraction with digits beyond microseconds, which counts
            forward in time; None refuses them unless they are zeros.

    Returns:
        Microseconds since the epoch, UTC.

    Raises:
        TooFineError: The fraction has digits beyond microseconds.
        ValueError: No offset, a local time that the zone has twice or never, or outside 0001 to
            9999; says which.
    """
    offset_us = wall.offset_us
    if offset_us is None:
        offset_us = _zone_offset_us(wall.second, zone)
    second_us = (wall.second - EPOCH) // _MICROSECOND
    time_us = second_us - offset_us + _fraction_us(wall.fraction, rounding)
    if not MIN_TIME_US <= time_us <= MAX_TIME_US:
        raise ImpossibleTimeError(_OUTSIDE.format("time"))
    return time_us


def day_in_zone(time_us: int, zone: tzinfo) -> int:
    """The day that an instant falls on in a zone, as days since 1970-01-01.

    Raises:
        ValueError: It is outside of the years 0001 to 9999 there.
    """
    try:
        local = (EPOCH + time_us * _MICROSECOND).astimezone(zone)
    except OverflowError as error:
        raise ImpossibleTimeError(_OUTSIDE.format("day")) from error
    return local.toordinal() - EPOCH_ORDINAL


def shown_instant(time_us: int) -> str:
    """An instant for a message: `2026-11-20T08:00:00.5Z`; digits that are zero are left out.

    Args:
        time_us: Microseconds since the epoch, UTC; within the years 0001 to 9999.
    """
    text = (EPOCH + time_us * _MICROSECOND).replace(tzinfo=None).isoformat()
    return f"{text.rstrip('0') if '.' in text else text}Z"


class TooFineError(ValueError):
    """A time has digits beyond microseconds; a policy may round them."""


def _fraction_us(fraction: str, rounding: str | None) -> int:
    digits = fraction.ljust(MICROSECOND_DIGITS, "0")
    if digits[MICROSECOND_DIGITS:].strip("0"):
        if rounding is None:
            raise TooFineError("the time is finer than a microsecond")
        return int(
            Decimal(
                f"{digits[:MICROSECOND_DIGITS]}.{digits[MICROSECOND_DIGITS:]}"
            ).to_integral_value(rounding)
        )
    return int(digits[:MICROSECOND_DIGITS])


def read_iso_dates(texts: pa.StringArray) -> tuple[pa.Array, pa.Array]:
    """Read a column of dates.

    Called once a batch and column.

    Args:
        texts: Dates as text; nulls stay null.

    Returns:
        date32, null where the text was not understood, and the positions of these nulls
        (int64, rising). They may still be dates: `parse_iso_date` decides.
    """
    plain, odd = _split_by_shape(texts, _PLAIN_DAY)
    return plain.cast(pa.date32()), odd


def read_iso_timestamps(texts: pa.StringArray) -> tuple[pa.Array, pa.Array]:
    """Read a column of timestamps that name their offset.

    Called once a batch and column.

    Args:
        texts: Timestamps as text; nulls stay null.

    Returns:
        int64 microseconds UTC, null where the text was not understood, and the positions of
        these nulls (int64, rising). They may still be timestamps: `parse_iso_timestamp` decides.
    """
    plain, odd = _split_by_shape(texts, _PLAIN_INSTANT)
    times_us = plain.cast(pa.timestamp("us", tz="UTC")).view(pa.int64())
    bounds = pc.min_max(times_us).as_py()
    if bounds["min"] is None or (bounds["min"] >= MIN_TIME_US and bounds["max"] <= MAX_TIME_US):
        return times_us, odd
    inside = pc.and_(pc.greater_equal(times_us, MIN_TIME_US), pc.less_equal(times_us, MAX_TIME_US))
    unread = pc.and_(pc.is_valid(texts), pc.invert(pc.fill_null(inside, False)))  # noqa: FBT003
    return pc.if_else(inside, times_us, None), pc.indices_nonzero(unread)


def _split_by_shape(texts: pa.StringArray, shape: str) -> tuple[pa.Array, pa.Array]:
    fits = pc.match_substring_regex(texts, shape)
    if fits.true_count + fits.null_count == len(texts):
        return texts, pa.array([], pa.uint64())
    return pc.if_else(fits, texts, None), pc.indices_nonzero(pc.invert(fits))


def _offset_us(found: re.Match[str]) -> int:
    if found[6] in "Zz":
        return 0
    offset = time(int(found[8]), int(found[9] or "0"))
    minutes = offset.hour * 60 + offset.minute
    return minutes * (-60_000_000 if found[7] == "-" else 60_000_000)


def _zone_offset_us(wall: datetime, zone: tzinfo | None) -> int:
    if zone is None:
        raise ValueError("the time has neither Z nor an offset")
    offsets = {wall.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1)}
    if len(offsets) > 1:
        raise ValueError("the zone has this local time twice or never; an offset is needed")
    offset = offsets.pop()
    return offset // _MICROSECOND if offset is not None else 0
