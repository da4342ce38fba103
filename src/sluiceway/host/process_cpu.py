"""CPU of this process and of those below it, by what they are (Linux)."""

import os

from sluiceway.host.proc_stat import PPID, PROC, TIMES, read_stat


def cpu_below(pid: int | None = None) -> dict[str, float] | None:
    """CPU seconds, user and system, of a process and its living descendants.

    Ended children count with the parent that waited for them.

    Args:
        pid: Of the topmost one; this process when left out.

    Returns:
        Command name -> seconds, the topmost process under the name ``""``; None where the system
        does not tell.
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
