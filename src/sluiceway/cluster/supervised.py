"""A driver of this machine under a supervisor: start, end and state."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
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
        folder: Folder of the job.
        application: The submission.
        environment: Variables for the driver, on top of this process's own.

    Returns:
        The submission with its supervisor.

    Raises:
        SubmissionError: The supervisor did not start.
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
    with ExitStack() as undo:
        # After the error, no record would name a supervisor that goes on.
        undo.callback(_end_begun, process)
        supervisor = identity_of(process.pid)
        begun = replace(application, supervisor=supervisor)
        folder.write(begun)
        give_up_at = time.monotonic() + _BEGIN_S
        while folder.read_driver() is None:
            if process.poll() is not None or time.monotonic() > give_up_at or supervisor is None:
                raise SubmissionError(
                    "the driver's supervisor did not begin",
                    where=str(folder.log),
                    hint="see its log",
                )
            time.sleep(_POLL_S)
        undo.pop_all()
    return begun


def end_supervised(
    folder: ApplicationFolder, application: Application, *, patience_s: float
) -> None:
    """End driver and supervisor: gracefully, and by force what is left after `patience_s`.

    It also ends what a dead supervisor left running. Safe to repeat.

    Raises:
        SubmissionError: A process survives.
    """
    # A supervisor hands the signal on; a second signal would end the driver at once.
    for one in _left(folder, application)[:1]:
        _signal(one, signal.SIGTERM)
    if _gone(folder, application, patience_s):
        return
    # The supervisor first: it would start another driver.
    for one in _left(folder, application):
        _signal(one, signal.SIGKILL)
    if not _gone(folder, application, _BEGIN_S):
        raise SubmissionError(
            "the driver does not end, not even by KILL",
            where=str(folder.path),
            hint="it hangs in the kernel, often on a dead disk; look at its state with ps",
        )


def _left(folder: ApplicationFolder, application: Application) -> list[ProcessIdentity]:
    """Supervisor and driver, if alive; read each time, because a supervisor starts drivers."""
    state = folder.read_driver()
    known = (application.supervisor, None if state is None else state.driver)
    return [one for one in known if one is not None and is_running(one)]


def _gone(folder: ApplicationFolder, application: Application, within_s: float) -> bool:
    give_up_at = time.monotonic() + within_s
    while _left(folder, application):
        if time.monotonic() > give_up_at:
            return False
        time.sleep(_POLL_S)
    return True


def _end_begun(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_BEGIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _signal(one: ProcessIdentity, number: signal.Signals) -> None:
    try:
        os.kill(one.pid, number)
    except ProcessLookupError:
        return
