"""`sluiceway doctor`: is everything there that a job needs?"""

import sys
from typing import TYPE_CHECKING

import typer

from sluiceway.audit.format_times import counted
from sluiceway.cli.options import JobFile, OnlyRoute, Output, OutputFormat
from sluiceway.cli.views.answers import print_document
from sluiceway.cli.views.tables import printable
from sluiceway.cli.views.typed_commands import typed_text
from sluiceway.cli.views.waiting import printed_while_waiting, servers_of
from sluiceway.errors import SluicewayError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluiceway.audit.health_checks import Finding
    from sluiceway.jobfile.blocks.models import JobSpec

app = typer.Typer()

EXIT_UNHEALTHY = 5


@app.command()
def doctor(
    job_file: JobFile,
    route: OnlyRoute = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Check what a job needs, each with its fix; exit with 5 when something keeps it from running.

    This machine: Java, Spark's master, memory for the tasks, disk space, limits. Then brokers,
    topics (a record of each is read), schema registries, metastores, tables, and stores. A store is
    tested with real files in a folder that is removed again. A wrong clock shows only by records of
    the future.

    $ sluiceway doctor orders.yaml
    """
    from sluiceway.audit.health_checks import Health  # noqa: PLC0415 - keeps `--help` quick
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415

    spec = load_checked_job(job_file).spec
    found = []
    findings, servers = _findings(spec, route), servers_of(spec)
    while (finding := _next(findings, servers)) is not None:
        found.append(finding)
        if not output.is_document:
            sys.stdout.write(typed_text(_text(finding), str(job_file)))
            sys.stdout.flush()
    bad = [each for each in found if each.health is Health.BAD]
    warnings = [each for each in found if each.health is Health.WARNING]
    if output.is_document:
        print_document({"ok": not bad, "checks": found}, output)
    else:
        told = f"{len(bad)} bad, {counted(len(warnings), 'warning')}"
        sys.stdout.write(f"\n{counted(len(found), 'check')}: {told}\n")
    if bad:
        raise typer.Exit(EXIT_UNHEALTHY)


def _next(findings: "Iterator[Finding]", servers: str) -> "Finding | None":
    with printed_while_waiting(servers):
        return next(findings, None)


def _findings(spec: "JobSpec", route: str | None) -> "Iterator[Finding]":
    from sluiceway.audit.health_checks import (  # noqa: PLC0415
        Finding,
        Health,
        check_machine,
        check_servers,
    )
    from sluiceway.audit.mirror_checks import check_mirror  # noqa: PLC0415
    from sluiceway.audit.pick_route import job_routes, pick_route  # noqa: PLC0415
    from sluiceway.observe.log import stderr_log  # noqa: PLC0415

    yield from check_machine(spec)
    try:
        routes = job_routes(spec, stderr_log(level="error"))
    except SluicewayError as error:
        fix = error.hint or f"see `sluiceway explain {error.code}`"
        yield Finding("broker", error.where, Health.BAD, f"[{error.code}] {error.message}", fix)
        return
    if route is not None:
        routes = (pick_route(routes, route),)
    yield from check_servers(spec, routes)
    for config in {config.source: config for config in routes}.values():
        yield from check_mirror(config)


def _text(finding: "Finding") -> str:
    line = f"{finding.health.value:<8} {finding.check:<10} {printable(finding.subject)}: "
    line += printable(finding.found)
    return f"{line}\n{'':<20}fix: {printable(finding.fix)}\n" if finding.fix else f"{line}\n"
