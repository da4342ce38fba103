"""CPU of this process and of those below it, by what they are (Linux)."""

import os
from pathlib import Path

_PROC = Path("/proc")
# Fields of /proc/<pid>/stat behind the command name: see proc_pid_stat(5).
_PPID, _TIMES = 1, slice(11, 15)


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
        for entry in _PROC.iterdir():
            if entry.name.isdigit() and (found := _stat(entry)) is not None:
                stats[int(entry.name)] = found
    except OSError:
        return None
    if top not in stats:
        return None
    children: dict[int, list[int]] = {}
    for number, (_, fields) in stats.items():
        children.setdefault(int(fields[_PPID]), []).append(number)
    ticks = os.sysconf("SC_CLK_TCK")
    used: dict[str, float] = {}
    waiting = [top]
    while waiting:
        number = waiting.pop()
        waiting += children.get(number, ())
        name, fields = stats[number]
        key = "" if number == top else name
        used[key] = used.get(key, 0.0) + sum(map(int, fields[_TIMES])) / ticks
    return used


def _stat(entry: Path) -> tuple[str, list[str]] | None:
    """Command name and the fields behind it; None when the process is gone."""
    try:
        text = (entry / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    end = text.rindex(")")
    return text[text.index("(") + 1 : end], text[end + 2 :].split()
