"""Idle tasks read pieces of a long backlog; nothing behind a hole counts."""

from dataclasses import replace
from typing import Any, cast
from uuid import uuid4

import pytest

from sluiceway.errors import InvariantError, TaskFailedError
from sluiceway.ledger.offset_sum import ZERO
from sluiceway.ledger.operator_records import OriginLog
from sluiceway.ledger.records import RowCounts
from sluiceway.route.prepare import prepare_record
from sluiceway.schedule import pieces
from sluiceway.schedule.pieces import SplitPieces
from sluiceway.schedule.planner import PlannedEpoch, PlannedSplit
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import SplitResult, TaskFailure, TaskResult
from tools.ledger_records import LEDGER, fence, fold_of, sources

LAG = 1_000_000


def _epoch(*lags: int, stop: int | None = None) -> PlannedEpoch:
    splits = [
        PlannedSplit(Split(SourcePartition("orders", n), 0, stop), 0, lag, lag)
        for n, lag in enumerate(lags)
    ]
    planned = PlannedEpoch(0, splits, cast("Any", None))
    planned.by_task = {task: (split,) for task, split in enumerate(splits)}
    return planned


def _ranges(epoch: PlannedEpoch) -> dict[int, list[tuple[int, int, int | None]]]:
    return {
        task: [
            (each.split.partition.number, each.split.start_offset, each.split.stop_offset)
            for each in splits
        ]
        for task, splits in epoch.by_task.items()
    }


def _answer(epoch: PlannedEpoch, task: int, *ends: int, failed: bool = False) -> TaskResult:
    splits = tuple(
        SplitResult(
            topic="orders",
            partition=each.split.partition.partition,
            start=BigInt(each.split.start_offset),
            end=BigInt(end),
            rows=BigInt(end - each.split.start_offset),
            gaps=BigInt(0),
            end_epoch=None,
            max_event_time_us=BigInt(end),
            offset_sum=ZERO,
        )
        for each, end in zip(epoch.by_task[task], ends, strict=True)
    )
    rows = BigInt(sum(split.rows for split in splits))
    return TaskResult(
        ledger=LEDGER,
        term=1,
        epoch=0,
        task=task,
        attempt=uuid4().hex,
        splits=splits,
        files=(),
        dirty_files=(),
        counts=RowCounts(rows, rows, BigInt(0), BigInt(0), BigInt(0), BigInt(0)),
        dirty_reasons={},
        timings_ms={},
        consumer_reused=False,
        failure=TaskFailure.of(TaskFailedError("x")) if failed else None,
    )


def _read_before(found: SplitPieces, records: int) -> None:
    """An epoch before, in which one task read so many until its deadline."""
    before = _epoch(LAG)
    found.cut({"r": before}, [])
    found.join("r", before, [_answer(before, 0, records)])


def test_idle_tasks_get_pieces_of_three_quarters_of_what_was_read_before() -> None:
    found = SplitPieces()
    _read_before(found, 40_000)
    epoch = _epoch(LAG)
    found.cut({"r": epoch}, [1, 2])
    assert _ranges(epoch) == {
        0: [(0, 0, 30_000)],
        1: [(0, 30_000, 60_000)],
        2: [(0, 60_000, None)],
    }
    assert [splits[0].range_start for splits in epoch.by_task.values()] == [0, 30_000, 60_000]
    assert sum(splits[0].lag_records for splits in epoch.by_task.values()) >= LAG
    assert [(each.split.start_offset, each.split.stop_offset) for each in epoch.splits] == [
        (0, None)
    ]


def test_longest_backlog_is_cut_first_and_a_bounded_one_ends_where_it_ended() -> None:
    found = SplitPieces()
    _read_before(found, 40_000)
    epoch = _epoch(70_000, stop=65_000)
    found.cut({"r": epoch}, [1, 2])
    assert _ranges(epoch) == {0: [(0, 0, 30_000)], 1: [(0, 30_000, 65_000)]}
    before = _epoch(LAG, LAG)
    found.cut({"r": before}, [])
    found.join("r", before, [_answer(before, 0, 40_000), _answer(before, 1, 40_000)])
    epoch = _epoch(50_000, LAG)
    found.cut({"r": epoch}, [2])
    assert _ranges(epoch) == {0: [(0, 0, None)], 1: [(1, 0, 30_000)], 2: [(1, 30_000, None)]}


