"""Whether a column's policy fits its type. Values only."""

from collections.abc import Iterator
from dataclasses import dataclass

from sluiceway.types.hive_types import format_hive_type
from sluiceway.types.matrix import BINARY_FORMATS, accepted_settings, kind_of_type
from sluiceway.types.schema import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    Field,
    LocalTimestampType,
    TimestampType,
    leaves,
)
from sluiceway.types.time_format import compile_time_format

_TIMES = DateType | TimestampType | LocalTimestampType
_CLOCK = (
    "remove it: the number counts from 1970 in UTC; or remove `unit`, where a schema of Kafka "
    "Connect says that it is of a clock on a wall"
)
_FREE = ("format", "timezone")


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    """What is wrong with a column's policy.

    Attributes:
        key: Key of the job file.
        expected: What it should be.
        todo: What the user does.
    """

    key: str
    expected: str
    todo: str


def policy_problems(field: Field) -> Iterator[PolicyProblem]:
    """What is wrong with the policy and the unit of a column.

    Called where a job file is checked, for each declared column.

    Args:
        field: The column.
    """
    settings = [pair for pair in field.policy.settings() if pair[0] != "redact"]
    if field.time_unit:
        settings.append(("unit", field.time_unit))
    plain = [leaf for leaf, _ in leaves(field.type, field.policy)]
    wrong = list(_misplaced(field, settings, plain))
    yield from wrong
    if wrong:
        return
    if field.required:
        for key, value in settings:
            if value == "null":
                text = f"no `{key}: null` with `required`"
                yield PolicyProblem(key, text, "remove one of them")
    for leaf in dict.fromkeys(plain):
        if isinstance(leaf, _TIMES):
            yield from _time_problems(field, leaf, has_days=DateType() in plain)
        elif isinstance(leaf, BooleanType) and field.policy.format is not None:
            yield from _boolean_problems(field.policy.format)
        elif isinstance(leaf, BinaryType) and field.policy.format is not None:
            yield from _binary_problems(field.policy.format)


def _misplaced(
    field: Field, settings: list[tuple[str, str]], plain: list[DataType]
) -> Iterator[PolicyProblem]:
    """Settings that change nothing for any value of the column."""
    known = {pair for leaf in plain for pair in accepted_settings(kind_of_type(leaf))}
    keys = {key for key, _ in known}
    for key, value in settings:
        if key == "format" and "format" in keys:
            continue
        if (key, "" if key in _FREE else value) in known:
            continue
        choices = sorted(choice for name, choice in known if name == key)
        shown = format_hive_type(field.type)
        if key not in keys:
            yield PolicyProblem(key, f"no `{key}` for the type {shown}", "remove it")
        else:
            todo = f"write one of: dirty, {', '.join(choices)}"
            yield PolicyProblem(key, f"a value that {shown} has", todo)


def _time_problems(field: Field, leaf: DataType, *, has_days: bool) -> Iterator[PolicyProblem]:
    is_day = isinstance(leaf, DateType)
    pattern, zone = field.policy.format, field.policy.timezone
    if field.time_unit is not None:
        if pattern is not None:
            yield PolicyProblem("format", "no `format` with `unit`", "remove one of them")
        if is_day and zone is None:
            todo = "add timezone: the zone whose days are meant"
            yield PolicyProblem("unit", "a `timezone` with the unit of a day", todo)
        elif zone is not None and not has_days:
            yield PolicyProblem("timezone", "no `timezone` with the `unit` of an instant", _CLOCK)
    elif pattern is not None:
        yield from _format_problems(pattern, zone, is_day=is_day)
    elif is_day and zone is not None:
        text = "a `format` or `unit` with the `timezone` of a day"
        yield PolicyProblem("timezone", text, "add one, or remove the timezone")


def _format_problems(pattern: str, zone: str | None, *, is_day: bool) -> Iterator[PolicyProblem]:
    try:
        reader = compile_time_format(pattern)
    except ValueError as error:
        yield PolicyProblem("format", "a format of times", f"correct it: {error}")
        return
    if is_day and reader.has_offset and zone is None:
        todo = "add timezone: the zone whose days are meant"
        yield PolicyProblem("format", "a `timezone` with a format that has an offset", todo)
    if not is_day and not reader.has_time:
        yield PolicyProblem("format", "a format with a time of day", "add HH:mm:ss")
    elif not is_day and not reader.has_offset and zone is None:
        todo = "add XXX to the format, or timezone: the zone that is meant"
        yield PolicyProblem("format", "an offset in the text, or a `timezone`", todo)


def _boolean_problems(pattern: str) -> Iterator[PolicyProblem]:
    yes, mark, no = pattern.partition("/")
    if not (mark and yes and no) or yes == no or "/" in no:
        text = "two words with `/` between: of true, of false"
        yield PolicyProblem("format", text, "write for example Y/N or 1/0")


def _binary_problems(pattern: str) -> Iterator[PolicyProblem]:
    if pattern not in BINARY_FORMATS:
        text = f"one of {', '.join(BINARY_FORMATS)}"
        yield PolicyProblem("format", text, "say how JSON holds the bytes")
