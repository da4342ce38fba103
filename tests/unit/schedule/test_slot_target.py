"""How many slots are asked for: by single decisions, then over rates and machines."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from sluiceway.schedule.slot_target import HOLD_S, SlotBounds, SlotTarget

_MOST = 4


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


class _Log:
    """Keeps events with their reasons."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.told.append((event, str(fields["reason"])))


def _target(clock: _Clock, log: Any = None) -> SlotTarget:
    return SlotTarget(SlotBounds(least=1, most=_MOST, idle_s=10.0), clock, log)


def _read(target: SlotTarget, expected: int, lag: int, slots: int, *records: int) -> int:
    """One epoch: what is asked for before it, then what its tasks read."""
    epochs = _epochs(expected, lag)
    chosen = target.choose(epochs, slots)
    target.update({"orders": epochs[0]}, _answers(*records))
    return chosen


def test_backlog_asks_for_all_that_it_can_use_and_no_more_than_allowed() -> None:
    target = _target(_Clock())
    assert _read(target, 0, 0, 1) == 1
    assert _read(target, 10_000, 10_000, 1, 100) == 1, "nothing is known of a slot yet"
    assert _read(target, 10_000, 9_900, 1, 100) == 4


def test_small_backlog_that_lasts_doubles_the_slots() -> None:
    target = _target(_Clock())
    _read(target, 300, 300, 1, 100)
    chosen = [_read(target, 200, lag, 1, 100) for lag in (160, 170, 160, 160)]
    assert chosen == [1, 1, 2, 2]
    assert _read(target, 90, 90, 2, 50, 40) == 2


def test_slots_are_given_back_once_fewer_were_amply_enough_for_the_whole_time() -> None:
    clock = _Clock()
    target = _target(clock)
    _read(target, 10_000, 10_000, 1, 100)
    assert _read(target, 10_000, 9_900, 1, 100) == 4
    clock.now = 1.0
    assert _read(target, 10, 0, 4, 10) == 4
    clock.now = HOLD_S
    assert _read(target, 90, 0, 4, 40, 40, 10) == 4
    clock.now += 2.0
    assert _read(target, 10, 0, 4, 10) == 2, "as many as the busiest moment meanwhile needed"
    clock.now += 1.0
    assert _read(target, 10, 0, 2, 10) == 2
    clock.now += HOLD_S - 1
    assert _read(target, 10, 0, 2, 10) == 2
    clock.now += 1.0
    assert _read(target, 10, 0, 2, 10) == 1


def test_need_that_comes_back_begins_the_time_anew() -> None:
    clock = _Clock()
    target = _target(clock)
    _read(target, 10_000, 10_000, 1, 100)
    assert _read(target, 10_000, 9_900, 1, 100) == 4
    for now, expected, lag in ((1.0, 10, 0), (59.0, 9_000, 9_000), (62.0, 10, 0), (121.0, 10, 0)):
        clock.now = now
        assert _read(target, expected, lag, 4, 10) == 4
    clock.now = 123.0
    assert _read(target, 10, 0, 4, 10) == 1


def test_slots_that_were_never_busy_say_nothing_of_what_one_can_read() -> None:
    target = _target(_Clock())
    for rows in (100, 150, 90, 400, 120):
        assert _read(target, rows, 0, 1, rows) == 1


def test_change_is_not_taken_back_at_once_unless_very_much_waits() -> None:
    clock, log = _Clock(), _Log()
    target = _target(clock, log)
    _read(target, 10_000, 10_000, 1, 100)
    _read(target, 10_000, 9_900, 1, 100)
    for clock.now in (1.0, 12.0, HOLD_S + 2):
        chosen = _read(target, 10, 0, 4, 10)
    assert chosen == 1
    clock.now += 5
    assert [_read(target, 400, 400, 1, 100) for _ in range(5)] == [1] * 5, "held"
    assert _read(target, 2_000, 2_000, 1, 100) == 4, "it would wait for longer than the hold"
    assert log.told == [
        ("slots_wanted", "9,900 records wait, a slot reads about 100 in an epoch"),
        ("slots_held", "they are given back after 60 s"),
        ("slots_wanted", "they were amply enough for 61 s"),
        ("slots_held", "fewer were enough 5 s ago"),
        ("slots_wanted", "2,000 records wait, a slot reads about 100 in an epoch"),
    ]


def test_slots_that_are_wanted_again_soon_stay_longer_the_next_time() -> None:
    clock, stays = _Clock(), list[float]()
    target = _target(clock)
    _read(target, 10_000, 10_000, 1, 100)
    for _ in range(8):
        assert _read(target, 10_000, 9_900, 1, 100) == 4
        raised = clock.now
        while _read(target, 10, 0, 4, 10) == 4:
            clock.now += 10
        stays.append(clock.now - raised)
        clock.now += 30
    assert stays == [60, 120, 240, 480, 960, 1800, 1800, 1800]
    clock.now += 10_000
    assert _read(target, 10_000, 9_900, 1, 100) == 4
    assert _read(target, 10, 0, 4, 10) == 4
    clock.now += HOLD_S
    assert _read(target, 10, 0, 4, 10) == 1


