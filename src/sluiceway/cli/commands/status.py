"""`sluiceway status`: the state of each route of a job, whether a driver runs or not."""

import socket
import sys
import time
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.cli.options import JobFiles, OnlyRoute, Output, OutputFormat
from sluiceway.cli.views.answers import error_fields, print_document
from sluiceway.cli.views.tables import printable, table_lines
from sluiceway.cli.views.typed_commands import typed, typed_fields, typed_text
from sluiceway.errors import WrongUsageError

if TYPE_CHECKING:
    from sluiceway.audit.job_status import ObservedJob, ObservedRoute
    from sluiceway.cli.views.typed_commands import Fill
    from sluiceway.followers.runner import FollowerState
    from sluiceway.route.halt_report import HaltReport
    from sluiceway.route.status import RouteStatus

app = typer.Typer()

_HEADS = ("ROUTE", "TABLE", "STATE", "LAG", "BEHIND", "ROWS/S", "READ", "DIRTY", "LAST COMMIT")
_NUMBERS = range(3, len(_HEADS))
_SHOWN = 20
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


@app.command()
def status(
    job_file: JobFiles,
    route: OnlyRoute = None,
    watched: Annotated[
        bool, typer.Option("--watch", help="Look again every two seconds, until `q` or Ctrl-C.")
    ] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show state, lag, rate and last commit of each route; exit with 1 when one is not well.

    A running driver's own figures are at most a few seconds old. For a stopped route, rows come
    from the ledger and the lag from the broker. Not well is: waits, halted, goes on without some of
    its partitions, more than 1 % of the newest rows dirty, ended without a stop, not readable, or
    reads a table that is missing or has lost rows.
    Lines that begin with `look` are no error and need attention all the same. The metastore has to
    answer, because it knows where the tables are.
    """
    from sluiceway.audit.job_status import job_status  # noqa: PLC0415 - keeps `--help` quick
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415

    spec, log = load_checked_job(job_file).spec, WarningsOnDemand()
    if watched:
        from sluiceway.cli.views.status_watch import watch  # noqa: PLC0415 - seldom needed

        if output.is_document:
            raise WrongUsageError("--watch shows a table", hint="leave out one of --watch and -o")
        watch(lambda: _table(job_status(spec, log, route), str(job_file)))
        return
    seen = job_status(spec, log, route)
    if output.is_document:
        print_document(status_document(spec.name, seen, typed_fields(job_file)), output)
    else:
        sys.stdout.write(_table(seen, str(job_file)))
    if not seen.is_well:
        raise typer.Exit(1)


def status_document(job: str, seen: "ObservedJob", fill: "Fill") -> dict[str, Any]:
    """The answer for programs; times have their internal units."""
    return {
        "job": job,
        "ok": seen.is_well,
        "error": error_fields(seen.problem) if seen.problem else None,
        "topics_refused": {each.topic: each.reason for each in seen.refused},
        "topics_sharing": {each.topic: each.reason for each in seen.shared},
        "routes": [_route_as_json(route, fill) for route in seen.routes],
    }


def _route_as_json(route: "ObservedRoute", fill: "Fill") -> dict[str, Any]:
    first = {"route": route.status.route, "table": route.status.table, "state": route.status.state}
    told = fill(asdict(route.status))
    if route.status.report is not None:
        report = replace(route.status.report, commands=_commands(route, route.status.report))
        told["report"] = fill(asdict(report))
    left_out = route.status.left_out.items()
    told["left_out"] = {name: fill({"message": why})["message"] for name, why in left_out}
    told["attention"] = [fill({"message": each})["message"] for each in route.attention]
    if route.rooms is not None:
        now_ms = time.time_ns() // 1_000_000
        told["rooms"] = {**asdict(route.rooms), "standbys": route.rooms.standbys(now_ms)}
    if route.upstream is not None:
        told["upstream"] = asdict(route.upstream)
    return {**first, **told, "driver": route.driver, "ok": route.is_well}


def _table(seen: "ObservedJob", job_file: str) -> str:
    head, *aligned = table_lines([_HEADS, *map(_cells, seen.routes)], numbers=_NUMBERS)
    lines = [head]
    for line, route in zip(aligned, seen.routes, strict=True):
        lines.append(line)
        if route.status.message:
            code = f"[{route.status.code}] " if route.status.code else ""
            message = _printable(typed_text(route.status.message, job_file))
            lines.append(f"  {code}{message}{_next_try(route)}")
        lines += [f"  look: {_printable(typed_text(t, job_file))}" for t in route.attention]
        lines += [f"  {line}" for line in ([] if route.rooms is None else route.rooms.lines())]
        lines += _upstream_lines(route)
        lines += _left_out_lines(route, job_file)
        lines += _late_lines(route)
        lines += _unfilled_lines(route)
        lines += _behind_lines(route)
        lines += _report_lines(route, job_file)
    lines += _spark_lines(seen)
    if not seen.routes:
        lines.append("no routes: no topic matches the job's patterns")
    lines += [f"topic {each.topic} is not read: {_printable(each.reason)}" for each in seen.refused]
    lines += [f"topic {each.topic}: {_printable(each.reason)}" for each in seen.shared]
    if seen.problem is not None:
        lines.append(f"routes of patterns are missing: {_printable(str(seen.problem))}")
    return "\n".join([*lines, ""])


def _spark_lines(seen: "ObservedJob") -> list[str]:
    """Addresses of Spark's pages of each driver; empty where none runs."""
    found: dict[str, str | None] = {}
    for route in seen.routes:
        if route.driver is not None and found.get(route.driver) is None:
            found[route.driver] = route.status.spark_ui
    shown = {None: "not known", "": "off"}
    return [f"Spark UI of {driver}: {shown.get(ui, ui)}" for driver, ui in found.items()]


def _behind_lines(route: "ObservedRoute") -> list[str]:
    """Followers of the commits that lag, or wait for something."""
    return [
        f"  {each.name} {_how(each)}"
        for each in route.status.followers
        if each.waits_for or each.lags
    ]


def _how(each: "FollowerState") -> str:
    why = _printable(each.waits_for)
    if not each.lags:
        return f"waits: {why}"
    behind = f"is {each.behind_slots:,} records ({each.behind_s:,.0f} s) behind"
    return f"{behind}: {why}" if why else behind


def _upstream_lines(route: "ObservedRoute") -> list[str]:
    """The table that a route reads, and how far."""
    above = route.upstream
    if above is None:
        return []
    if above.units is not None:
        units, waits = above.units, route.status.units_wait_for
        line = f"  reads {above.table}: {units.computed:,} units computed, {units.due:,} due"
        line += f", {units.open:,} not complete yet" if units.open else ""
        return [f"{line}; waits: {_printable(waits)}" if waits else line]
    read = "not known" if above.read_slot is None else above.read_slot
    what = "snapshot" if above.snapshots else "slot"
    line = f"  reads {above.table}: {what} {read} of {above.published_slot}"
    if above.snapshots and above.read_slot is not None and above.read_slot > above.published_slot:
        line = f"  reads {above.table}: snapshot {read}; the current one is {above.published_slot}"
    if above.passed_over:
        line += f", {above.passed_over:,} that removed rows passed over"
    behind = above.read_slot is not None and above.read_slot < above.published_slot
    none_left = behind and route.status.lag_records == 0
    return [f"{line}; no new row is in the later ones" if none_left else line]


def _left_out_lines(route: "ObservedRoute", job_file: str) -> list[str]:
    """Source partitions that the route goes on without, each with the reason."""
    told = route.status.left_out
    texts = (f"{name}: {typed_text(why, job_file)}" for name, why in told.items())
    lines = [f"  left out: {_printable(text)}" for text in texts]
    more = route.status.left_out_count - len(told)
    return [*lines, f"  left out: {more:,} more"] if more > 0 else lines


_FATES = {"side": "aside", "redirect": "redirected", "reopen": "reopened", "dirty": "dirty"}


def _late_lines(route: "ObservedRoute") -> list[str]:
    """How many rows came late and where they are; empty when none did."""
    rows = route.status.late_rows
    told = ", ".join(f"{rows[name]:,} {fate}" for name, fate in _FATES.items() if name in rows)
    return [f"  late rows: {told}"] if told else []


def _unfilled_lines(route: "ObservedRoute") -> list[str]:
    """Columns that no row fills and fields that no column reads, with likely pairs."""
    columns, fields = route.status.unfilled_columns, route.status.ignored_fields
    if not columns:
        return []
    meant = (
        f"{name} (did you mean {field}?)" if field else name for name, field in columns.items()
    )
    unread = ", ".join(list(fields)[:_SHOWN])
    shown = f"no row since the driver started fills {', '.join(meant)}; no column reads {unread}"
    return [f"  warning: {_printable(shown)}"]


def _report_lines(route: "ObservedRoute", job_file: str) -> list[str]:
    """Evidence and commands of a halt; the commands can be typed here."""
    report = route.status.report
    if report is None:
        return []
    found = [f"{name} {value}" for name, value in report.evidence.items()]
    lines = [f"  evidence: {_printable(', '.join(found))}"] if found else []
    commands = (typed(each, job_file) for each in _commands(route, report))
    return [*lines, *(f"  $ {_printable(command)}" for command in commands)]


def _commands(route: "ObservedRoute", report: "HaltReport") -> tuple[str, ...]:
    """Commands of a halt, as they work now: a job that still runs other routes is not run twice."""
    from sluiceway.route.halt_report import RUN_AGAIN  # noqa: PLC0415 - keeps `--help` quick

    if route.driver is None:
        return report.commands
    each = (_beside_driver(route) if each == RUN_AGAIN else (each,) for each in report.commands)
    return tuple(command for commands in each for command in commands)


def _beside_driver(route: "ObservedRoute") -> tuple[str, ...]:
    """Commands that start a halted route again while its driver is live."""
    from sluiceway.cluster.applications import ApplicationFolder, is_running  # noqa: PLC0415
    from sluiceway.route.halt_report import RUN_AGAIN  # noqa: PLC0415

    if route.status.next_try_ms is not None:
        return ()  # The driver does, and says when.
    known = ApplicationFolder(route.config.job).read()
    if known is not None and (known.deploy == "cluster" or is_running(known.supervisor)):
        return ("sluiceway restart JOB",)
    host, _, pid = (route.driver or "").rpartition(" pid ")
    end = (f"kill {pid}",) if host == socket.gethostname() else ()
    return (*end, f"{RUN_AGAIN} --standby")


def _next_try(route: "ObservedRoute") -> str:
    if route.status.next_try_ms is None:
        return ""
    left_s = max(0.0, route.status.next_try_ms / 1000 - time.time())
    return f"; tried again in {_span(left_s)}"


def _cells(route: "ObservedRoute") -> tuple[str, ...]:
    shown = route.status
    measured = route.driver is not None and shown.rows_read is not None
    # Rows of units are read again and again: a line of its own says how many units are computed.
    has_units = route.upstream is not None and route.upstream.units is not None
    return (
        shown.route,
        shown.table,
        shown.state.value,
        _at_least(shown.lag_records, known=not shown.left_out_count),
        _behind(shown),
        f"{shown.rows_per_s:,.0f}" if measured else "-",
        "-" if has_units else _count(shown.rows_read),
        _count(shown.rows_dirty_open),
        "-" if shown.last_commit_ms is None else _moment(shown.last_commit_ms),
    )


def _behind(shown: "RouteStatus") -> str:
    """Age of the oldest waiting record: exact, at least so old, or unknown, which is never 0."""
    if shown.lag_ms is not None:
        return _span(shown.lag_ms / 1000)
    return "-" if shown.lag_at_least_ms is None else f">={_span(shown.lag_at_least_ms / 1000)}"


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _at_least(number: int | None, *, known: bool) -> str:
    return f">={number:,}" if number is not None and not known else _count(number)


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
    return printable(" ".join(text.split()))
