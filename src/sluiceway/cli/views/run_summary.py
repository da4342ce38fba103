"""Hours that readers do not see after a run has caught up, which its exit code does not show."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sluiceway.audit.open_table import find_ledger, read_ledger
from sluiceway.audit.unannounced import unannounced
from sluiceway.cli.views.tables import printable
from sluiceway.cli.views.typed_commands import typed
from sluiceway.errors import SluicewayError
from sluiceway.job.status_board import StatusBoard
from sluiceway.observe.log import Log
from sluiceway.route.status import RouteState

if TYPE_CHECKING:
    from sluiceway.jobfile.compile.config import RouteConfig


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
            log.debug("hours_not_looked_at", route=route, code=error.code, error=str(error))
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
