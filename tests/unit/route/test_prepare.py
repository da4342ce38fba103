"""PREPARE: the record of what the tasks have answered, and none of what has not moved."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.ledger.log_tail import joined_tails, tail_of
from sluiceway.ledger.records import NO_ROWS
from sluiceway.route.prepare import prepare_record
from sluiceway.types.strict_json import BigInt
from tools.session_on_disk import SessionOnDisk, session_on_disk


@pytest.fixture
def route(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SessionOnDisk]:
    with session_on_disk(tmp_path / "t", monkeypatch) as started:
        yield started


def test_epoch_in_which_no_end_has_moved_has_no_record(route: SessionOnDisk) -> None:
    planned = route.plan()
    still = replace(route.answer(planned, 0), files=())
    fold = route.owned.fold
    assert prepare_record(fold, planned.epoch, planned.by_task, [still], "s") is None
    assert prepare_record(fold, planned.epoch, planned.by_task, [], "s") is None


def test_record_tells_why_rows_are_dirty_and_how_long_the_tasks_took(route: SessionOnDisk) -> None:
    planned = route.plan()
    answer = replace(
        route.answer(planned, 4), dirty_reasons={"not_json": 2}, timings_ms={"fetch": 30}
    )
    record = prepare_record(route.owned.fold, planned.epoch, planned.by_task, [answer], "s")
    assert record is not None
    assert record.dirty_reasons == {"not_json": 2}
    assert record.timings_ms == {"fetch": 30}
    assert [(int(each.start), int(each.end)) for each in record.ranges] == [(0, 4)]


def test_pieces_of_a_source_partition_have_one_tail(route: SessionOnDisk) -> None:
    planned = route.plan()
    whole = route.answer(planned, 4)
    (piece,) = whole.splits
    tails = [tail_of([(1, 5), (2, 6)]), tail_of([(2, 7), (3, 9)])]
    middle = BigInt(2)
    pieces = [
        replace(piece, end=middle, rows=middle, tail=tails[0]),
        replace(piece, start=middle, rows=middle, tail=tails[1]),
    ]
    (split,) = planned.by_task[0]
    second = replace(split, split=replace(split.split, start_offset=2), range_start=2)
    none = NO_ROWS
    answers = [
        replace(whole, splits=(pieces[0],)),
        replace(whole, task=1, splits=(pieces[1],), files=(), counts=none),
    ]
    by_task = {0: (split,), 1: (second,)}
    record = prepare_record(route.owned.fold, planned.epoch, by_task, answers, "s")
    assert record is not None
    assert [each.tail for each in record.ranges] == [joined_tails(*tails)]
