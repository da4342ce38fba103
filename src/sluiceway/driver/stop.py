"""Stopping a driver: the first signal ends the epoch early, a second one ends the process."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from types import FrameType

_WATCHED = (signal.SIGTERM, signal.SIGINT)
_LAST_WORDS_S = 5.0


class StopSignal:
    """The loop's stop signal.

    A first SIGTERM or SIGINT asks for a graceful stop: the epoch ends early and is committed. A
    second one ends the process at once; the ledger makes that harmless.
    """

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._deadline: float | None = None
        self._time_is_up = False
        self._unlisten: Callable[[], None] | None = None
        self._as_json: bool | None = None
        self._tell: Callable[[str], None] | None = None

    def listen(self) -> None:
        """Handle SIGTERM and SIGINT. Called once, from the main thread.

        A thread acts on them. The main thread may be inside a client library for seconds. It may
        hold the very lock that a handler of its own would wait for.
        """
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        woken = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        handlers = {number: signal.signal(number, _leave_it_to_the_thread) for number in _WATCHED}
        # The start of Spark sends descriptor 2 elsewhere for a while.
        terminal = os.dup(2)
        watcher = threading.Thread(
            target=self._watch, args=(reading, terminal), name="signals", daemon=True
        )
        self._unlisten = partial(_give_back, handlers, woken, writing, watcher)
        watcher.start()

    def speak(self, *, as_json: bool) -> None:
        """Report a signal as a JSON line or in words; without a call, a terminal gets words."""
        self._as_json = as_json

    def report_by(self, tell: Callable[[str], None] | None) -> None:
        """Report signals through the owner of the terminal; None ends that.

        Args:
            tell: Called from the thread of the signals, with one line.
        """
        self._tell = tell

    def listen_again(self) -> None:
        """Handle the signals again after a library took them: SparkContext takes SIGINT.

        Does nothing when this object does not listen. In the main thread.
        """
        if self._unlisten is not None:
            for number in _WATCHED:
                signal.signal(number, _leave_it_to_the_thread)

    def unlisten(self) -> None:
        """Restore the handlers from before `listen`. In the main thread."""
        if self._unlisten is not None:
            self._unlisten()
            self._unlisten = None

    def stop_after(self, seconds: float) -> None:
        """Request a graceful stop `seconds` from now."""
        self._deadline = time.monotonic() + seconds

    def ask(self) -> None:
        """Request a graceful stop now."""
        self._requested.set()

    def requested(self) -> bool:
        """Whether a graceful stop was requested."""
        over = self._deadline is not None and time.monotonic() >= self._deadline
        if over and not self._requested.is_set():
            self._time_is_up = True
            self._requested.set()
        return self._requested.is_set()

    def by_request(self) -> bool:
        """Whether a stop was requested other than by the time limit."""
        return self._requested.is_set() and not self._time_is_up

    def sleep(self, seconds: float) -> None:
        """Pause, at most until a stop is requested."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self.requested():
            self._requested.wait(min(left, 0.2))

    def _watch(self, reading: int, terminal: int) -> None:
        signalled = False
        while numbers := os.read(reading, 64):
            for number in numbers:
                if number not in _WATCHED:
                    continue
                if signalled:
                    self._say(terminal, "stopped_at_once", "the next start goes on from the ledger")
                    os._exit(128 + number)
                signalled = True
                self._requested.set()
                self._say(
                    terminal,
                    "stopping",
                    "the epoch ends early and is committed; again: stop at once",
                )
        os.close(reading)
        os.close(terminal)

    def _say(self, descriptor: int, event: str, hint: str) -> None:
        """Write straight to the descriptor, without a buffer."""
        if self._tell is not None:
            self._tell(f"{event.replace('_', ' ')}: {hint}")
            return
        as_json = self._as_json if self._as_json is not None else not os.isatty(descriptor)
        if as_json:
            at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
            text = json.dumps({"hint": hint, "event": event, "level": "info", "at": at}) + "\n"
        else:
            text = f"\r\033[K{event.replace('_', ' ')}: {hint}\n"
        os.write(descriptor, text.encode())


@contextmanager
def listening(stop: StopSignal) -> Iterator[None]:
    """Signals request a stop inside the block; the old handlers return after it.

    In a thread other than the main one, which cannot set handlers, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stop.listen()
    try:
        yield
    finally:
        stop.unlisten()


def _give_back(
    handlers: Mapping[signal.Signals, signal.Handlers | Callable[..., object] | int | None],
    woken: int,
    writing: int,
    watcher: threading.Thread,
) -> None:
    for number, handler in handlers.items():
        # None: set by something other than Python, and cannot be set from here.
        if handler is not None:
            signal.signal(number, handler)
    signal.set_wakeup_fd(woken)
    # This ends the thread that watches.
    os.close(writing)
    # Its report of a signal must not be lost with the process; a reader may be stuck, though.
    watcher.join(_LAST_WORDS_S)


def _leave_it_to_the_thread(number: int, frame: FrameType | None) -> None:
    del number, frame
