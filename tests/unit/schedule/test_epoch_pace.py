"""Commits follow each other by the interval: what an epoch takes beside its reading comes off."""

import pytest

from sluiceway.schedule import planner
from sluiceway.schedule.planner import EpochPace, PlannedEpoch, PlannedSplit
from sluiceway.sources.contract import SourcePartition, Split
from tools.small_task import route_plan


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(planner, "time", made)
    return made


def reading_s(pace: EpochPace, clock: Clock, took_s: float | None = None) -> float:
    """What the tasks of the next epoch are told; they take as long as they read, and `took_s`."""
    split = PlannedSplit(Split(SourcePartition("orders", 0), 0, 9), 0, 9, 9)
    planned = PlannedEpoch(1, [split], route_plan("/w"), by_task={0: (split,)}, started=clock.now)
    told = pace.task_plans(planned)[0].deadline_s
    if took_s is not None:
        clock.now += told + took_s
        pace.set_answered(planned)
        assert planned.answered == clock.now
    return told


def test_epochs_read_for_the_interval_until_it_is_known_what_else_they_take(clock: Clock) -> None:
    pace = EpochPace(2.0)
    assert [reading_s(pace, clock, 0.3) for _ in range(3)] == [2.0] * 3
    assert reading_s(pace, clock) == pytest.approx(1.7)


def test_one_slow_epoch_changes_nothing_and_slow_ones_take_a_quarter(clock: Clock) -> None:
    pace = EpochPace(2.0)
    for took_s in (0.2, 0.2, 30.0, 0.2):
        reading_s(pace, clock, took_s)
    assert reading_s(pace, clock) == pytest.approx(1.8)
    for _ in range(5):
        reading_s(pace, clock, 30.0)
    assert reading_s(pace, clock) == pytest.approx(1.5)


def test_what_was_slow_is_forgotten(clock: Clock) -> None:
    pace = EpochPace(10.0)
    for took_s in (2.0, 2.0, 2.0, 0.5, 0.5, 0.5):
        reading_s(pace, clock, took_s)
    assert reading_s(pace, clock) == pytest.approx(9.5)


def test_tasks_that_were_done_before_their_time_say_nothing(clock: Clock) -> None:
    pace = EpochPace(2.0)
    for _ in range(5):
        reading_s(pace, clock, -1.0)
    assert reading_s(pace, clock) == 2.0
