"""Texts -> days and instants, by the column's format, zone and policy, on the slow path."""

from collections.abc import Callable
from zoneinfo import ZoneInfo

from sluiceway.convert.dirty_value import DirtyValueError, ImpossibleValueError
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.iso_time import (
    EPOCH_ORDINAL,
    ImpossibleTimeError,
    TooFineError,
    WallTime,
    day_in_zone,
    instant_us,
    parse_iso_date,
    parse_iso_timestamp,
)
from sluiceway.types.policy import Policy
from sluiceway.types.time_format import compile_time_format

ReadTime = Callable[[str], int | None]


def compile_day_text(policy: Policy) -> ReadTime:
    """Make the reading of days. Called once a column.

    Returns:
        A function from text to days since 1970-01-01 or None; it raises DirtyValueError.
    """
    if policy.format is None:
        return _explained(parse_iso_date)
    reader = compile_time_format(policy.format)
    if not reader.has_offset:
        return _explained(lambda text: reader.read(text).second.toordinal() - EPOCH_ORDINAL)
    zone = ZoneInfo(policy.timezone or "UTC")
    return _explained(lambda text: _day_of(reader.read(text), zone))


def compile_instant_text(policy: Policy) -> ReadTime:
    """Make the reading of instants. Called once a column.

    Returns:
        A function from text to microseconds since the epoch or None; it raises DirtyValueError.
    """
    if policy.format is None and policy.timezone is None and policy.on_lossy == "dirty":
        return _explained(parse_iso_timestamp)
    reader = compile_time_format(policy.format or "iso8601")
    zone = ZoneInfo(policy.timezone) if policy.timezone else None
    rounding = policy.rounding

    def read(text: str) -> int | None:
        try:
            return instant_us(reader.read(text), zone, rounding)
        except TooFineError:
            if policy.on_lossy == "null":
                return None
            raise

    return _explained(read)


def compile_day_of_instant(policy: Policy, read_us: ReadTime) -> ReadTime:
    """Make the reading of days from numbers. Called once a column.

    Args:
        policy: Policy of the column; its zone decides the day of an instant.
        read_us: Function from a number's text to microseconds since the epoch.
    """
    zone = ZoneInfo(policy.timezone or "UTC")

    def read(text: str) -> int | None:
        time_us = read_us(text)
        return None if time_us is None else day_in_zone(time_us, zone)

    return _explained(read)


def _day_of(wall: WallTime, zone: ZoneInfo) -> int:
    if wall.offset_us is None:
        # A day needs no midnight, nor any other time that clocks may skip or repeat.
        return wall.second.toordinal() - EPOCH_ORDINAL
    # Digits beyond microseconds never change the day.
    return day_in_zone(instant_us(wall, zone, "ROUND_FLOOR"), zone)


def _explained(read: ReadTime) -> ReadTime:
    def explained(text: str) -> int | None:
        try:
            return read(text)
        except ImpossibleTimeError as error:
            raise ImpossibleValueError(str(error)) from error
        except ValueError as error:
            raise DirtyValueError(DirtyReason.BAD_TIME, str(error)) from error

    return explained
