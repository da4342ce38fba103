"""Lost offsets that a task reports: a halt, or a gap that the next epoch counts."""

from typing import cast
from uuid import uuid4

import pytest

from sluiceway.errors import (
    Fatal,
    OffsetsLostError,
    Retriable,
    SluicewayError,
    TaskDiedError,
    TaskFailedError,
)
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.records import NO_ROWS
from sluiceway.schedule.planner import PlannedEpoch, plan_splits
from sluiceway.schedule.task_failures import failures_of
from sluiceway.sources.contract import LogBounds, SourcePartition
from sluiceway.worker.plan import RoutePlan, TaskFailure, TaskResult
from tools.ledger_records import LEDGER, data, fence, fold_of, sources, span

_LOST = OffsetsLostError("offset 0 is gone: the log runs from 3 to 5", where="orders[0]")


def _bounds(*starts: int) -> dict[SourcePartition, LogBounds]:
    return {SourcePartition("orders", n): LogBounds(at, 50, 50) for n, at in enumerate(starts)}


def _judged(
    fold: Fold,
    after: dict[SourcePartition, LogBounds],
    *,
    error: SluicewayError = _LOST,
    alone: bool = False,
) -> SluicewayError:
    """What a failure comes to, of the one task of an epoch that was planned before retention."""
    splits = tuple(plan_splits(fold, _bounds(*([0] * len(fold.sources))), None))
    planned = PlannedEpoch(0, list(splits), cast("RoutePlan", None), {0: splits}, alone=alone)
    answer = TaskResult(
        ledger=LEDGER,
        term=1,
        epoch=0,
        task=0,
        attempt=uuid4().hex,
        splits=(),
        files=(),
        dirty_files=(),
        counts=NO_ROWS,
        dirty_reasons={},
        timings_ms={},
        consumer_reused=False,
        failure=TaskFailure.of(error),
    )
    (judged,) = failures_of(planned, [answer], fold, after)
    return judged


@pytest.mark.parametrize("how", ["earliest", "discovered"])
def test_first_rows_that_retention_took_are_asked_for_again(how: str) -> None:
    fold = fold_of(fence(), sources(0, how=how))
    judged = _judged(fold, _bounds(3))
    assert isinstance(judged, Retriable)
    assert "offset 0 is gone" in str(judged)
    (again,) = plan_splits(fold, _bounds(3), None)
    assert (again.range_start, again.split.start_offset) == (0, 3)


@pytest.mark.parametrize(
    ("fold", "after"),
    [
        (fold_of(fence(), sources(0), data(1, 0, span(0, 0, 2))), _bounds(3)),
        (fold_of(fence(), sources(0, how="latest")), _bounds(3)),
        (fold_of(fence(), sources(0, 1), data(1, 0, span(1, 0, 2))), _bounds(3, 9)),
        (fold_of(fence(), sources(0)), _bounds(0)),
        (fold_of(fence(), sources(0)), {}),
    ],
    ids=["rows were read", "not from earliest", "another log lost rows", "nothing rose", "unknown"],
)
def test_offsets_that_no_plan_may_skip_halt_the_route(
    fold: Fold, after: dict[SourcePartition, LogBounds]
) -> None:
    judged = _judged(fold, after)
    assert isinstance(judged, OffsetsLostError)
    assert isinstance(judged, Fatal)


def test_log_that_ends_below_the_committed_end_is_left_to_the_second_look() -> None:
    fold = fold_of(fence(), sources(0), data(1, 0, span(0, 0, 9)))
    behind = {SourcePartition("orders", 0): LogBounds(0, 7, 7)}
    judged = _judged(fold, behind)
    assert isinstance(judged, Retriable)
    assert "offset 0 is gone" in str(judged)


@pytest.mark.parametrize(("refused", "halts"), [("20", False), ("50", False), ("51", True)])
def test_offset_that_the_leader_has_was_refused_by_a_leader_of_before(
    refused: str, *, halts: bool
) -> None:
    fold = fold_of(fence(), sources(0), data(1, 0, span(0, 0, 9)))
    lost = OffsetsLostError("offset is gone: the log runs from 0 to 15", where="orders[0]")
    lost.with_report({"refused_offset": refused})
    assert isinstance(_judged(fold, _bounds(0), error=lost), OffsetsLostError) == halts
    assert isinstance(_judged(fold, _bounds(60), error=lost), OffsetsLostError)


def test_lost_rows_of_one_log_halt_though_another_may_only_be_behind() -> None:
    fold = fold_of(fence(), sources(0, 1), data(1, 0, span(0, 0, 9), span(1, 0, 2)))
    after = {
        SourcePartition("orders", 0): LogBounds(0, 7, 7),
        SourcePartition("orders", 1): LogBounds(5, 9, 9),
    }
    assert isinstance(_judged(fold, after), OffsetsLostError)


def test_death_of_a_task_is_blamed_on_the_route_that_it_served_alone() -> None:
    fold = fold_of(fence(), sources(0))
    died = TaskDiedError("the task died")
    assert isinstance(_judged(fold, _bounds(0), error=died), TaskDiedError)
    assert isinstance(_judged(fold, _bounds(0), error=died, alone=True), TaskFailedError)


@pytest.mark.parametrize(
    ("cut", "reset"),
    [({"cut_at": "1"}, "--to 1 --accept-doubles"), ({}, "--to 2 --accept-gap")],
    ids=["told where", "not told"],
)
def test_log_that_was_cut_comes_with_the_command_that_resolves_it(
    cut: dict[str, str], reset: str
) -> None:
    fold = fold_of(fence(), sources(0), data(1, 0, span(0, 0, 2)))
    told = OffsetsLostError("it was truncated", where="orders[0]")
    told.with_report({"leader_epoch": 4, **cut})
    judged = _judged(fold, _bounds(0), error=told)
    assert isinstance(judged, OffsetsLostError)
    assert judged.evidence["leader_epoch"] == "4"
    assert f"--partition orders:0 {reset} --reason TEXT" in judged.commands[1]
