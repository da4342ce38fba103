"""`sluiceway submit`: start a job in the background, on this machine or on its cluster."""

import sys
from enum import StrEnum
from typing import Annotated

import typer

from sluiceway.cli.options import JobFile, Output, OutputFormat
from sluiceway.cli.views.answers import print_document

app = typer.Typer()


class DeployMode(StrEnum):
    """Where the driver runs."""

    CLIENT = "client"
    CLUSTER = "cluster"


@app.command()
def submit(
    job_file: JobFile,
    deploy: Annotated[
        DeployMode,
        typer.Option(help="Driver on this machine, or (YARN) on the cluster."),
    ] = DeployMode.CLIENT,
    environment: Annotated[
        str,
        typer.Option(
            "--environment",
            metavar="ARCHIVE|none",
            help="What `pack` made, or its address; `none`: executors have all packages.",
            show_default=False,
        ),
    ] = "",
    output: Output = OutputFormat.TABLE,
) -> None:
    """Start a job that goes on when this terminal is closed; its master is `run.master`.

    A driver that dies is started again. Executors get this Python environment as an archive, packed
    once; job file and secrets go to the driver alone. The driver of a job with rooms is one of its
    home, unless --room names another room: there it is a standby.

    $ sluiceway submit orders.yaml
    $ sluiceway submit orders.yaml --deploy cluster
    """
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.cluster.submission import JobSubmission  # noqa: PLC0415
    from sluiceway.cluster.submission import submit as submit_job  # noqa: PLC0415
    from sluiceway.jobfile.compile.stores import job_login  # noqa: PLC0415

    job = load_checked_job(job_file, opens=False).spec
    begun = submit_job(
        JobSubmission(
            job.name,
            job_file,
            job.run.master,
            job.run.spark_conf,
            "cluster" if deploy is DeployMode.CLUSTER else "client",
            environment,
            job_login(job.routes[0]),
            job.routes[0].room,
        )
    )
    if output.is_document:
        where = {"cluster_id": begun.cluster_id or None}
        print_document({"job": begun.job, "deploy": begun.deploy, **where}, output)
        return
    where_text = begun.cluster_id or "this machine, under a supervisor"
    print(f"{begun.job} runs on {begun.master}; its driver: {where_text}", file=sys.stderr)
    print(f"look at it: sluiceway list, sluiceway logs {begun.job}", file=sys.stderr)
