"""When the catalog is asked: at once, after a pause, or not at all. By a clock of the test."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.errors import FencedError
from sluiceway.followers import catalog, moved_partitions
from sluiceway.followers.catalog import CatalogFollower
from sluiceway.followers.moved_partitions import READERS_GRACE_S, MovedPartitions, OldFolder
from sluiceway.ledger.follower import LogView
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import RemovedFile, ReplaceRecord
from sluiceway.ledger.records import encode_record
from sluiceway.sinks.contract import DesiredPartition, ParkedPartition
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from tools.ledger_records import fence, fold_of, record

ONE = DesiredPartition(("1",), "/t/dt=1")


class Sink:
    """Notes what each call asks for; parks what `parks` says, for that reason."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.parks: dict[str, str] = {}
        self.places: dict[tuple[str, ...], str] = {}

    def apply(self, partitions: Sequence[DesiredPartition]) -> tuple[ParkedPartition, ...]:
        asked = [each.values[0] for each in partitions]
        self.calls.append(asked)
        parked = [each for each in asked if each in self.parks]
        return tuple(ParkedPartition((each,), self.parks[each]) for each in parked)

    def shown(self, partitions: object) -> dict[tuple[str, ...], str]:
        del partitions
        return self.places


class Warnings:
    """A log that keeps the events of its warnings."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def warning(self, event: str, **fields: Any) -> None:
        self.told.append(f"{event}: {fields['reason']}")

    def info(self, event: str, **fields: Any) -> None:
        """Not looked at."""


class Followed:
    """A catalog follower that the test calls itself."""

    def __init__(self, root: Path) -> None:
        self.sink, self.warnings = Sink(), Warnings()
        self.log = LedgerLog(LocalStorage(), LedgerLayout(str(root), "orders"))
        events = cast("Any", self.warnings)
        self.moved = MovedPartitions(self.log, events)
        self.through: list[int] = []
        self.is_fenced = False
        self.follower = CatalogFollower(
            cast("Any", self.sink),
            events,
            self.through.append,
            self.moved,
            check_held=self._check_held,
        )

    def commit(self, through: int, *wanted: DesiredPartition) -> None:
        self.follower.want(list(wanted), through)
        self.follow(through)

    def follow(self, through: int = 9) -> None:
        self.follower.follow(LogView(self.log, through))

    def _check_held(self) -> None:
        if self.is_fenced:
            raise FencedError("term 1 was taken over")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds = [1000.0]
    for module in (catalog, moved_partitions):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    return seconds


@pytest.fixture
def followed(tmp_path: Path, clock: list[float]) -> Followed:
    return Followed(tmp_path)


def test_parked_partition_is_asked_for_again_after_a_minute_without_a_commit(
    followed: Followed, clock: list[float]
) -> None:
    followed.sink.parks = {"1": "somebody made it"}
    followed.commit(2, ONE)
    assert followed.follower.rest_s() == 60.0
    clock[0] += 59.0
    followed.follow()
    assert followed.sink.calls == [["1"]]
    followed.sink.parks = {}
    clock[0] += 1.0
    followed.follow()
    assert followed.sink.calls == [["1"], ["1"]]
    assert followed.through == [2]
    assert followed.follower.rest_s() is None


def test_commits_without_partitions_do_not_put_off_what_is_parked(
    followed: Followed, clock: list[float]
) -> None:
    followed.sink.parks = {"1": "somebody made it"}
    followed.commit(2, ONE)
    for through in (3, 4, 5):
        clock[0] += 20.0
        followed.commit(through)
    assert followed.sink.calls[-1] == ["1"]


def test_why_a_partition_is_left_alone_is_told_once_and_shown_until_it_is_not(
    followed: Followed, clock: list[float]
) -> None:
    followed.sink.parks = {"1": "somebody made it"}
    followed.commit(2, ONE)
    clock[0] += 60.0
    followed.follow()
    assert followed.warnings.told == ["partition_conflict: somebody made it"]
    assert followed.follower.waits().endswith("as 1: somebody made it")
    followed.sink.parks = {}
    clock[0] += 60.0
    followed.follow()
    assert followed.follower.waits() == ""


def test_partition_that_must_be_elsewhere_by_now_is_parked_as_it_must_be_now(
    followed: Followed, clock: list[float]
) -> None:
    followed.sink.parks = {"1": "somebody made it"}
    followed.commit(2, ONE)
    followed.commit(3, replace(ONE, location="/t/_sluiceway-3-x/dt=1"))
    followed.sink.parks = {}
    clock[0] += 60.0
    followed.follow()
    assert followed.sink.calls == [["1"], ["1"], ["1"]]
    assert followed.through == [3]
    assert followed.follower.waits() == ""


def test_commits_without_partitions_cost_one_call_in_thirty_seconds(
    followed: Followed, clock: list[float]
) -> None:
    for through in range(1, 13):
        clock[0] += 10.0
        followed.commit(through)
    # The fourth part of two minutes each, and none of the ledger's slots waits for it.
    assert followed.sink.calls == [[], [], [], []]
    assert followed.through == list(range(1, 13))


def test_partition_that_was_applied_counts_as_a_look_at_the_table(
    followed: Followed, clock: list[float]
) -> None:
    clock[0] += 25.0
    followed.commit(1, ONE)
    clock[0] += 25.0
    followed.commit(2)
    assert followed.sink.calls == [["1"]]
    assert followed.follower.rest_s() == 5.0


def test_route_to_which_nothing_happens_costs_the_catalog_nothing(
    followed: Followed, clock: list[float]
) -> None:
    followed.commit(2, ONE)
    for _ in range(3):
        clock[0] += 100.0
        assert followed.follower.rest_s() is None
        followed.follow()
    assert followed.sink.calls == [["1"]]


def test_old_folder_goes_after_an_hour_though_nothing_is_committed(
    followed: Followed, clock: list[float], tmp_path: Path
) -> None:
    moved = DesiredPartition(("1",), "/t/_sluiceway-3-x/dt=1", first="", moves="")
    old = _left_folder(followed, moved, tmp_path)
    followed.sink.places = {moved.values: moved.location}
    followed.commit(4, moved)
    looks = 0
    while old.exists() and looks < 100:
        clock[0] += followed.follower.rest_s() or 0.0
        followed.follow()
        looks += 1
    assert looks == 1 + READERS_GRACE_S / 60.0


def test_hour_begins_anew_when_a_commit_puts_right_where_readers_were_sent(
    followed: Followed, clock: list[float], tmp_path: Path
) -> None:
    moved = DesiredPartition(("1",), "/t/_sluiceway-3-x/dt=1", first="", moves="")
    old = _left_folder(followed, moved, tmp_path)
    followed.sink.places = {moved.values: moved.location}
    followed.commit(4, moved)
    looks = 0
    while old.exists() and looks < 200:
        clock[0] += followed.follower.rest_s() or 0.0
        followed.follow()
        looks += 1
        if looks == 30:
            # A driver that was replaced, and woke up; then rows come to this partition.
            clock[0] += 1.0
            followed.sink.places = {moved.values: "/t/dt=1"}
            followed.commit(5, moved)
            followed.sink.places = {moved.values: moved.location}
    assert looks == 31 + READERS_GRACE_S / 60.0


def test_fenced_driver_asks_for_nothing_and_keeps_what_it_has_to_ask_for(
    followed: Followed, clock: list[float]
) -> None:
    followed.is_fenced = True
    for _ in range(2):
        with pytest.raises(FencedError):
            followed.commit(2, ONE)
    assert (followed.sink.calls, followed.through) == ([], [])
    assert followed.follower.place() == 0


def _left_folder(followed: Followed, now: DesiredPartition, root: Path) -> Path:
    """Of a partition that has moved, by the record in slot 3, with one file in it."""
    removed = RemovedFile("a.parquet", BigInt(1), BigInt(0), "00000000")
    body = ReplaceRecord(2, "dt=1", 1, "_sluiceway-3-x/dt=1", (removed,), ())
    place = Path(followed.log.layout.record(3))
    place.parent.mkdir(parents=True)
    place.write_bytes(encode_record(record(fold_of(fence()), body, seq=3)))
    old = root / "dt=1"
    old.mkdir()
    (old / "a.parquet").touch()
    followed.moved.add([], [OldFolder("dt=1", 3, now)], 4)
    return old
