"""Starts a server so that it outlives us, and ends exactly that server later."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.host.process import ProcessIdentity, identity_of, is_alive

_POLL_S = 0.02
_LOG_TAIL_BYTES = 16_384
# The shell hands the server over to init and exits, so this process has no child to reap. The
# caller may end before the server or long after it. The server's program begins only when this
# process says so. If the caller dies before that, the read fails and nothing is left.
_DETACH_SCRIPT = (
    'umask 077; log="$1"; shift; exec 3<&0; '
    '{ read -r go <&3 && exec "$@" 3<&- </dev/null; } >>"$log" 2>&1 & echo "$!"'
)


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a server.

    Attributes:
        command: Program and arguments.
        folder: Working folder of the server.
        environment: All of its variables; nothing is inherited.
    """

    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str]


def start_detached(
    launch: Launch, log_file: Path, *, record: Callable[[ProcessIdentity], None]
) -> ProcessIdentity:
    """Start a server in a session of its own: Ctrl-C of our terminal does not reach it.

    Args:
        launch: What to start.
        log_file: File for its standard output and error, which are appended.
        record: Called with the process before the program begins in it. If it raises, or this
            process dies, nothing is started: every server is on record.

    Returns:
        The process. Only the log shows whether the program could run.

    Raises:
        UnhealthyEnvironmentError: The system cannot start a process.
    """
    _mark_start(log_file)
    with subprocess.Popen(  # noqa: S603
        ["/bin/sh", "-c", _DETACH_SCRIPT, "sh", str(log_file), *launch.command],
        cwd=launch.folder,
        env=dict(launch.environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as shell:
        if shell.stdin is None or shell.stdout is None:
            raise UnhealthyEnvironmentError("the system gave no pipes to a new process")
        pid = shell.stdout.readline().strip()
        identity = identity_of(int(pid)) if pid.isdigit() else None
        if identity is None:
            raise UnhealthyEnvironmentError(
                "the system could not start another process",
                where=str(log_file),
                hint="look at the limits of processes and memory",
            )
        record(identity)
        shell.stdin.write("go\n")
    return identity


def stop(identity: ProcessIdentity, *, grace_s: float) -> None:
    """End a server: TERM, and KILL when it still runs after `grace_s`. Safe to repeat.

    Raises:
        UnhealthyEnvironmentError: It survives even KILL.
    """
    _signal(identity, signal.SIGTERM)
    if not wait_until_gone(identity, timeout_s=grace_s):
        kill(identity)


def kill(identity: ProcessIdentity) -> None:
    """End a server by KILL, as a crash would. Safe to repeat.

    Raises:
        UnhealthyEnvironmentError: It survives.
    """
    _signal(identity, signal.SIGKILL)
    if not wait_until_gone(identity, timeout_s=10):
        raise UnhealthyEnvironmentError(
            f"process {identity.pid} does not end, not even by KILL",
            hint="it hangs in the kernel, often on a dead disk; look at its state with ps",
        )


def wait_until_gone(identity: ProcessIdentity, *, timeout_s: float) -> bool:
    """Wait for a process to end.

    Returns:
        Whether it is gone.
    """
    deadline = time.monotonic() + timeout_s
    while is_alive(identity):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def log_tail(log_file: Path, *, lines: int = 15) -> str:
    """The last lines of a server's log; empty when there is none."""
    try:
        with log_file.open("rb") as log:
            log.seek(max(0, log_file.stat().st_size - _LOG_TAIL_BYTES))
            text = log.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.rstrip().splitlines()[-lines:])


def _mark_start(log_file: Path) -> None:
    """Write a mark of the start into the log, so that an old end is not taken for a new one."""
    log_file.touch(mode=0o600)
    with log_file.open("a") as log:
        log.write(f"--- started {datetime.now(UTC).isoformat(timespec='milliseconds')}\n")


def _signal(identity: ProcessIdentity, number: signal.Signals) -> None:
    """Signal exactly this process: never another that got its pid later."""
    if not is_alive(identity):
        return
    try:
        os.kill(identity.pid, number)
    except ProcessLookupError:
        # It ended between the two lines, as the caller wants.
        return
