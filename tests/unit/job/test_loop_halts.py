"""What the loop says of a route that stays halted."""

import io
import json
from typing import Any, cast

import pytest

from sluiceway.errors import SourceUnavailableError, TableMismatchError
from sluiceway.job.loop import JobLoop, LoopParts
from sluiceway.job.seat import Seat
from sluiceway.job.status import RouteState
from sluiceway.job.stop import StopSignal
from sluiceway.observe.log import LogFormat, stderr_log
from tools.board_sessions import placed_session

DROPPED = TableMismatchError("the table was dropped")


def test_halt_keeps_its_own_reason_while_brokers_are_away(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    # No route is run here, so nobody asks the runner or for topics.
    nothing = cast("Any", None)
    log = stderr_log(log_format=LogFormat.JSON)
    loop = JobLoop((), LoopParts({}, nothing, StopSignal(), log, nothing, nothing))
    seat = Seat(placed_session("a"), RouteState.RUNNING)
    loop._react(seat, DROPPED)
    loop._react(seat, SourceUnavailableError("no broker answers"))
    assert (seat.state, seat.error) == (RouteState.HALTED, DROPPED)
    halted, tried = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [each["event"] for each in (halted, tried)] == ["route_halted"] * 2
    assert [each["code"] for each in (halted, tried)] == [DROPPED.code] * 2
    assert "retry_failed" not in halted
    assert "no broker answers" in tried["retry_failed"]
    assert tried["retry_in_s"] > halted["retry_in_s"]
    loop._pool.close()
