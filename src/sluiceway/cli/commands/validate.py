"""`sluiceway validate`: check a job file without any server."""

import sys
from typing import TYPE_CHECKING, Any

import typer

from sluiceway.cli.options import JobFiles, Output, OutputFormat
from sluiceway.cli.views.answers import print_document
from sluiceway.cli.views.file_forecast import file_forecast
from sluiceway.cli.views.job_summary import (
    late_table_summary,
    names_in_room,
    null_warnings,
    rooms_summary,
    subject_summary,
    summary_for_people,
)

if TYPE_CHECKING:
    from sluiceway.jobfile.blocks.models import JobSpec, RouteSpec

app = typer.Typer()


@app.command()
def validate(
    job_file: JobFiles,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Check a job file, all of it at once, and say what it does. Needs no network.

    Exit code 3 when it cannot be read or is not valid. Each problem is a line file:line:column, or
    with `-o json` an item of `error.problems`.
    """
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415 - keeps `--help` quick
    from sluiceway.cli.views.typed_commands import typed_text  # noqa: PLC0415

    spec = load_checked_job(job_file, opens=False).spec
    if output.is_document:
        print_document(_summary(str(job_file), spec), output)
    else:
        sys.stdout.write(typed_text(summary_for_people(str(job_file), spec), str(job_file)))


def _summary(file: str, spec: "JobSpec") -> dict[str, Any]:
    job = {"job": spec.name, "owner": spec.owner, "interval_ms": spec.run.interval_ms}
    return {
        "ok": True,
        "file": file,
        **job,
        "rooms": rooms_summary(spec),
        "routes": [_route_summary(route) for route in spec.routes],
    }


def _route_summary(route: "RouteSpec") -> dict[str, Any]:
    table = route.table
    return {
        "route": route.route or None,
        "topics": list(route.source.names),
        "topics_in_room": names_in_room(route),
        "pattern": route.source.pattern or None,
        "start": str(route.start_at),
        "start_given": route.source.start is not None,
        "table": table.target.name if table.target.is_template else table.target.name.lower(),
        "kind": "hive" if table.hive is not None else "iceberg",
        "create": table.target.create,
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
        "warnings": null_warnings(route),
        "late_table": late_table_summary(route),
        "dirty_rows": {
            "topic": None if route.dirty.store is None else route.dirty.store.topic,
            "table": None if route.dirty.store is None else route.dirty.store.table,
            "retention_ms": route.dirty.retention_ms,
        },
    }
