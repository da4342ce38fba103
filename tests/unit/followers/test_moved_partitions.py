"""Folders that partitions have left: removed late, and never at the route's cost."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.errors import FencedError, InvariantError
from sluiceway.followers import moved_partitions
from sluiceway.followers.moved_partitions import READERS_GRACE_S, MovedPartitions, OldFolder
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import (
    RemovedFile,
    ReplaceRecord,
    SwapCounts,
    SwappedPartition,
    SwapRecord,
)
from sluiceway.ledger.records import encode_record
from sluiceway.observe.log import stderr_log
from sluiceway.sinks.contract import DesiredPartition
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from tools.ledger_records import fence, fold_of, record
from tools.reader_lease_files import put_lease

NOW = DesiredPartition(("20261120",), "/t/_sluiceway-3-x/dt=20261120", first="", moves="")


def test_old_folder_stays_when_the_record_that_names_its_files_is_damaged(
    tmp_path: Path, clock: list[float]
) -> None:
    layout = LedgerLayout(str(tmp_path), "orders")
    record = Path(layout.record(3))
    record.parent.mkdir(parents=True)
    record.write_bytes(b"damaged")
    old = tmp_path / "dt=20261120"
    old.mkdir()
    (old / "a.parquet").touch()
    moved = MovedPartitions(LedgerLog(LocalStorage(), layout), stderr_log())
    moved.add([], [OldFolder("dt=20261120", 3, NOW)], 4)
    sink = cast("Any", SimpleNamespace(shown=lambda _: {NOW.values: NOW.location}))
    for _ in range(63):
        clock[0] += 60.0
        assert moved.due(sink, 9) == []
        moved.sweep(sink)
    assert clock[0] > 1000.0 + READERS_GRACE_S
    assert (old / "a.parquet").exists()
    assert moved.pop_removed() == set()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds = [1000.0]
    monkeypatch.setattr(moved_partitions, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    return seconds


def left_folder(root: Path) -> tuple[MovedPartitions, Path]:
    """A partition that has moved, by the record in slot 3, with one file in its old folder."""
    layout = LedgerLayout(str(root), "orders")
    log = LedgerLog(LocalStorage(), layout)
    removed = RemovedFile("a.parquet", BigInt(1), BigInt(0), "00000000")
    body = ReplaceRecord(2, "dt=20261120", 1, "_sluiceway-3-x/dt=20261120", (removed,), ())
    raw = encode_record(record(fold_of(fence()), body, seq=3))
    Path(layout.record(3)).parent.mkdir(parents=True)
    Path(layout.record(3)).write_bytes(raw)
    old = root / "dt=20261120"
    old.mkdir()
    (old / "a.parquet").touch()
    moved = MovedPartitions(log, stderr_log())
    moved.add([], [OldFolder("dt=20261120", 3, NOW)], 4)
    return moved, old / "a.parquet"


def _sink(shown: dict[tuple[str, ...], str] | None) -> Any:
    return SimpleNamespace(shown=lambda _: shown)


def _look(moved: MovedPartitions, sink: Any) -> None:
    moved.due(sink, 9)
    moved.sweep(sink)


@pytest.mark.parametrize(
    "shown",
    [
        {NOW.values: "/t/dt=20261120"},
        {NOW.values: "/t/_sluiceway-2-y/dt=20261120"},
        {},
        None,
    ],
    ids=["the old folder", "a folder of before", "no such partition", "a table that cannot say"],
)
def test_old_folder_stays_while_readers_are_not_sent_to_the_new_one(
    tmp_path: Path, clock: list[float], shown: dict[tuple[str, ...], str] | None
) -> None:
    moved, _ = left_folder(tmp_path)
    for _ in range(130):
        clock[0] += 60.0
        _look(moved, _sink(shown))
    assert (tmp_path / "dt=20261120" / "a.parquet").exists()
    assert moved.pop_removed() == set()
    # And it is from the first look that shows the new one that the grace is counted.
    right = _sink({NOW.values: NOW.location})
    began = clock[0] + 60.0
    while (tmp_path / "dt=20261120").exists():
        clock[0] += 60.0
        _look(moved, right)
    assert clock[0] - began == READERS_GRACE_S
    assert moved.pop_removed() == {"dt=20261120"}
    # That was all that had moved.
    assert moved.pause_s() is None
    moved.sweep(right)
    assert moved.pop_removed() == set()


def test_old_folder_stays_while_a_query_may_have_planned_its_files(
    tmp_path: Path, clock: list[float]
) -> None:
    moved, _ = left_folder(tmp_path)
    log = moved._ledger
    put_lease(log, "fast", 90)
    put_lease(log, "slow", 2)
    right = _sink({NOW.values: NOW.location})

    def looks(count: int) -> bool:
        for _ in range(count):
            clock[0] += 60.0
            _look(moved, right)
        return (tmp_path / "dt=20261120" / "a.parquet").exists()

    # Its files were replaced in slot 3, which the slow query has not passed.
    assert looks(90)
    put_lease(log, "slow", 2, old=True)
    assert not looks(1)


def test_query_that_is_past_the_replacement_keeps_nothing(
    tmp_path: Path, clock: list[float]
) -> None:
    moved, _ = left_folder(tmp_path)
    put_lease(moved._ledger, "fast", 3)
    for _ in range(62):
        clock[0] += 60.0
        _look(moved, _sink({NOW.values: NOW.location}))
    assert not (tmp_path / "dt=20261120").exists()


def test_grace_begins_anew_when_readers_were_sent_back_in_between(
    tmp_path: Path, clock: list[float]
) -> None:
    moved, _ = left_folder(tmp_path)
    right, back = _sink({NOW.values: NOW.location}), _sink({NOW.values: "/t/dt=20261120"})
    looks = [right] * 59 + [back] + [right] * 59
    for sink in looks:
        clock[0] += 60.0
        _look(moved, sink)
    assert clock[0] > 1000.0 + READERS_GRACE_S
    assert (tmp_path / "dt=20261120" / "a.parquet").exists()


def test_partition_that_has_moved_is_compared_again_for_a_day_and_no_other(
    tmp_path: Path, clock: list[float]
) -> None:
    layout = LedgerLayout(str(tmp_path), "orders")
    moved = MovedPartitions(LedgerLog(LocalStorage(), layout), stderr_log())
    assert moved.pause_s() is None
    gone = replace(NOW, first="/t/dt=20261120")
    never = DesiredPartition(("20261121",), "/t/dt=20261121")
    moved.add([gone, never], [], 4)
    assert moved.due(_sink({}), 9) == []
    assert moved.pause_s() == 60.0
    for _ in range(24 * 60 - 1):
        clock[0] += 60.0
        assert moved.due(_sink({}), 9) == [gone]
    # The last call of a driver that has died has landed by then, or never will.
    for _ in range(3):
        clock[0] += 60.0
        moved.due(_sink({}), 9)
    assert moved.due(_sink({}), 9) == []
    assert moved.pause_s() is None


def test_folder_that_is_left_again_waits_anew(tmp_path: Path, clock: list[float]) -> None:
    moved, _ = left_folder(tmp_path)
    for _ in range(50):
        clock[0] += 60.0
        _look(moved, _sink({NOW.values: NOW.location}))
    later = replace(NOW, location="/t/_sluiceway-9-z/dt=20261120")
    moved.add([], [OldFolder("dt=20261120", 3, later)], 4)
    for _ in range(60):
        clock[0] += 60.0
        moved.add([], [OldFolder("dt=20261120", 3, later)], 4)
        _look(moved, _sink({NOW.values: later.location}))
    assert (tmp_path / "dt=20261120" / "a.parquet").exists()
    clock[0] += 60.0
    _look(moved, _sink({NOW.values: later.location}))
    assert not (tmp_path / "dt=20261120").exists()


def test_file_that_no_record_names_keeps_its_folder(tmp_path: Path, clock: list[float]) -> None:
    moved, _ = left_folder(tmp_path)
    old = tmp_path / "dt=20261120"
    (old / "somebody-elses.parquet").touch()
    (old / "_SUCCESS").touch()
    for _ in range(62):
        clock[0] += 60.0
        _look(moved, _sink({NOW.values: NOW.location}))
    assert [path.name for path in old.iterdir()] == ["somebody-elses.parquet"]
    assert moved.pop_removed() == {"dt=20261120"}
    assert moved.pop_removed() == set()


def test_driver_that_stood_still_waits_for_readers_anew() -> None:
    waiting = moved_partitions._Waiting(OldFolder("dt=20261120", 3, NOW), 4)
    assert [waiting.shown(float(at)) for at in (0, 60, 120, 240)] == [0.0, 60.0, 120.0, 240.0]
    # Three minutes are no more than two looks that were missed.
    assert waiting.shown(420.0) == 420.0
    # Whoever has replaced it meanwhile may have sent readers back to the old folder.
    assert [waiting.shown(float(at)) for at in (4_000, 4_060)] == [0.0, 60.0]


class Rival:
    """A metastore in which another driver moves the partition back between any two looks."""

    def __init__(self) -> None:
        self.location = "/t/dt=20261120"

    def shown(self, partitions: object) -> dict[tuple[str, ...], str]:
        del partitions
        return {NOW.values: self.location}


def test_folder_that_a_swap_has_left_goes_with_its_files_or_without_any(
    tmp_path: Path, clock: list[float]
) -> None:
    removed = RemovedFile("a.parquet", BigInt(1), BigInt(0), "00000000")
    for name, files in (("full", (removed,)), ("empty", ())):
        root = tmp_path / name
        layout = LedgerLayout(str(root), "orders")
        folder = "_sluiceway-3-x/dt=20261120"
        place = SwappedPartition("dt=20261120", ("20261120",), 1, folder, files)
        nothing = SwapCounts(BigInt(0), BigInt(0))
        body = SwapRecord(2, "dt=20261120", nothing, BigInt(0), BigInt(0), (place,))
        Path(layout.record(3)).parent.mkdir(parents=True)
        made = replace(record(fold_of(fence()), body), seq=3)
        Path(layout.record(3)).write_bytes(encode_record(made))
        (old := root / "dt=20261120").mkdir()
        for each in files:
            (old / each.name).touch()
        moved = MovedPartitions(LedgerLog(LocalStorage(), layout), stderr_log())
        moved.add([], [OldFolder("dt=20261120", 3, NOW)], 4)
        (rival := Rival()).location = NOW.location
        assert pass_an_hour(moved, rival, clock) == 0
        assert moved.pop_removed() == {"dt=20261120"}
        assert not old.exists()


def pass_an_hour(moved: MovedPartitions, rival: Rival, clock: list[float]) -> int:
    """Looks of a little more than the readers' grace; how often something was put right."""
    repaired = 0
    for _ in range(63):
        clock[0] += 60.0
        again = moved.due(cast("Any", rival), 9)
        repaired += len(again)
        moved.sweep(cast("Any", rival))
    return repaired


