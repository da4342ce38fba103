"""A job's run as a whole: its steps in their order, what it ends with, and what it raises."""

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.driver import loop as loop_module
from sluiceway.driver.loop import JobLoop, LoopParts
from sluiceway.driver.route_slot import RouteSlot, StagedEpoch
from sluiceway.driver.stop import StopSignal
from sluiceway.errors import (
    LedgerMismatchError,
    SluicewayError,
    SourceUnavailableError,
    TableMismatchError,
    UnhealthyEnvironmentError,
)
from sluiceway.observe.log import stderr_log
from sluiceway.route.status import RouteState

DROPPED = TableMismatchError("the table was dropped")
AWAY = SourceUnavailableError("no broker answers")
REFUSED = UnhealthyEnvironmentError("the broker refused it")


class Session:
    """A route that notes what is asked of it.

    Attributes:
        started: Whether its ledger is fenced.
        settles: Called when it has to wait for what is behind its commits.
    """

    trouble = None
    committer = SimpleNamespace(has_new_tables=False)

    def __init__(self, route: str, done: list[str], *, started: bool = True) -> None:
        self.config = SimpleNamespace(
            route=route, job="job", interval_s=1.0, straggler_timeout_s=0.0
        )
        self.started = started
        self.settles: Callable[[], None] = lambda: None
        self._done = done

    def finish_effects(self) -> None:
        self.settles()
        self._done.append(f"{self.config.route} settles")

    def leave(self) -> None:
        self._done.append(f"{self.config.route} leaves")


class Run:
    """A loop over route_slots that a test has placed, and all that it does, in order."""

    def __init__(self, *, bounded: bool = False) -> None:
        self.done: list[str] = []
        self.stop = StopSignal()
        self.discovery = SimpleNamespace(failure=None, pending=False)
        nothing = cast("Any", None)
        parts = LoopParts(
            {}, nothing, self.stop, stderr_log(), cast("Any", self.discovery), nothing
        )
        self.loop = JobLoop((), parts, bounded=bounded)
        self.loop._status_files = cast("Any", SimpleNamespace(start=_nothing, close=_nothing))

    def route_slot(self, route: str, state: RouteState, **more: Any) -> RouteSlot:
        started = more.pop("started", True)
        made = RouteSlot(cast("Any", Session(route, self.done, started=started)), state, **more)
        self.loop._route_slots.append(made)
        return made

    def ended_by_request(self) -> None:
        """Run until it ends; somebody has asked for that already."""
        self.stop.ask()
        self.loop.run()

    def ended_by_time(self) -> None:
        """Run until it ends; its time is over already."""
        self.stop.stop_after(0.0)
        self.loop.run()


def _nothing() -> None:
    return


@pytest.fixture
def run() -> Run:
    return Run()


