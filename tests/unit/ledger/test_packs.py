"""Log folders that become packs, at folders of four slots."""

import errno
import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from sluiceway.errors import (
    FencedError,
    StorageUnavailableError,
)
from sluiceway.ledger import layout as layouts
from sluiceway.ledger import upkeep
from sluiceway.ledger.collect import garbage_of
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.packs import Packs
from sluiceway.storage.contract import FileStatus
from sluiceway.storage.local import LocalStorage
from tools.ledger_records import data, span
from tools.small_log import EVERY, kept_folders, open_log, take_over, tend, whole_fold, write_rows


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "RECORDS_PER_FOLDER", 4)
    monkeypatch.setattr(upkeep, "SNAPSHOT_EVERY", EVERY)


def test_folders_below_the_snapshot_become_packs(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, 9)
    before = [raw for _, raw in log.records()]
    tend(writer)
    assert kept_folders(log) == [f"{2:016d}"]
    pack = gzip.decompress(Path(log.layout.pack(0)).read_bytes())
    assert pack == b"".join(before[:4])
    again = LedgerLog(LocalStorage(), log.layout)
    assert [raw for _, raw in again.records()][: len(before)] == before
    assert [record.seq for record, _ in again.records(3)][:3] == [3, 4, 5]
    assert again.read_slot(2) == next(again.records(2))
    assert whole_fold(again) == writer.fold
    write_rows(take_over(again, "d2"), 3)
    assert again.fold().counts.written == 24


def test_folder_is_not_packed_before_a_snapshot_covers_all_of_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, 4)
    tend(writer)
    # The snapshot is through slot 6: slots 4 to 7 are a folder that it does not cover.
    assert kept_folders(log) == [f"{1:016d}"]


class SyncsSeen(LocalStorage):
    """Notes which folders were synced after they were written."""

    def __init__(self) -> None:
        self.synced: list[str] = []

    def sync_folder(self, folder: str) -> None:
        self.synced.append(folder)
        super().sync_folder(folder)


def test_first_put_into_a_folder_makes_the_record_before_it_durable(tmp_path: Path) -> None:
    """Whoever put the last record of the folder before may have died before its sync."""
    write_rows(take_over(open_log(tmp_path)), 2)
    storage = SyncsSeen()
    log = open_log(tmp_path, storage)
    writer = take_over(log, "d2")
    assert writer.fold.next_seq == 5
    assert storage.synced == [log.layout.log_folder(0)]
    write_rows(writer, 1)
    assert storage.synced == [log.layout.log_folder(0)]


def test_put_makes_the_record_before_it_durable_unless_it_is_its_own(tmp_path: Path) -> None:
    """A power cut may take the one and leave the other, though they are in one folder."""
    take_over(open_log(tmp_path))
    storage = SyncsSeen()
    log = open_log(tmp_path, storage)
    writer = take_over(log, "d2")
    assert writer.fold.next_seq == 2
    assert storage.synced == [log.layout.log_folder(0)]
    write_rows(writer, 1)
    assert storage.synced == [log.layout.log_folder(0)]


class EmptiedBetween(LocalStorage):
    """Another driver packs and empties the next folder just when this one looks at its slot."""

    def __init__(self, pack: str, other: Callable[[], None]) -> None:
        self._pack = pack
        self._other: Callable[[], None] | None = other

    def status(self, path: str) -> FileStatus | None:
        found = super().status(path)
        if path == self._pack and self._other is not None:
            other, self._other = self._other, None
            other()
        return found


def test_pack_is_checked_though_the_folder_behind_it_becomes_a_pack_meanwhile(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path)
    write_rows(take_over(log), 12)
    other = Packs(LocalStorage(), log.layout)
    slow = EmptiedBetween(log.layout.pack(1), lambda: _pack_all(other))
    assert Packs(slow, log.layout).pack_next(12) == 0
    assert kept_folders(log) == [f"{3:016d}"]


def _pack_all(packs: Packs) -> None:
    while packs.pack_next(12) is not None:
        pass


def test_old_driver_at_the_beginning_of_a_folder_is_fenced_though_the_one_before_is_gone(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path)
    old = take_over(log)
    write_rows(old, 2)
    assert old.fold.next_seq == 4
    other = open_log(tmp_path)
    new = take_over(other, "d2")
    write_rows(new, 6)
    tend(new)
    assert not Path(other.layout.log_folder(0)).exists()
    with pytest.raises(FencedError):
        old.commit(data(1, 2, span(0, 4, 6)))


def test_pack_that_cannot_be_read_for_now_is_a_store_that_fails(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, 6)
    tend(writer)

    class Unreadable(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(errno.EIO, "input/output error")

    class Failing(LocalStorage):
        def open_read(self, path: str) -> BinaryIO:
            del path
            return Unreadable()

    with pytest.raises(StorageUnavailableError, match="input/output error"):
        list(LedgerLog(Failing(), log.layout).records())


def test_packs_that_zombies_and_the_dead_have_staged_go_when_their_folder_has_its_pack(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, 6)
    stage = Path(log.layout.stage)
    late = [stage / f"pack-{0:016d}-{'a' * 32}", stage / f"pack-{0:016d}-{'b' * 32}.inprogress"]
    ahead = stage / f"pack-{7:016d}-{'c' * 32}"
    for path in (*late, ahead):
        path.write_bytes(b"half of it")
    assert not garbage_of(log, log.fold()).collect().removed
    tend(writer)
    # A zombie goes on with a folder that was packed and emptied long ago, and dies.
    for path in late:
        path.write_bytes(b"half of it")
    done = garbage_of(log, log.fold()).collect()
    assert [place.path for place in done.removed] == [str(path) for path in late]
    assert [place.path for place in done.kept] == [str(ahead)]
    assert ahead.exists()
    assert not any(path.exists() for path in late)


def test_stray_names_that_only_look_like_numbers_keep_no_driver_from_starting_and_packing(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, 9)
    Path(log.layout.log, "²").touch()
    Path(log.layout.snapshots).mkdir(parents=True, exist_ok=True)
    Path(log.layout.snapshots, "²-1.json").touch()
    tend(writer)
    assert kept_folders(log) == [f"{2:016d}", "²"]
    assert LedgerLog(LocalStorage(), log.layout).fold() == writer.fold
