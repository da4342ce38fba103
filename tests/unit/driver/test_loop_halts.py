"""What the loop says of a route that stays halted."""

import io
import json
from concurrent.futures import Future
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.driver import loop as loop_module
from sluiceway.driver.loop import JobLoop, LoopParts
from sluiceway.driver.route_slot import RouteSlot
from sluiceway.driver.stop import StopSignal
from sluiceway.errors import SourceUnavailableError, TableMismatchError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.observe.log import LogFormat, stderr_log
from sluiceway.route.status import RouteState
from sluiceway.schedule.planner import PlannedEpoch
from tools.board_sessions import placed_session

DROPPED = TableMismatchError("the table was dropped")


def test_halt_keeps_its_own_reason_while_brokers_are_away(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    # No route is run here, so nobody asks the runner or for topics.
    nothing = cast("Any", None)
    log = stderr_log(log_format=LogFormat.JSON)
    loop = JobLoop((), LoopParts({}, nothing, StopSignal(), log, nothing, nothing))
    route_slot = RouteSlot(placed_session("a"), RouteState.RUNNING)
    loop._react(route_slot, DROPPED)
    loop._react(route_slot, SourceUnavailableError("no broker answers"))
    assert (route_slot.state, route_slot.error) == (RouteState.HALTED, DROPPED)
    halted, tried = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [each["event"] for each in (halted, tried)] == ["route_halted"] * 2
    assert [each["code"] for each in (halted, tried)] == [DROPPED.code] * 2
    assert "retry_failed" not in halted
    assert "no broker answers" in tried["retry_failed"]
    assert tried["retry_in_s"] > halted["retry_in_s"]
    loop._pool.close()


def test_epoch_planned_ahead_is_dropped_when_its_route_puts_records_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_module, "_COMMIT_GRACE_S", 0.01)
    nothing = cast("Any", None)
    loop = JobLoop((), LoopParts({}, nothing, StopSignal(), stderr_log(), nothing, nothing))
    commit, put = Future[None](), Event()
    route_slot = RouteSlot(nothing, RouteState.RUNNING, work=commit, ahead=Fold())
    loop._route_slots.append(route_slot)

    class Steps:
        def due_sources(self, view: Any, ahead: Any = None) -> None:
            return None

        def plan(self, view: Any, **_: Any) -> PlannedEpoch:
            # The commit that it is planned ahead of lands just now.
            commit.set_result(None)
            return PlannedEpoch(1, [], nothing, ahead=True)

        def is_record_due(self, view: Any) -> bool:
            return True

        def pin(self, due: Any, view: Any) -> None:
            # Takes the number behind that of the epoch, which may then not land any more.
            put.wait(30)

    steps, config = Steps(), SimpleNamespace(source="main", route="a")
    route_slot.session = cast(
        "Any",
        SimpleNamespace(
            config=config,
            trouble=None,
            planner=steps,
            committer=steps,
            started=True,
        ),
    )
    views = cast("Any", {"main": None})
    assert loop._plan([route_slot], views) == {}
    assert route_slot.work is not None
    put.set()
    loop._pool.close()
