"""A job file with its column types checked too: what every command that takes one loads."""

from pathlib import Path

from sluiceway.spec.loader import LoadedJob, load_job
from sluiceway.spec.problems import Problem
from sluiceway.types.hive_types import parse_hive_type


def load_checked_job(path: Path) -> LoadedJob:
    """Load a job file and parse its column types, which the job file's own layer cannot.

    Raises:
        JobFileError: The file is not valid; holds every problem with its line.
        NotInThisVersionError: It asks for things of later versions.
    """
    job = load_job(path)
    problems = [
        problem
        for index, column in enumerate(job.spec.table.columns or ())
        if (problem := _type_problem(job, index, column.type)) is not None
    ]
    if problems:
        raise job.error(problems)
    return job


def _type_problem(job: LoadedJob, index: int, text: str) -> Problem | None:
    try:
        parse_hive_type(text)
    except ValueError as error:
        place = ("table", "columns", index, "type")
        return job.wrong_value(place, "a Hive type", f"correct it: {error}")
    return None
