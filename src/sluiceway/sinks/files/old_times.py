"""Days and moments of the Julian calendar, which some readers take for others.

Readers in Java count days before 1582-10-15 by the Julian calendar in files that do not name their
calendar: ORC and Avro of Hive. Where days are text, they find each day again but the ten that lie
between the two calendars: of 1582-10-10 they make 1582-10-20.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.sinks.files.row_masks import Mask

MICROS = 1_000_000
_FIRST_DAY = -141_427
_LEFT_OUT_DAYS = 10
_DAY_MICROS = 86_400 * MICROS


def before_gregorian(values: Any) -> Mask | None:
    """Which days or moments lie before 1582-10-15; None: none of them, or of another type."""
    if pa.types.is_date(values.type):
        return _below(values.cast(pa.int32()), _FIRST_DAY)
    if pa.types.is_timestamp(values.type):
        return _below(values.cast(pa.int64()), _FIRST_DAY * _DAY_MICROS)
    return None


def between_calendars(values: Any) -> Mask | None:
    """Which days or moments lie from 1582-10-05 to 1582-10-14; None as in `before_gregorian`."""
    old = before_gregorian(values)
    if old is None:
        return None
    is_day = pa.types.is_date(values.type)
    numbers = values.cast(pa.int32() if is_day else pa.int64())
    first = (_FIRST_DAY - _LEFT_OUT_DAYS) * (1 if is_day else _DAY_MICROS)
    return np.asarray(old & (np.asarray(pc.fill_null(numbers, 0)) >= first))


def _below(numbers: Any, first: int) -> Mask | None:
    least = pc.min(numbers).as_py()
    if least is None or least >= first:
        return None
    return np.asarray(np.asarray(pc.fill_null(numbers, 0)) < first)
