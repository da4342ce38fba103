"""Figures of routes that the loop does not look at any more."""

import time
from collections.abc import Sequence

import pytest

from sluiceway.driver.lag_watch import LagWatch
from sluiceway.driver.status_board import StatusBoard
from sluiceway.errors import (
    FencedError,
    LeaseHeldError,
    SluicewayError,
    SourceUnavailableError,
    TableMismatchError,
)
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.observe import metrics
from sluiceway.observe.log import stderr_log
from sluiceway.route.route_session import RouteSession
from sluiceway.route.status import RouteState
from sluiceway.sources.contract import LogBounds, Removal, SourceClient, SourcePartition
from tools.board_sessions import placed_session
from tools.ledger_records import data, fence, fold_of, sources, span
from tools.session_on_disk import ONE, SmallSource

DROPPED = TableMismatchError("the table was dropped", where="ods.orders")
GONE = SourceUnavailableError("no broker answers", where="m:1")


class OldRecords(SmallSource):
    """All that waits is three hours old."""

    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        old = timestamp_ms > time.time_ns() // 1_000_000 - 3 * 3_600_000
        end = self.place.end_offset if old else 0
        return dict.fromkeys(partitions, end)


def session_at(end: int, log_end: int) -> RouteSession:
    """A route that was looked at when it had committed up to `end` of the log."""
    session = placed_session("a")
    fold = fold_of(fence(), sources(0), data(1, 0, span(0, 0, end)))
    session.meter.advance(fold)
    session.meter.update(fold, {ONE: LogBounds(0, log_end, log_end)})
    return session


def watch(
    session: RouteSession, source: SmallSource | None, *states: tuple[RouteState, SluicewayError]
) -> LagWatch:
    board = StatusBoard()
    for state, error in states:
        board.update(session, state, error)

    def open_client(config: RouteConfig) -> SourceClient:
        del config
        if source is None:
            raise GONE
        return source

    return LagWatch(board, stderr_log(), open_client)


@pytest.mark.parametrize("state", [RouteState.HALTED, RouteState.WAITING, RouteState.CAUGHT_UP])
def test_lag_of_a_route_that_goes_round_no_more_grows_with_what_comes(state: RouteState) -> None:
    session = session_at(10, 10)
    assert session.meter.read().lag_records == 0
    watch(session, OldRecords(LogBounds(0, 7310, 7310)), (state, DROPPED)).read()
    assert session.meter.read().lag_records == 7300
    assert session.figures.figures.read().numbers[metrics.LAG_RECORDS.name] == {("orders",): 7300}
    watch(session, OldRecords(LogBounds(0, 10, 10)), (state, DROPPED)).read()
    assert (session.meter.read().lag_records, session.meter.read().lag_ms) == (0, 0)


def test_driver_with_a_backlog_has_a_lower_bound_until_it_has_caught_up() -> None:
    session = session_at(10, 5000)
    assert session.meter.read().lag_ms is None
    watch(session, OldRecords(LogBounds(0, 5000, 5000)), (RouteState.RUNNING, DROPPED)).read()
    told = session.meter.read()
    assert told.lag_at_least_ms is not None
    assert 2.7 <= told.lag_at_least_ms / 3_600_000 <= 3
    fold = fold_of(fence(), sources(0), data(1, 0, span(0, 0, 5000)))
    session.meter.update(fold, {ONE: LogBounds(0, 5000, 5000)})
    assert (session.meter.read().lag_ms, session.meter.read().lag_at_least_ms) == (0, None)


def test_zero_is_not_kept_when_nobody_answers_and_what_waited_still_waits() -> None:
    for log_end, lag in ((10, None), (17, 7)):
        session = session_at(10, log_end)
        watch(session, None, (RouteState.WAITING, GONE)).read()
        assert session.meter.read().lag_records == lag


def test_offsets_of_another_log_say_nothing() -> None:
    session = session_at(10, 10)
    other = OldRecords(LogBounds(0, 3, 3), topic_id="t2")
    watch(session, other, (RouteState.HALTED, DROPPED)).read()
    assert session.meter.read().lag_records is None


def test_table_that_has_removed_rows_does_not_say_how_many_wait() -> None:
    session = session_at(10, 10)
    removed = LogBounds(0, 9, 9, removals=(Removal(3, 10, 4, 6, 0, rows=5),))
    watch(session, OldRecords(removed), (RouteState.WAITING, GONE)).read()
    assert session.meter.read().lag_records is None


@pytest.mark.parametrize("error", [FencedError("another driver"), LeaseHeldError("another driver")])
def test_route_that_another_driver_has_tells_no_lag(error: SluicewayError) -> None:
    session = session_at(10, 10)
    board = StatusBoard()
    board.update(session, RouteState.HALTED, error)
    (told,) = board.snapshot()
    assert (told.lag_records, told.lag_ms, told.lag_at_least_ms) == (None, None, None)


def test_thread_ends_when_it_is_closed() -> None:
    looking = watch(session_at(10, 10), None, (RouteState.RUNNING, GONE))
    looking.start()
    looking.close()
    assert not looking._thread.is_alive()
