from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from sluiceway.schedule.slot_target import SlotBounds, SlotTarget


@dataclass
class _Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def _epochs(expected: int, lag: int) -> list[Any]:
    split = SimpleNamespace(expected_records=expected, lag_records=lag)
    return [SimpleNamespace(splits=[split])]


def _answers(*records: int) -> list[Any]:
    return [
        SimpleNamespace(task=task, splits=[SimpleNamespace(start=0, end=count)])
        for task, count in enumerate(records)
    ]


def _target(clock: _Clock) -> SlotTarget:
    return SlotTarget(SlotBounds(least=1, most=4, idle_s=10.0), clock)


def _read(target: SlotTarget, expected: int, lag: int, slots: int, *records: int) -> int:
    """One epoch: what is asked for before it, then what its tasks read."""
    epochs = _epochs(expected, lag)
    chosen = target.choose(epochs, slots)
    target.note({"orders": epochs[0]}, _answers(*records))
    return chosen


def test_backlog_asks_for_all_that_it_can_use_and_no_more_than_allowed() -> None:
    target = _target(_Clock())
    assert _read(target, 0, 0, 1) == 1
    assert _read(target, 10_000, 10_000, 1, 100) == 1, "nothing is known of a slot yet"
    assert _read(target, 10_000, 9_900, 1, 100) == 4


def test_small_backlog_doubles_the_slots() -> None:
    target = _target(_Clock())
    _read(target, 300, 300, 1, 100)
    assert _read(target, 200, 150, 1, 100) == 2


def test_slots_are_given_back_once_fewer_were_enough_for_the_whole_time() -> None:
    clock = _Clock()
    target = _target(clock)
    _read(target, 10_000, 10_000, 1, 100)
    assert _read(target, 10_000, 9_900, 1, 100) == 4
    assert _read(target, 10, 0, 4, 10) == 4
    clock.now = 9.0
    assert _read(target, 150, 0, 4, 40, 40, 40, 30) == 4
    clock.now = 11.0
    assert _read(target, 10, 0, 4, 10) == 2, "as many as the busiest moment meanwhile needed"
    clock.now = 12.0
    assert _read(target, 10, 0, 2, 10) == 2
    clock.now = 23.0
    assert _read(target, 10, 0, 2, 10) == 1


def test_need_that_comes_back_begins_the_time_anew() -> None:
    clock = _Clock()
    target = _target(clock)
    _read(target, 10_000, 10_000, 1, 100)
    assert _read(target, 10_000, 9_900, 1, 100) == 4
    for now, expected, lag in ((1.0, 10, 0), (9.0, 9_000, 9_000), (12.0, 10, 0), (21.0, 10, 0)):
        clock.now = now
        assert _read(target, expected, lag, 4, 10) == 4
    clock.now = 23.0
    assert _read(target, 10, 0, 4, 10) == 1
