"""`sluiceway validate`: check a job file without any server."""

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sluiceway.spec.models import JobSpec, TableSpec

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

    Exit code 3 when it is not valid; each problem is told as file:line:column.
    """
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415 - keeps `--help` quick

    spec = load_checked_job(job_file).spec
    if output is SummaryFormat.JSON:
        summary = {"ok": True, "file": str(job_file), **_summary(spec)}
        sys.stdout.write(json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(_table(str(job_file), spec))


def _summary(spec: "JobSpec") -> dict[str, Any]:
    table = spec.table
    return {
        "job": spec.name,
        "owner": spec.owner,
        "route": spec.name,
        "topics": list(spec.source.topics),
        "start": spec.source.start,
        "table": f"{table.hive.database}.{table.hive.table}",
        "create": table.hive.create,
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
        "interval_ms": spec.run.interval_ms,
    }


def _table(file: str, spec: "JobSpec") -> str:
    table, hive = spec.table, spec.table.hive
    created = "created if missing" if hive.create == "if_missing" else "has to exist"
    rows = {
        "job": spec.name + (f", owner {spec.owner}" if spec.owner else ""),
        "route": f"{spec.name}, a commit every {spec.run.interval_ms / 1000:g} s",
        "topics": f"{', '.join(spec.source.topics)} from {spec.source.start}",
        "table": f"{hive.database}.{hive.table}, {created}, {hive.file_format} {hive.compression}",
        "columns": _columns(table),
        "partitions": _partitions(spec),
    }
    lines = [f"{name:<12}{text}" for name, text in rows.items()]
    return "\n".join([f"OK {file}", *lines, ""])


def _columns(table: "TableSpec") -> str:
    meta = ", ".join(column.name for column in table.meta)
    suffix = f"; {meta}" if meta else ""
    if table.columns is None:
        return f"from the table{suffix}"
    names = ", ".join(column.name for column in table.columns)
    return f"{len(table.columns)}: {names}{suffix}"


def _partitions(spec: "JobSpec") -> str:
    parts = [
        f"{part.name}={part.event_time or f'<{part.column}>'}" for part in spec.table.partition_by
    ]
    time = spec.event_time
    origin = f" of {time.field} ({time.unit}, {time.timezone})" if time else ""
    return ("/".join(parts) + origin) if parts else "none"