def test_old_folder_goes_when_each_look_for_an_hour_has_found_the_new_one(
    tmp_path: Path, clock: list[float]
) -> None:
    moved, file = left_folder(tmp_path)
    rival = Rival()
    rival.location = NOW.location
    assert pass_an_hour(moved, rival, clock) == 0
    assert not file.exists()
    assert moved.pop_removed() == {"dt=20261120"}
    # Nobody has to look after it any more.
    assert moved.pause_s() is None


def test_old_folder_stays_while_another_driver_sends_readers_there_again_and_again(
    tmp_path: Path, clock: list[float]
) -> None:
    # What this driver puts right each time is no sign that readers have left the folder.
    moved, file = left_folder(tmp_path)
    assert pass_an_hour(moved, Rival(), clock) == 63
    assert file.exists()


def test_fenced_driver_removes_no_old_folder(tmp_path: Path, clock: list[float]) -> None:
    moved, file = left_folder(tmp_path)
    rival = Rival()
    rival.location = NOW.location

    def fenced() -> None:
        raise FencedError("term 1 was taken over")

    moved._ledger.check_held = fenced
    with pytest.raises(FencedError):
        pass_an_hour(moved, rival, clock)
    assert file.exists()


def test_hour_begins_anew_when_one_look_finds_readers_sent_back(
    tmp_path: Path, clock: list[float]
) -> None:
    moved, file = left_folder(tmp_path)
    rival = Rival()
    old, rival.location = rival.location, NOW.location
    for number in range(100):
        clock[0] += 60.0
        rival.location = old if number == 50 else NOW.location
        assert len(moved.due(cast("Any", rival), 9)) == (number == 50)
        moved.sweep(cast("Any", rival))
    assert file.exists()
    assert pass_an_hour(moved, rival, clock) == 0
    assert not file.exists()


