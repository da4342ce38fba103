"""Parts of an instant on the calendar of a time zone, vectorised."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.expressions.steps import Evaluated, either, failures_where
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.iso_time import EPOCH, MAX_TIME_US, MIN_TIME_US

PARTS: dict[str, Callable[[Any], Any]] = {
    "year": pc.year,
    "month": pc.month,
    "day": pc.day,
    "hour": pc.hour,
}
# Most changes of a zone's offset fall on a quarter of an hour; the others are looked for.
_QUARTER_US = 15 * 60 * 1_000_000
_MICROSECOND = timedelta(microseconds=1)
_FAR = timedelta(days=2)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC) + _FAR, datetime.max.replace(tzinfo=UTC) - _FAR


def time_zone(name: str) -> ZoneInfo:
    """The zone of a name.

    Called once per expression.

    Raises:
        ValueError: There is none.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"there is no time zone {name[:60]!a}") from error


def part_of_time(name: str, zone: ZoneInfo, rows: int, operands: Sequence[Evaluated]) -> Evaluated:
    """Year, month, day or hour in a zone. A kernel once the first two are given.

    BAD_TIME where the local time lies outside of the years 1 to 9999.
    """
    times_us = operands[0].value.view(pa.int64())
    wall_us = pc.add(times_us, pa.array(_offsets_us(times_us, zone)))
    outside = pc.or_(pc.less(wall_us, MIN_TIME_US), pc.greater(wall_us, MAX_TIME_US))
    failed = failures_where(outside, DirtyReason.BAD_TIME)
    wall = pc.if_else(outside, None, wall_us) if failed is not None else wall_us
    found = PARTS[name](wall.view(pa.timestamp("us"))).cast(pa.int32())
    return Evaluated(found, either(operands[0].failed, failed))


def _offsets_us(times_us: pa.Array, zone: ZoneInfo) -> npt.NDArray[np.int64]:
    """What to add to each instant; looked up once per distinct quarter of an hour."""
    times = times_us.fill_null(0).to_numpy()
    if zone.key == "UTC":
        return np.zeros(len(times), np.int64)
    quarters, places = np.unique(times // _QUARTER_US, return_inverse=True)
    first = quarters * _QUARTER_US
    found = np.array([_offset_us(at, zone) for at in first.tolist()], np.int64)
    last = [_offset_us(at + _QUARTER_US - 1, zone) for at in first.tolist()]
    offsets: npt.NDArray[np.int64] = found[places]
    for row in np.flatnonzero((found != np.array(last, np.int64))[places]).tolist():
        offsets[row] = _offset_us(int(times[row]), zone)
    return offsets


def _offset_us(time_us: int, zone: ZoneInfo) -> int:
    # At the ends of the calendar the local time may not exist; the offset there is the next one.
    time_us = min(max(time_us, (_FIRST - EPOCH) // _MICROSECOND), (_LAST - EPOCH) // _MICROSECOND)
    offset = (EPOCH + timedelta(microseconds=time_us)).astimezone(zone).utcoffset()
    return 0 if offset is None else offset // _MICROSECOND
