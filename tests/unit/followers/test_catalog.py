"""How often the catalog is asked, and how soon a table that is gone is noticed."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sluiceway.errors import (
    FencedError,
    MetastoreUnavailableError,
    SluicewayError,
    TableMismatchError,
)
from sluiceway.eventtime.watermark import WatermarkRule
from sluiceway.followers.catalog import CatalogFollower
from sluiceway.followers.desired import is_to_be_shown
from sluiceway.followers.moved_partitions import MovedPartitions
from sluiceway.followers.ready_effects import ReadyEffects
from sluiceway.jobfile.compile.ready_rule import ReadyRule
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import ClosedPrefix, PartitionState
from sluiceway.ledger.follower import LogView
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.observe.log import stderr_log
from sluiceway.sinks.contract import DesiredPartition, ParkedPartition, TableSink, TableState
from sluiceway.storage.local import LocalStorage
from tools.followed_catalog import FollowedCatalog
from tools.waiting import wait_for

PATIENCE_S = 60.0


class CountingSink(TableSink):
    """Notes what each call asks for; raises `error` if there is one."""

    def __init__(self, error: SluicewayError | None = None) -> None:
        self.calls: list[list[str]] = []
        self._error = error

    def open(self) -> TableState:
        raise AssertionError

    def mark_ledger(self, state: TableState, ledger: str) -> None:
        raise AssertionError

    def apply(self, partitions: Sequence[DesiredPartition]) -> tuple[ParkedPartition, ...]:
        self.calls.append([partition.values[0] for partition in partitions])
        if self._error is not None:
            raise self._error
        return ()

    def close(self) -> None:
        return


def applier(
    sink: TableSink, check_held: Callable[[], None] = lambda: None
) -> tuple[FollowedCatalog, list[int]]:
    made = FollowedCatalog(sink, check_held)
    return made, made.through


def test_commits_that_bring_no_partition_cost_the_catalog_one_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sluiceway.followers.catalog._LOOK_INTERVAL_S", 3600.0)
    sink = CountingSink()
    made, through = applier(sink)
    for seq in range(1, 50):
        made.want([], seq)
    wait_for(lambda: through[-1:] == [49])
    assert sink.calls == []
    # Before the end the table is looked at once more, and only then.
    assert made.settle(PATIENCE_S)
    made.close()
    assert sink.calls == [[]]


def test_table_that_is_gone_is_noticed_without_another_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sluiceway.followers.catalog._LOOK_INTERVAL_S", 0.5)
    made, through = applier(CountingSink(TableMismatchError("the table was dropped")))
    made.want([], 1)
    wait_for(lambda: through == [1])
    wait_for(lambda: made.failure is not None)
    made.close()
    assert isinstance(made.failure, TableMismatchError)


def test_table_that_is_gone_is_noticed_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluiceway.followers.catalog._LOOK_INTERVAL_S", 3600.0)
    made, _ = applier(CountingSink(TableMismatchError("the table was dropped")))
    made.want([], 1)
    made.settle(PATIENCE_S)
    made.close()
    assert isinstance(made.failure, TableMismatchError)


def test_partition_is_applied_at_once_however_lately_the_table_was_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sluiceway.followers.catalog._LOOK_INTERVAL_S", 3600.0)
    sink = CountingSink()
    made, through = applier(sink)
    made.want([DesiredPartition(("1",), "/t/dt=1")], 2)
    wait_for(lambda: through == [2])
    made.want([DesiredPartition(("2",), "/t/dt=2")], 3)
    wait_for(lambda: through[-1] == 3)
    made.close()
    assert sink.calls == [["1"], ["2"]]


class SlowSink(CountingSink):
    """Takes as long as the test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.called, self.go_on = threading.Event(), threading.Event()

    def apply(self, partitions: Sequence[DesiredPartition]) -> tuple[ParkedPartition, ...]:
        self.called.set()
        assert self.go_on.wait(PATIENCE_S)
        return super().apply(partitions)


