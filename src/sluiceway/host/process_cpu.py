"""CPU of this process and of its descendants, by command (Linux)."""

import os
from pathlib import Path

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
