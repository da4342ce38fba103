"""`sluiceway plan`: what the next run would change, where it would read, what may go wrong."""

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.audit.format_times import counted
from sluiceway.cli.options import JobFiles, OnlyRoute, Output, OutputFormat
from sluiceway.cli.views.answers import print_document, raise_code, read_each, route_answers
from sluiceway.cli.views.file_forecast import file_forecast
from sluiceway.cli.views.job_summary import null_warnings
from sluiceway.cli.views.tables import printable, table_lines
from sluiceway.cli.views.typed_commands import typed_text
from sluiceway.cli.views.waiting import printed_while_waiting, servers_of
from sluiceway.errors import SluicewayError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluiceway.audit.next_run import NextRun, Risk
    from sluiceway.audit.planned_route import PlannedStart
    from sluiceway.driver.driver_bounds import DriverBounds
    from sluiceway.jobfile.blocks.models import JobSpec, RouteSpec
    from sluiceway.jobfile.compile.config import RouteConfig

app = typer.Typer()

EXIT_CHANGES = 4
_MOST_RECORDS = 10_000
_SHOWN = 12
_SHOWN_FOLDERS = 6
_MIB = 1 << 20


@app.command()
def plan(
    job_file: JobFiles,
    route: OnlyRoute = None,
    records: Annotated[
        int,
        typer.Option("--records", min=0, max=_MOST_RECORDS, help="How many to look at; 0: none."),
    ] = 100,
    detailed_exitcode: Annotated[
        bool,
        typer.Option(
            "--detailed-exitcode",
            help="Exit with 4 when something would change, or the next run would stop.",
        ),
    ] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Say what the next run would do; changes nothing.

    For each route: the table's statement or what differs, where each source partition begins and
    why, and partitions of real records. Then files per hour, and risks, the worst first. At the end
    the settings that Spark is started with.

    $ sluiceway plan orders.yaml
    $ sluiceway plan orders.yaml --detailed-exitcode
    """
    from sluiceway.audit.next_run import Weight, foresee_run  # noqa: PLC0415 - keeps `--help` quick
    from sluiceway.audit.pick_route import job_routes, pick_route  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415

    spec = load_checked_job(job_file).spec
    with printed_while_waiting(servers_of(spec)):
        chosen = job_routes(spec, WarningsOnDemand())
        if route is not None:
            chosen = (pick_route(chosen, route),)
        found = read_each(chosen, lambda config: foresee_run(config, records), output)
    runs = [each for each in found if not isinstance(each, SluicewayError)]
    changes = sum(len(each.changes) for each in runs)
    specs = {each.route: each for each in spec.routes}
    settings = _spark(spec)
    bounds = _bounds(chosen, settings)
    costs = _costs(spec, bounds)
    if output.is_document:
        routes = route_answers(
            chosen, found, lambda run: _as_document(run, _spec_of(specs, run.route))
        )
        print_document(
            {
                "job": spec.name,
                "changes": changes,
                "routes": routes,
                "spark": settings,
                "driver": asdict(bounds),
                "risks": [_risk_fields(each) for each in costs],
            },
            output,
        )
    else:
        lines = _lines(chosen, found, specs)
        lines += ["", *_spark_lines(settings), _driver_line(bounds)]
        lines += _risk_lines(costs)
        sys.stdout.write(typed_text("\n".join([*lines, ""]), str(job_file)))
    raise_code(found)
    stops = any(risk.weight is Weight.STOPS for each in runs for risk in each.risks)
    if detailed_exitcode and (changes or stops):
        raise typer.Exit(EXIT_CHANGES)


def _spec_of(specs: "dict[str, RouteSpec]", route: str) -> "RouteSpec":
    # Routes of a pattern are all alike, and the pattern's has no name.
    return specs.get(route) or specs[""]


def _spark(spec: "JobSpec") -> dict[str, Any]:
    """The settings that Spark would be started with; secrets hidden."""
    from sluiceway.driver.spark.session import default_settings, spark_master  # noqa: PLC0415
    from sluiceway.jobfile.blocks.values import is_secret_key, revealed  # noqa: PLC0415

    own = {name: revealed(value) for name, value in spec.run.spark_conf.items()}
    settings = {**default_settings(), **own}
    shown = {name: "***" if is_secret_key(name) else value for name, value in settings.items()}
    return {
        "master": spark_master(spec.run.master),
        "memory_per_task_bytes": spec.run.memory_per_task_bytes,
        "interval_ms": spec.run.interval_ms,
        "from_job_file": sorted(own),
        "settings": dict(sorted(shown.items())),
    }


def _bounds(routes: "Sequence[RouteConfig]", settings: dict[str, Any]) -> "DriverBounds":
    """Upper bounds of the driver's memory.

    Raises:
        JobFileError: Its heap is no size that Spark reads.
    """
    from sluiceway.driver.driver_bounds import HEAP, driver_bounds  # noqa: PLC0415
    from sluiceway.errors import JobFileError  # noqa: PLC0415

    try:
        return driver_bounds(list(routes), settings["settings"])
    except ValueError as error:
        raise JobFileError(str(error), where=f"run.spark_conf.{HEAP}") from error


def _driver_line(bounds: "DriverBounds") -> str:
    overhead = f" and {bounds.overhead} on top of it" if bounds.overhead else ""
    return (
        f"driver      {bounds.heap_mib} MiB of heap{overhead}, at most {bounds.threads} threads "
        "of its own, one more for each route whose store or server hangs"
    )


def _costs(spec: "JobSpec", bounds: "DriverBounds") -> "list[Risk]":
    """Where the whole job needs more than this machine has."""
    from sluiceway.audit.next_run import Risk, Weight  # noqa: PLC0415
    from sluiceway.host.machine import free_memory_bytes, local_slots  # noqa: PLC0415

    slots, free = local_slots(spec.run.master), free_memory_bytes()
    if slots is None or free is None:
        return []
    wanted = slots * spec.run.memory_per_task_bytes + bounds.memory_mib * _MIB
    if wanted <= free:
        return []
    text = (
        f"{slots} tasks of {spec.run.memory_per_task_bytes // _MIB} MiB and the driver take up to "
        f"{wanted // _MIB:,} MiB; {free // _MIB:,} MiB are free"
    )
    return [Risk(Weight.COSTS, text, "lower run.memory_per_task, or `run.master: local[N]`")]


def _as_document(run: "NextRun", spec: "RouteSpec") -> dict[str, Any]:
    sample = run.sample
    return {
        "table": run.table,
        "table_exists": run.exists,
        "changes": list(run.changes),
        "starts": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "offset": each.offset,
                "how": each.how,
                "why": _why(each, spec),
                "log_start": each.log_start,
                "log_end": each.log_end,
                "waiting": each.waiting,
            }
            for each in run.starts
        ],
        "sample": {
            "counts": sample.counts,
            "partitions": dict(sample.folders),
            "dirty_reasons": dict(sample.reasons),
        },
        "files": file_forecast(spec).as_json(),
        "risks": [_risk_fields(each) for each in run.risks],
    }


def _risk_fields(risk: "Risk") -> dict[str, str]:
    return {"weight": risk.weight.label, "risk": risk.text, "todo": risk.todo}


def _lines(
    routes: "Sequence[RouteConfig]",
    found: "Sequence[NextRun | SluicewayError]",
    specs: "dict[str, RouteSpec]",
) -> list[str]:
    lines: list[str] = []
    for config, run in zip(routes, found, strict=True):
        if lines:
            lines.append("")
        if isinstance(run, SluicewayError):
            lines.append(f"{config.route}: error[{run.code}] {printable(str(run))}")
        else:
            lines += _run_lines(run, _spec_of(specs, run.route))
    return lines or ["no routes: no topic matches the job's patterns"]


def _run_lines(run: "NextRun", spec: "RouteSpec") -> list[str]:
    forecast = file_forecast(spec)
    lines = [f"{run.route} -> {run.table}"]
    for change in run.changes:
        lines.append(f"  + {printable(change.what)}")
        lines += [f"      {line}" for line in change.statement.splitlines()]
    if not run.changes:
        lines.append("  no changes: it goes on where its ledger ends")
    heads = ("SOURCE PARTITION", "FROM", "WHY", "LOG", "WAITING")
    rows = [
        (
            str(each.partition),
            f"{each.offset:,}",
            _why(each, spec),
            f"{each.log_start:,} to {each.log_end:,}",
            f"{each.waiting:,}",
        )
        for each in run.starts[:_SHOWN]
    ]
    if spec.source.mode == "recompute":
        lines.append(f"  reads whole units of {spec.source.table}; `status` counts those due")
    else:
        lines += ["", *table_lines([heads, *rows], numbers=(1, 4), indent=2)]
    if len(run.starts) > _SHOWN:
        waiting = sum(each.waiting for each in run.starts)
        lines.append(f"  and {len(run.starts) - _SHOWN:,} more; {waiting:,} records wait in all")
    lines += ["", *_sample_lines(run), f"  files       {forecast.words()}"]
    if warning := forecast.warning():
        lines.append(f"  warning     {warning}")
    lines += [f"  warning     {printable(text)}" for text in null_warnings(spec)]
    return [*lines, *_risk_lines(run.risks, indent="  ")]


def _why(start: "PlannedStart", spec: "RouteSpec") -> str:
    """How a start was found, and by which setting."""
    if start.how == "committed":
        return "its committed end"
    given = spec.source.start is not None
    reason = "as source.start says" if given else spec.start_reason
    return f"{start.how}: {reason}"


def _sample_lines(run: "NextRun") -> list[str]:
    counts, folders = run.sample.counts, list(run.sample.folders.items())
    if not counts.read:
        return []
    lines = [
        f"  sample      of the newest: {counted(counts.read, 'record')}, "
        f"{counted(counts.written, 'row')}, {counts.dirty:,} dirty"
    ]
    if folders and folders[0][0]:
        shown = ", ".join(f"{name} {rows:,}" for name, rows in folders[-_SHOWN_FOLDERS:])
        more = f"{len(folders) - _SHOWN_FOLDERS} more, " if len(folders) > _SHOWN_FOLDERS else ""
        lines.append(f"  partitions  {more}{printable(shown)}")
    return lines


def _spark_lines(settings: dict[str, Any]) -> list[str]:
    own = settings["from_job_file"]
    lines = [
        f"spark       {settings['master']}, {settings['memory_per_task_bytes'] // _MIB} MiB a task"
        f", a commit every {settings['interval_ms'] / 1000:g} s"
    ]
    lines += [f"            {name} = {printable(settings['settings'][name])}" for name in own]
    return lines


def _risk_lines(risks: "Sequence[Risk]", indent: str = "") -> list[str]:
    if not risks:
        return []
    lines = ["", f"{indent}risks, the worst first"]
    for risk in risks:
        lines.append(f"{indent}  {risk.weight.label:<6} {printable(risk.text)}")
        if risk.todo:
            lines.append(f"{indent}         {printable(risk.todo)}")
    return lines
