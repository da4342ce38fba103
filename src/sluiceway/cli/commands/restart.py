"""`sluiceway restart`: end a submitted job and start it again, as it was submitted."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from sluiceway.cli.job_folders import SubmittedJob, named_job

app = typer.Typer()


@app.command()
def restart(
    job: SubmittedJob,
    grace: Annotated[
        str, typer.Option("--grace", metavar="2m", help="How long it may take to end in order.")
    ] = "2m",
) -> None:
    """End a job and submit it again, with its job file and this environment as they are now.

    Job file, master and environment are checked first: if one is wrong, the job runs on.

    $ sluiceway restart orders
    """
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.cli.job_folders import grace_s  # noqa: PLC0415
    from sluiceway.cli.views.typed_commands import OWN_ROOM  # noqa: PLC0415
    from sluiceway.cluster.applications import submitted  # noqa: PLC0415
    from sluiceway.cluster.submission import JobSubmission, resubmit  # noqa: PLC0415
    from sluiceway.jobfile.compile.stores import job_login  # noqa: PLC0415

    folder, before = submitted(named_job(job))
    job_file = Path(before.job_file)
    OWN_ROOM.set(before.room)
    spec = load_checked_job(job_file).spec
    patience_s = grace_s(grace)
    # An archive that `submit` packed is packed again: packages may have changed.
    environment = (before.environment or "none") if before.environment_named else ""
    wanted = JobSubmission(
        spec.name,
        job_file,
        spec.run.master,
        spec.run.spark_conf,
        before.deploy,
        environment,
        job_login(spec.routes[0]),
        spec.routes[0].room,
    )
    resubmit(folder, wanted, patience_s=patience_s)
    print(f"{spec.name} runs again", file=sys.stderr)
