"""Drivers in processes of their own, which are killed where a test says."""

import atexit
import os
import signal
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Protocol

from matrix.drivers import DriverServer, driver_server
from sluiceway.observe.failpoints import Action, FailpointSpec

_PATIENCE_S = 300.0


@cache
def _server() -> DriverServer:
    """One for all tests of this process: what a driver imports takes longer than it runs."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(driver_server())


class RunnableJob(Protocol):
    """A job that a driver may run."""

    @property
    def path(self) -> Path:
        """The job file."""

    @property
    def folder(self) -> Path:
        """Folder for the driver's files."""


def drive(job: RunnableJob, **variables: str) -> int:
    """A driver in a process of its own, until it is caught up or dies; its exit code."""
    environment = {**os.environ, **variables}
    driver = _server().start(job.path, job.folder, job.folder / "driver.log", environment)
    try:
        return driver.wait(_PATIENCE_S)
    finally:
        driver.end()


def drive_until_killed(job: RunnableJob, marks: Path, point: str, hit: int = 1) -> None:
    """A driver that is killed when it reaches a failpoint, the first time if nothing is said.

    Args:
        job: What it runs.
        marks: A folder that is not there yet.
        point: Where.
        hit: Which time.
    """
    marks.mkdir()
    spec = FailpointSpec(point, Action.KILL, str(marks), hit=hit)
    assert drive(job, SLUICEWAY_FAILPOINTS=spec.text()) == -signal.SIGKILL
    assert (marks / "hit").exists()