def note_steps(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each step noted instead of taken; the second epoch finds no row, and is the last."""
    done, loop = run.done, run.loop
    epochs = iter([True, False])

    def step(name: str) -> Callable[..., None]:
        return lambda *_: done.append(name)

    def settle(timeout_s: float | None) -> None:
        done.append(f"settle {timeout_s}")

    def epoch() -> bool:
        done.append("epoch")
        found = next(epochs)
        if not found:
            run.stop.ask()
        return found

    def commit() -> None:
        done.append("commit")
        for route_slot in loop._route_slots:
            route_slot.staged = None

    taken = {
        "_process_done": settle,
        "_epoch": epoch,
        "_commit_staged": commit,
        "_discover": step("discover"),
        "_publish_states": step("note"),
        "_start_due": step("start"),
        "_pause": step("pause"),
    }
    for name, noted in taken.items():
        monkeypatch.setattr(loop, name, noted)
    monkeypatch.setattr(loop_module, "turn_lanes", step("lanes"))
    clock = SimpleNamespace(now_us=step("look at the clock"))
    monkeypatch.setattr(loop_module, "process_clock", lambda: clock)
    files = SimpleNamespace(start=step("files begin"), close=step("files end"))
    loop._status_files = cast("Any", files)
    pool = SimpleNamespace(submit=lambda _: None, wait=step("wait"), close=step("pool ends"))
    loop._pool.close()
    loop._pool = cast("Any", pool)


TURN = ["settle 0.0", "commit", "discover", "note", "start", "lanes", "epoch"]
BEGIN = ["files begin", "look at the clock"]
END = ["note", "files end", "wait", "pool ends"]


def test_each_turn_takes_its_steps_in_their_order_until_a_stop(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_steps(run, monkeypatch)
    run.loop.run()
    # Without a row to read the loop pauses; at the end it waits for what is under way.
    assert run.done == [*BEGIN, *TURN, *TURN, "pause", "settle None", "settle None", *END]


def test_epoch_that_is_staged_when_the_loop_ends_is_committed_behind_the_one_under_way(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.route_slot("a", RouteState.RUNNING, staged=StagedEpoch(cast("Any", None), ()))
    run.route_slot("b", RouteState.RUNNING)
    note_steps(run, monkeypatch)
    run.ended_by_request()
    committed = ["settle None", "commit", "settle None"]
    assert run.done == [*BEGIN, *committed, "settle None", *END]


def test_routes_that_run_settle_before_they_leave_and_all_others_only_leave(run: Run) -> None:
    slow = run.route_slot("a", RouteState.RUNNING)
    cast("Any", slow.session).settles = lambda: time.sleep(0.05)
    run.route_slot("b", RouteState.CAUGHT_UP)
    run.route_slot("c", RouteState.HALTED, error=DROPPED)
    run.route_slot("d", RouteState.WAITING, started=False)
    run.ended_by_request()
    assert sorted(run.done[:2]) == ["a settles", "b settles"]
    assert sorted(run.done[2:]) == ["a leaves", "b leaves", "c leaves", "d leaves"]
    assert not [each for each in threading.enumerate() if each.name.startswith("route")]


def test_run_waits_until_all_its_routes_have_left(run: Run) -> None:
    route_slot = run.route_slot("a", RouteState.RUNNING, started=False)
    leave = route_slot.session.leave

    def slowly() -> None:
        time.sleep(0.05)
        leave()

    cast("Any", route_slot.session).leave = slowly
    closed: list[list[str]] = []
    close = run.loop._pool.close

    def closed_behind() -> None:
        closed.append(list(run.done))
        close()

    cast("Any", run.loop._pool).close = closed_behind
    run.ended_by_request()
    assert closed == [["a leaves"]]


def test_route_that_has_halted_is_not_shown_as_one_that_will_be_tried_again(run: Run) -> None:
    seen: list[tuple[RouteState, int | None]] = []
    cast("Any", run.loop._parts.board).update = lambda _, state, __, next_ms: seen.append(
        (state, next_ms)
    )
    run.route_slot("a", RouteState.HALTED, error=AWAY, next_try_ms=1_795_176_000_000)
    run.route_slot("b", RouteState.RUNNING)
    run.ended_by_request()
    assert seen == [(RouteState.HALTED, None), (RouteState.RUNNING, None)]


def test_job_whose_routes_have_halted_or_caught_up_ends_with_the_worst_reason(run: Run) -> None:
    run.route_slot("a", RouteState.HALTED, error=AWAY)
    run.route_slot("b", RouteState.HALTED, error=LedgerMismatchError("another ledger's table"))
    run.route_slot("c", RouteState.CAUGHT_UP)
    assert AWAY.exit_code < LedgerMismatchError.exit_code
    with pytest.raises(LedgerMismatchError):
        run.ended_by_request()


def test_route_that_has_halted_is_no_failure_of_a_job_in_which_another_one_runs(run: Run) -> None:
    run.route_slot("a", RouteState.HALTED, error=DROPPED)
    run.route_slot("b", RouteState.RUNNING)
    run.ended_by_request()
    assert sorted(run.done) == ["a leaves", "b leaves", "b settles"]


@pytest.mark.parametrize(
    ("failure", "by_request", "by_time"),
    [(None, None, None), (AWAY, None, AWAY), (REFUSED, REFUSED, REFUSED)],
    ids=["topics_were_told", "no_broker", "refused_for_good"],
)
def test_job_without_a_route_fails_when_nobody_has_told_its_topics(
    failure: SluicewayError | None,
    by_request: SluicewayError | None,
    by_time: SluicewayError | None,
) -> None:
    for end, expected in ((Run.ended_by_request, by_request), (Run.ended_by_time, by_time)):
        run = Run()
        run.discovery.failure = failure
        raised = None
        try:
            end(run)
        except SluicewayError as error:
            raised = error
        assert raised is expected


def test_topics_that_nobody_tells_are_no_failure_of_a_job_with_a_route(run: Run) -> None:
    run.discovery.failure = REFUSED
    run.route_slot("a", RouteState.RUNNING)
    run.ended_by_request()
    assert run.done == ["a settles", "a leaves"]
