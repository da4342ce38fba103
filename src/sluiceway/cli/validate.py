"""`sluiceway validate`: check a job file without any server."""

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.cli.file_forecast import file_forecast
from sluiceway.spec.file_formats import COMPRESSIONS, PARQUET
from sluiceway.spec.retention import duration_text

if TYPE_CHECKING:
    from sluiceway.spec.models import HiveTable, JobSpec, RouteSpec
    from sluiceway.spec.problems import Problem

app = typer.Typer()


class SummaryFormat(StrEnum):
    """How `validate` answers."""

    TABLE = "table"
    JSON = "json"


@app.command()
def validate(
    job_file: Annotated[Path, typer.Argument(help="The job file.", metavar="FILE")],
    output: Annotated[
        SummaryFormat, typer.Option("-o", "--output", help="How to answer.")
    ] = SummaryFormat.TABLE,
) -> None:
    """Check a job file, all of it at once, and say what it does. Needs no network.

    Exit code 3 when it cannot be read or is not valid; each problem is told as file:line:column,
    or with `-o json` as an item of `problems`.
    """
    from sluiceway.cli.job_file import inspect_checked_job  # noqa: PLC0415 - keeps `--help` quick
    from sluiceway.errors import JobFileError  # noqa: PLC0415
    from sluiceway.spec.loader import read_job_file  # noqa: PLC0415
    from sluiceway.spec.problems import job_file_error  # noqa: PLC0415

    as_json = output is SummaryFormat.JSON
    try:
        found = inspect_checked_job(read_job_file(job_file), job_file)
    except JobFileError as error:
        if not as_json:
            raise
        unread = {"line": None, "column": None, "problem": error.message, "todo": error.hint}
        _write_json({"ok": False, "file": str(job_file), "problems": [unread]})
        raise typer.Exit(error.exit_code) from error
    if found.job is None or found.problems:
        invalid = job_file_error(str(job_file), found.problems)
        if not as_json:
            raise invalid
        problems = [_problem_as_json(problem) for problem in sorted(set(found.problems))]
        _write_json({"ok": False, "file": str(job_file), "problems": problems})
        raise typer.Exit(invalid.exit_code)
    if as_json:
        _write_json({"ok": True, "file": str(job_file), **_summary(found.job.spec)})
    else:
        sys.stdout.write(_table(str(job_file), found.job.spec))


def _write_json(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def _problem_as_json(problem: "Problem") -> dict[str, Any]:
    return {
        "line": problem.mark.line,
        "column": problem.mark.column,
        "problem": problem.text,
        "todo": problem.todo,
    }


def _summary(spec: "JobSpec") -> dict[str, Any]:
    """One route stands beside the job's own values, several stand in a list."""
    job = {"job": spec.name, "owner": spec.owner, "interval_ms": spec.run.interval_ms}
    routes = [_route_summary(route) for route in spec.routes]
    return {**job, **routes[0]} if len(routes) == 1 else {**job, "routes": routes}


def _route_summary(route: "RouteSpec") -> dict[str, Any]:
    table = route.table
    return {
        "route": route.route or None,
        "topics": list(route.source.names),
        "pattern": route.source.pattern or None,
        "start": str(route.source.start_at),
        "table": table.hive.name if table.hive.is_template else table.hive.name.lower(),
        "create": table.hive.create,
        "subject": _subject(route),
        "columns": None
        if table.columns is None
        else [
            {"name": column.name, "type": column.type, "required": column.required}
            for column in table.columns
        ],
        "meta": {column.field: column.name for column in table.meta},
        "partitions": [
            {"name": part.name, "event_time": part.event_time, "column": part.column}
            for part in table.partition_by
        ],
        "files": file_forecast(route).as_json(),
        "dirty_rows": {
            "topic": None if route.dirty.store is None else route.dirty.store.topic,
            "table": None if route.dirty.store is None else route.dirty.store.table,
            "retention_ms": route.dirty.retention_ms,
        },
    }


def _table(file: str, spec: "JobSpec") -> str:
    commits = f"a commit every {spec.run.interval_ms / 1000:g} s"
    lines = [
        f"OK {file}",
        _line("job", spec.name + (f", owner {spec.owner}" if spec.owner else "")),
    ]
    if len(spec.routes) > 1:
        lines.append(_line("routes", f"{len(spec.routes)}, {commits}"))
    for route in spec.routes:
        lines.extend(_route_lines(route, commits))
    return "\n".join([*lines, ""])


def _route_lines(route: "RouteSpec", commits: str) -> list[str]:
    hive = route.table.hive
    name = hive.name if hive.is_template else hive.name.lower()
    created = "created if missing" if hive.create == "if_missing" else "has to exist"
    topics = f"all like `{route.source.pattern}`" if route.source.pattern else ""
    forecast = file_forecast(route)
    rows = {
        "route": f"{route.route or 'one for each table'}, {commits}",
        "topics": f"{topics or ', '.join(route.source.names)} from {route.source.start_at}",
        "table": f"{name}, {created}, {_files(hive)}",
        "columns": _columns(route),
        "partitions": _partitions(route),
        "files": forecast.words(),
    }
    if (dirty := _dirty_rows(route)) is not None:
        rows["dirty rows"] = dirty
    if (warning := forecast.warning()) is not None:
        rows["warning"] = warning
    return [_line(name, text) for name, text in rows.items()]


def _dirty_rows(route: "RouteSpec") -> str | None:
    """Where they go besides, and how long they are kept; None for the defaults."""
    store, kept_ms = route.dirty.store, route.dirty.retention_ms
    words = []
    if store is not None and store.topic is not None:
        words.append(f"to the topic {store.topic} too")
    if store is not None and store.table is not None:
        words.append(f"to the table {store.table} too, made if missing")
    if kept_ms is not None:
        words.append(f"purged {duration_text(kept_ms)} after their commit")
    return ", ".join(words) or None


def _line(name: str, text: str) -> str:
    return f"{name:<12}{text}"


def _files(hive: "HiveTable") -> str:
    if hive.file_format is None and hive.create == "never":
        return "in its own format"
    file_format = hive.file_format or PARQUET
    return f"{file_format} {hive.compression or COMPRESSIONS[file_format][0]}"


def _columns(spec: "RouteSpec") -> str:
    table = spec.table
    meta = ", ".join(column.name for column in table.meta)
    suffix = f"; {meta}" if meta else ""
    subject = _subject(spec)
    if subject is not None:
        version = "at each start" if subject["version"] is None else f"version {subject['version']}"
        return f"from the registry's subject {subject['name']}, {version}{suffix}"
    if table.columns is None:
        return f"from the table{suffix}"
    names = ", ".join(column.name for column in table.columns)
    return f"{len(table.columns)}: {names}{suffix}"


def _subject(spec: "RouteSpec") -> dict[str, Any] | None:
    """The subject that says the columns; None where none does."""
    subject = spec.table.subject
    if subject is None:
        return None
    name = subject.name or f"{spec.source.names[0]}-value"
    return {"name": name, "version": subject.version, "message": subject.message}


def _partitions(spec: "RouteSpec") -> str:
    parts = [
        f"{part.name}={part.event_time or f'<{part.column}>'}" for part in spec.table.partition_by
    ]
    time = spec.event_time
    origin = f" of {time.field} ({time.unit or 'iso8601'}, {time.timezone})" if time else ""
    return ("/".join(parts) + origin) if parts else "none"
