"""A job file with its types and expressions checked too: what every command loads."""

from pathlib import Path

from sluiceway.formats.registry import open_decoder
from sluiceway.job.choices import choice_problems, row_columns
from sluiceway.job.compile import format_choice
from sluiceway.spec.loader import LoadedJob, load_job
from sluiceway.spec.problems import Problem
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Schema
from sluiceway.worker.row_choices import payload_fields


def load_checked_job(path: Path) -> LoadedJob:
    """Load a job file and check types, constants and expressions, which its own layer cannot.

    Raises:
        JobFileError: The file is not valid; holds every problem with its line.
        NotInThisVersionError: It asks for things of later versions.
        UnhealthyEnvironmentError: A plug-in that it names does not work here.
    """
    return check_job(load_job(path))


def check_job(job: LoadedJob) -> LoadedJob:
    """Check types, constants and expressions of a job that is loaded already, and return it.

    Raises:
        JobFileError: The job is not valid; holds every problem with its line.
    """
    problems = [
        problem
        for number, route in enumerate(job.spec.routes)
        for index, column in enumerate(route.table.columns or ())
        if (problem := _type_problem(job, number, index, column.type)) is not None
    ]
    problems += [
        job.wrong_value(problem.path, problem.expected, problem.todo, route=number)
        for number, route in enumerate(job.spec.routes)
        for problem in choice_problems(route)
    ]
    if not problems:
        problems = [
            problem
            for number in range(len(job.spec.routes))
            if (problem := _format_problem(job, number)) is not None
        ]
    if problems:
        raise job.error(problems)
    return job


def _format_problem(job: LoadedJob, route: int) -> Problem | None:
    """What the format itself says of its options and the declared columns."""
    spec = job.spec.routes[route]
    columns = row_columns(spec)
    if columns is None:
        # What the columns are is known only once the table is open.
        return None
    choice = format_choice(spec)
    try:
        open_decoder(choice, Schema(payload_fields(columns)))
    except ValueError as error:
        expected = "a format that reads the columns"
        return job.wrong_value(
            ("format", choice.name), expected, f"correct it: {error}", route=route
        )
    return None


def _type_problem(job: LoadedJob, route: int, index: int, text: str) -> Problem | None:
    try:
        parse_hive_type(text)
    except ValueError as error:
        place = ("table", "columns", index, "type")
        return job.wrong_value(place, "a Hive type", f"correct it: {error}", route=route)
    return None
