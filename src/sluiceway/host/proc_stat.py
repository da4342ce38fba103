"""Reads `/proc/<pid>/stat` (Linux)."""

from pathlib import Path

PROC = Path("/proc")
# Fields behind the command name, from the state on: see proc_pid_stat(5).
STATE, PPID, TIMES, THREADS, START_TICKS = 0, 1, slice(11, 15), 17, 19


def read_stat(pid: int) -> tuple[str, list[str]] | None:
    """Command name of a process, and the fields behind it.

    Returns:
        None when no such process is there, or it is hidden.
    """
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The command name may hold spaces and brackets: it ends at the last one.
    before, _, fields = text.rpartition(")")
    return before.partition("(")[2], fields.split()
