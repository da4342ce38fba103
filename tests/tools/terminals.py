"""Programs on a pseudo-terminal of their own."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path
from struct import pack

TESTS = Path(__file__).parents[1]


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        self.resize(24, 100)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        environment = {**os.environ, "TERM": "xterm-256color", "NO_COLOR": "1"}
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
            preexec_fn=_at_a_terminal,  # noqa: PLW1509
            cwd=TESTS,
        )
        self.text = ""

    def resize(self, lines: int, columns: int) -> None:
        ioctl(self.master, termios.TIOCSWINSZ, pack("HHHH", lines, columns, 0, 0))

    def read_until(self, wanted: str, patience_s: float = 60.0) -> str:
        """All since the last call, up to the wanted text; marks of the terminal taken out."""
        until = time.monotonic() + patience_s
        seen = ""
        while wanted not in plain(seen):
            assert time.monotonic() < until, f"no {wanted!r} in {plain(seen)!r}"
            ready, _, _ = select.select([self.master], [], [], 0.2)
            if ready:
                part = os.read(self.master, 65536).decode(errors="replace")
                seen += part
                self.text += part
        return plain(seen)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())


def _at_a_terminal() -> None:
    """Keys such as Ctrl-C reach only those whose terminal it is, and who do not ignore them."""
    # What a shell starts in the background ignores it, and so would its children.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    ioctl(0, termios.TIOCSCTTY, 0)


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    made = Terminal(*arguments)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()
        os.close(made.master)
        os.close(made.slave)
