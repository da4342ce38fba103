"""Offsets for lag tools: the newest ends, told at each start, and nobody waits for a dead group."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from sluiceway.errors import FencedError, SourceUnavailableError, UnhealthyEnvironmentError
from sluiceway.followers.group_offsets import GroupOffsets, committed_ends
from sluiceway.followers.runner import FollowerRunner
from sluiceway.ledger.follower import LogView
from sluiceway.observe.log import stderr_log
from sluiceway.sources.contract import LogBounds, SourcePartition
from tools.session_on_disk import SmallSource, session_on_disk
from tools.table_on_disk import TableOnDisk, table_on_disk

_DAY = "dt=20261120/hr=08"
_PATIENCE_S = 30.0


class _Source(SmallSource):
    """Notes what it is told; `failure` is raised in place of that."""

    def __init__(self) -> None:
        super().__init__(LogBounds(0, 0, 0))
        self.failure: Exception | None = None
        self.meanwhile: Callable[[], None] = lambda: None
        self.told: list[tuple[str, dict[SourcePartition, int]]] = []
        self.asked = 0

    def report(self, group: str, ends: Mapping[SourcePartition, int]) -> None:
        self.asked += 1
        self.meanwhile()
        if self.failure is not None:
            raise self.failure
        self.told.append((group, dict(ends)))


@pytest.fixture
def disk(tmp_path: Path) -> TableOnDisk:
    made = table_on_disk(tmp_path)
    made.rows(_DAY)
    return made


def started(disk: TableOnDisk, source: _Source) -> GroupOffsets:
    """As START begins it."""
    follower = GroupOffsets(source, "orders", "source kafka://k:9092")
    follower.update(disk.writer.fold, 0, again=True)
    return follower


def follow(follower: GroupOffsets, disk: TableOnDisk, *, last: bool = False) -> int:
    """A piece of it towards the log's end."""
    return follower.follow(LogView(disk.log, disk.writer.fold.next_seq, last=last))


def test_each_start_tells_the_group_anew_and_each_commit_its_newest_ends(
    disk: TableOnDisk,
) -> None:
    source = _Source()
    for _ in range(2):
        follower = started(disk, source)
        assert follower.place() == 0
        assert follow(follower, disk) == disk.writer.fold.next_seq
    first = committed_ends(disk.writer.fold)
    since = disk.writer.fold.next_seq
    disk.rows(_DAY)
    disk.rows(_DAY)
    follower.update(disk.writer.fold, since)
    assert follower.place() == since
    assert follow(follower, disk) == disk.writer.fold.next_seq
    newest = committed_ends(disk.writer.fold)
    assert source.told == [("orders", first), ("orders", first), ("orders", newest)]
    assert first != newest


def test_what_is_committed_while_it_is_told_is_told_next(disk: TableOnDisk) -> None:
    source = _Source()
    follower = started(disk, source)
    since = disk.writer.fold.next_seq

    def commit() -> None:
        source.meanwhile = lambda: None
        disk.rows(_DAY)
        follower.update(disk.writer.fold, since)

    source.meanwhile = commit
    assert follow(follower, disk) == since
    assert follow(follower, disk) == disk.writer.fold.next_seq
    assert source.told[-1] == ("orders", committed_ends(disk.writer.fold))


def test_group_that_does_not_answer_keeps_its_place_but_for_the_end(disk: TableOnDisk) -> None:
    source = _Source()
    follower = started(disk, source)
    source.failure = SourceUnavailableError("no coordinator")
    with pytest.raises(SourceUnavailableError):
        follow(follower, disk)
    assert follower.place() == 0
    assert follow(follower, disk, last=True) == disk.writer.fold.next_seq
    # It was silent before: a time-out more for each route would keep a driver from its end.
    assert source.asked == 1


def test_group_that_is_silent_only_at_the_end_costs_one_time_out(disk: TableOnDisk) -> None:
    source = _Source()
    follower = started(disk, source)
    follow(follower, disk)
    since = disk.writer.fold.next_seq
    disk.rows(_DAY)
    follower.update(disk.writer.fold, since)
    source.failure = SourceUnavailableError("no coordinator")
    assert follow(follower, disk, last=True) == disk.writer.fold.next_seq
    assert source.asked == 2


def test_missing_permission_is_trouble_that_halts_nothing(disk: TableOnDisk) -> None:
    source = _Source()
    source.failure = UnhealthyEnvironmentError("no permission for group orders")
    runner = FollowerRunner([started(disk, source)], disk.log, stderr_log(level="error"))
    try:
        runner.begin(disk.writer.fold)
        assert runner.finish(_PATIENCE_S) == ("offsets",)
        runner.refuse_if_failed()
        (state,) = runner.states()
    finally:
        runner.close()
    assert "no permission" in state.waits_for


def test_each_route_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with session_on_disk(tmp_path, monkeypatch) as route:
        assert "offsets" in [each.name for each in route.session.meter.followers()]


def test_driver_that_was_fenced_does_not_tell_its_older_ends(disk: TableOnDisk) -> None:
    source = _Source()
    follower = started(disk, source)

    def fenced() -> None:
        raise FencedError("term 1 was taken over")

    disk.log.check_held = fenced
    with pytest.raises(FencedError):
        follow(follower, disk)
    assert source.told == []
    assert follower.place() == 0
