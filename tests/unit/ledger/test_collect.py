"""Garbage collection on a real folder."""

import os
from pathlib import Path
from uuid import uuid4

import pytest

from sluiceway.errors import LedgerCorruptError, StorageUnavailableError
from sluiceway.ledger.collect import find_epoch, garbage_of
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.lease import Lease, LeaseKeeper, read_lease
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import Body, DataRecord, encode_record
from sluiceway.storage.local import LocalStorage
from tools.ledger_records import data, fence, record, sources, span, with_late


class Room:
    """A route's folder with a log, and what one needs to fill its stage."""

    def __init__(self, root: Path) -> None:
        self.layout = LedgerLayout(str(root), "orders")
        self.storage = LocalStorage()
        self.log = LedgerLog(self.storage, self.layout)
        self.fold = Fold()
        self.stage = Path(self.layout.stage)
        self.stage.mkdir(parents=True)

    def land(self, *bodies: Body) -> None:
        for body in bodies:
            made = record(self.fold, body)
            raw = encode_record(made)
            self.fold.apply(made, raw)
            path = Path(self.layout.record(made.seq))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(raw)

    def land_data(self, *epochs: int) -> DataRecord:
        for epoch in epochs:
            end = self.fold.sources["orders", 0].end
            made = data(self.fold.term, epoch, span(0, end, end + 1))
            self.land(made)
        return made

    def put_stage(self, name: str, size_bytes: int = 3) -> Path:
        path = self.stage / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size_bytes)
        return path

    def put_final(self, made: DataRecord) -> None:
        for file in made.files:
            path = Path(self.layout.final(file.final))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x" * int(file.size_bytes))

    def left(self) -> set[str]:
        return {
            str(path.relative_to(self.stage)) for path in self.stage.rglob("*") if path.is_file()
        }


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def _attempt(term: int, epoch: int) -> str:
    return f"{term}-{epoch}-{uuid4().hex}/f.parquet"


def _tmp(name: str) -> str:
    return f"{name}.{uuid4().hex}.tmp"


def test_advice_that_killed_drivers_have_half_written_goes_and_advice_stays(room: Room) -> None:
    room.land(fence())
    root = Path(room.layout.root)
    names = ("lease.json", "status.json", "hint.json", "late-table.json", "told-kafka.json")
    (root / "readers").mkdir()
    advice = [root / name for name in (*names, "told-lake-names.json", "readers/my-query.1.json")]
    half = [path.with_name(_tmp(f".{path.name}")) for path in advice]
    foreign = [root / ".lease.json.tmp", root / _tmp(".notes.json"), root / _tmp("lease.json")]
    foreign.append(root / _tmp("readers/q.json"))
    for path in (*advice, *half, *foreign):
        path.write_bytes(b"{}")
    done = garbage_of(room.log, room.fold).collect()
    assert {place.path for place in done.removed} == {str(path) for path in half}
    assert all(path.exists() for path in (*advice, *foreign))
    assert not any(path.exists() for path in half)


def test_clocks_that_killed_commands_have_left_go_and_what_is_like_them_stays(room: Room) -> None:
    room.land(fence())
    clock = f"clock-{uuid4().hex}"
    gone, stays = {clock, _tmp(f".{clock}")}, {"clock-1", f"{clock}.json", _tmp(clock)}
    for name in (*gone, *stays):
        room.put_stage(name)
    done = garbage_of(room.log, room.fold).collect()
    assert {Path(place.path).name for place in done.removed} == gone
    assert room.left() == stays


