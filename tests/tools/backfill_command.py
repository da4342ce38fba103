"""`sluiceway backfill` in a process of its own, which a failpoint may kill."""

import os
import subprocess
import sys

from sluiceway.observe.failpoints import VARIABLE, FailpointSpec
from tools.route_runs import RouteRun


def backfill(
    run: RouteRun, spec: FailpointSpec | None = None, *read: str
) -> "subprocess.CompletedProcess[str]":
    """Replace the rows of a day.

    Args:
        run: The route.
        spec: Where the process dies; None lets it end.
        read: What follows `--from`; by default `ledger`.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if spec is not None:
        environment[VARIABLE] = spec.text()
    command = [sys.executable, "-m", "sluiceway", "backfill", str(run.job.path), "dt=20261120"]
    return subprocess.run(
        [*command, "--from", *(read or ("ledger",))],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