def test_hour_begins_anew_when_what_is_applied_between_two_looks_was_sent_back(
    tmp_path: Path, clock: list[float]
) -> None:
    moved, file = left_folder(tmp_path)
    rival = Rival()
    old, rival.location = rival.location, NOW.location
    for number in range(100):
        clock[0] += 60.0
        assert moved.due(cast("Any", rival), 9) == []
        moved.sweep(cast("Any", rival))
        if number == 50:
            clock[0] += 1.0
            rival.location = old
            # The route itself has something to tell of this partition, and puts it right.
            assert moved.due(cast("Any", rival), 9, [NOW.values]) == []
            rival.location = NOW.location
    assert file.exists()
    assert pass_an_hour(moved, rival, clock) == 0
    assert not file.exists()


def test_what_is_applied_between_two_looks_and_is_shown_leaves_the_hour_as_it_is(
    tmp_path: Path, clock: list[float]
) -> None:
    moved, file = left_folder(tmp_path)
    rival = Rival()
    rival.location = NOW.location
    for _ in range(60):
        clock[0] += 59.0
        assert moved.due(cast("Any", rival), 9, [NOW.values]) == []
        clock[0] += 1.0
        assert moved.due(cast("Any", rival), 9) == []
        assert file.exists()
        moved.sweep(cast("Any", rival))
    clock[0] += 60.0
    assert moved.due(cast("Any", rival), 9) == []
    moved.sweep(cast("Any", rival))
    assert not file.exists()


