"""What is refused, what is repeated, and what each side of a lost room may do afterwards."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.errors import (
    FencedError,
    LedgerMismatchError,
    RequestRefusedError,
    StorageUnavailableError,
)
from sluiceway.ledger.driver_term import DriverTerm, Owner, read_owner
from sluiceway.ledger.generations import read_generations
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.operator_records import ResetRecord
from sluiceway.ledger.records import FenceRecord
from sluiceway.rooms import adopt_table as module
from sluiceway.rooms.adopt_table import (
    adopt_table,
    plan_adopt,
    refuse_changing,
    wait_quiet,
)
from sluiceway.storage.contract import PutResult
from sluiceway.storage.local import LocalStorage
from tools.ledger_records import LEDGER
from tools.lost_room import (
    ORDER,
    Queue,
    RoomB,
    RoomTable,
    adopted,
    dice,
    ends_of,
    lose_a_file,
    room_a,
    rows_up_to,
)


@pytest.fixture(autouse=True)
def nothing_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power is cut here."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def table(tmp_path: Path) -> RoomTable:
    made = room_a(tmp_path / "a", dice(3), epochs=5)
    made.published = True
    made._publish()
    made.run_epoch(0, ends_of(made, more=9))
    return made


@pytest.fixture
def room(table: RoomTable, tmp_path: Path) -> RoomB:
    """A copy whose last slot has lost a file; all else has come."""
    shutil.copytree(table.root, tmp_path / "b")
    made = RoomB(tmp_path / "b")
    lose_a_file(table, made)
    return made


def test_plan_changes_nothing_and_says_all(table: RoomTable, room: RoomB) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in room.root.rglob("*"))
    plan = plan_adopt(room.place(), Queue(ends_of(table)))
    assert plan.cut is not None
    assert (plan.number, plan.kept_slot) == (1, table.fold.next_seq - 2)
    assert (plan.cut.chained, plan.cut.to_place) == (table.fold.next_seq, [])
    assert [path.rpartition("/")[2].split("-")[:3] for path in plan.cut.to_move] == [
        ["orders", str(table.fold.term), str(table.fold.last_epoch)]
    ] * len(plan.cut.to_move)
    assert plan.cut.to_move
    assert [(each.known_end - each.start, each.lost) for each in plan.ranges] == [(9, None)] * 2
    assert sorted((path, path.stat().st_mtime_ns) for path in room.root.rglob("*")) == before


def test_slots_after_a_missing_one_go(table: RoomTable, room: RoomB) -> None:
    last = table.fold.next_seq - 1
    Path(room.place().layout.record(last - 3)).unlink()
    plan = plan_adopt(room.place(), Queue(ends_of(table)))
    assert plan.cut is not None
    assert (plan.kept_slot, plan.cut.chained, plan.cut.slots) == (last - 4, last - 3, 3)


def test_an_earlier_slot_can_be_named_and_no_later_one(table: RoomTable, room: RoomB) -> None:
    source, last = Queue(ends_of(table)), table.fold.next_seq - 1
    assert plan_adopt(room.place(), source, last - 3).kept_slot == last - 3
    with pytest.raises(RequestRefusedError, match=f"slot {last} is missing, or not all files"):
        plan_adopt(room.place(), source, last)


def test_record_owner_and_property_name_the_new_table(table: RoomTable, room: RoomB) -> None:
    room.table.state = replace(room.table.state, ledger=f"{LEDGER}@{table.root}")
    plan = adopted(room, Queue(ends_of(table)))
    place = room.place()
    assert place.state.ledger == f"{LEDGER}@{room.root}"
    assert read_owner(place.storage, place.layout) == Owner(
        LEDGER, "orders", "orders", str(room.root), 1
    )
    log = LedgerLog(place.storage, place.layout)
    found = log.read_slot(plan.kept_slot + 1)
    assert found is not None
    record, body = found[0], found[0].body
    assert isinstance(body, FenceRecord)
    assert body.adopted is not None
    assert (record.term, record.format, body.site, body.table) == (10**6, 3, "b", place.table)
    assert body.adopted.from_table.location == "/w/ods/orders"
    assert (body.adopted.slots, body.adopted.operator) == (1, "ann@host")
    assert body.adopted.confirmed == ("copier_stopped", "room_down")
    assert log.layout.record(record.seq).startswith(f"{room.root}/_sluiceway/orders/log-1/")
    assert log.fold().made_for == place.table


def test_a_copier_that_brings_no_empty_folder_leaves_nothing_amiss(
    table: RoomTable, room: RoomB
) -> None:
    shutil.rmtree(room.root / "_sluiceway/orders/stage")
    adopted(room, Queue(ends_of(table)))
    assert LedgerLog(LocalStorage(), room.place().layout).fold().adoptions


def test_a_second_adopt_finds_it_done(table: RoomTable, room: RoomB) -> None:
    source = Queue(ends_of(table))
    adopted(room, source)
    slots = LedgerLog(LocalStorage(), room.place().layout).fold().next_seq
    plan = plan_adopt(room.place(), source)
    assert (plan.done, plan.number, adopt_table(plan, ORDER, room.table)) == (True, 1, -1)
    assert LedgerLog(LocalStorage(), room.place().layout).fold().next_seq == slots


class DyingStorage(LocalStorage):
    """The process dies before a change of the given number."""

    def __init__(self, dies_at: int) -> None:
        self.changes, self.dies_at = 0, dies_at

    def _count(self) -> None:
        self.changes += 1
        if self.changes == self.dies_at:
            raise StorageUnavailableError("died here")

    def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        self._count()
        return super().put_if_absent(path, content, tmp_folder=tmp_folder)

    def overwrite(self, path: str, content: bytes) -> None:
        self._count()
        super().overwrite(path, content)

    def publish(self, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        self._count()
        super().publish(src, dst, size_bytes=size_bytes, crc32c=crc32c)


def test_an_adopt_that_dies_anywhere_is_run_again(
    table: RoomTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluiceway.ledger.writer._FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr("sluiceway.ledger.writer._LONGEST_PAUSE_S", 0.0)
    monkeypatch.setattr(module, "_PUT_TRIES", 1)
    ends, number = ends_of(table, more=4), 0
    while True:
        number += 1
        root = tmp_path / f"b{number}"
        shutil.copytree(table.root, root)
        room = RoomB(root)
        lose_a_file(table, room)
        dying = DyingStorage(number)
        plan = plan_adopt(replace(room.place(), storage=dying), Queue(ends))
        try:
            adopt_table(plan, ORDER, room.table)
        except StorageUnavailableError:
            again = plan_adopt(room.place(), Queue(ends))
            assert again.done or again.kept_slot == plan.kept_slot
            adopt_table(again, ORDER, room.table)
        driver = room.driver(dice(1))
        driver.run_epoch(0, ends)
        assert driver.rows() == rows_up_to(ends)
        if dying.changes < number:
            break
    assert number > 5


def test_of_two_adopters_one_ends(table: RoomTable, room: RoomB) -> None:
    plan = plan_adopt(room.place(), Queue(ends_of(table)))
    adopted(room, Queue(ends_of(table)))
    with pytest.raises(RequestRefusedError, match="ann@host has claimed generation 1"):
        adopt_table(plan, replace(ORDER, operator="bob@h"), room.table)
    assert len(read_generations(LocalStorage(), room.place().layout)) == 1


def test_offsets_that_the_queue_lacks_are_accepted_or_refused(
    table: RoomTable, room: RoomB
) -> None:
    ends = ends_of(table)
    plan = plan_adopt(room.place(), Queue(ends, starts={0: ends[0] - 4}))
    (gap,) = plan.gaps
    assert (gap.start, gap.lost) == (ends[0] - 9, ends[0] - 4)
    with pytest.raises(RequestRefusedError, match=f"orders.0. from {gap.start} to {gap.lost}"):
        plan.refuse_gaps(accepted=False)
    plan.refuse_gaps(accepted=True)
    slot = adopt_table(plan, ORDER, room.table)
    found = LedgerLog(LocalStorage(), room.place().layout).read_slot(slot + 1)
    assert found is not None
    assert isinstance(found[0].body, ResetRecord)
    driver = room.driver(dice(1))
    driver.run_epoch(0, ends)
    lost = rows_up_to(ends) - driver.rows()
    assert sorted(lost.elements()) == [(0, n) for n in range(ends[0] - 9, ends[0] - 4)]
    assert max(driver.rows().values()) == 1


def test_a_queue_that_ends_before_the_cut_is_refused(table: RoomTable, room: RoomB) -> None:
    ends = {number: end - 12 for number, end in ends_of(table).items()}
    with pytest.raises(RequestRefusedError, match="it was truncated"):
        plan_adopt(room.place(), Queue(ends))


def test_a_copy_that_changes_is_refused(table: RoomTable, room: RoomB) -> None:
    plan = plan_adopt(room.place(), Queue(ends_of(table)))
    pauses: list[float] = []
    wait_quiet(pauses.append)
    assert pauses == [30.0]
    refuse_changing(plan)
    (room.root / "dt=1" / "more").write_text("x")
    with pytest.raises(RequestRefusedError, match="1 files changed within 30 s"):
        refuse_changing(plan)


@pytest.mark.parametrize("denied", [True, None, False])
def test_a_store_that_lets_a_copier_bring_more_is_refused(
    table: RoomTable, room: RoomB, monkeypatch: pytest.MonkeyPatch, *, denied: bool | None
) -> None:
    asked: list[str] = []

    def denies(storage: LocalStorage, folder: str) -> bool | None:
        asked.append(folder)
        return denied

    monkeypatch.setattr(LocalStorage, "denies_copies", denies)
    plan = plan_adopt(room.place(), Queue(ends_of(table)))
    if denied is False:
        with pytest.raises(RequestRefusedError, match="policy lets another room's replication"):
            refuse_changing(plan)
    else:
        refuse_changing(plan)
    assert plan.copies_denied is denied
    assert asked == [str(room.root)] * 2


def test_a_room_does_not_adopt_what_it_wrote_itself(table: RoomTable, room: RoomB) -> None:
    with pytest.raises(RequestRefusedError, match="room a has written this log itself"):
        plan_adopt(room.place(room="a"), Queue(ends_of(table)))


def test_another_jobs_copy_is_refused(table: RoomTable, room: RoomB) -> None:
    place = room.place()
    place.config.route = "other"  # type: ignore[misc]
    with pytest.raises(LedgerMismatchError, match="of job orders, route orders"):
        plan_adopt(place, Queue(ends_of(table)))


def test_failback_is_an_adopt_of_the_other_rooms_table(
    table: RoomTable, room: RoomB, tmp_path: Path
) -> None:
    ends = ends_of(table)
    adopted(room, Queue(ends))
    driver = room.driver(dice(1))
    driver.run_epoch(0, ends)
    shutil.copytree(room.root, tmp_path / "a2")
    back = RoomB(tmp_path / "a2")
    place = replace(back.place(room="a"))
    plan = plan_adopt(place, Queue(ends_of(table, more=5)))
    adopt_table(plan, ORDER, back.table)
    assert (plan.number, [g.room for g in read_generations(place.storage, place.layout)]) == (
        2,
        ["b", "a"],
    )
    driver = back.driver(dice(2))
    assert driver.fold.term == 2_000_001
    driver.run_epoch(0, ends_of(table, more=5))
    assert driver.rows() == rows_up_to(ends_of(table, more=5))


class StillLease:
    """A lease that nothing has replaced."""

    successor = None


@pytest.fixture
def claimed(table: RoomTable, room: RoomB) -> Path:
    """The claim of room b."""
    adopted(room, Queue(ends_of(table)))
    return Path(room.place().layout.generation(1))


def test_a_driver_of_the_lost_room_is_fenced_when_it_sees_the_claim(
    table: RoomTable, claimed: Path
) -> None:
    term = DriverTerm(table.writer, StillLease(), copied=True)  # type: ignore[arg-type]
    term.check_now()
    target = Path(table.writer.log.layout.generation(1))
    target.parent.mkdir()
    shutil.copyfile(claimed, target)
    with pytest.raises(FencedError, match="room b has adopted a copy of this table"):
        term.check_now()
    with pytest.raises(FencedError):
        term.refuse_if_lost()
