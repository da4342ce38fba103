"""`sluiceway validate`: check a job file without any server."""

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.cli.file_forecast import file_forecast
from sluiceway.cli.job_summary import late_table_summary, subject_summary, summary_for_people

if TYPE_CHECKING:
    from sluiceway.spec.models import JobSpec, RouteSpec
    from sluiceway.spec.problems import Problem

app = typer.Typer()


class SummaryFormat(StrEnum):
    """How `validate` answers."""

    TABLE = "table"
    JSON = "json"


@app.command()
def validate(
    job_file: Annotated[Path, typer.Argument(help="The job file.", metavar="JOB")],
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
        sys.stdout.write(summary_for_people(str(job_file), found.job.spec))


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
        "subject": subject_summary(route),
        "columns": None
        if table.columns is None
        else [
            {"name": column.name, "type": column.type, "required": column.required}
            for column in table.columns
        ],
        "meta": {column.field: column.name for column in table.meta},
        "partitions": [
            {
                "name": part.name,
                "event_time": part.event_time,
                "column": part.column,
                "constant": part.constant,
                "processing_time": part.processing_time,
                "record_time": part.record_time,
                "partitioner": part.partitioner.plugin[0]
                if part.partitioner and part.partitioner.plugin
                else None,
            }
            for part in table.partition_by
        ],
        "files": file_forecast(route).as_json(),
        "late_table": late_table_summary(route),
        "dirty_rows": {
            "topic": None if route.dirty.store is None else route.dirty.store.topic,
            "table": None if route.dirty.store is None else route.dirty.store.table,
            "retention_ms": route.dirty.retention_ms,
        },
    }