def test_end_of_a_run_waits_for_what_the_catalog_is_at_work_on() -> None:
    sink = SlowSink()
    made, _ = applier(sink)
    made.want([DesiredPartition(("1",), "/t/dt=1")], 2)
    assert sink.called.wait(PATIENCE_S)
    with ThreadPoolExecutor(1) as pool:
        settled = pool.submit(made.settle, 0.0)
        with pytest.raises(TimeoutError):
            settled.result(0.2)
        sink.go_on.set()
        assert settled.result(PATIENCE_S)
    made.close()
    assert sink.calls == [["1"]]


def test_end_of_a_run_does_not_wait_for_a_catalog_that_is_down() -> None:
    made, _ = applier(CountingSink(MetastoreUnavailableError("down")))
    made.want([DesiredPartition(("1",), "/t/dt=1")], 2)
    assert not made.settle(0.5)
    made.close()


def test_fenced_driver_asks_the_catalog_for_nothing_and_the_route_ends() -> None:
    def fenced() -> None:
        raise FencedError("term 1 was taken over")

    sink = CountingSink()
    made, through = applier(sink, fenced)
    made.want([DesiredPartition(("1",), "/t/dt=1")], 3)
    wait_for(lambda: made.failure is not None)
    made.close()
    assert isinstance(made.failure, FencedError)
    assert (sink.calls, through) == ([], [])


def test_driver_that_is_fenced_amid_many_partitions_stops_before_the_next_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sluiceway.followers.catalog._MOST_AT_ONCE", 2)
    sink = CountingSink()

    def fenced_later() -> None:
        if sink.calls:
            raise FencedError("term 1 was taken over")

    made, through = applier(sink, fenced_later)
    made.want([DesiredPartition((str(n),), f"/t/dt={n}") for n in range(5)], 3)
    wait_for(lambda: made.failure is not None)
    made.close()
    assert (sink.calls, through) == ([["0", "1"]], [])


def test_what_is_asked_for_while_the_catalog_is_at_work_is_applied_after_it() -> None:
    sink = SlowSink()
    made, through = applier(sink)
    made.want([DesiredPartition(("1",), "/t/dt=1")], 2)
    sink.called.wait(PATIENCE_S)
    # A record without a partition, and one that moves the very partition that is under way.
    made.want([], 3)
    made.want([DesiredPartition(("1",), "/t/_sluiceway-4-x/dt=1")], 5)
    sink.go_on.set()
    wait_for(lambda: through[-1:] == [5])
    made.close()
    assert sink.calls == [["1"], ["1"]]


def test_slot_without_a_partition_is_not_lost_behind_a_slow_catalog() -> None:
    sink = SlowSink()
    made, through = applier(sink)
    made.want([DesiredPartition(("1",), "/t/dt=1")], 2)
    sink.called.wait(PATIENCE_S)
    made.want([], 3)
    sink.go_on.set()
    wait_for(lambda: through[-1:] == [3])
    made.close()


class CompleteSink(CountingSink):
    """Notes each call in order; an hour is announced while the one before is applied."""

    def __init__(self, announce_next: Callable[[], None]) -> None:
        super().__init__()
        self.said: list[str] = []
        self._announce_next = announce_next

    def apply(self, partitions: Sequence[DesiredPartition]) -> tuple[ParkedPartition, ...]:
        self.said += [f"shows {each.values[0]}" for each in partitions]
        if len(self.said) == 1:
            self._announce_next()
        return ()

    def mark_complete(self, until_us: int) -> None:
        self.said.append(f"complete until {until_us}")


