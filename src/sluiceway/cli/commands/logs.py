"""`sluiceway logs`: what the driver of a submitted job has written."""

import sys
import time
from typing import Annotated

import typer

from sluiceway.cli.job_folders import SubmittedJob, named_job

app = typer.Typer()

_POLL_S = 1.0


@app.command()
def logs(
    job: SubmittedJob,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="Of its end.")] = 100,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until interrupted.")
    ] = False,
) -> None:
    """Show the end of a driver's log, one JSON object per line.

    $ sluiceway logs orders -f
    """
    from sluiceway.cluster.applications import submitted  # noqa: PLC0415
    from sluiceway.cluster.driver_log import DriverLog  # noqa: PLC0415

    with DriverLog(*submitted(named_job(job))) as log:
        for line in log.last(lines, whole=follow):
            print(line)
        while follow:
            sys.stdout.flush()
            time.sleep(_POLL_S)
            sys.stdout.write(log.more())
