"""Resources of this machine, and the CPU of this process and its children."""

import os
import re
import resource
import shutil
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CGROUP_MAX = Path("/sys/fs/cgroup/memory.max")
_CGROUP_USED = Path("/sys/fs/cgroup/memory.current")


def free_memory_bytes() -> int | None:
    """Memory that programs can still get; the container's rest where that is less.

    Returns:
        None where the system does not report it.
    """
    try:
        told = re.search(r"^MemAvailable:\s+(\d+) kB", _MEMINFO.read_text(), re.MULTILINE)
    except OSError:
        return None
    found = [int(told[1]) << 10] if told else []
    try:
        limit, used = _CGROUP_MAX.read_text().strip(), _CGROUP_USED.read_text().strip()
    except OSError:
        limit = used = ""
    if limit.isdecimal() and used.isdecimal():
        found.append(max(0, int(limit) - int(used)))
    return min(found, default=None)


def free_disk_bytes(folder: str) -> int:
    """Space for this user on the disk of a folder, in bytes.

    Raises:
        OSError: There is no such folder.
    """
    return shutil.disk_usage(folder).free


def open_files_limit() -> int | None:
    """How many files and connections a process of this user may have open; None for no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def processes_limit() -> int | None:
    """How many processes and threads this user may have; None for no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    return None if soft == resource.RLIM_INFINITY else soft


def local_slots(master: str) -> int | None:
    """How many tasks `run.master` runs at once on this machine; None when they run elsewhere."""
    if master == "local":
        return os.cpu_count() or 1
    match = re.fullmatch(r"local\[(\d+)\]", master)
    return int(match[1]) if match else None


PROC = Path("/proc")
# Fields after the command name, from the state on: see proc_pid_stat(5).
STATE, PPID, TIMES, THREADS, START_TICKS = 0, 1, slice(11, 15), 17, 19


def read_stat(pid: int) -> tuple[str, list[str]] | None:
    """Command name of a process, and the fields after it.

    Returns:
        None when the process does not exist, or is hidden.
    """
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The command name may hold spaces and brackets: it ends at the last one.
    before, _, fields = text.rpartition(")")
    return before.partition("(")[2], fields.split()


def cpu_below(pid: int | None = None) -> dict[str, float] | None:
    """CPU seconds, user and system, of a process and its living descendants.

    Ended children count with the parent that waited for them.

    Args:
        pid: Pid of the topmost process; None for this process.

    Returns:
        Command name -> seconds, the topmost process under the name ``""``; None where the system
        does not report it.
    """
    top = os.getpid() if pid is None else pid
    stats = {}
    try:
        for number in [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]:
            if (found := read_stat(number)) is not None:
                stats[number] = found
    except OSError:
        return None
    if top not in stats:
        return None
    children: dict[int, list[int]] = {}
    for number, (_, fields) in stats.items():
        children.setdefault(int(fields[PPID]), []).append(number)
    ticks = os.sysconf("SC_CLK_TCK")
    used: dict[str, float] = {}
    waiting = [top]
    while waiting:
        number = waiting.pop()
        waiting += children.get(number, ())
        name, fields = stats[number]
        key = "" if number == top else name
        used[key] = used.get(key, 0.0) + sum(map(int, fields[TIMES])) / ticks
    return used
