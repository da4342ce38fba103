"""Resources of this machine: memory, disk space, limits of a process."""

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
