"""Drivers in processes of their own, which are killed where a test says."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from sluiceway.observe.failpoints import Action, FailpointSpec
from tools.lake_jobs import LakeJob

_TESTS = Path(__file__).parents[1]


def drive(job: LakeJob, **variables: str) -> int:
    """A driver in a process of its own, until it is caught up or dies; its exit code."""
    environ = {**os.environ, "PYTHONPATH": str(_TESTS), **variables}
    command = [sys.executable, "-m", "tools.local_driver", str(job.path), "--until-caught-up"]
    with (job.folder / "driver.log").open("ab") as log:
        done = subprocess.run(command, env=environ, stdout=log, stderr=log, check=False)
    return done.returncode


def drive_until_killed(job: LakeJob, marks: Path, point: str) -> None:
    """A driver that is killed the first time that it reaches a failpoint.

    Args:
        job: What it runs.
        marks: A folder that is not there yet.
        point: Where.
    """
    marks.mkdir()
    spec = FailpointSpec(point, Action.KILL, str(marks), hit=1)
    assert drive(job, SLUICEWAY_FAILPOINTS=spec.text()) == -signal.SIGKILL
    assert (marks / "hit").exists()
