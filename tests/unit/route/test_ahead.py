"""What the next epoch is planned from while a commit is under way."""

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import cast
from uuid import uuid4

import pytest

from sluiceway.driver.route_slot import EarlyEnd, RouteSlot, StagedEpoch
from sluiceway.errors import FencedError, SluicewayError, TaskFailedError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.offset_sum import ZERO
from sluiceway.ledger.records import NO_ROWS
from sluiceway.observe.log import stderr_log
from sluiceway.route.route_planner import RoutePlanner, fold_after, follows
from sluiceway.route.status import RouteState
from sluiceway.schedule.planner import PlannedEpoch, plan_splits
from sluiceway.sources.contract import LogBounds, SourcePartition
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import RoutePlan, SplitResult, TaskFailure, TaskResult
from tools.board_sessions import placed_session
from tools.ledger_records import LEDGER, fence, fold_of, sources

_ENDS = {0: 7, 1: 0}


def _fold() -> Fold:
    return fold_of(fence(), sources(0, 1))


def _answer(ends: dict[int, int], error: SluicewayError | None = None) -> TaskResult:
    return TaskResult(
        ledger=LEDGER,
        term=1,
        epoch=0,
        task=0,
        attempt=uuid4().hex,
        splits=tuple(
            SplitResult(
                "orders", number, BigInt(0), BigInt(end), BigInt(end), BigInt(0), 3, None, ZERO
            )
            for number, end in ends.items()
        ),
        files=(),
        dirty_files=(),
        counts=NO_ROWS,
        dirty_reasons={},
        timings_ms={},
        consumer_reused=False,
        failure=None if error is None else TaskFailure.of(error),
    )


def _planned(fold: Fold) -> PlannedEpoch:
    bounds = {SourcePartition("orders", n): LogBounds(0, 50, 50) for n in range(2)}
    return PlannedEpoch(1, plan_splits(fold, bounds, None), cast("RoutePlan", None), ahead=True)


def test_next_epoch_starts_where_the_tasks_have_ended_and_the_ledger_is_left_alone() -> None:
    fold = _fold()
    after = fold_after(fold, [_answer(_ENDS)])
    assert after is not None
    assert {n: after.sources["orders", n].end for n in range(2)} == _ENDS
    assert after.sources["orders", 0].end_epoch == 3
    assert [state.end for state in fold.sources.values()] == [0, 0]


def test_nothing_is_planned_from_a_failed_task_or_an_unknown_log() -> None:
    failed = _answer({1: 0}, TaskFailedError("no"))
    assert fold_after(_fold(), [_answer({0: 7}), failed]) is None
    assert fold_after(_fold(), [_answer({5: 7})]) is None


def test_nothing_is_planned_while_tables_are_made_that_rows_have_named() -> None:
    named = replace(_answer(_ENDS), tables=("ods.a",))
    assert fold_after(_fold(), [named]) is None


def test_epoch_follows_only_the_ends_that_it_was_planned_from() -> None:
    fold = _fold()
    after = fold_after(fold, [_answer(_ENDS)])
    assert after is not None
    assert follows(after, _planned(after))
    assert follows(fold, _planned(fold))
    assert not follows(fold, _planned(after))
    assert not follows(after, _planned(fold))


def test_one_epoch_ahead_and_no_more() -> None:
    fold = _fold()
    route_slot = RouteSlot(placed_session("a"), RouteState.RUNNING)
    assert route_slot.plannable()
    route_slot.work = Future()
    assert not route_slot.plannable()
    route_slot.ahead = fold
    assert route_slot.plannable()
    route_slot.staged = StagedEpoch(_planned(fold), [])
    assert not route_slot.plannable()
    route_slot.staged, route_slot.topics = None, ("new",)
    assert not route_slot.plannable()


@pytest.mark.parametrize(
    ("error", "asked"),
    [(TaskFailedError("refused"), True), (FencedError("another's"), False), (None, False)],
)
def test_tasks_behind_a_failed_epoch_end_early_unless_the_route_halts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: SluicewayError | None, *, asked: bool
) -> None:
    route_slot = RouteSlot(placed_session("a", tmp_path), RouteState.RUNNING)
    told: list[int] = []
    monkeypatch.setattr(
        RoutePlanner, "end_epoch_early", lambda _, planned: told.append(planned.epoch)
    )
    early = EarlyEnd([(route_slot, _planned(_fold()))], lambda: False, stderr_log())
    route_slot.work = Future()
    early.check()
    assert told == []
    if error is None:
        route_slot.work.set_result(None)
    else:
        route_slot.work.set_exception(error)
    early.check()
    early.check()
    assert told == ([1] if asked else [])
