"""Checks options of `init` that fit in no job file, and names the option."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sluiceway.cli.views.init_text import RECORD_TIME, JobText
from sluiceway.errors import Fatal, WrongUsageError
from sluiceway.jobfile.problems import quoted

if TYPE_CHECKING:
    from sluiceway.errors import PlacedProblem

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
