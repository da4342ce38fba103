"""`sluiceway run`: fill the table until a signal stops it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli.options import JobFile
from sluiceway.cli.views.typed_commands import typed_fields
from sluiceway.observe.log import LogFormat, LogLevel

if TYPE_CHECKING:
    from sluiceway.driver.run import Observers
    from sluiceway.driver.spark.early_start import Starting
    from sluiceway.driver.stop import StopSignal
    from sluiceway.jobfile.loader import LoadedJob

app = typer.Typer()

_LogLevel = Annotated[
    LogLevel | None,
    typer.Option(
        metavar="LEVEL",
        help="debug, info, warning or error, and what is worse; unless said, warning on a "
        "terminal, else info.",
        show_default=False,
    ),
]

_HealthPort = Annotated[
    int | None,
    typer.Option(
        "--health-port",
        help="Serve /healthz, /readyz and /metrics on this port; 0 takes a free one.",
        min=0,
        max=65535,
        show_default=False,
    ),
]


@app.command()
def run(  # noqa: PLR0913, PLR0917 - the command's options
    context: typer.Context,
    job_file: JobFile,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="End at the log ends read at the start.")
    ] = False,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="10m", help="End gracefully after this time.")
    ] = None,
    health_port: _HealthPort = None,
    takeover: Annotated[
        list[str] | None,
        typer.Option(
            "--takeover",
            metavar="[ROUTE=]TERM",
            help="Replace this term without waiting for its lease; repeatable.",
        ),
    ] = None,
    standby: Annotated[
        bool, typer.Option("--standby", help="Wait while another driver runs; then take over.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Log at the end where the time went, by stage.")
    ] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="One line on a terminal, not a whole screen.")
    ] = False,
    log_level: _LogLevel = None,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(help="text on a terminal, else json.", show_default=False),
    ] = None,
) -> None:
    """Run a job in the foreground: read, commit, publish, again and again.

    With --until-caught-up the end shows which hours are committed and not announced, and why.
    Readers of a table with a block `ready` do not see them yet.

    A first SIGINT or SIGTERM (or `q` on the screen) ends the epoch early, commits it and exits with
    0. A second one ends the process at once; no row is lost, the next start goes on.
    """
    seconds, terms = _seconds(for_), _terms(takeover or [], standby=standby)
    job, port, starting = _begun(job_file, context.obj, health_port)
    from sluiceway.cli.views.run_view import open_view  # noqa: PLC0415
    from sluiceway.driver.run import RunOptions, check_outcome, run_job  # noqa: PLC0415
    from sluiceway.service.health import HttpAccess, health_served  # noqa: PLC0415

    fill = typed_fields(job_file)
    view = open_view(job.spec.name, fill, log_level, log_format, plain=plain)
    observers, stop = view.observers, context.obj
    if log_format is not None:
        stop.speak(as_json=log_format is LogFormat.JSON)
    options = RunOptions(
        until_caught_up,
        seconds,
        profile=profile,
        standby=standby,
        takeover=terms,
        starting=starting,
    )
    access = HttpAccess.of(job.spec)
    with (
        health_served(port, observers.board, observers.log, access) as served,
        view.shown(stop, f"{access.url(served)}/metrics" if served is not None else ""),
    ):
        run_job(job.spec, options, observers, stop)
    _print_end(observers, job_file, until_caught_up=until_caught_up)
    check_outcome(options, observers.board, stop)


def _begun(
    job_file: Path, stop: "StopSignal", health_port: int | None
) -> "tuple[LoadedJob, int | None, Starting | None]":
    """The job, its port, and a start of Spark that goes on while the driver loads its modules."""
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415

    job = load_checked_job(job_file)
    port = job.spec.run.health_port if health_port is None else health_port
    if stop.requested() or port is not None:
        # A port may be taken; Spark starts once it is not.
        return job, port, None
    from sluiceway.driver.spark.early_start import begin_spark  # noqa: PLC0415

    return job, port, begin_spark(job.spec)


def _print_end(observers: "Observers", job_file: Path, *, until_caught_up: bool) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(observers.progress.closing() + "\n")
    if until_caught_up:
        from sluiceway.cli.views.run_view import log_unannounced  # noqa: PLC0415 - seldom needed

        log_unannounced(observers.board, observers.log, job_file)


def _seconds(text: str | None) -> float | None:
    from sluiceway.jobfile.blocks.values import parse_duration_ms  # noqa: PLC0415

    if text is None:
        return None
    try:
        found = parse_duration_ms(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--for") from error
    if not found:
        raise typer.BadParameter("expected a time above 0s", param_hint="--for")
    return found / 1000


def _terms(texts: list[str], *, standby: bool) -> dict[str, int]:
    """Terms of `--takeover`."""
    if standby and texts:
        # A standby waits for a lease to end; a term replaces a driver at once.
        raise typer.BadParameter("expected it without --standby", param_hint="--takeover")
    return parsed_terms(texts, "--takeover")


def parsed_terms(texts: list[str], option: str) -> dict[str, int]:
    """Terms by route, of texts as `7` and `orders=7`; the only route has an empty name."""
    found = {}
    for text in texts:
        name, _, term = text.rpartition("=")
        if not (term.isascii() and term.isdigit() and int(term) > 0):
            raise typer.BadParameter("expected TERM or ROUTE=TERM", param_hint=option)
        found[name] = int(term)
    return found
