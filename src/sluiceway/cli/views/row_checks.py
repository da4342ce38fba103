"""Whether the parts of a route's rows fit together, by the code that reads them: loads Arrow."""

from collections.abc import Iterator

from sluiceway.errors import JobFileError
from sluiceway.formats.registry import open_decoder
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.compile.choices import row_columns
from sluiceway.jobfile.compile.compile import (
    format_choice,
    unfit_partition,
    why_no_files,
    why_no_rows,
)
from sluiceway.jobfile.loader import LoadedJob
from sluiceway.jobfile.problems import JobFileProblem
from sluiceway.types.schema import Schema
from sluiceway.worker.row_rules import payload_fields


def unfit_rows(job: LoadedJob, number: int, route: RouteSpec) -> Iterator[JobFileProblem]:
    """The first problem of a route whose parts do not fit together; none when they do.

    Called when a job file is checked, for routes that passed the earlier checks.

    Args:
        job: The job.
        number: Number of the route in the job.
        route: The route.
    """
    unread = _format_problem(job, number, route)
    if unread is not None:
        yield unread
        return
    why = why_no_rows(route)
    if why is not None:
        part = unfit_partition(route)
        if part is None:
            at = job.positions[number].key(("table",))
        else:
            at = job.positions[number].value(("table", "partition_by", part))
        yield JobFileProblem(at, f"expected columns that rows can be made of: {why}", "change them")
        return
    why = why_no_files(route)
    if why is not None:
        positions, named = job.positions[number], ("table", "hive", "file_format")
        at = positions.value(named if positions.has(named) else ("table", "columns"))
        todo = "choose another format or name"
        yield JobFileProblem(at, f"expected a table that holds the rows: {why}", todo)


def _format_problem(job: LoadedJob, number: int, route: RouteSpec) -> JobFileProblem | None:
    """What the format itself reports about its options and the declared columns."""
    columns = row_columns(route)
    if columns is None:
        # The columns are known only once the table is open.
        return None
    positions = job.positions[number]
    try:
        choice = format_choice(route)
    except JobFileError as error:
        # Only a descriptor set is read from a file of its own.
        place = ("format", "protobuf", "descriptor_set")
        text = f"{error.message}, got {positions.came(place)}"
        return JobFileProblem(positions.value(place), text, error.hint or "correct it")
    try:
        open_decoder(choice, Schema(payload_fields(columns)))
    except ValueError as error:
        at = positions.value(("format", choice.name))
        return JobFileProblem(
            at, f"expected a format that reads the columns: {error}", "correct it"
        )
    return None
