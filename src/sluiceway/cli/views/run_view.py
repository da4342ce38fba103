"""What shows `sluiceway run` to its user: a screen, a line, or a log."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from sluiceway.cli.views.live_run import LiveRun, shows_screen
from sluiceway.job.run import Observers
from sluiceway.job.stop import StopSignal
from sluiceway.observe.log import LogFormat, LogLevel, stderr_log
from sluiceway.observe.progress import Progress

Fill = Callable[[Any], dict[str, Any]]


class RunView(ABC):
    """How a run is shown.

    Attributes:
        observers: Observers of the run.
    """

    observers: Observers

    @abstractmethod
    def shown(self, stop: StopSignal, address: str) -> AbstractContextManager[None]:
        """Show the run inside the block.

        Args:
            stop: Stop signal of the run.
            address: Where metrics are served; empty when nowhere.
        """


class _ScreenView(RunView):
    def __init__(self, screen: LiveRun) -> None:
        self._screen = screen
        self.observers = Observers(screen.log(), screen.progress)

    def shown(self, stop: StopSignal, address: str) -> AbstractContextManager[None]:
        return self._screen.watching(self.observers.board, stop, address)


class _LineView(RunView):
    def __init__(self, observers: Observers) -> None:
        self.observers = observers

    @contextmanager
    def shown(self, stop: StopSignal, address: str) -> Iterator[None]:
        del stop
        if address and sys.stderr.isatty():
            sys.stderr.write(f"metrics: {address}\n")
        yield


def open_view(
    job: str,
    fill: Fill,
    log_level: LogLevel | None,
    log_format: LogFormat | None,
    *,
    plain: bool,
) -> RunView:
    """Choose how a run is shown. A level or format of the log chooses the log.

    Args:
        job: The job's name.
        fill: Turns fields of a log line into the written ones.
        log_level: Least level; None leaves the choice.
        log_format: Format of the log's lines; None leaves the choice.
        plain: Whether to show a line where a screen is possible.
    """
    if shows_screen(plain=plain or log_level is not None or log_format is not None):
        return _ScreenView(LiveRun(job, fill))
    on_terminal = sys.stderr.isatty()
    progress = Progress(sys.stderr if on_terminal else None)
    # A person at the line wants only warnings; a log collector wants everything.
    level = log_level or ("warning" if on_terminal else "info")
    log = stderr_log(level=level, log_format=log_format, before=progress.clear, fill=fill)
    return _LineView(Observers(log, progress))
