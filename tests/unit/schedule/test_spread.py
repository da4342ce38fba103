"""Which task reads what: even by what lies there, whole routes, and nobody moved without need."""

import random
from collections.abc import Sequence
from typing import Any, cast

import pytest

from sluiceway.schedule.planner import PlannedEpoch, PlannedSplit
from sluiceway.schedule.spread import SplitAssigner
from sluiceway.sources.contract import SourcePartition, Split


def epoch(topic: str, splits: int, expected: Sequence[int] = ()) -> PlannedEpoch:
    records = [*expected, *[0] * (splits - len(expected))]
    parts = [
        PlannedSplit(Split(SourcePartition(topic, n), 0), 0, records[n]) for n in range(splits)
    ]
    return PlannedEpoch(0, parts, cast("Any", None))


def numbered(epochs: Sequence[PlannedEpoch]) -> dict[int, PlannedEpoch]:
    return dict(enumerate(epochs))


def tasks(*epochs: PlannedEpoch) -> list[dict[int, list[int]]]:
    return [
        {task: [s.split.partition.number for s in each] for task, each in e.by_task.items()}
        for e in epochs
    ]


def loads(*epochs: PlannedEpoch) -> dict[int, int]:
    found: dict[int, int] = {}
    for each in epochs:
        for task, splits in each.by_task.items():
            records = sum(split.expected_records for split in splits)
            found[task] = found.get(task, 0) + records
    return found


def test_splits_of_one_route_use_all_slots_and_stay_where_they_were() -> None:
    one, spread = epoch("a", 5), SplitAssigner()
    spread.assign({0: one}, 2)
    assert tasks(one) == [{0: [0, 2, 4], 1: [1, 3]}]
    spread.assign({0: one}, 2)
    assert tasks(one) == [{0: [0, 2, 4], 1: [1, 3]}]
    spread.assign({0: one}, 100)
    assert len(one.by_task) == 5


def test_routes_have_tasks_of_their_own_while_there_are_slots() -> None:
    small, large = epoch("a", 2), epoch("b", 6)
    SplitAssigner().assign({0: small, 1: large}, 4)
    assert not small.by_task.keys() & large.by_task.keys()
    assert [len(small.by_task), len(large.by_task)] == [1, 3]


def test_route_with_more_to_read_gets_more_tasks() -> None:
    many, hot = epoch("a", 6), epoch("b", 3, [50_000] * 3)
    SplitAssigner().assign({0: many, 1: hot}, 4)
    assert [len(many.by_task), len(hot.by_task)] == [1, 3]


def test_many_routes_share_few_slots_evenly_and_completely() -> None:
    epochs = [epoch(f"t{n}", 3) for n in range(7)]
    SplitAssigner().assign(numbered(epochs), 2)
    placed = [len(splits) for e in epochs for task, splits in e.by_task.items() if task == 0]
    assert sum(placed) in (10, 11)
    assert sum(len(each) for e in epochs for each in e.by_task.values()) == 21


def test_hot_partition_has_a_task_nearly_to_itself() -> None:
    one = epoch("a", 5, [100_000, 900, 900, 900, 900])
    SplitAssigner().assign({0: one}, 2)
    assert tasks(one) == [{0: [0], 1: [1, 2, 3, 4]}]


def test_small_routes_are_not_cut_among_many() -> None:
    epochs = [epoch(f"t{n}", 3, [n, n, n]) for n in range(100)]
    SplitAssigner().assign(numbered(epochs), 2)
    assert all(len(each.by_task) == 1 for each in epochs)
    even = sum(loads(*epochs).values()) / 2
    assert max(loads(*epochs).values()) < 1.05 * even


@pytest.mark.parametrize("seed", range(5))
def test_longest_task_is_at_most_a_third_above_what_can_be(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a test's own
    epochs = [epoch(f"t{n}", 4, [chance.randrange(10**6) for _ in range(4)]) for n in range(20)]
    SplitAssigner().assign(numbered(epochs), 7)
    even = sum(loads(*epochs).values()) / 7
    largest = max(split.expected_records for each in epochs for split in each.splits)
    assert max(loads(*epochs).values()) <= 4 / 3 * max(even, largest) + 100 * 80


def test_small_changes_move_nothing_and_large_ones_do() -> None:
    spread = SplitAssigner()
    spread.assign({0: (first := epoch("a", 4, [1000, 1000, 1000, 1000]))}, 2)
    spread.assign({0: (second := epoch("a", 4, [1300, 900, 1300, 800]))}, 2)
    assert tasks(second) == tasks(first)
    hot = [200_000, 0, 200_000, 0]
    assert tasks(first)[0][0] == [0, 2]
    spread.assign({0: (third := epoch("a", 4, hot))}, 2)
    assert sorted(loads(third).values()) == [200_000, 200_000]


def test_others_stay_when_a_route_comes_or_goes() -> None:
    spread = SplitAssigner()
    epochs = {n: epoch(f"t{n}", 3) for n in range(20)}
    spread.assign(epochs, 2)
    before = {n: each.by_task for n, each in epochs.items()}
    spread.assign({**epochs, 99: (new := epoch("new", 3))}, 2)
    assert {n: each.by_task for n, each in epochs.items()} == before
    assert sum(map(len, new.by_task.values())) == 3
    del epochs[7]
    spread.assign(epochs, 2)
    assert {n: each.by_task for n, each in epochs.items()} == {
        n: each for n, each in before.items() if n != 7
    }


def test_route_that_comes_takes_no_task_of_others_while_there_are_enough() -> None:
    spread = SplitAssigner()
    first, second = epoch("a", 4), epoch("b", 4)
    spread.assign({0: first}, 4)
    spread.assign({0: first, 1: second}, 4)
    assert not first.by_task.keys() & second.by_task.keys()
    assert sum(map(len, first.by_task.values())) == 4


def test_same_partition_read_by_two_routes_is_dealt_for_each() -> None:
    one, other = epoch("a", 2), epoch("a", 2)
    SplitAssigner().assign({0: one, 1: other}, 1)
    assert tasks(one, other) == [{0: [0, 1]}, {0: [0, 1]}]


def test_equal_epochs_are_dealt_equally_by_another_driver() -> None:
    deals = []
    for _ in range(2):
        epochs = [epoch(f"t{n}", 3, [n % 3, n % 5]) for n in range(50)]
        SplitAssigner().assign(numbered(epochs), 3)
        deals.append(tasks(*epochs))
    assert deals[0] == deals[1]
