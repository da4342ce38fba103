"""A copier that goes on after an adopt brings nothing that readers find for long."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sluiceway.errors import FencedError
from sluiceway.followers.desired import desired_partitions
from sluiceway.ledger.follower import LogView
from sluiceway.observe import metrics
from sluiceway.observe.figures import Figures
from sluiceway.observe.log import stderr_log
from sluiceway.rooms import cut_files
from sluiceway.rooms.cut_files import CutFiles
from tools.lost_room import Queue, RoomB, RoomTable, adopted, dice, ends_of, lose_a_file, room_a


class Adopted:
    """A table whose last slot of room a was cut; a driver of room b has read its rows again."""

    def __init__(self, folder: Path) -> None:
        self.a = room_a(folder / "a", dice(3), epochs=5)
        self.a.published = True
        self.a._publish()
        self.a.run_epoch(0, ends_of(self.a, more=40))
        shutil.copytree(self.a.root, folder / "b")
        room = RoomB(folder / "b")
        self.final = lose_a_file(self.a, room)
        adopted(room, Queue(ends_of(self.a)))
        self.b: RoomTable = room.driver(dice(1))
        self.b.run_epoch(0, ends_of(self.a))
        self.rows = self.b.rows()

        self.figures = Figures()

    def follower(self, check: Callable[[], None] = lambda: None) -> CutFiles:
        log = self.b.writer.log
        place = log.storage, log.layout
        made = CutFiles(self.b.fold.adoptions, *place, check, stderr_log(), self.figures)
        made.update(self.b.fold, 0, again=True)
        return made

    def view(self) -> LogView:
        return LogView(self.b.writer.log, self.b.fold.next_seq)

    def copier_brings(self) -> Path:
        target = self.b.root / self.final
        shutil.copyfile(self.a.root / self.final, target)
        return target


@pytest.fixture
def table(tmp_path: Path) -> Adopted:
    return Adopted(tmp_path)


def test_late_file_of_a_cut_slot_is_moved_aside_and_no_other(table: Adopted) -> None:
    late = table.copier_brings()
    assert table.b.rows() != table.rows
    foreign = late.with_name("foreign.parquet")
    foreign.touch()
    follower = table.follower()
    assert follower.follow(table.view()) == follower.place() == table.b.fold.next_seq
    assert table.figures.read().numbers == {metrics.CUT_FILES_MOVED.name: {(): 1}}
    assert not late.exists()
    foreign.unlink()
    assert table.b.rows() == table.rows
    assert (table.b.root / "_sluiceway/orders/cut/1" / table.final).is_file()
    assert 0.0 < (follower.rest_s() or 0.0) <= cut_files.ALL_EVERY_S


def test_folders_of_a_commit_are_listed_each_time(table: Adopted) -> None:
    follower = table.follower()
    follower.follow(table.view())
    late = table.copier_brings()
    follower.update(table.b.fold, table.b.fold.next_seq)
    follower.follow(table.view())
    assert late.exists()
    table.b.run_epoch(0, ends_of(table.a, more=30))
    follower.update(table.b.fold, 0)
    follower.follow(table.view())
    assert not late.exists()


def test_all_folders_are_listed_from_time_to_time(
    table: Adopted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cut_files, "ALL_EVERY_S", 0.0)
    follower = table.follower()
    follower.follow(table.view())
    late = table.copier_brings()
    # Nothing is committed meanwhile.
    assert follower.rest_s() == 0.0
    follower.follow(table.view())
    assert not late.exists()


def test_any_folder_below_the_table_is_known_as_the_ledgers(table: Adopted) -> None:
    desired = desired_partitions(table.b.fold, table.b.writer.log.layout, 0)
    assert {each.moves for each in desired} == {f"{table.b.root}/"}
    before = desired_partitions(table.a.fold, table.a.writer.log.layout, 0)
    assert f"{table.a.root}/" not in {each.moves for each in before}


def test_a_driver_that_was_fenced_moves_nothing(table: Adopted) -> None:
    def fenced() -> None:
        raise FencedError("another one")

    late = table.copier_brings()
    with pytest.raises(FencedError):
        table.follower(fenced).follow(table.view())
    assert late.exists()
