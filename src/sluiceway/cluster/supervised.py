"""A driver of this machine under a supervisor: begun, ended, looked at."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace

from sluiceway.cluster.applications import (
    Application,
    ApplicationFolder,
    is_running,
)
from sluiceway.errors import SubmissionError
from sluiceway.host.process import ProcessIdentity, identity_of

_POLL_S = 0.1
_BEGIN_S = 20.0


def begin_supervised(
    folder: ApplicationFolder, application: Application, environment: Mapping[str, str]
) -> Application:
    """Start the supervisor of a driver; it outlives this process. Called once a submission.

    Args:
        folder: Of the job.
        application: What is submitted.
        environment: On top of this process's own, for the driver.

    Returns:
        The same with its supervisor.

    Raises:
        SubmissionError: It did not begin.
    """
    folder.forget_driver()
    driver = [
        *(sys.executable, "-m", "sluiceway", "run", application.job_file),
        *("--standby", "--log-format", "json"),
    ]
    command = [sys.executable, "-m", "sluiceway.cluster.supervisor", application.job, *driver]
    with folder.log.open("ab") as log:
        process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    supervisor = identity_of(process.pid)
    give_up_at = time.monotonic() + _BEGIN_S
    while folder.read_driver() is None:
        if process.poll() is not None or time.monotonic() > give_up_at or supervisor is None:
            raise SubmissionError(
                "the driver's supervisor did not begin", where=str(folder.log), hint="see its log"
            )
        time.sleep(_POLL_S)
    begun = replace(application, supervisor=supervisor)
    folder.write(begun)
    return begun


def end_supervised(
    folder: ApplicationFolder, application: Application, *, patience_s: float
) -> None:
    """End driver and supervisor: in good order, and by force what is left after `patience_s`.

    Also what a dead supervisor has left behind. Safe to repeat.

    Raises:
        SubmissionError: A process survives.
    """
    state = folder.read_driver()
    known = [application.supervisor, None if state is None else state.driver]
    for number, wait_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, _BEGIN_S)):
        # A supervisor hands it on; a second one would end the driver at once.
        left = [one for one in known if one is not None and is_running(one)][:1]
        for one in left:
            _signal(one, number)
        give_up_at = time.monotonic() + wait_s
        while any(is_running(one) for one in known) and time.monotonic() < give_up_at:
            time.sleep(_POLL_S)
        if number is signal.SIGKILL and is_running(known[-1]):
            _signal(known[-1], number)
            time.sleep(_POLL_S)
    if any(is_running(one) for one in known):
        raise SubmissionError(
            "the driver does not end, not even by KILL",
            where=str(folder.path),
            hint="it hangs in the kernel, often on a dead disk; look at its state with ps",
        )


def _signal(one: ProcessIdentity | None, number: signal.Signals) -> None:
    if one is None:
        return
    try:
        os.kill(one.pid, number)
    except ProcessLookupError:
        return
