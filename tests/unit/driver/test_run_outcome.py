"""Whether a run of limited length is one that went well."""

from collections import Counter

import pytest

from sluiceway.driver.run import RunOptions, outcome_problem
from sluiceway.driver.status_board import StatusBoard
from sluiceway.driver.stop import StopSignal
from sluiceway.errors import (
    AllRowsDirtyError,
    FencedError,
    SluicewayError,
    SourceUnavailableError,
    TableMismatchError,
)
from sluiceway.ledger.records import RowCounts
from sluiceway.route.route_session import RouteSession
from sluiceway.route.status import RouteState
from sluiceway.types.strict_json import BigInt
from tools.board_sessions import placed_session
from tools.ledger_records import data, fence, fold_of, sources, span

AWAY = SourceUnavailableError("no broker answers", where="k1:9092")
CATCH_UP = RunOptions(until_caught_up=True)
FOR_A_TIME = RunOptions(for_s=10.0)
NONE = BigInt(0)


def ended(session: RouteSession, state: RouteState, error: SluicewayError | None) -> StatusBoard:
    board = StatusBoard()
    board.update(session, state, error)
    return board


def read(session: RouteSession, rows: int, dirty: int) -> None:
    counts = RowCounts(BigInt(rows), BigInt(rows - dirty), BigInt(dirty), NONE, NONE, NONE)
    fold = fold_of(fence(), sources(0), data(1, 0, span(0, 0, rows), dirty=dirty))
    session.meter.commit(fold, counts, Counter())


@pytest.mark.parametrize("options", [CATCH_UP, FOR_A_TIME])
def test_broker_that_was_never_reached_is_a_problem(options: RunOptions) -> None:
    board = ended(placed_session("a"), RouteState.WAITING, AWAY)
    found = outcome_problem(options, board, StopSignal())
    assert isinstance(found, SourceUnavailableError)
    assert (found.exit_code, found.where) == (1, "k1:9092")
    assert found.message == "the run is over, and route a still waits: no broker answers"


def test_broker_that_is_just_asked_again_when_the_time_is_over_was_not_reached() -> None:
    session = placed_session("a")
    board = ended(session, RouteState.WAITING, AWAY)
    board.update(session, RouteState.RUNNING, None)
    assert isinstance(outcome_problem(CATCH_UP, board, StopSignal()), SourceUnavailableError)
    session.meter.update(fold_of(fence(), sources(0)), {})
    assert outcome_problem(CATCH_UP, board, StopSignal()) is None


def test_outage_at_the_end_is_a_problem_of_a_run_that_was_to_catch_up_alone() -> None:
    session = placed_session("a")
    session.meter.update(fold_of(fence(), sources(0)), {})
    board = ended(session, RouteState.WAITING, AWAY)
    assert outcome_problem(FOR_A_TIME, board, StopSignal()) is None
    assert outcome_problem(CATCH_UP, board, StopSignal()) is not None


@pytest.mark.parametrize("options", [CATCH_UP, FOR_A_TIME])
def test_route_that_has_halted_is_a_problem_also_where_the_others_went_on(
    options: RunOptions,
) -> None:
    board = ended(placed_session("a"), RouteState.RUNNING, None)
    board.update(placed_session("b"), RouteState.HALTED, TableMismatchError("x is a bigint"))
    fenced = FencedError("another driver", where="/t").with_report({"term": 4}, ("look JOB",))
    board.update(placed_session("c"), RouteState.HALTED, fenced)
    found = outcome_problem(options, board, StopSignal())
    assert isinstance(found, FencedError)
    assert found.message == "the run is over, and route c has halted: another driver"
    assert (found.exit_code, found.where, found.evidence) == (7, "/t", {"term": "4"})
    assert found.commands == ("look JOB",)
    # Somebody who ended it has seen that, and a run without a limit is ended by somebody.
    assert outcome_problem(RunOptions(), board, StopSignal()) is None


def test_rows_that_are_all_dirty_are_a_problem_with_the_commands_that_show_them() -> None:
    session = placed_session("a")
    board = ended(session, RouteState.CAUGHT_UP, None)
    read(session, 7, 7)
    found = outcome_problem(CATCH_UP, board, StopSignal())
    assert isinstance(found, AllRowsDirtyError)
    assert (found.exit_code, found.code, found.where) == (6, "SW422", "ods.orders")
    assert found.message.startswith("all 7 rows that this run has read are dirty")
    assert found.commands[0] == "sluiceway dirty list JOB --route a"


def test_one_row_that_fits_and_no_row_at_all_are_no_problem() -> None:
    session = placed_session("a")
    board = ended(session, RouteState.CAUGHT_UP, None)
    assert outcome_problem(CATCH_UP, board, StopSignal()) is None
    read(session, 7, 6)
    assert outcome_problem(CATCH_UP, board, StopSignal()) is None


def test_run_that_was_stopped_or_has_no_limit_went_well() -> None:
    board = ended(placed_session("a"), RouteState.WAITING, AWAY)
    assert outcome_problem(RunOptions(), board, StopSignal()) is None
    stop = StopSignal()
    stop.ask()
    assert outcome_problem(CATCH_UP, board, stop) is None


def test_time_that_is_over_is_no_request_to_stop() -> None:
    stop = StopSignal()
    assert not stop.by_request()
    stop.stop_after(0)
    assert stop.requested()
    assert not stop.by_request()
    asked = StopSignal()
    asked.ask()
    asked.stop_after(0)
    assert asked.requested()
    assert asked.by_request()
