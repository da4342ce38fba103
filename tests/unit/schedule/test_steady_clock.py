"""A wall clock that steps is refused, told and waited out; time goes on as it did."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.schedule import source_view, steady_clock
from sluiceway.schedule.source_view import read_source_view
from sluiceway.schedule.steady_clock import BELIEVE_AFTER_S, MOST_STEP_S, SteadyClock
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    SourceIdentity,
    SourcePartition,
)

START_US = 1_795_161_600_000_000
DAY_S = 86_400.0


class Clocks:
    """Both clocks of a host; `wrong_s` is what somebody has set the wall clock to too much."""

    def __init__(self) -> None:
        self.passed_s = 0.0
        self.wrong_s = 0.0

    def monotonic(self) -> float:
        return 500.0 + self.passed_s

    def time_ns(self) -> int:
        return START_US * 1000 + int((self.passed_s + self.wrong_s) * 1_000_000_000)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    made = Clocks()
    monkeypatch.setattr(steady_clock, "time", made)
    return made


def seconds(clock: SteadyClock) -> float:
    return (clock.now_us() - START_US) / 1_000_000


@pytest.mark.parametrize("step_s", [DAY_S, MOST_STEP_S + 0.1, -DAY_S, -MOST_STEP_S - 0.1])
def test_clock_that_steps_between_two_looks_is_refused_and_told_once(
    clocks: Clocks, step_s: float
) -> None:
    clock = SteadyClock()
    clock.now_us()
    clocks.wrong_s = step_s
    for passed_s in (2.0, 4.0, 6.0):
        clocks.passed_s = passed_s
        assert seconds(clock) == pytest.approx(passed_s)
    assert [(each.event, round(each.step_s, 3)) for each in clock.pop_news()] == [
        ("clock_stepped", step_s)
    ]
    clocks.wrong_s = 0.0
    assert seconds(clock) == pytest.approx(6.0)
    assert [news.event for news in clock.pop_news()] == ["clock_back"]


def test_clock_that_is_slewed_is_followed_without_a_word(clocks: Clocks) -> None:
    clock = SteadyClock()
    for n in range(100):
        clocks.passed_s, clocks.wrong_s = n * 10.0, n * 0.1
        assert seconds(clock) == pytest.approx(n * 10.1)
    assert clock.pop_news() == []


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_clock_that_creeps_away_by_small_steps_is_refused_as_one_that_steps(
    clocks: Clocks, sign: float
) -> None:
    clock = SteadyClock()
    clock.now_us()
    clocks.passed_s, clocks.wrong_s = 2.0, sign * 4.0
    assert seconds(clock) == pytest.approx(2.0 + sign * 4.0)
    # Each look is 3 s from the one before: together a day would pass within a night.
    for n in range(1, 50):
        clocks.passed_s, clocks.wrong_s = 2.0 + n * 2.0, sign * (4.0 + n * 3.0)
        assert seconds(clock) == pytest.approx(clocks.passed_s + sign * 4.0)
    assert "clock_stepped" in [news.event for news in clock.pop_news()]


def test_small_step_is_the_ground_of_another_once_it_is_old(clocks: Clocks) -> None:
    clock = SteadyClock()
    clock.now_us()
    for n in range(1, 8):
        for minute in range(6):
            clocks.passed_s, clocks.wrong_s = n * 360.0 + minute * 60.0, n * 4.0
            assert seconds(clock) == pytest.approx(clocks.passed_s + n * 4.0)
    assert clock.pop_news() == []


def test_other_time_is_believed_when_all_looks_have_agreed_on_it_for_long(clocks: Clocks) -> None:
    clock = SteadyClock()
    clock.now_us()
    clocks.wrong_s = 3600.0
    clocks.passed_s = 1.0
    assert seconds(clock) == pytest.approx(1.0)
    clocks.passed_s = BELIEVE_AFTER_S
    assert seconds(clock) == pytest.approx(BELIEVE_AFTER_S)
    clocks.passed_s = BELIEVE_AFTER_S + 1.0
    assert seconds(clock) == pytest.approx(BELIEVE_AFTER_S + 3601.0)
    assert [news.event for news in clock.pop_news()] == ["clock_stepped", "clock_accepted"]
    # From then on it is the time, and nothing of the one before is held against it.
    clocks.passed_s = BELIEVE_AFTER_S + 2.0
    assert seconds(clock) == pytest.approx(BELIEVE_AFTER_S + 3602.0)
    assert clock.pop_news() == []


def test_clock_that_keeps_stepping_is_never_believed(clocks: Clocks) -> None:
    clock = SteadyClock()
    clock.now_us()
    for n in range(1, 100):
        clocks.passed_s, clocks.wrong_s = n * 60.0, 3600.0 + n % 2 * 60.0
        assert seconds(clock) == pytest.approx(n * 60.0)


def test_process_that_stood_still_between_the_two_clocks_looks_at_both_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The monotonic clock is read, then the process sleeps for an hour, then the wall clock.
    at = iter([0.0, 0.0, 1.0, 3601.0, 3601.0, 3601.0])
    wall_s = iter([0.0, 3601.0, 3601.0])
    made = SimpleNamespace(
        monotonic=lambda: next(at), time_ns=lambda: int(next(wall_s) * 1_000_000_000)
    )
    monkeypatch.setattr(steady_clock, "time", made)
    clock = SteadyClock()
    assert [clock.now_us(), clock.now_us()] == [0, 3_601_000_000]
    assert clock.pop_news() == []


class Idle:
    """A cluster with one source partition that nothing comes to."""

    partition = SourcePartition("orders", 0)

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        del topics
        return (DiscoveredPartition(self.partition, SourceIdentity("c", "t"), None),)

    def bounds(self, asked: Sequence[SourcePartition]) -> Mapping[SourcePartition, LogBounds]:
        return {each: LogBounds(0, 7, 7) for each in asked}


def test_look_at_log_ends_does_not_go_by_a_clock_that_has_just_stepped(
    clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SteadyClock()
    monkeypatch.setattr(source_view, "process_clock", lambda: clock)
    assert read_source_view(cast("Any", Idle()), ["orders"]).read_at_us == START_US
    clocks.passed_s, clocks.wrong_s = 1.0, DAY_S
    assert read_source_view(cast("Any", Idle()), ["orders"]).read_at_us == START_US + 1_000_000