def test_what_is_applied_elsewhere_between_two_looks_asks_for_no_place_that_was_left(
    tmp_path: Path, clock: list[float]
) -> None:
    moved, _ = left_folder(tmp_path)
    asked: list[object] = []

    def shown(wanted: object) -> dict[tuple[str, ...], str]:
        asked.append(wanted)
        return {}

    sink = cast("Any", SimpleNamespace(shown=shown))
    clock[0] += 60.0
    moved.due(sink, 9)
    assert len(asked) == 1
    clock[0] += 1.0
    moved.due(sink, 9, [("20261121",)])
    assert len(asked) == 1


def test_place_whose_files_have_no_name_yet_is_not_looked_at(
    tmp_path: Path, clock: list[float]
) -> None:
    moved, _ = left_folder(tmp_path)
    back = replace(NOW, location="/t/_sluiceway-9-z/dt=20261120", first="/t/dt=20261120")
    moved.add([back], [OldFolder("dt=20261120", 3, back)], 10)
    readers = _sink({NOW.values: NOW.location})
    clock[0] += 60.0
    assert moved.due(readers, 9) == []
    clock[0] += 60.0
    assert moved.due(readers, 10) == [back]


def test_place_that_stays_is_looked_at_while_others_are_committed(
    tmp_path: Path, clock: list[float]
) -> None:
    moved, _ = left_folder(tmp_path)
    readers = _sink({NOW.values: "/t/dt=20261120"})
    for through in range(5, 15):
        moved.add([], [OldFolder("dt=20261120", 3, NOW)], through)
        clock[0] += 60.0
        assert moved.due(readers, through - 1) == [NOW]


@pytest.mark.parametrize("location", [NOW.location, "/t/dt=20261120"], ids=["new", "old"])
def test_folder_of_an_expired_partition_stays_while_readers_are_sent_anywhere(
    tmp_path: Path, clock: list[float], location: str
) -> None:
    moved, file = left_folder(tmp_path)
    gone = replace(NOW, exists=False)
    moved.add([], [OldFolder("dt=20261120", 3, gone)], 4)
    rival = Rival()
    rival.location = location
    assert pass_an_hour(moved, rival, clock) == 63
    assert file.exists()
    for _ in range(62):
        clock[0] += 60.0
        _look(moved, _sink({}))
    assert not file.exists()


def test_look_that_comes_late_is_a_look(tmp_path: Path, clock: list[float]) -> None:
    moved, file = left_folder(tmp_path)
    for _ in range(60):
        clock[0] += 61.5
        assert moved.pause_s() == 0.0
        _look(moved, _sink({NOW.values: NOW.location}))
    assert not file.exists()


def test_partition_that_has_moved_and_is_shown_there_is_not_told_of(
    tmp_path: Path, clock: list[float]
) -> None:
    moved, _ = left_folder(tmp_path)
    now = replace(NOW, first="/t/dt=20261120")
    moved.add([now], [], 4)
    clock[0] += 60.0
    assert moved.due(_sink({NOW.values: NOW.location}), 4) == []
    clock[0] += 60.0
    assert [each.values for each in moved.due(_sink({}), 4)] == [now.values]


