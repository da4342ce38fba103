"""What is said at the end of `run --until-caught-up` of hours that readers do not see."""

from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.views.run_view import log_unannounced
from sluiceway.driver.status_board import StatusBoard
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.loader import load_job
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.partition_records import ReadyRecord
from sluiceway.observe.log import stderr_log
from sluiceway.route.status import RouteState
from sluiceway.upkeep.partition_bodies import ready_body
from tools.board_sessions import placed_session
from tools.table_on_disk import TableOnDisk, table_on_disk

DAY = "dt=20261120"
SEVEN, EIGHT = f"{DAY}/hr=07", f"{DAY}/hr=08"


@pytest.fixture
def table(tmp_path: Path) -> TableOnDisk:
    return table_on_disk(tmp_path, more="ready: {}")


def told(
    table: TableOnDisk,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    state: RouteState = RouteState.CAUGHT_UP,
) -> tuple[list[str], list[str]]:
    """Lines on a terminal, and lines of a log for programs."""
    board, session = StatusBoard(), placed_session("orders")
    (session.config,) = compile_routes(load_job(table.job).spec).routes
    board.update(session, state, None)
    found = []
    for is_terminal in (True, False):
        monkeypatch.setattr("sys.stderr.isatty", lambda is_terminal=is_terminal: is_terminal)
        capsys.readouterr()
        log: Any = stderr_log(level="warning" if is_terminal else "info")
        log_unannounced(board, log, table.job)
        found.append(capsys.readouterr().err.splitlines())
    return found[0], found[1]


def test_hours_with_rows_that_are_not_announced_are_named_with_the_reason(
    table: TableOnDisk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table.rows(SEVEN, EIGHT)
    table.rows(EIGHT, closed=(SEVEN,))
    table.writer.commit(_ready)
    table.writer.set_published()
    lines, logged = told(table, capsys, monkeypatch)
    assert lines[0].startswith(f"orders: {EIGHT}: 20 rows are committed and not announced: ")
    assert "log ends were not read since" in lines[0]
    assert "sluiceway run " in lines[-1]
    assert SEVEN not in "".join(lines), "it was announced"
    assert any("hour_not_announced" in line and EIGHT in line for line in logged)
    table.rows(SEVEN)
    lines, _ = told(table, capsys, monkeypatch)
    assert "Rows have come since; it will be announced again with them" in lines[0]


def test_of_many_hours_the_first_are_explained_and_the_others_counted(
    table: TableOnDisk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table.rows(*(f"{DAY}/hr={hour:02d}" for hour in range(9)))
    lines, _ = told(table, capsys, monkeypatch)
    assert len(lines) == 5 + 2
    assert lines[5] == "orders: 4 more are not announced"


def test_nothing_is_said_of_a_run_that_has_not_caught_up(
    table: TableOnDisk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table.rows(SEVEN)
    assert told(table, capsys, monkeypatch, state=RouteState.HALTED) == ([], [])


def _ready(fold: Fold) -> ReadyRecord:
    return ready_body(fold, SEVEN) or pytest.fail("nothing to announce")
