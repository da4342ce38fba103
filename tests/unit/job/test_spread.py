from sluiceway.job.loop import spread
from sluiceway.job.planner import PlannedSplit
from sluiceway.job.route_session import PlannedEpoch
from sluiceway.sources.contract import SourcePartition, Split


def epoch(topic: str, splits: int) -> PlannedEpoch:
    parts = [PlannedSplit(Split(SourcePartition(topic, n), 0), 0) for n in range(splits)]
    return PlannedEpoch(0, parts)


def tasks(*epochs: PlannedEpoch) -> list[dict[int, list[int]]]:
    return [
        {task: [s.split.partition.partition for s in each] for task, each in e.by_task.items()}
        for e in epochs
    ]


def test_splits_of_one_route_use_all_slots_and_stay_where_they_were() -> None:
    one = epoch("a", 5)
    spread([one], 2)
    assert tasks(one) == [{0: [0, 2, 4], 1: [1, 3]}]
    spread([one], 2)
    assert tasks(one) == [{0: [0, 2, 4], 1: [1, 3]}]
    spread([one], 100)
    assert len(one.by_task) == 5


def test_routes_have_tasks_of_their_own_while_there_are_slots() -> None:
    small, large = epoch("a", 2), epoch("b", 6)
    spread([small, large], 4)
    assert not small.by_task.keys() & large.by_task.keys()
    assert [len(small.by_task), len(large.by_task)] == [1, 3]


def test_many_routes_share_few_slots_evenly_and_completely() -> None:
    epochs = [epoch(f"t{n}", 3) for n in range(7)]
    spread(epochs, 2)
    placed = [len(splits) for e in epochs for task, splits in e.by_task.items() if task == 0]
    assert sum(placed) in (10, 11)
    assert sum(len(each) for e in epochs for each in e.by_task.values()) == 21
