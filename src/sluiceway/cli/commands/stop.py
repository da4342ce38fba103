"""`sluiceway stop`: end a job that was submitted."""

import sys
from typing import Annotated

import typer

from sluiceway.cli.job_folders import SubmittedJob, named_job

app = typer.Typer()


@app.command()
def stop(
    job: SubmittedJob,
    grace: Annotated[
        str, typer.Option("--grace", metavar="2m", help="How long it may take to end in order.")
    ] = "2m",
) -> None:
    """End a submitted job. Its commits stay, and the next start continues after them.

    A driver on this machine commits its epoch first. YARN ends a driver on YARN and gives it a
    moment only: the next driver reads its epoch again.

    $ sluiceway stop orders
    """
    from sluiceway.cli.job_folders import grace_s  # noqa: PLC0415
    from sluiceway.cluster.applications import submitted  # noqa: PLC0415
    from sluiceway.cluster.submission import end  # noqa: PLC0415

    folder, application = submitted(named_job(job))
    end(folder, application, patience_s=grace_s(grace))
    print(f"{application.job} has ended", file=sys.stderr)
