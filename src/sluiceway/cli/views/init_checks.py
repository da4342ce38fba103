"""Options of `init`: checks and times that fit in no job file."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sluiceway.cli.views.init_text import RECORD_TIME, EventTime, JobText, time_columns
from sluiceway.errors import Fatal, WrongUsageError
from sluiceway.jobfile.problems import quoted

if TYPE_CHECKING:
    from sluiceway.errors import PlacedProblem
    from sluiceway.formats.json.survey import ProposedColumn


_ANY_COLUMN = ("columns:", "  - {name: any, type: string}")
_BY_HOUR = ("{name: dt, event_time: yyyyMMdd}",)
_OPTIONS = (
    ("  main: {kafka:", "--bootstrap-servers"),
    ("  hms: {metastore:", "--metastore"),
    ("  lake: {iceberg:", "--iceberg and --warehouse"),
    ("  registry: {schema_registry:", "--registry"),
    ("source: {", "TOPIC"),
    ("  hive: {connection:", "--table"),
    ("  iceberg: {connection:", "--table"),
    ("  key: ", "--key"),
)
"""Beginnings of lines with typed values, and the option of each."""
_OF_PATTERNS = re.compile(r"[\\*+?^$|()\[\]{}]")


def check_typed(job: JobText) -> None:
    """Refuse a typed value that fits in no job file, before a server is asked.

    Raises:
        WrongUsageError: Names the option.
    """
    _refuse_patterns(job)
    told = replace(job, columns=_ANY_COLUMN, partitions=_BY_HOUR, time=RECORD_TIME)
    text = told.text()
    wrong = _of_options(text, _problems(text, Path("job.yaml")))
    if wrong:
        raise _refused(wrong)


def _refuse_patterns(job: JobText) -> None:
    """Refuse a pattern: `init` reads topics one by one; patterns are for the job file."""
    for option, given, kind in (("TOPIC", job.topic, "topic"), ("--table", job.table, "table")):
        if _OF_PATTERNS.search(given):
            raise WrongUsageError(
                f"{option}: `init` looks at one {kind}, and {quoted(given)} is a pattern",
                hint="name one topic and its table, and put the pattern into the file that is "
                'written, as `topics: "shop_(.*)"` with `name: "ods.{1}"`: '
                "docs/guides/sources.md",
            )


def check_text(text: str, place: Path) -> None:
    """Refuse a job file that would not be valid; called before it is written.

    Raises:
        WrongUsageError: For typed values; names the option.
        Fatal: For the rest: a value that was found fits in no job file.
    """
    try:
        _parse(text, place)
    except Fatal as error:
        wrong = _of_options(text, error.problems)
        if wrong:
            raise _refused(wrong) from error
        raise


def _parse(text: str, place: Path) -> None:
    from sluiceway.cli.job_file import parse_checked_job  # noqa: PLC0415 - loads pydantic

    parse_checked_job(text.encode(), place)


def _problems(text: str, place: Path) -> "tuple[PlacedProblem, ...]":
    try:
        _parse(text, place)
    except Fatal as error:
        return error.problems
    return ()


def _of_options(
    text: str, problems: "tuple[PlacedProblem, ...]"
) -> "list[tuple[str, PlacedProblem]]":
    lines = text.splitlines()
    found = []
    for problem in problems:
        line = lines[problem.line - 1] if problem.line <= len(lines) else ""
        found += [(option, problem) for begin, option in _OPTIONS if line.startswith(begin)]
    return found


def _refused(wrong: "list[tuple[str, PlacedProblem]]") -> WrongUsageError:
    message = "; ".join(f"{option}: {problem.text}" for option, problem in wrong)
    return WrongUsageError(message, hint=wrong[0][1].todo)


def inner_times(columns: "Sequence[ProposedColumn]") -> list[EventTime]:
    """Times inside of structs."""
    return [
        EventTime(".".join((column.name, *time.path)), time.unit)
        for column in columns
        for time in column.times
        if time.path and time.sure and column.type.startswith("struct<")
    ]


def mixed_times(columns: "Sequence[ProposedColumn]") -> list[EventTime]:
    """Fields of which some values are no times; those rows become dirty."""
    return [
        EventTime(column.name, time.unit)
        for column in columns
        for time in column.times
        if not time.sure and not time.path
    ]


def fitting(
    times: Sequence[EventTime],
    columns: "Sequence[ProposedColumn]",
    held: Mapping[str, str] | None,
) -> list[EventTime]:
    """The event times that a table's columns can hold.

    Args:
        times: Event times found in the payloads.
        columns: Columns found in the payloads.
        held: Column types of the table, by name in lower case; None when there is no table yet.
    """
    if held is None:
        return list(times)
    seen = {column.name: column.type.lower() for column in columns}
    found = []
    for each in times:
        top = each.field.partition(".")[0]
        needs = seen[top] if each.is_inner else "bigint" if each.unit else "timestamp"
        if held.get(top.lower()) == needs:
            found.append(each)
    return found


def why_no_time(
    columns: "Sequence[ProposedColumn]", name: str, held: Mapping[str, str] | None = None
) -> str:
    """Why a field has no event times, in words.

    Args:
        columns: Columns found in the payloads.
        name: The field as it was typed, or a path.
        held: See `fitting`.
    """
    times = (*time_columns(columns), *inner_times(columns), *mixed_times(columns))
    if held is not None and any(each.field == name for each in times):
        kind = held.get(name.partition(".")[0].lower(), "not there")
        return f"`{name[:60]}` is a time in records, but in the table its column is {kind}"
    top, _, inner = name.partition(".")
    shown = f"`{name[:60]}`"
    column = next((each for each in columns if each.name == top), None)
    if column is None:
        return f"no row has a field `{top[:60]}`"
    if inner and not column.type.startswith("struct<"):
        return f"{shown}: `{top[:60]}` is {column.type or 'no struct'}, which holds no field"
    doubts = [
        each.removeprefix(f"{inner}: ")
        for each in column.doubts
        if not inner or each.startswith(f"{inner}: ")
    ]
    if doubts:
        return f"{shown} cannot say when a row happened: {'; '.join(doubts)}"
    read = f", it is read as {column.type}" if not inner and column.type else ""
    return f"{shown} cannot say when a row happened: no times were seen in it{read}"
