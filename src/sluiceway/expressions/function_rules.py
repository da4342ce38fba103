"""Argument types of the functions, and the steps that calls become."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.expressions.logic import choose, first_not_null
from sluiceway.expressions.masks import cover_text, hash_text
from sluiceway.expressions.steps import (
    Constant,
    Evaluated,
    Kernel,
    Step,
    either,
    failures_where,
    operation,
    per_row,
)
from sluiceway.expressions.texts import concatenate, cut_text, replace_text
from sluiceway.expressions.tree import Call, ExpressionError
from sluiceway.expressions.widening import common_type, shown_type, typed, widened
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.iso_time import EPOCH, MAX_TIME_US, MIN_TIME_US
from sluiceway.types.schema import BooleanType, DataType, IntegerType, StringType, TimestampType

PARTS: dict[str, Callable[[Any], Any]] = {
    "year": pc.year,
    "month": pc.month,
    "day": pc.day,
    "hour": pc.hour,
}
# Most zones change their offset at a quarter of an hour; other changes are searched for.
_QUARTER_US = 15 * 60 * 1_000_000
_MICROSECOND = timedelta(microseconds=1)
_FAR = timedelta(days=2)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC) + _FAR, datetime.max.replace(tzinfo=UTC) - _FAR


def time_zone(name: str) -> ZoneInfo:
    """The zone of a name.

    Called once per expression.

    Raises:
        ValueError: There is no such zone.
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
    """What to add to each instant; computed once per distinct quarter of an hour."""
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


Steps = tuple[Step, ...]
Rule = Callable[[Call, Steps], Step]

_TEXT = StringType()
_INT32 = IntegerType(32)
_MAX_PLACE = 1 << 31


def call_function(call: Call, arguments: Steps) -> Step:
    """The step of a call. Called once per call and expression.

    Raises:
        ExpressionError: There is no such function, or its arguments do not fit.
    """
    rule = RULES.get(call.name)
    if rule is None:
        known = ", ".join(sorted(RULES.keys() - {"||"}))
        text = f"there is no function {call.name[:40]}; there are {known} and cast"
        raise ExpressionError(text, call.at)
    return rule(call, arguments)


def typed_step(step: Step, data_type: DataType, at: int, what: str) -> Step:
    """A step that must have one type; nulls get it.

    Raises:
        ExpressionError: It has another type.
    """
    step = typed(step, data_type)
    if step.type != data_type:
        text = f"{what} takes {shown_type(data_type)}, got {shown_type(step.type)}"
        raise ExpressionError(text, at)
    return step


def _count(call: Call, arguments: Steps, expected: int) -> None:
    if len(arguments) != expected:
        text = f"{call.name} takes {expected} arguments, got {len(arguments)}"
        raise ExpressionError(text, call.at)


def _text_rule(result: DataType, kernel: Kernel) -> Rule:
    def rule(call: Call, arguments: Steps) -> Step:
        _count(call, arguments, 1)
        text = typed_step(arguments[0], _TEXT, call.arguments[0].at, call.name)
        return operation(result, kernel, text)

    return rule


def _concat(call: Call, arguments: Steps) -> Step:
    if not arguments:
        raise ExpressionError("concat takes 1 argument or more, got none", call.at)
    texts = [
        typed_step(step, _TEXT, node.at, call.name)
        for node, step in zip(call.arguments, arguments, strict=True)
    ]
    return operation(_TEXT, concatenate, *texts)


def _coalesce(call: Call, arguments: Steps) -> Step:
    kind = common_type(arguments, call.at)
    choices = [
        widened(step, kind, node.at) for node, step in zip(call.arguments, arguments, strict=True)
    ]
    return operation(kind, first_not_null, *choices)


def _if(call: Call, arguments: Steps) -> Step:
    _count(call, arguments, 3)
    condition = typed_step(arguments[0], BooleanType(), call.arguments[0].at, "the condition of if")
    kind = common_type(arguments[1:], call.at)
    branches = [
        widened(step, kind, node.at)
        for node, step in zip(call.arguments[1:], arguments[1:], strict=True)
    ]
    return operation(kind, choose, condition, *branches)


def _replace(call: Call, arguments: Steps) -> Step:
    _count(call, arguments, 3)
    text = typed_step(arguments[0], _TEXT, call.arguments[0].at, "replace")
    search, by = (_literal_text(call, arguments, place) for place in (1, 2))
    if not search:
        raise ExpressionError("replace takes a text to search for, got ''", call.arguments[1].at)
    return operation(_TEXT, partial(replace_text, search, by), text)


def _substring(call: Call, arguments: Steps) -> Step:
    _count(call, arguments, 3)
    text = typed_step(arguments[0], _TEXT, call.arguments[0].at, "substring")
    first, count = (
        _literal_number(call, arguments, place, least) for place, least in ((1, 1), (2, 0))
    )
    return operation(_TEXT, partial(cut_text, first - 1, count), text)


def _mask(call: Call, arguments: Steps) -> Step:
    _count(call, arguments, 2)
    text = typed_step(arguments[0], _TEXT, call.arguments[0].at, "mask")
    return operation(_TEXT, partial(cover_text, _literal_number(call, arguments, 1, 0)), text)


def _sha256(call: Call, arguments: Steps) -> Step:
    _count(call, arguments, 2)
    text = typed_step(arguments[0], _TEXT, call.arguments[0].at, "sha256")
    return operation(_TEXT, partial(hash_text, _literal_text(call, arguments, 1)), text)


def _null_if(call: Call, arguments: Steps) -> Step:
    """Of two arguments it is an `if` by now."""
    _count(call, arguments, 2)
    return arguments[0]


def _literal_text(call: Call, arguments: Steps, place: int) -> str:
    step = arguments[place]
    value = step.value.as_py() if isinstance(step, Constant) else None
    if not isinstance(value, str):
        at = call.arguments[place].at
        raise ExpressionError(f"{call.name} takes a literal text as argument {place + 1}", at)
    return value


def _literal_number(call: Call, arguments: Steps, place: int, least: int) -> int:
    step = arguments[place]
    value = step.value.as_py() if isinstance(step, Constant) else None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < _MAX_PLACE:
        text = f"{call.name} takes a literal integer from {least} as argument {place + 1}"
        raise ExpressionError(text, call.arguments[place].at)
    return value


def _time_part(call: Call, arguments: Steps) -> Step:
    _count(call, arguments, 2)
    instant = typed_step(arguments[0], TimestampType(), call.arguments[0].at, call.name)
    name = _literal_text(call, arguments, 1)
    try:
        zone = time_zone(name)
    except ValueError as error:
        raise ExpressionError(str(error), call.arguments[1].at) from error
    return operation(_INT32, partial(part_of_time, call.name, zone), instant)


RULES: dict[str, Rule] = {
    "||": _concat,
    "coalesce": _coalesce,
    "concat": _concat,
    "if": _if,
    "mask": _mask,
    "null_if": _null_if,
    "sha256": _sha256,
    "length": _text_rule(_INT32, per_row(pc.utf8_length)),
    "lower": _text_rule(_TEXT, per_row(pc.utf8_lower)),
    "replace": _replace,
    "substring": _substring,
    "trim": _text_rule(_TEXT, per_row(partial(pc.utf8_trim, characters=" "))),
    "upper": _text_rule(_TEXT, per_row(pc.utf8_upper)),
    **dict.fromkeys(PARTS, _time_part),
}
