"""Stopping a driver: the first signal ends the epoch early, a second one ends the process."""

import os
import signal
import sys
import threading
import time
from types import FrameType


class StopSignal:
    """What the loop asks whether it should go on.

    A first SIGTERM or SIGINT asks for a graceful stop: the epoch ends early and is committed. A
    second one ends the process at once; the ledger makes that harmless.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._deadline: float | None = None

    def listen(self) -> None:
        """Take SIGTERM and SIGINT over. Called once, from the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def stop_after(self, seconds: float) -> None:
        """Ask for a graceful stop `seconds` from now."""
        self._deadline = time.monotonic() + seconds

    def ask(self) -> None:
        """Ask for a graceful stop now."""
        self._asked.set()

    def asked(self) -> bool:
        """Whether a graceful stop is wanted."""
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._asked.set()
        return self._asked.is_set()

    def sleep(self, seconds: float) -> None:
        """Pause, at most until a stop is asked for."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self.asked():
            self._asked.wait(min(left, 0.2))

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._asked.is_set():
            sys.stderr.write("stopped at once; the next start goes on from the ledger\n")
            sys.stderr.flush()
            os._exit(128 + number)
        sys.stderr.write("stopping: the epoch ends early and is committed (again: stop at once)\n")
        sys.stderr.flush()
        self._asked.set()