def test_hour_is_in_the_catalog_before_the_table_is_said_to_be_complete_until_its_end(
    tmp_path: Path,
) -> None:
    log = LedgerLog(LocalStorage(), LedgerLayout(str(tmp_path), "orders"))
    ninth = DesiredPartition(("09",), "/t/hr=09", announced=True)
    sink = CompleteSink(lambda: made.want([ninth], 2, complete_us=10))
    rule = ReadyRule(WatermarkRule(), (), "UTC", whole_key=True, table_property=True)
    events = stderr_log(level="error")
    made = CatalogFollower(
        sink,
        events,
        lambda _: None,
        MovedPartitions(log, events),
        check_held=lambda: None,
        ready=ReadyEffects(rule, LocalStorage(), sink),
    )
    made.want([DesiredPartition(("08",), "/t/hr=08", announced=True)], 1, complete_us=9)
    made.follow(LogView(log, 1))
    assert sink.said == ["shows 08", "complete until 9"]
    # Its files have no names yet.
    made.follow(LogView(log, 1))
    assert sink.said[2:] == []
    made.follow(LogView(log, 2))
    assert sink.said[2:] == ["shows 09", "complete until 10"]


class FailsAtFirst(CountingSink):
    """The first calls fail."""

    def apply(self, partitions: Sequence[DesiredPartition]) -> tuple[ParkedPartition, ...]:
        super().apply(partitions)
        if len(self.calls) < 3:
            raise MetastoreUnavailableError("no answer")
        return ()


def test_catalog_that_was_away_gets_all_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluiceway.followers.runner.FIRST_PAUSE_S", 0.01)
    sink = FailsAtFirst()
    made, through = applier(sink)
    made.want([DesiredPartition(("1",), "/t/dt=1")], 2)
    wait_for(lambda: bool(through))
    made.close()
    assert through == [2]
    assert sink.calls == [["1"], ["1"], ["1"]]
    assert made.failure is None


def test_partition_that_is_parked_holds_the_place_and_is_asked_for_with_the_next() -> None:
    sink = ParkingSink()
    made, through = applier(sink)
    made.want([DesiredPartition(("1",), "/t/dt=1"), DesiredPartition(("2",), "/t/dt=2")], 2)
    wait_for(lambda: len(sink.calls) == 1)
    made.want([DesiredPartition(("3",), "/t/dt=3")], 3)
    wait_for(lambda: len(sink.calls) == 2)
    assert through == []
    sink.parks = ()
    made.want([DesiredPartition(("4",), "/t/dt=4")], 4)
    wait_for(lambda: through == [4])
    made.close()
    assert [sorted(call) for call in sink.calls] == [["1", "2"], ["1", "3"], ["1", "4"]]


class ParkingSink(CountingSink):
    """Leaves some partitions as they are."""

    parks: tuple[str, ...] = ("1",)

    def apply(self, partitions: Sequence[DesiredPartition]) -> tuple[ParkedPartition, ...]:
        super().apply(partitions)
        return tuple(ParkedPartition((value,), "somebody made it") for value in self.parks)


@pytest.mark.parametrize(
    ("folder", "closed", "seen"),
    [
        ("hr=08", None, False),
        ("hr=08", ClosedPrefix(3), False),
        ("hr=08", ClosedPrefix(3, version=1, ready_seq=9), True),
        # Announced without a row, so it is in the catalog; rows of a replay have come since.
        ("hr=08", ClosedPrefix(3, version=1, ready_seq=4), True),
        # Nobody could know of this one when the hour was announced.
        ("hr=08/app=a", ClosedPrefix(3, version=1, ready_seq=4), False),
        ("hr=08/app=a", ClosedPrefix(3, version=2, ready_seq=9), True),
    ],
)
def test_partition_is_seen_from_its_announcement_on(
    folder: str, closed: ClosedPrefix | None, *, seen: bool
) -> None:
    fold = Fold()
    if closed is not None:
        fold.closed["hr=08"] = closed
    state = PartitionState.begun((folder.rpartition("=")[2],), folder, 6)
    assert is_to_be_shown(fold, state, on_ready=True) is seen
    assert is_to_be_shown(fold, state, on_ready=False)
