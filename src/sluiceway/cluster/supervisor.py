"""Keeps a driver running on this machine: starts it again after a crash, ends it on a signal.

It is a process of its own, `python -m sluiceway.cluster.supervisor JOB_NAME`, that outlives the
shell which started it. A driver that it starts again is a standby: if another driver has taken the
job over meanwhile, it waits for that driver's end. The output of both goes through a `LogPipe`.
"""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType

from sluiceway.cluster.applications import ApplicationFolder, DriverState, now_ms
from sluiceway.cluster.log_pipe import LogPipe
from sluiceway.host.process import identity_of
from sluiceway.observe.log import LogFormat, stderr_log

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
_HEALTHY_AFTER_S = 300.0
# An error in the user's input: no further start mends it.
_FINAL_CODES = frozenset({0, 2, 3})
_NOT_STARTED = 127
"""Exit code by which a shell says that a program cannot start."""
_POLL_S = 0.2


class Supervisor:
    """Supervises the driver of one job.

    Args:
        folder: Folder of the job; the state of its driver is written there.
        command: Command line of the driver.
        look: Called a few times a second while the driver runs.
    """

    def __init__(
        self,
        folder: ApplicationFolder,
        command: Sequence[str],
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder = folder
        self._command = command
        self._look = look
        self._log = stderr_log(log_format=LogFormat.JSON)
        self._told = threading.Event()
        self._driver: subprocess.Popen[bytes] | None = None
        self._starts = 0

    def run(self) -> int:
        """Start the driver until it has ended for good; returns its exit code. Called once."""
        pause_s = FIRST_PAUSE_S
        while True:
            began = time.monotonic()
            code = self._run_once()
            if code in _FINAL_CODES or self._told.is_set():
                self._write_state("ended", code)
                self._log.info("driver_ended", exit_code=code, starts=self._starts)
                return code
            if time.monotonic() - began > _HEALTHY_AFTER_S:
                pause_s = FIRST_PAUSE_S
            self._write_state("waiting", code)
            self._log.warning("driver_died", exit_code=code, next_start_in_s=pause_s)
            if self._waited(pause_s):
                self._write_state("ended", code)
                return code
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def end(self, number: int, frame: FrameType | None) -> None:
        """Hand a signal on to the driver, which ends gracefully on the first one."""
        del frame
        self._told.set()
        driver = self._driver
        if driver is not None and driver.poll() is None:
            driver.send_signal(number)

    def _waited(self, pause_s: float) -> bool:
        """Wait; return whether a signal asked for the end meanwhile."""
        until = time.monotonic() + pause_s
        while not self._told.wait(max(0.0, min(_POLL_S, until - time.monotonic()))):
            self._look()
            if time.monotonic() >= until:
                return False
        return True

    def _run_once(self) -> int:
        # A process group of its own, so that one of the two can be killed alone.
        try:
            self._driver = subprocess.Popen(  # noqa: S603
                self._command, stdin=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            # No memory or process left, or an interpreter that is being replaced: it may pass.
            self._log.warning("driver_not_started", error=str(error))
            return _NOT_STARTED
        self._starts += 1
        self._write_state("running", None)
        if self._told.is_set():
            # The signal came between the two.
            self._driver.send_signal(signal.SIGTERM)
        while True:
            try:
                return self._driver.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                self._look()

    def _write_state(self, state: str, code: int | None) -> None:
        driver = self._driver
        runs = identity_of(driver.pid) if driver is not None and state == "running" else None
        made = DriverState(state, self._starts, code, now_ms(), runs)  # type: ignore[arg-type]
        try:
            self._folder.write_driver(made)
        except OSError as error:
            # Drivers die of a full disk; the supervisor that restarts them must not.
            self._log.warning("driver_state_not_written", error=str(error))


def main() -> int:
    """Supervise the job of the arguments."""
    job, *command = sys.argv[1:]
    folder = ApplicationFolder(job)
    output = LogPipe(folder.log)
    supervisor = Supervisor(folder, command, output.check)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, supervisor.end)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        output.begin()
    except OSError as error:
        # Better a log without a bound than a job that does not run.
        stderr_log(log_format=LogFormat.JSON).warning("log_not_bounded", error=str(error))
    code = supervisor.run()
    output.end()
    return code


if __name__ == "__main__":
    sys.exit(main())
