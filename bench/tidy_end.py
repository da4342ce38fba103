"""A benchmark that is told to end puts away what it has started, whichever way it ends.

Told once, it unwinds as by an exception. Told twice, killed, or not done with unwinding after two
minutes, a watcher beside it ends every process that it has started: it knows them by a mark in
their environment, which processes of their own session, as a supervisor, inherit too.
"""

import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

MARK = "SLUICEWAY_BENCH_RUN"
"""Name of the mark in the environment."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_TIDY_S = 120
_GRACE_S = 5.0
_POLL_S = 0.1
_WATCHERS: list["subprocess.Popen[bytes]"] = []
"""Kept, so that its standard input stays open for as long as this process lives."""


def end_tidily() -> None:
    """Let a signal unwind the main thread as an exception does. Called once, first of all."""
    mark = secrets.token_hex(16)
    plain = {name: value for name, value in os.environ.items() if name != MARK}
    # It ends when the other end of its standard input is closed: when this process is gone.
    watcher = subprocess.Popen(
        [sys.executable, __file__, mark],
        env=plain,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.environ[MARK] = mark
    _WATCHERS.append(watcher)

    def leave(number: int, _frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        print("told to end: putting away what was started", file=sys.stderr, flush=True)
        signal.alarm(_TIDY_S)
        sys.exit(128 + number)

    for each in _SIGNALS:
        signal.signal(each, leave)


def marked(mark: str) -> list[int]:
    """Processes that have the mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        try:
            values = (folder / "environ").read_bytes().split(b"\0") if folder.name.isdigit() else []
        except OSError:
            # It has ended, or is another user's.
            continue
        if wanted in values:
            found.append(int(folder.name))
    return found


def end_marked(mark: str) -> None:
    """End all processes that have the mark: told first, killed after some seconds."""
    until = time.monotonic() + _GRACE_S
    while left := marked(mark):
        number = signal.SIGTERM if time.monotonic() < until else signal.SIGKILL
        for pid in left:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        time.sleep(_POLL_S)


if __name__ == "__main__":
    sys.stdin.read()
    end_marked(sys.argv[1])