def test_driver_whose_half_written_lease_is_collected_goes_on_renewing(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.land(fence())
    lease = Lease(
        "d1", term=1, counter=0, released=False, host="h", boot_id="b", pid=1, start_ticks=1
    )
    keeper = LeaseKeeper(room.storage, room.layout.lease, lease)
    rename = Path.rename

    def rename_late(half: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "rename", rename)
        assert len(garbage_of(room.log, room.fold).collect().removed) == 1
        return rename(half, target)

    monkeypatch.setattr(Path, "rename", rename_late)
    assert keeper.renew() is not None
    assert read_lease(room.storage, room.layout.lease) is None
    assert keeper.renew() is not None
    assert read_lease(room.storage, room.layout.lease) is not None


def test_leftovers_of_earlier_terms_and_epochs_go_and_those_of_the_running_one_stay(
    room: Room,
) -> None:
    room.land(fence(), sources(0))
    room.land_data(0, 3)
    room.land(fence())
    room.land_data(2)
    gone = [
        _attempt(1, 9),
        _attempt(2, 0),
        "results/1-9/0.json",
        "results/2-2/stop",
        _tmp(f"{4:020d}.json"),
        _tmp("OWNER"),
        f"probe-1-{uuid4().hex}/slot",
    ]
    stays = [
        _attempt(2, 3),
        _attempt(3, 0),
        "results/2-3/0.json",
        _tmp(f"{6:020d}.json"),
        f"probe-2-{uuid4().hex}/slot",
        _tmp("0.json"),
        "notes.txt",
    ]
    for name in (*gone, *stays):
        room.put_stage(name)
    dry = garbage_of(room.log, room.fold).collect(dry_run=True)
    assert room.left() == {*gone, *stays}
    done = garbage_of(room.log, room.fold).collect()
    assert room.left() == set(stays)
    assert dry == done
    assert (len(done.removed), done.size_bytes, done.unseen) == (7, 21, 0)
    reasons = {Path(place.path).name.partition("-")[0]: place.reason for place in done.removed}
    assert reasons["1"] == "slot 4 fences term 2"
    assert reasons["2"] == "slot 5 holds epoch 2 of term 2"


def test_folder_that_a_record_names_stays_until_its_files_are_at_their_final_names(
    room: Room,
) -> None:
    room.land(fence(), sources(0))
    made = room.land_data(0)
    room.land(fence())
    (file,) = made.files
    room.put_stage(file.staged, int(file.size_bytes))
    (place,) = garbage_of(room.log, room.fold).collect().kept
    assert place.reason == "slot 2 names it; 1 of 1 files are not at their final names"
    assert room.left() == {file.staged}
    room.put_final(made)
    (place,) = garbage_of(room.log, room.fold).collect().removed
    assert place.reason.startswith("slot 2 names it; all 1 files are at their final names")
    assert room.left() == set()


def test_folder_stays_until_its_late_files_are_at_their_final_names_too(room: Room) -> None:
    room.land(fence(), sources(0))
    made = with_late(data(1, 0, span(0, 0, 3)), 1)
    room.land(made)
    (aside,) = made.late_files
    staged = [room.put_stage(file.staged, 10) for file in (*made.files, aside)]
    room.land_data(1)
    room.put_final(made)

    garbage_of(room.log, room.fold).collect()

    assert all(path.exists() for path in staged)
    final = Path(room.layout.final(aside.final))
    final.parent.mkdir(parents=True)
    final.write_bytes(b"x" * int(aside.size_bytes))

    garbage_of(room.log, room.fold).collect()

    assert not any(path.exists() for path in staged)
    assert final.exists()


def test_final_name_of_another_size_does_not_count(room: Room) -> None:
    room.land(fence(), sources(0))
    made = room.land_data(0)
    (file,) = made.files
    room.put_stage(file.staged)
    room.put_final(made)
    os.truncate(room.layout.final(file.final), 1)
    assert garbage_of(room.log, room.fold).collect().removed == ()


def test_final_folder_is_synced_before_the_staged_name_goes(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.land(fence(), sources(0))
    made = room.land_data(0)
    (file,) = made.files
    room.put_stage(file.staged)
    room.put_final(made)
    seen = []
    sync = LocalStorage.sync_folder

    def synced(storage: LocalStorage, folder: str) -> None:
        seen.append((folder, room.left() == {file.staged}))
        sync(storage, folder)

    monkeypatch.setattr(LocalStorage, "sync_folder", synced)
    garbage_of(room.log, room.fold).collect()
    assert seen == [(str(Path(room.layout.final(file.final)).parent), True)]
    assert room.left() == set()


def test_folder_of_a_ledger_without_a_fence_is_left_alone(room: Room) -> None:
    name = _attempt(1, 0)
    room.put_stage(name)
    done = garbage_of(room.log, room.fold).collect()
    assert (done.removed, done.kept) == ((), ())
    assert room.left() == {name}


def test_old_fold_removes_less_and_nothing_wrong(room: Room) -> None:
    room.land(fence(), sources(0))
    room.land_data(0)
    collector = garbage_of(room.log, room.fold)
    old, new = _attempt(1, 0), _attempt(1, 1)
    made = room.land_data(1)
    names = [old, new, made.files[0].staged]
    for name in names:
        room.put_stage(name)
    collector.collect()
    assert room.left() == {new, made.files[0].staged}


def test_pass_is_bounded_and_the_next_one_goes_on(room: Room) -> None:
    room.land(fence(), sources(0), fence())
    for number in range(5):
        room.put_stage(_attempt(1, number))
    done = garbage_of(room.log, room.fold).collect(most=2)
    assert (len(done.removed), done.unseen) == (2, 3)
    assert len(room.left()) == 3


def test_bounded_pass_is_not_filled_by_what_has_to_stay(room: Room) -> None:
    room.land(fence(), sources(0), fence())
    stays = {_attempt(3, number) for number in range(4)} | {"0-notes"}
    gone = "results/1-5/0.json"
    for name in (*stays, gone):
        room.put_stage(name)
    done = garbage_of(room.log, room.fold).collect(most=2)
    assert [Path(place.path).name for place in done.removed] == ["1-5"]
    assert room.left() == stays


def test_pass_that_is_told_to_stop_leaves_the_rest(room: Room) -> None:
    room.land(fence(), sources(0), fence())
    for number in range(3):
        room.put_stage(_attempt(1, number))
    answers = iter([False, True, True])
    done = garbage_of(room.log, room.fold).collect(stopped=lambda: next(answers))
    assert (len(done.removed), done.unseen, len(room.left())) == (1, 2, 2)


def test_place_that_cannot_be_removed_is_told_and_the_others_go(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.land(fence(), sources(0), fence())
    stubborn, other = sorted([_attempt(1, 0), _attempt(1, 1)])
    room.put_stage(stubborn)
    room.put_stage(other)
    remove = LocalStorage.remove

    def fails(storage: LocalStorage, path: str) -> None:
        if path.endswith(stubborn.partition("/")[0]):
            raise StorageUnavailableError("busy")
        remove(storage, path)

    monkeypatch.setattr(LocalStorage, "remove", fails)
    done = garbage_of(room.log, room.fold).collect()
    assert [why for _, why in done.failed] == ["busy"]
    assert room.left() == {stubborn}


def test_log_that_lost_a_slot_meanwhile_removes_nothing(room: Room) -> None:
    room.land(fence(), sources(0))
    room.land_data(0)
    name = _attempt(1, 0)
    room.put_stage(name)
    for seq in range(3):
        Path(room.layout.record(seq)).unlink()
    with pytest.raises(LedgerCorruptError):
        garbage_of(room.log, room.fold).collect()
    assert room.left() == {name}


def test_record_of_an_epoch_is_found_by_bisection_wherever_it_stands(room: Room) -> None:
    room.land(fence(), sources(0), sources(1), sources(2))
    room.land_data(0, 1, 5)
    room.land(sources(3), sources(4))
    room.land_data(6)
    room.land(fence(), fence(), sources(5))
    room.land_data(0, 2)
    room.land(fence())
    records = list(room.log.records())
    wanted = {
        (each.term, each.body.epoch): each.seq
        for each, _ in records
        if isinstance(each.body, DataRecord)
    }
    assert len(wanted) == 6
    for term in range(1, 5):
        for epoch in range(8):
            found = find_epoch(room.log, room.fold.next_seq, (term, epoch))
            assert (found and found.seq) == wanted.get((term, epoch))


def test_reserve_that_was_never_finished_goes_and_the_reserve_stays(room: Room) -> None:
    room.land(fence())
    room.put_stage(f".{_tmp('reserve')}")
    room.put_stage(f".{_tmp('other')}")
    room.put_stage("reserve")
    done = garbage_of(room.log, room.fold).collect()
    assert len(done.removed) == 1
    assert {name for name in room.left() if ".reserve." in name} == set()
    assert len(room.left()) == 2


def test_links_under_stage_are_neither_followed_nor_in_the_way(room: Room, tmp_path: Path) -> None:
    room.land(fence(), sources(0))
    room.land_data(0)
    room.land(fence(driver="d2"))
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("a", "b"):
        (outside / name).write_bytes(b"12345")
    (room.stage / "round").symlink_to("round")
    (room.stage / "foreign").symlink_to(outside)
    attempt = Path(room.put_stage(_attempt(1, 0))).parent
    (attempt / "up").symlink_to("..")
    link = room.stage / Path(_attempt(1, 0)).parent
    link.symlink_to(outside)
    done = garbage_of(room.log, room.fold).collect()
    assert done.failed == ()
    assert {Path(place.path) for place in done.removed} == {attempt, link}
    assert [(Path(p.path).name, p.files) for p in done.kept] == [("foreign", 1)]
    assert {path.name for path in outside.iterdir()} == {"a", "b"}