def test_partition_without_an_old_folder_is_compared_once_its_files_have_their_names(
    tmp_path: Path, clock: list[float]
) -> None:
    moved = MovedPartitions(
        LedgerLog(LocalStorage(), LedgerLayout(str(tmp_path), "orders")), stderr_log()
    )
    now = replace(NOW, first="/t/dt=20261120")
    moved.add([now], [], 4)
    # No folder waits for readers to leave it, so the catalog is not asked where they are sent.
    nobody = cast("Any", SimpleNamespace())
    clock[0] += 60.0
    assert moved.due(nobody, 3) == []
    clock[0] += 60.0
    assert moved.due(nobody, 4) == [now]


def test_old_folder_that_was_announced_goes_whole(tmp_path: Path, clock: list[float]) -> None:
    moved, file = left_folder(tmp_path)
    (file.parent / "_SUCCESS").touch()
    rival = Rival()
    rival.location = NOW.location
    pass_an_hour(moved, rival, clock)
    assert not file.parent.exists()


def test_folder_whose_record_is_gone_stays_and_the_route_is_told(
    tmp_path: Path, clock: list[float]
) -> None:
    moved, file = left_folder(tmp_path)
    Path(LedgerLayout(str(tmp_path), "orders").record(3)).unlink()
    rival = Rival()
    rival.location = NOW.location
    with pytest.raises(InvariantError, match="slot 3 names no files of dt=20261120"):
        pass_an_hour(moved, rival, clock)
    assert file.exists()


def test_folder_to_which_readers_were_sent_back_after_the_turns_look_stays(
    tmp_path: Path, clock: list[float]
) -> None:
    moved, file = left_folder(tmp_path)
    right = _sink({NOW.values: NOW.location})
    for _ in range(60):
        clock[0] += 60.0
        _look(moved, right)
    # The hour is over at this look. A call of a replaced driver lands behind it.
    clock[0] += 60.0
    assert moved.due(right, 9) == []
    moved.sweep(_sink({NOW.values: "/t/dt=20261120"}))
    assert file.exists()
    # Readers are sent on at once, and the hour begins anew.
    assert moved.pause_s() == 0.0
    assert moved.due(_sink({NOW.values: "/t/dt=20261120"}), 9) == [NOW]
    for _ in range(60):
        clock[0] += 60.0
        _look(moved, right)
    assert file.exists()
    clock[0] += 60.0
    _look(moved, right)
    assert not file.exists()


def test_hour_begins_anew_where_others_put_right_between_two_looks_what_the_last_one_found(
    tmp_path: Path, clock: list[float]
) -> None:
    moved, file = left_folder(tmp_path)
    right = _sink({NOW.values: NOW.location})
    for _ in range(61):
        clock[0] += 60.0
        assert moved.due(right, 9) == []
    moved.sweep(_sink({NOW.values: "/t/dt=20261120"}))
    for _ in range(60):
        _look(moved, right)
        clock[0] += 60.0
    assert file.exists()
    _look(moved, right)
    assert not file.exists()


def _moves_on(moved: MovedPartitions, shown: dict[tuple[str, ...], str]) -> Any:
    """While it is asked, an epoch gives the partition another place, by a record below slot 9."""
    after = replace(NOW, location="/t/_sluiceway-7-y/dt=20261120")

    def ask(_: object) -> dict[tuple[str, ...], str]:
        moved.add([], [OldFolder("dt=20261120", 3, after)], 9)
        return shown

    return SimpleNamespace(shown=ask)


def test_partition_that_moves_on_during_a_look_is_not_shown_before_its_files_have_their_names(
    tmp_path: Path, clock: list[float]
) -> None:
    moved, _ = left_folder(tmp_path)
    clock[0] += 60.0
    assert moved.due(_moves_on(moved, {}), 8) == [NOW]
    clock[0] += 60.0
    assert moved.due(_sink({}), 8) == []
    clock[0] += 60.0
    assert [each.location for each in moved.due(_sink({}), 9)] == ["/t/_sluiceway-7-y/dt=20261120"]


def test_look_at_the_place_before_does_not_begin_the_readers_hour_of_the_next(
    tmp_path: Path, clock: list[float]
) -> None:
    moved, file = left_folder(tmp_path)
    clock[0] += 60.0
    assert moved.due(_moves_on(moved, {NOW.values: NOW.location}), 8) == []
    after = _sink({NOW.values: "/t/_sluiceway-7-y/dt=20261120"})
    for _ in range(60):
        clock[0] += 60.0
        _look(moved, after)
    assert file.exists()
    clock[0] += 60.0
    _look(moved, after)
    assert not file.exists()
