"""`sluiceway list`: the jobs that were submitted from here, and their states."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from sluiceway.cli.options import Output, OutputFormat
from sluiceway.cli.views.answers import print_document
from sluiceway.cli.views.tables import print_table

if TYPE_CHECKING:
    from sluiceway.cluster.submission import SubmissionState

app = typer.Typer(name="list")


@app.command(name="list")
def list_jobs(output: Output = OutputFormat.TABLE) -> None:
    """Show the jobs that this user submitted from this machine.

    For the routes of one job, use `sluiceway status`.

    $ sluiceway list -o json
    """
    from sluiceway.cluster.applications import all_submitted  # noqa: PLC0415
    from sluiceway.cluster.submission import SubmissionState, read_submission  # noqa: PLC0415
    from sluiceway.errors import SubmissionError  # noqa: PLC0415

    rows = []
    for folder, application in all_submitted():
        try:
            seen, trouble = read_submission(folder, application), None
        except SubmissionError as error:
            seen, trouble = SubmissionState("unknown"), error.message.partition("\n")[0]
        rows.append((application, seen, trouble))
    if output.is_document:
        jobs = [
            {
                "job": application.job,
                "state": seen.state,
                "master": application.master,
                "deploy": application.deploy,
                "cluster_id": application.cluster_id or None,
                "starts": seen.starts,
                "exit_code": seen.exit_code,
                "pid": seen.pid,
                "submitted_at_ms": application.submitted_at_ms,
                "job_file": application.job_file,
                "error": trouble,
            }
            for application, seen, trouble in rows
        ]
        print_document({"jobs": jobs}, output)
        return
    head = ("JOB", "STATE", "MASTER", "DRIVER", "STARTS", "SUBMITTED (UTC)")
    cells = [
        (
            application.job,
            trouble or _state(seen),
            application.master,
            application.cluster_id or (f"pid {seen.pid}" if seen.pid else "-"),
            "-" if seen.starts is None else str(seen.starts),
            f"{datetime.fromtimestamp(application.submitted_at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}",
        )
        for application, seen, trouble in rows
    ]
    print_table([head, *cells])


def _state(seen: "SubmissionState") -> str:
    """The state in words; a failed driver stands out."""
    return f"{seen.state} (exit {seen.exit_code})" if seen.exit_code else seen.state
