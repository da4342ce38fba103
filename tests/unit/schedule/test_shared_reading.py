"""Which routes read together: equal splits, never two offsets of one log; how a laggard joins."""

from typing import Any, cast

import pytest

from sluiceway.errors import TaskDiedError
from sluiceway.observe.log import stderr_log
from sluiceway.schedule import pieces
from sluiceway.schedule.planner import PlannedEpoch, PlannedSplit
from sluiceway.schedule.shared_reading import MEET_RECORDS, SharedReading, meet, shared_readings
from sluiceway.schedule.spread import SplitAssigner
from sluiceway.schedule.task_packer import TaskPacker
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.sources.registry import SourceAccess
from sluiceway.worker.plan import TaskFailure
from tools.small_task import route_plan

KAFKA = SourceAccess("kafka", ())


def epoch(*splits: PlannedSplit, source: SourceAccess = KAFKA) -> PlannedEpoch:
    route = cast("Any", route_plan("unused", None, (), source=source))
    return PlannedEpoch(0, list(splits), route)


def planned(
    topic: str, number: int, start: int, *, lag: int = 0, stop: int | None = None, begin: int = -1
) -> PlannedSplit:
    split = Split(SourcePartition(topic, number), start, stop)
    return PlannedSplit(split, start if begin < 0 else begin, lag, lag)


def groups(**epochs: PlannedEpoch) -> list[list[str]]:
    return [each.routes for each in shared_readings(epochs)]


def test_routes_with_equal_splits_are_one_group() -> None:
    found = groups(
        a=epoch(planned("t", 0, 5), planned("t", 1, 7)),
        b=epoch(planned("u", 0, 5)),
        c=epoch(planned("t", 0, 5), planned("t", 1, 7)),
    )
    assert found == [["a", "c"], ["b"]]


def test_route_of_more_topics_shares_the_one_that_it_has_in_common() -> None:
    one, two = epoch(planned("t", 0, 5)), epoch(planned("t", 0, 5), planned("u", 0, 1))
    (group,) = shared_readings({"a": one, "b": two})
    assert [str(each.split.partition) for each in group.epoch.splits] == ["t[0]", "u[0]"]
    group.epoch.by_task = {0: (planned("t", 0, 5),), 1: (planned("u", 0, 1),)}
    group.deal({"a": one, "b": two})
    assert ([*one.by_task], [*two.by_task]) == ([0], [0, 1])


@pytest.mark.parametrize(
    "other",
    [
        epoch(planned("t", 0, 6)),
        epoch(planned("t", 0, 5, stop=9)),
        epoch(planned("t", 0, 5), source=SourceAccess("kafka", (("other", "cluster"),))),
        epoch(planned("t", 0, 5), planned("t", 1, 8)),
    ],
    ids=["offset", "stop", "cluster", "one of two partitions"],
)
def test_route_that_reads_otherwise_reads_alone(other: PlannedEpoch) -> None:
    assert groups(a=epoch(planned("t", 0, 5), planned("t", 1, 7)), b=other) == [["a"], ["b"]]


def test_member_keeps_where_its_own_range_starts() -> None:
    one, two = epoch(planned("t", 0, 5)), epoch(planned("t", 0, 5, begin=2))
    (group,) = shared_readings({"a": one, "b": two})
    group.epoch.by_task = {3: tuple(group.epoch.splits)}
    group.deal({"a": one, "b": two})
    assert [each.by_task[3][0].range_start for each in (one, two)] == [5, 2]


def test_routes_end_at_the_logs_end_when_a_laggard_is_near() -> None:
    ahead, behind = epoch(planned("t", 0, 90, lag=10)), epoch(planned("t", 0, 40, lag=60))
    met = meet({"ahead": ahead, "behind": behind})
    assert [each.splits[0].split.stop_offset for each in met.values()] == [100, 100]
    assert [each.splits[0].expected_records for each in met.values()] == [10, 60]


def test_new_table_catches_up_first_where_more_is_left_than_that() -> None:
    rest, table = epoch(planned("t", 0, 10, lag=90)), epoch(planned("t", 0, 0, lag=100))
    met = meet({"rest": rest, "table": table})
    assert {route: each.splits[0].split.stop_offset for route, each in met.items()} == {"table": 10}


def test_route_that_is_at_the_end_waits_for_the_laggard() -> None:
    met = meet({"ahead": epoch(planned("t", 0, 100)), "behind": epoch(planned("t", 0, 40, lag=60))})
    assert met.keys() == {"behind"}
    assert met["behind"].splits[0].split.stop_offset == 100