@pytest.mark.parametrize(("lag", "before"), [(LAG, 0), (LAG, 13_000), (39_000, 40_000)])
def test_short_backlogs_and_unknown_rates_are_not_cut(lag: int, before: int) -> None:
    found = SplitPieces()
    _read_before(found, before)
    epoch = _epoch(lag)
    found.cut({"r": epoch}, [1])
    assert _ranges(epoch) == {0: [(0, 0, None)]}


def _three() -> tuple[SplitPieces, PlannedEpoch]:
    found = SplitPieces()
    _read_before(found, 40_000)
    epoch = _epoch(LAG)
    found.cut({"r": epoch}, [1, 2])
    return found, epoch


def test_whole_pieces_are_one_range_of_the_record_in_their_order() -> None:
    found, epoch = _three()
    answers = [
        _answer(epoch, 2, 75_000),
        _answer(epoch, 0, 30_000),
        _answer(epoch, 1, 60_000),
    ]
    kept = found.join("r", epoch, answers)
    assert [answer.task for answer in kept] == [0, 1, 2]
    record = prepare_record(fold_of(fence(), sources(0)), 0, epoch.by_task, kept, "s")
    assert record is not None
    (span,) = record.ranges
    assert (span.start, span.end, span.rows, span.max_event_time_us) == (0, 75_000, 75_000, 75_000)


@pytest.mark.parametrize(
    ("ends", "failed", "kept"),
    [
        ((29_999, 60_000, 70_000), (), [0]),
        ((30_000, 59_999, 70_000), (), [0, 1]),
        ((None, 60_000, 70_000), (), []),
        ((30_000, None, 70_000), (), [0]),
        ((30_000, 60_000, None), (), [0, 1]),
        ((0, 60_000, 70_000), (0,), [0]),
        ((30_000, 30_000, 70_000), (1,), [0, 1]),
    ],
)
def test_nothing_behind_a_piece_that_was_not_read_to_its_end_counts(
    ends: tuple[int | None, ...], failed: tuple[int, ...], kept: list[int]
) -> None:
    found, epoch = _three()
    answers = [
        _answer(epoch, task, end, failed=task in failed)
        for task, end in enumerate(ends)
        if end is not None
    ]
    assert [answer.task for answer in found.join("r", epoch, answers)] == kept


def test_failure_behind_a_hole_is_told_and_not_hidden() -> None:
    found, epoch = _three()
    answers = [_answer(epoch, 0, 29_000), _answer(epoch, 2, 60_000, failed=True)]
    kept = found.join("r", epoch, answers)
    assert [(answer.task, answer.failure is not None) for answer in kept] == [
        (0, False),
        (2, True),
    ]


def test_pieces_shrink_when_a_task_did_not_come_to_its_end() -> None:
    found, epoch = _three()
    found.join("r", epoch, [_answer(epoch, 0, 20_000), _answer(epoch, 1, 60_000)])
    again = _epoch(LAG)
    found.cut({"r": again}, [1])
    assert _ranges(again) == {0: [(0, 0, 15_000)], 1: [(0, 15_000, None)]}


def test_pieces_keep_their_length_when_all_came_to_their_ends() -> None:
    found = SplitPieces()
    _read_before(found, 40_000)
    for _ in range(3):
        epoch = _epoch(60_000, stop=60_000)
        found.cut({"r": epoch}, [1])
        assert _ranges(epoch) == {0: [(0, 0, 30_000)], 1: [(0, 30_000, 60_000)]}
        found.join("r", epoch, [_answer(epoch, 0, 30_000), _answer(epoch, 1, 60_000)])


def test_record_over_a_hole_is_refused_even_if_nobody_left_it_out() -> None:
    _, epoch = _three()
    answers = [_answer(epoch, 0, 29_000), _answer(epoch, 1, 60_000)]
    with pytest.raises(InvariantError, match="was read to 29000 and from 30000 on"):
        prepare_record(fold_of(fence(), sources(0)), 0, epoch.by_task, answers, "s")


def test_least_piece_is_worth_a_task() -> None:
    assert pieces.LEAST_PIECE >= 1_000


def test_a_log_with_copies_of_another_is_read_whole() -> None:
    found = SplitPieces()
    _read_before(found, 40_000)
    epoch = _epoch(LAG)
    (only,) = epoch.splits
    copied = replace(only.split, origin=OriginLog("sw-origin", "a/orders/0", "t", BigInt(0)))
    epoch.splits = [replace(only, split=copied)]
    epoch.by_task = {0: tuple(epoch.splits)}
    found.cut({"r": epoch}, [1, 2])
    assert _ranges(epoch) == {0: [(0, 0, None)]}
