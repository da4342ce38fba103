"""`sluiceway status`: how each route of a job is, whether a driver runs or not."""

import json
import re
import shlex
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sluiceway.audit.job_status import SeenJob, SeenRoute

app = typer.Typer()

_HEADS = ("ROUTE", "TABLE", "STATE", "LAG", "BEHIND", "ROWS/S", "READ", "DIRTY", "LAST COMMIT")
_LEFT = 3
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


@app.command()
def status(
    job_file: Annotated[Path, typer.Argument(help="The job file.", metavar="JOB")],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="table|json", help="How to answer.")
    ] = "table",
) -> None:
    """Show state, lag, rate and last commit of each route; exit with 1 when one is not well.

    A running driver's own figures are at most a few seconds old. Of a stopped route, the ledger
    tells the rows and the broker the lag. Not well is: waits, halted, ended without a stop, or
    cannot be looked at. The metastore has to answer, because it knows where the tables are.
    """
    from sluiceway.audit.job_status import job_status  # noqa: PLC0415 - keeps `--help` quick
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.observe.log import stderr_log  # noqa: PLC0415

    if output not in ("table", "json"):
        raise typer.BadParameter("expected table or json", param_hint="-o")
    spec = load_checked_job(job_file).spec
    seen = job_status(spec, stderr_log(level="warning"))
    if output == "json":
        sys.stdout.write(json.dumps(_as_json(spec.name, seen)) + "\n")
    else:
        sys.stdout.write(_table(seen, str(job_file)))
    if not seen.is_well:
        raise typer.Exit(1)


def _as_json(job: str, seen: "SeenJob") -> dict[str, Any]:
    return {
        "job": job,
        "ok": seen.is_well,
        "problem": str(seen.problem) if seen.problem else None,
        "routes": [_route_as_json(route) for route in seen.routes],
    }


def _route_as_json(route: "SeenRoute") -> dict[str, Any]:
    first = {"route": route.status.route, "table": route.status.table, "state": route.status.state}
    return {**first, **asdict(route.status), "driver": route.driver, "ok": route.is_well}


def _table(seen: "SeenJob", job_file: str) -> str:
    rows = [_HEADS, *(_cells(route) for route in seen.routes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    lines = [_aligned(rows[0], widths)]
    for cells, route in zip(rows[1:], seen.routes, strict=True):
        lines.append(_aligned(cells, widths))
        if route.status.message:
            code = f"[{route.status.code}] " if route.status.code else ""
            lines.append(f"  {code}{_printable(route.status.message)}{_next_try(route)}")
        lines += _late_lines(route)
        lines += [f"  not told: {_printable(each)}" for each in route.status.untold]
        lines += _report_lines(route, job_file)
    if not seen.routes:
        lines.append("no routes: no topic matches the job's patterns")
    if seen.problem is not None:
        lines.append(f"routes of patterns are missing: {_printable(str(seen.problem))}")
    return "\n".join([*lines, ""])


_FATES = {"side": "aside", "redirect": "redirected", "reopen": "reopened", "dirty": "dirty"}


def _late_lines(route: "SeenRoute") -> list[str]:
    """How many rows came late and what became of them; nothing when none did."""
    rows = route.status.late_rows
    told = ", ".join(f"{rows[name]:,} {fate}" for name, fate in _FATES.items() if name in rows)
    return [f"  late rows: {told}"] if told else []


def _report_lines(route: "SeenRoute", job_file: str) -> list[str]:
    """Evidence and commands of a halt; the commands as they can be typed here."""
    report = route.status.report
    if report is None:
        return []
    found = [f"{name} {value}" for name, value in report.evidence.items()]
    lines = [f"  evidence: {_printable(', '.join(found))}"] if found else []
    place = shlex.quote(job_file)
    commands = (re.sub(r"\bJOB\b", lambda _: place, each, count=1) for each in report.commands)
    return [*lines, *(f"  $ {_printable(command)}" for command in commands)]


def _next_try(route: "SeenRoute") -> str:
    if route.status.next_try_ms is None:
        return ""
    left_s = max(0.0, route.status.next_try_ms / 1000 - time.time())
    return f"; tried again in {_span(left_s)}"


def _aligned(cells: tuple[str, ...], widths: list[int]) -> str:
    placed = [
        cell.ljust(width) if column < _LEFT else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(placed).rstrip()


def _cells(route: "SeenRoute") -> tuple[str, ...]:
    shown = route.status
    measured = route.driver is not None and shown.rows_read is not None
    return (
        shown.route,
        shown.table,
        shown.state.value,
        _count(shown.lag_records),
        "-" if shown.lag_seconds is None else _span(shown.lag_seconds),
        f"{shown.rows_per_s:,.0f}" if measured else "-",
        _count(shown.rows_read),
        _count(shown.rows_dirty_open),
        "-" if shown.last_commit_ms is None else _moment(shown.last_commit_ms),
    )


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _span(seconds: float) -> str:
    if seconds < _MINUTE_S:
        return f"{seconds:.0f}s"
    if seconds < _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f}m"
    return f"{seconds / _HOUR_S:.1f}h" if seconds < _DAY_S else f"{seconds / _DAY_S:.1f}d"


def _moment(at_ms: int) -> str:
    ago = max(0.0, time.time() - at_ms / 1000)
    if ago < _DAY_S:
        return f"{_span(ago)} ago"
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="minutes")


def _printable(text: str) -> str:
    """One line without control characters: parts of it may be names that others chose."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
