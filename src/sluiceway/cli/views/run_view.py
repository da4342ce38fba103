"""What shows `sluiceway run` to its user: a screen, a line, or a log."""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluiceway.audit.open_table import find_ledger, read_ledger
from sluiceway.audit.partition_why import unannounced
from sluiceway.cli.views.live_run import LiveRun, shows_screen
from sluiceway.cli.views.tables import printable
from sluiceway.cli.views.typed_commands import typed
from sluiceway.driver.run import Observers
from sluiceway.driver.status_board import StatusBoard
from sluiceway.driver.stop import StopSignal
from sluiceway.errors import SluicewayError
from sluiceway.observe.log import Log, LogFormat, LogLevel, stderr_log
from sluiceway.observe.progress import Progress
from sluiceway.route.status import RouteState

if TYPE_CHECKING:
    from sluiceway.jobfile.compile.config import RouteConfig


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


def log_unannounced(board: StatusBoard, log: Log, job_file: Path) -> None:
    """Log which hours are committed and not announced, and why; print it too on a terminal.

    Called once, after a run to the log ends. A ledger that cannot be read now is skipped.

    Args:
        board: The board after the run.
        log: Log of the run.
        job_file: Path of the job file, for commands in the text.
    """
    lines: list[str] = []
    for session, status in board.entries():
        if session.config.ready is None or status.state is not RouteState.CAUGHT_UP:
            continue
        try:
            lines += _of_route(session.config, log)
        except SluicewayError as error:
            route = session.config.route
            log.debug("hours_not_checked", route=route, code=error.code, error=str(error))
    if lines and sys.stderr.isatty():
        run, why = (typed(f"sluiceway {words} JOB", str(job_file)) for words in ("run", "status"))
        lines.append(f"a driver that lives announces them: `{run}`; `{why}` shows how far it is")
        sys.stderr.write("\n".join([*lines, ""]))


def _of_route(config: "RouteConfig", log: Log) -> list[str]:
    fold = read_ledger(find_ledger(config)).fold
    found, count = unannounced(fold, config, time.time_ns() // 1000)
    lines = []
    for each in found:
        log.info(
            "hour_not_announced",
            route=config.route,
            prefix=each.prefix,
            rows=each.rows,
            reason=each.reason,
        )
        rows = f"{each.rows:,} rows are committed and not announced"
        lines.append(f"{config.route}: {each.prefix}: {rows}: {each.reason}")
    if count > len(found):
        log.info("hours_not_announced", route=config.route, more=count - len(found))
        lines.append(f"{config.route}: {count - len(found):,} more are not announced")
    return [printable(line) for line in lines]
