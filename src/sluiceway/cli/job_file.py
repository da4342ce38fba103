"""A job file with its types, options and expressions checked too: what every command loads."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from sluiceway.cli.room_option import ALL_ROOMS, choose_room
from sluiceway.cli.views.typed_commands import JOB_FILE
from sluiceway.errors import JobFileError
from sluiceway.jobfile.blocks.block import mapping
from sluiceway.jobfile.blocks.columns import ColumnSpec
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.blocks.table import FROM_REGISTRY
from sluiceway.jobfile.blocks.values import revealed
from sluiceway.jobfile.blocks.written_columns import (
    decoded_columns,
    decoded_path,
    written_columns,
    written_name,
)
from sluiceway.jobfile.compile.choices import ReadColumns, problems_of, unread_policies
from sluiceway.jobfile.compile.unnamed_routes import surely_fits
from sluiceway.jobfile.document import read_document
from sluiceway.jobfile.loader import InspectedJob, LoadedJob, inspect_job, read_job_file
from sluiceway.jobfile.positions import Path, Positions
from sluiceway.jobfile.problems import JobFileProblem, job_file_error
from sluiceway.jobfile.room_overlay import home_of, rooms_mark, rooms_of
from sluiceway.plugins import PluginGroup, plugin_names
from sluiceway.sources.kafka.settings import wrong_properties
from sluiceway.types.hive_types import parse_hive_type


def load_checked_job(path: FilePath, *, opens: bool = True) -> LoadedJob:
    """Load a job file and check what its own layer cannot: see `inspect_checked_job`.

    Args:
        path: The file.
        opens: Whether a job with rooms needs the room of this process named: else it is the home.

    Raises:
        JobFileError: The file cannot be read or is not valid; holds every problem with its line.
        NotInThisVersionError: It asks for things of later versions.
        UnhealthyEnvironmentError: A plug-in that it names does not work here.
        WrongUsageError: The job has rooms, and this process names none of them.
    """
    JOB_FILE.set(str(path))
    return parse_checked_job(read_job_file(path), path, opens=opens)


def parse_checked_job(content: bytes, path: FilePath, *, opens: bool = True) -> LoadedJob:
    """As `load_checked_job`, for bytes that are already read.

    Raises:
        JobFileError: The job is not valid; holds every problem with its line.
        NotInThisVersionError: It asks for things of later versions.
        UnhealthyEnvironmentError: A plug-in that it names does not work here.
        WrongUsageError: As in `load_checked_job`.
    """
    found = [inspect_checked_job(content, path, room) for room in _rooms(content, opens=opens)]
    problems = [problem for each in found for problem in each.problems]
    if problems or found[0].job is None:
        raise job_file_error(str(path), problems)
    return found[0].job


def _rooms(content: bytes, *, opens: bool) -> tuple[str, ...]:
    """Rooms whose references are read: one, or all where `validate` asks for that."""
    root = read_document(content).root if b"rooms" in content else None
    rooms, home = tuple(rooms_of(root)), home_of(root)
    if rooms_mark(root) is not None and home not in rooms:
        # The check of the file reports that with its place.
        return ("",)
    room = choose_room(rooms, home, opens=opens)
    return (home, *(each for each in rooms if each != home)) if room == ALL_ROOMS else (room,)


def inspect_checked_job(content: bytes, path: FilePath, room: str = "") -> InspectedJob:
    """Find all that is wrong with a job file, by every check that needs no server and no Spark.

    Column types, constants and expressions are checked even where the rest is wrong. Options of the
    source are checked in routes that can be read. Format options, columns and the parts of a row
    are checked together only when all else is valid.

    Args:
        content: The whole file.
        path: Its path as the user gave it.
        room: Room of this process; empty is the file's home.

    Raises:
        UnhealthyEnvironmentError: A plug-in in the job file does not work here.
    """
    read = inspect_job(content, path, os.environ, _wrong_columns, room)
    if read.job is None:
        return read
    known = {problem.mark for problem in read.problems}
    found = [problem for problem in _route_problems(read.job) if problem.mark not in known]
    if not found and not read.problems:
        found.extend(_unfit_routes(read.job))
    return InspectedJob(read.job, (*read.problems, *found))


def _wrong_columns(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    yield from _wrong_types(data, positions)
    where, decoded = data.get("where"), decoded_path(data)
    block = data.get(decoded[0])
    columns = block.get(decoded[1]) if isinstance(block, Mapping) else ()
    written: list[Path] = []
    read: ReadColumns | None = ReadColumns((), complete=False)
    if columns in ("from_table", FROM_REGISTRY):
        read = None
    elif isinstance(columns, tuple) and columns:
        read = _read_columns(columns)
        written = [(*decoded, index) for index in range(len(columns))]
    elif isinstance(columns, Mapping):
        # Only the registry knows further columns.
        told = [(path, _as_declared(path, column)) for path, column in written_columns(data)]
        read = replace(_read_columns(tuple(column for _, column in told)), complete=False)
        written = [path for path, _ in told]
    for found in problems_of(read, where if isinstance(where, str) else None):
        from sluiceway.jobfile.compile.subject_changes import where_written  # noqa: PLC0415 - seldom needed

        choice = where_written(found, written)
        text = f"expected {choice.expected}, got {positions.came(choice.path)}"
        yield JobFileProblem(positions.value(choice.path), text, choice.todo)


def _as_declared(path: Path, column: Mapping[str, Any]) -> Mapping[str, Any]:
    """A field of the job file as if it were a declared column; None without a type."""
    return {**column, "name": written_name(path, column)}


def _read_columns(columns: tuple[object, ...]) -> ReadColumns:
    found: list[ColumnSpec | None] = []
    unread: set[str] = set()
    complete = True
    for column in columns:
        try:
            found.append(ColumnSpec.model_validate(column))
        except ValidationError:
            found.append(None)
            name = column.get("name") if isinstance(column, Mapping) else None
            complete = complete and isinstance(name, str)
            unread.add(str(name).lower())
    return ReadColumns(found, unread, complete=complete)


def _wrong_types(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    written = [((*path, "type"), column.get("type")) for path, column in decoded_columns(data)]
    functions = mapping(data, "transform", "functions")
    for name in functions:
        returns = mapping(functions, name).get("returns")
        written.append((("transform", "functions", name, "returns"), returns))
    for place, text in written:
        if not isinstance(text, str) or not text.strip():
            continue
        try:
            parse_hive_type(text)
        except ValueError as error:
            came = f"expected a Hive type, got {positions.came(place)}"
            yield JobFileProblem(positions.value(place), came, f"correct it: {error}")


def _route_problems(job: LoadedJob) -> Iterator[JobFileProblem]:
    for number, route in enumerate(job.spec.routes):
        yield from _wrong_options(job, number, route)
        hive = route.table.hive
        timestamps = None if hive is None else hive.parquet_timestamps
        if hive is not None and timestamps and hive.file_format not in (None, "parquet"):
            place = ("table", "hive", "parquet_timestamps")
            yield job.wrong_value(place, "it for Parquet only", "remove it", route=number)
        for choice in unread_policies(route):
            yield job.wrong_value(choice.path, choice.expected, choice.todo, route=number)


def _unfit_routes(job: LoadedJob) -> Iterator[JobFileProblem]:
    for number, route in enumerate(job.spec.routes):
        if not surely_fits(route):
            from sluiceway.cli.views.row_checks import unfit_rows  # noqa: PLC0415 - loads Arrow

            yield from unfit_rows(job, number, route)


def _refused_by_plugin(
    job: LoadedJob, number: int, route: RouteSpec, name: str
) -> Iterator[JobFileProblem]:
    if name not in plugin_names(PluginGroup.SOURCES):
        # A connection of another kind is reported where it is named.
        return
    from sluiceway.jobfile.compile.compile import source_access  # noqa: PLC0415 - seldom needed

    try:
        source_access(route)
    except JobFileError as error:
        at = job.positions[number].key(("connections", route.source.connection, name))
        yield JobFileProblem(at, error.message, error.hint or "correct the connection")


def _wrong_options(job: LoadedJob, number: int, route: RouteSpec) -> Iterator[JobFileProblem]:
    connection = route.connections.get(route.source.connection)
    if connection is None:
        return
    if connection.plugin is not None:
        yield from _refused_by_plugin(job, number, route, connection.plugin[0])
    if connection.kafka is None:
        return
    properties = {key: revealed(value) for key, value in connection.kafka.properties.items()}
    for key, reason in wrong_properties(properties).items():
        place = ("connections", route.source.connection, "kafka", "properties", key)
        yield JobFileProblem(job.positions[number].key(place), reason, "correct or remove it")
