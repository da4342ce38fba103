"""The screen of a run on a terminal: draws it, reads keys, gives the terminal back."""

import io
import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from textwrap import wrap
from types import TracebackType
from typing import Any, Self

from rich.console import Console, ConsoleDimensions
from rich.live import Live

from sluiceway.cli.views.live_screen import Message, Scene, draw
from sluiceway.driver.status_board import StatusBoard
from sluiceway.driver.stop import StopSignal
from sluiceway.observe.log import Log, LogFormat, stderr_log
from sluiceway.observe.progress import Progress

_EVERY_S = 0.25
_KEPT = 200
_TOLD_AFTER = 20
_RATE_OVER_S = 5.0
_USUAL = (80, 24)

Fill = Callable[[Any], dict[str, Any]]


def shows_screen(*, plain: bool) -> bool:
    """Whether a run shows a screen: on a capable terminal, unless a line was asked for."""
    return not plain and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class _Lines(io.TextIOBase):
    """The log of a run with a screen: its lines become messages."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take

    def write(self, text: str) -> int:
        """One line, or its end."""
        if text.strip():
            self._take(text.rstrip("\n"))
        return len(text)


class _ScreenProgress(Progress):
    """Counts for the screen; lasting lines are printed when the screen is gone."""

    def __init__(self, after: list[str]) -> None:
        super().__init__(None)
        self.watched = True
        self._after = after

    def print_lines(self, text: str) -> None:
        """See `Progress`."""
        self._after.append(text)


class LiveRun:
    """A run's screen. A context: inside of it the screen owns the terminal.

    Args:
        job: The job's name.
        fill: Turns fields of a log line into the written ones.
        descriptor: The terminal; a copy is kept, since the start of Spark sends 2 elsewhere.

    Attributes:
        progress: Progress of the run, for its observers.
    """

    def __init__(self, job: str, fill: Fill | None = None, *, descriptor: int = 2) -> None:
        self._job = job
        self._fill = fill
        self._messages: deque[Message] = deque(maxlen=_KEPT)
        self._after: list[str] = []
        self.progress: Progress = _ScreenProgress(self._after)
        self._out = os.fdopen(os.dup(descriptor), "w", encoding="utf-8", errors="replace")
        self._console = Console(file=self._out, force_terminal=True)
        self._live = Live(
            console=self._console,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._board = StatusBoard()
        self._address = ""
        self._stopping = ""
        self._started = time.monotonic()
        self._rates: deque[tuple[float, int]] = deque()
        self._drawing = threading.Lock()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._give_back: Callable[[], None] | None = None

    def log(self) -> Log:
        """The log of the run: warnings and worse, as messages of the screen."""
        lines: Any = _Lines(self._read_line)
        return stderr_log(
            level="warning",
            log_format=LogFormat.TEXT,
            stream=lines,
            fill=self._fill,
            sentences=True,
        )

    @contextmanager
    def watching(self, board: StatusBoard, stop: StopSignal, address: str) -> Iterator[None]:
        """Show a run inside the block.

        Args:
            board: Its routes.
            stop: Gets a listener for the words of a signal.
            address: Where metrics are served; empty when nowhere.
        """
        self._board, self._address = board, address
        stop.report_by(self._show_stopping)
        try:
            with self:
                yield
        finally:
            stop.report_by(None)

    def __enter__(self) -> Self:
        self._give_back = take_keys()
        self._live.start()
        self._threads = [threading.Thread(target=self._draw_on, name="screen", daemon=True)]
        if self._give_back is not None:
            self._threads.append(threading.Thread(target=self._read_keys, name="keys", daemon=True))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del kind, error, trace
        self._over.set()
        for thread in self._threads:
            thread.join(1.0)
        self._leave()
        for message in list(self._messages)[-_TOLD_AFTER:]:
            self._out.write(_farewell(message, self._console.size.width))
        for text in self._after:
            self._out.write(text + "\n")
        with suppress(OSError):
            self._out.close()

    def _leave(self) -> None:
        """Restore the terminal. Safe to repeat."""
        with self._drawing, suppress(OSError):
            self._live.stop()
        if self._give_back is not None:
            self._give_back()
            self._give_back = None

    # Lines and messages

    def _read_line(self, line: str) -> None:
        """A line of the log: time, level, words."""
        at, _, rest = line.partition(" ")
        level, _, text = rest.strip().partition(" ")
        self._messages.append(Message(at, level, text.strip()))

    def _show_stopping(self, text: str) -> None:
        self._stopping = text
        if text.startswith("stopped at once"):
            # The process ends with this call, and nothing else would restore the terminal.
            self._over.set()
            self._leave()
            os.write(self._out.fileno(), f"{text}\n".encode())

    # The threads

    def _draw_on(self) -> None:
        while not self._over.wait(_EVERY_S):
            try:
                self.refresh()
            except OSError:
                # The terminal has gone; the run goes on.
                return

    def refresh(self) -> None:
        """Draw the current state, in the terminal's current size."""
        width, height = terminal_size(self._out.fileno())
        resized = (width, height) != tuple(self._console.size)
        self._console.size = ConsoleDimensions(width, height)
        scene = self._scene()
        with self._drawing:
            if self._over.is_set():
                return
            if resized:
                # The rest of a larger screen would stay.
                self._console.clear()
            self._live.update(draw(scene, width, height), refresh=True)

    def _scene(self) -> Scene:
        reads = self.progress.reads
        return Scene(
            job=self._job,
            running_s=time.monotonic() - self._started,
            lead=self.progress.lead() or "starting",
            routes=self._board.measured(),
            reads=reads,
            read_per_s=self._rate(sum(reads.values())),
            messages=tuple(self._messages),
            address=self._address,
            stopping=self._stopping,
        )

    def _rate(self, read: int) -> float:
        now = time.monotonic()
        self._rates.append((now, read))
        while now - self._rates[0][0] > _RATE_OVER_S:
            self._rates.popleft()
        since, before = self._rates[0]
        return (read - before) / (now - since) if now > since else 0.0

    def _read_keys(self) -> None:
        while not self._over.is_set():
            ready, _, _ = select.select([0], [], [], _EVERY_S)
            if not ready:
                continue
            key = os.read(0, 1)
            if not key:
                return
            if key in b"qQ":
                os.kill(os.getpid(), signal.SIGINT)


def take_keys() -> Callable[[], None] | None:
    """Read keys one by one without echo. Called by whoever owns the terminal.

    Returns:
        A function that undoes it; None where no keys can come.
    """
    try:
        if not os.isatty(0) or os.tcgetpgrp(0) != os.getpgrp():
            return None
        before = termios.tcgetattr(0)
        tty.setcbreak(0)
    except (OSError, termios.error):
        return None

    def give_back() -> None:
        with suppress(OSError, termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, before)

    return give_back


def terminal_size(descriptor: int) -> tuple[int, int]:
    """Columns and lines; asked each time, since a window may change its size."""
    try:
        found = os.get_terminal_size(descriptor)
    except OSError:
        return _USUAL
    return found.columns or _USUAL[0], found.lines or _USUAL[1]


def _farewell(message: Message, width: int) -> str:
    """A message that stays on the terminal, broken between words only."""
    head = f"{message.at} {message.level:<7} "
    lines = wrap(
        head + message.text,
        max(width, 2 * len(head)),
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join([*lines, ""])
