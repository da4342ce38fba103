"""Whose leader epoch stands beside an end that no row tells one for."""

from dataclasses import replace

import pytest

from sluiceway.route.leader_epochs import with_end_epochs
from sluiceway.schedule.planner import PlannedSplit
from sluiceway.sources.contract import LogBounds, SourcePartition, Split
from tools.ledger_records import data, span

_LOG = SourcePartition("orders", 0)


def _found(asked: int | None, place: LogBounds | None, told: int | None = None) -> int | None:
    record = data(1, 0, replace(span(0, 0, 10), end_epoch=told))
    planned = [PlannedSplit(Split(_LOG, 0), 0, leader_epoch=asked)]
    (found,) = with_end_epochs(record, planned, {} if place is None else {_LOG: place}).ranges
    return found.end_epoch


def test_leader_that_led_before_and_after_vouches_for_the_end() -> None:
    assert _found(4, LogBounds(0, 10, 10, 4)) == 4


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        (3, LogBounds(0, 10, 10, 4)),
        (None, LogBounds(0, 10, 10, 4)),
        (4, LogBounds(0, 9, 9, 4)),
        (4, LogBounds(0, 10, 10, None)),
        (4, None),
    ],
    ids=["elected meanwhile", "not asked before", "a zombie is behind", "no word", "no answer"],
)
def test_end_without_a_witness_has_no_epoch(asked: int | None, place: LogBounds | None) -> None:
    assert _found(asked, place) is None


def test_epoch_that_the_row_below_the_end_has_told_stays() -> None:
    assert _found(4, LogBounds(0, 10, 10, 4), told=2) == 2