# Simulated: an hour of epochs of a second


@dataclass
class Machine:
    """What slots read in an epoch, and how long a new one takes to come.

    Attributes:
        a_slot: Records of one slot alone.
        whole: Of all slots together at most: cores are shared.
        delay: Epochs until a slot that was asked for is up.
        noise: Share by which an epoch differs.
    """

    a_slot: int
    whole: int
    delay: int = 15
    noise: float = 0.3

    def reads(self, slots: int, chance: random.Random) -> int:
        """Of each slot in one epoch."""
        share = min(self.a_slot, self.whole / slots)
        return int(share * chance.uniform(1 - self.noise, 1 + self.noise))


@dataclass
class Simulated:
    """An hour of a job.

    Attributes:
        arrive: Epoch and what waits -> records that come before it.
    """

    machine: Machine
    arrive: Callable[[int, int], int]
    epochs: int = 3600
    seed: int = 1
    wanted: list[int] = field(default_factory=list)
    lags: list[int] = field(default_factory=list)

    def run(self) -> "Simulated":
        clock, chance = _Clock(), random.Random(self.seed)  # noqa: S311 - no secret
        target, lag, per_epoch, coming = _target(clock), 0, 0.0, [1]
        for epoch in range(self.epochs):
            clock.now = float(epoch)
            came = self.arrive(epoch, lag)
            lag += came
            per_epoch += (came - per_epoch) / 2
            up = coming[max(0, len(coming) - self.machine.delay)]
            up = min(up, coming[-1])
            planned = _epochs(lag + int(per_epoch), lag)
            coming.append(target.choose(planned, up))
            up = min(up, coming[-1])
            most = self.machine.reads(up, chance)
            read = min(lag, most * up)
            share = [min(most, read - most * n) for n in range(up) if read > most * n]
            target.update({"r": planned[0]}, _answers(*share))
            lag -= read
            self.lags.append(lag)
        self.wanted = coming
        return self

    def changes(self, since: int = 0) -> int:
        """How often the number was another one than before."""
        chosen = self.wanted[since:]
        return sum(a != b for a, b in pairwise(chosen))


@dataclass
class Arrivals:
    """Any number of records up to a bound, each epoch."""

    most: int
    chance: random.Random = field(default_factory=lambda: random.Random(3))  # noqa: S311

    def __call__(self, _epoch: int, _lag: int) -> int:
        return self.chance.randint(0, self.most)


MACHINES = [
    Machine(40_000, 160_000),
    Machine(40_000, 60_000),
    Machine(90_000, 120_000, noise=0.5),
    Machine(300_000, 400_000),
    Machine(5_000, 20_000, delay=40),
]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda each: f"{each.a_slot}-{each.whole}")
@pytest.mark.parametrize("share", [0.05, 0.3, 0.45, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.6, 2.4, 3.5])
def test_even_rate_comes_to_rest(machine: Machine, share: float) -> None:
    per_epoch = int(machine.a_slot * share)
    found = Simulated(machine, lambda _epoch, _lag: per_epoch).run()
    assert found.changes() <= 6
    assert found.changes(since=1200) <= 1
    if per_epoch < 0.7 * machine.whole:
        assert max(found.lags[-60:]) <= 10 * machine.a_slot, "it is read as it comes"


@pytest.mark.parametrize("machine", MACHINES, ids=lambda each: f"{each.a_slot}-{each.whole}")
@pytest.mark.parametrize("every", [1, 3, 5, 12, 40, 130])
def test_backlog_that_is_topped_up_again_and_again_does_not_make_slots_flap(
    machine: Machine, every: int
) -> None:
    def top_up(epoch: int, lag: int) -> int:
        return max(0, 100_000 - lag) if epoch % every == 0 else 0

    found = Simulated(machine, top_up).run()
    assert found.changes() <= 8
    assert found.changes(since=1800) <= 1


@pytest.mark.parametrize("machine", MACHINES, ids=lambda each: f"{each.a_slot}-{each.whole}")
def test_rush_hour_has_its_slots_and_gives_them_back(machine: Machine) -> None:
    def rush(epoch: int, _lag: int) -> int:
        return int(machine.a_slot * (1.2 if 600 <= epoch < 1500 else 0.1))

    found = Simulated(machine, rush).run()
    assert found.wanted[600] == 1
    assert max(found.wanted) >= 2
    assert found.wanted[-1] == 1
    assert found.changes() <= 6


def test_no_two_opposite_changes_are_closer_than_the_hold() -> None:
    chance = random.Random(7)  # noqa: S311 - no secret
    for seed in range(30):
        machine = Machine(chance.randint(5_000, 200_000), chance.randint(50_000, 400_000))
        found = Simulated(machine, Arrivals(chance.randint(1_000, 120_000)), 900, seed).run()
        moves = [
            (epoch, after > before)
            for epoch, (before, after) in enumerate(pairwise(found.wanted))
            if after != before
        ]
        for (at, up), (later, up_again) in pairwise(moves):
            pressing = up_again and found.lags[later - 1] > 5 * machine.a_slot
            assert up == up_again or later - at >= HOLD_S or pressing
