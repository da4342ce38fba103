"""Names a process so that it can be recognised later, whatever happened to its pid."""

import os
import re
import socket
import subprocess
from dataclasses import dataclass
from datetime import datetime

from sluiceway.host.machine import PROC, START_TICKS, STATE, THREADS, read_stat

_DEAD_STATES = frozenset("ZX")
_ASK_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process, distinct from every other process that ever had or gets its pid.

    Attributes:
        host: Host name of the machine it runs on.
        boot_id: Result of `boot_id()` there; empty when it is unknown.
        pid: Process id.
        start_ticks: When it started: clock ticks since the boot (Linux), else Unix seconds.
    """

    host: str
    boot_id: str
    pid: int
    start_ticks: int


def boot_id() -> str:
    """Identify this boot of this machine and the pid namespace that pids belong to.

    Two containers share the kernel's boot id, but a pid of one means nothing in the other. So the
    namespace is part of it.

    Returns:
        An opaque text, the same for all processes that see each other; empty when unknown.
    """
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = (PROC / "self/ns/pid").readlink()
    except OSError:
        return _ask(["sysctl", "-n", "kern.boottime"])
    return f"{boot}/{namespace}"


def own_identity() -> ProcessIdentity:
    """Identify the calling process.

    Raises:
        ProcessLookupError: The system does not report when this process started.
    """
    identity = identity_of(os.getpid())
    if identity is None:
        raise ProcessLookupError("the system does not say when this process started")
    return identity


def identity_of(pid: int) -> ProcessIdentity | None:
    """Identify a process of this host.

    Returns:
        Its identity, or None when no such process runs (a zombie does not).
    """
    start_ticks = _start_ticks(pid)
    if start_ticks is None:
        return None
    return ProcessIdentity(
        host=socket.gethostname(), boot_id=boot_id(), pid=pid, start_ticks=start_ticks
    )


def is_alive(identity: ProcessIdentity) -> bool | None:
    """Whether exactly this process still runs.

    Returns:
        True or False when it is known. None when it cannot be known from here: another host, an
        unknown boot, another pid namespace, a hidden process. The same host after a reboot answers
        None too: host names are not unique enough to call it dead.
    """
    here = boot_id()
    if identity.host != socket.gethostname() or not here or identity.boot_id != here:
        return None
    start_ticks = _start_ticks(identity.pid)
    if start_ticks is not None:
        return start_ticks == identity.start_ticks
    return None if _is_hidden(identity.pid) else False


def _start_ticks(pid: int) -> int | None:
    if not (PROC / "self/stat").exists():
        return _start_seconds_from_ps(pid)
    stat = read_stat(pid)
    if stat is None:
        return None
    _, fields = stat
    # A first thread that has ended shows as a zombie while others still hold files and ports.
    if fields[STATE] in _DEAD_STATES and int(fields[THREADS]) <= 1:
        return None
    return int(fields[START_TICKS])


def _start_seconds_from_ps(pid: int) -> int | None:
    answer = _ask(["ps", "-o", "state=", "-o", "lstart=", "-p", str(pid)])
    matched = re.fullmatch(r"(\S)\S*\s+(.+)", answer)
    if matched is None or matched[1] in _DEAD_STATES:
        return None
    started = datetime.strptime(f"{matched[2].strip()} +0000", "%a %b %d %H:%M:%S %Y %z")
    return int(started.timestamp())


def _is_hidden(pid: int) -> bool:
    """Whether the pid is in use although its entry cannot be read (procfs hidepid)."""
    if (PROC / str(pid)).exists():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    except OverflowError:
        return False
    return not (PROC / str(pid)).exists()


def _ask(command: list[str]) -> str:
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    try:
        done = subprocess.run(  # noqa: S603
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=_ASK_TIMEOUT_S,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