def test_route_far_back_holds_nobody() -> None:
    far = MEET_RECORDS + 1
    ahead, behind = epoch(planned("t", 0, far)), epoch(planned("t", 0, 0, lag=far))
    met = meet({"ahead": ahead, "behind": behind})
    assert [each.splits[0].split.stop_offset for each in met.values()] == [None, None]


def test_routes_with_a_backlog_meet_where_the_first_of_them_is() -> None:
    lag = 10 * MEET_RECORDS
    met = meet(
        {"ahead": epoch(planned("t", 0, 90, lag=lag)), "behind": epoch(planned("t", 0, 0, lag=lag))}
    )
    assert {route: each.splits[0].split.stop_offset for route, each in met.items()} == {
        "behind": 90
    }


def test_nobody_waits_for_a_route_with_a_rate() -> None:
    ahead, behind = epoch(planned("t", 0, 90, lag=10)), epoch(planned("t", 0, 40, lag=60, stop=45))
    met = meet({"ahead": ahead, "behind": behind})
    assert [each.splits[0].split.stop_offset for each in met.values()] == [None, 45]


def test_run_with_an_end_stops_no_later() -> None:
    ahead = epoch(planned("t", 0, 90, lag=10, stop=100))
    behind = epoch(planned("t", 0, 40, lag=40, stop=80))
    met = meet({"ahead": ahead, "behind": behind})
    assert [each.splits[0].split.stop_offset for each in met.values()] == [100, 80]


def test_group_is_dealt_as_one_route_and_its_pieces_are_joined_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pieces.SplitPieces, "_piece", lambda *_: pieces.LEAST_PIECE)
    packer = TaskPacker(SplitAssigner(), stderr_log())
    lag = 3 * pieces.LEAST_PIECE
    epochs = {name: epoch(planned("t", 0, 0, lag=lag)) for name in ("a", "b")}
    epochs["c"] = epoch(planned("u", 0, 0))
    dealt = packer.deal(epochs, 3)
    cut = {task: [(p.split.start_offset, p.split.stop_offset) for p in each]
           for task, each in dealt["a"].by_task.items()}  # fmt: skip
    assert sorted(cut.values()) == [[(0, 10_000)], [(10_000, None)]]
    assert dealt["a"].by_task == dealt["b"].by_task
    assert not dealt["c"].by_task.keys() & dealt["a"].by_task.keys()
    assert not dealt["b"].alone
    # What was read after a hole counts for none of them.
    first, second = sorted(cut, key=cut.__getitem__)
    read = {name: Answer(first, name, 0, 9_999) for name in ("a", "b")}
    rest = {name: Answer(second, name, 10_000, 20_000) for name in ("a", "b")}
    answers = cast("Any", [*read.values(), *rest.values()])
    kept = packer.add_answers({"a": "a", "b": "b"}, dealt, answers)
    assert {ledger: [each.task for each in found] for ledger, found in kept.items()} == {
        "a": [first],
        "b": [first],
    }


def test_pieces_of_an_epoch_are_none_of_the_next_in_which_all_routes_are_kept_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pieces.SplitPieces, "_piece", lambda *_: pieces.LEAST_PIECE)
    packer, ledgers = TaskPacker(SplitAssigner(), stderr_log()), {"a": "a"}
    lag = 3 * pieces.LEAST_PIECE
    dealt = packer.deal({"a": epoch(planned("t", 0, 0, lag=lag))}, 2)
    assert len(dealt["a"].by_task) == 2
    died = Answer(0, "a", 0, 0)
    died.failure = TaskFailure.of(TaskDiedError("out of memory"))
    packer.add_answers(ledgers, dealt, cast("Any", [died]))
    apart = packer.deal({"a": epoch(planned("t", 0, 0, lag=lag))}, 2)
    (task,) = apart["a"].by_task
    kept = packer.add_answers(ledgers, apart, cast("Any", [Answer(task, "a", 0, 9_000)]))
    assert [each.task for each in kept["a"]] == [task]


class Answer:
    """What a task has read of one source partition."""

    failure: TaskFailure | None = None

    def __init__(self, task: int, ledger: str, start: int, end: int) -> None:
        self.task, self.ledger = task, ledger
        self.splits = (Ends(start, end),)


class Ends:
    """Where a split was read from and to."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end


def test_group_keeps_what_it_was_given() -> None:
    group = SharedReading(epoch(), [])
    assert not group.fits(epoch(planned("t", 0, 5)))
