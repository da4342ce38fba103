"""What an epoch knows of time: a clock that never falls, and bounds of source partitions."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import SourceState
from sluiceway.schedule.epoch_times import EpochClock, late_before_us, watermark_us
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.worker.plan import LateRule

if TYPE_CHECKING:
    from sluiceway.types.log_key import SourceKey

NOW_US = 1_795_176_000_000_000
HOUR_US = 3_600_000_000


def source(time_us: int | None, *, retired: bool = False) -> SourceState:
    return SourceState("c", "t", 0, "earliest", 10, retired=retired, max_event_time_us=time_us)


@dataclass
class Wall:
    at_us: int = NOW_US

    def __call__(self) -> int:
        return self.at_us


def test_clock_that_is_set_back_does_not_fall() -> None:
    wall = Wall()
    clock = EpochClock(wall)
    first = clock.date(Fold(), LateRule())
    assert first.clock_us == NOW_US
    wall.at_us -= HOUR_US
    assert NOW_US <= clock.date(Fold(), LateRule()).clock_us < NOW_US + HOUR_US
    wall.at_us += 3 * HOUR_US
    assert clock.date(Fold(), LateRule()).clock_us == NOW_US + 2 * HOUR_US


def test_clock_is_never_before_the_one_in_the_ledger() -> None:
    fold = Fold(clock_us=NOW_US + HOUR_US)
    assert EpochClock(Wall()).date(fold, LateRule()).clock_us == NOW_US + HOUR_US


def test_record_has_the_clock_up_to_when_the_tasks_answered() -> None:
    dates = EpochClock(Wall()).date(Fold(), LateRule())
    assert dates.until_us(dates.planned + 2.5) == NOW_US + 2_500_000
    assert dates.until_us(dates.planned - 1.0) == NOW_US


@pytest.mark.parametrize("window_us", [0, HOUR_US])
def test_bounds_are_by_source_partition(window_us: int) -> None:
    fold = Fold(sources={("a", 0): source(NOW_US), ("a", 1): source(None), ("a", 2): source(-5)})
    assert late_before_us(fold, LateRule(window_us=window_us)) == {
        SourcePartition("a", 0): NOW_US - window_us,
        SourcePartition("a", 2): -5 - window_us,
    }


def test_without_a_window_nothing_is_bounded() -> None:
    fold = Fold(sources={("a", 0): source(NOW_US)})
    dates = EpochClock(Wall()).date(fold, LateRule())
    splits = (Split(SourcePartition("a", 0), 10),)
    assert dates.for_splits(splits, ("hr=08",)).late_before_us == ()
    assert dates.for_splits(splits, ("hr=08",)).closed == ("hr=08",)


def test_splits_get_their_own_bounds_in_order() -> None:
    fold = Fold(sources={("a", 0): source(7), ("a", 1): source(None)})
    dates = EpochClock(Wall()).date(fold, LateRule(window_us=2))
    splits = tuple(Split(SourcePartition("a", number), 10) for number in (1, 0))
    assert dates.for_splits(splits, ()).late_before_us == (None, 5)


def test_watermark_without_readiness_is_the_least_of_the_source_partitions() -> None:
    sources: dict[SourceKey, SourceState] = {
        ("a", 0): source(100),
        ("a", 1): source(40),
        ("a", 2): source(None),
        ("a", 3): source(1, retired=True),
    }
    assert watermark_us(Fold(sources=sources), LateRule(out_of_orderness_us=30)) == 10
    assert watermark_us(Fold(), LateRule()) is None
    fold = Fold(sources=sources)
    fold.watermark.us = 77
    assert watermark_us(fold, LateRule()) == 77
