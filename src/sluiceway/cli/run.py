"""`sluiceway run`: fill the table until told to stop."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.observe.log import LogFormat, LogLevel, stderr_log

if TYPE_CHECKING:
    from sluiceway.job.stop import StopSignal

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


@app.command()
def run(  # noqa: PLR0913, PLR0917 - the command's options
    context: typer.Context,
    job_file: Annotated[Path, typer.Argument(help="The job file.", metavar="JOB")],
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="End at the log ends read at the start.")
    ] = False,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="10m", help="End gracefully after this time.")
    ] = None,
    health_port: Annotated[
        int | None,
        typer.Option(
            "--health-port",
            help="Serve /healthz and /readyz on this loopback port; 0 takes a free one.",
            min=0,
            max=65535,
            show_default=False,
        ),
    ] = None,
    takeover: Annotated[
        list[str] | None,
        typer.Option(
            "--takeover",
            metavar="[ROUTE=]TERM",
            help="Replace this term without waiting for its lease; repeatable.",
        ),
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Tell at the end where the time went, by stage.")
    ] = False,
    log_level: _LogLevel = None,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(help="text on a terminal, else json.", show_default=False),
    ] = None,
) -> None:
    """Run a job in the foreground: read, commit, publish, again and again.

    A first SIGINT or SIGTERM ends the epoch early, commits it and exits with 0. A second one
    ends the process at once; nothing is lost, the next start goes on from the ledger.
    """
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.job.run import Eyes, RunOptions, run_job  # noqa: PLC0415
    from sluiceway.observe.progress import Progress  # noqa: PLC0415
    from sluiceway.service.health import health_served  # noqa: PLC0415

    seconds, terms = _seconds(for_), _terms(takeover or [])
    job = load_checked_job(job_file)
    on_terminal = sys.stderr.isatty()
    progress = Progress(sys.stderr if on_terminal else None)
    # A person watching the line wants to hear of trouble only; a log collector wants everything.
    level = log_level or ("warning" if on_terminal else "info")
    log = stderr_log(level=level, log_format=log_format, before=progress.clear)
    stop: StopSignal = context.obj
    if log_format is not None:
        stop.speak(as_json=log_format is LogFormat.JSON)
    options = RunOptions(
        until_caught_up=until_caught_up, for_s=seconds, takeover=terms, profile=profile
    )
    eyes = Eyes(log, progress)
    port = job.spec.run.health_port if health_port is None else health_port
    with health_served(port, eyes.board, log) as served:
        if on_terminal and served is not None:
            sys.stderr.write(f"health: http://127.0.0.1:{served}/healthz\n")
        run_job(job.spec, options, eyes, stop)
    if on_terminal:
        sys.stderr.write(progress.closing() + "\n")


def _seconds(text: str | None) -> float | None:
    from sluiceway.spec.values import parse_duration_ms  # noqa: PLC0415

    if text is None:
        return None
    try:
        return parse_duration_ms(text) / 1000
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--for") from error


def _terms(texts: list[str]) -> dict[str, int]:
    """Route -> term, of `7` and `orders=7`."""
    found = {}
    for text in texts:
        name, _, term = text.rpartition("=")
        if not (term.isascii() and term.isdigit() and int(term) > 0):
            raise typer.BadParameter("expected TERM or ROUTE=TERM", param_hint="--takeover")
        found[name] = int(term)
    return found
