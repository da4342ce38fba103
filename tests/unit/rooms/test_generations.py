"""Logs of several generations: where a slot is, packs with cut slots, claims that are damaged."""

import os
import shutil
from pathlib import Path

import pytest

from sluiceway.errors import InvariantError, LedgerCorruptError
from sluiceway.ledger import layout as layouts
from sluiceway.ledger.generations import read_generations
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import DataRecord
from sluiceway.rooms.adopt_table import adopt_table, plan_adopt
from sluiceway.storage.local import LocalStorage
from tools.lost_room import ORDER, Queue, RoomB, RoomTable, adopted, dice, ends_of, room_a
from tools.lost_room import rows_up_to as whole


@pytest.fixture(autouse=True)
def nothing_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power is cut here."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def test_the_newest_generation_that_has_a_slot_is_read() -> None:
    layout = LedgerLayout("/t", "orders", (10, 5))
    assert [layout.generation_of(seq) for seq in (0, 5, 6, 11)] == [0, 0, 2, 2]
    layout = LedgerLayout("/t", "orders", (5, 10))
    assert [layout.generation_of(seq) for seq in (5, 6, 10, 11)] == [0, 1, 1, 2]
    folder = "0000000000000000"
    assert layout.record(6) == f"/t/_sluiceway/orders/log-1/{folder}/{6:020d}.json"
    assert (
        LedgerLayout("/t", "orders").record(6) == f"/t/_sluiceway/orders/log/{folder}/{6:020d}.json"
    )


def pack_all(table: RoomTable) -> int:
    """Take a SNAPSHOT, and pack all whole folders below it; their number."""
    table.snapshot()
    packed, log = 0, table.writer.log
    while log.packs.pack_next(table.fold.snapshot_through) is not None:
        packed += 1
    return packed


def test_slots_of_a_pack_that_is_cut_are_slots_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layouts, "RECORDS_PER_FOLDER", 4)
    a = room_a(tmp_path / "a", dice(3), epochs=4)
    a.published = True
    a._publish()
    for _ in range(6):
        a.run_epoch(0, ends_of(a, more=10))
    assert pack_all(a) >= 2
    shutil.copytree(a.root, tmp_path / "b")
    room = RoomB(tmp_path / "b")
    packed = [r for r, _ in a.writer.log.records() if isinstance(r.body, DataRecord)]
    lacks = next(r for r in packed if r.seq % 4 == 2 and r.seq > 5)
    assert isinstance(lacks.body, DataRecord)
    (room.root / lacks.body.files[0].final).unlink()
    assert a.writer.log.packs.covers(lacks.seq)
    plan = plan_adopt(room.place(), Queue(ends_of(a)))
    assert plan.kept_slot == lacks.seq - 1
    adopt_table(plan, ORDER, room.table)
    driver = room.driver(dice(1))
    for _ in range(6):
        driver.run_epoch(12)
    driver.run_epoch(0, ends_of(a))
    assert driver.rows() == whole(ends_of(a))
    assert pack_all(driver) >= 2
    log = LedgerLog(LocalStorage(), LedgerLayout(str(room.root), "orders"))
    assert [record.seq for record, _ in log.records()] == list(range(driver.fold.next_seq))
    assert log.fold().head == driver.fold.head
    assert (room.root / "_sluiceway/orders/pack-1").is_dir()


def test_a_term_is_never_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a = room_a(tmp_path / "a", dice(3), epochs=3)
    shutil.copytree(a.root, tmp_path / "b")
    monkeypatch.setattr("sluiceway.ledger.writer.TERMS", a.fold.term + 1)
    with pytest.raises(InvariantError, match="I3 does not hold"):
        adopted(RoomB(tmp_path / "b"), Queue(ends_of(a)))


@pytest.mark.parametrize("content", [b"", b"{}", b'{"number": 2}'])
def test_a_damaged_claim_halts_all_who_read(tmp_path: Path, content: bytes) -> None:
    layout = LedgerLayout(str(tmp_path), "orders")
    path = Path(layout.generation(1))
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(LedgerCorruptError, match="no claim of a generation"):
        read_generations(LocalStorage(), layout)
    with pytest.raises(LedgerCorruptError):
        LedgerLog(LocalStorage(), layout).fold()
