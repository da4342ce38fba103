"""SNAPSHOT records and packs, at folders of four slots."""

import errno
import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluiceway.errors import (
    FencedError,
    InvariantError,
    LedgerCorruptError,
    StorageUnavailableError,
)
from sluiceway.ledger import kept_partitions, snapshot, upkeep
from sluiceway.ledger import layout as layouts
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import RecordType, SnapshotRecord
from sluiceway.ledger.upkeep import LogUpkeep
from sluiceway.observe.log import stderr_log
from sluiceway.storage import local
from sluiceway.storage.contract import PutResult
from sluiceway.storage.local import LocalStorage
from sluiceway.upkeep.housekeeping import keep_log_short
from tools.ledger_records import data, sources, span
from tools.small_log import EVERY, kept_folders, open_log, take_over, tend, whole_fold, write_rows


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "RECORDS_PER_FOLDER", 4)
    monkeypatch.setattr(upkeep, "SNAPSHOT_EVERY", EVERY)


def test_fold_from_a_snapshot_is_the_fold_of_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, 4)
    tend(writer)
    write_rows(writer, 2)
    quick = log.fold()
    assert quick.snapshot_through == 6
    whole = whole_fold(log)
    assert quick == whole
    assert quick.counts.written == 12


def test_start_reads_only_what_lies_above_the_snapshot(tmp_path: Path) -> None:
    read: list[str] = []

    class Counting(LocalStorage):
        def read(self, path: str) -> bytes | None:
            read.append(path)
            return super().read(path)

    writer = take_over(open_log(tmp_path))
    write_rows(writer, 40)
    tend(writer)
    log = open_log(tmp_path, Counting())
    assert log.fold().next_seq == writer.fold.next_seq
    slots = [path for path in read if path.startswith(log.layout.log)]
    assert len(slots) <= 4


def test_snapshot_is_due_by_bytes_of_records_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "SNAPSHOT_EVERY", 1_000)
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, 6)
    size_bytes = writer.fold.bytes_since_snapshot
    monkeypatch.setattr(upkeep, "SNAPSHOT_BYTES", size_bytes + 1)
    tend(writer)
    assert writer.fold.snapshot_through == 0
    # A driver that takes over knows it too, and its own record is one more.
    assert log.fold().bytes_since_snapshot == size_bytes
    writer = take_over(log)
    writer.set_published()
    tend(writer)
    assert writer.fold.snapshot_through > 0
    assert writer.fold.bytes_since_snapshot == log.fold().bytes_since_snapshot == 0
    write_rows(writer, 1)
    assert 0 < log.fold().bytes_since_snapshot == writer.fold.bytes_since_snapshot < size_bytes


def _altered(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"written":"8"', b'"written":"9"'))


def _of_another_version(path: Path) -> None:
    del path
    snapshot.FOLD_VERSION += 1


@pytest.mark.parametrize("harm", [Path.unlink, _altered, _of_another_version])
def test_side_file_that_does_not_serve_is_ignored(
    tmp_path: Path, harm: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "FOLD_VERSION", snapshot.FOLD_VERSION)
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, 4)
    tend(writer)
    (side,) = Path(log.layout.snapshots).iterdir()
    before = side.read_bytes()
    harm(side)
    assert not side.exists() or side.read_bytes() != before or harm is _of_another_version
    fold = log.fold()
    assert (fold.next_seq, fold.counts.written) == (writer.fold.next_seq, 8)


@pytest.mark.parametrize("hint", [b"", b"{", b'{"snapshot":-1}', b'{"snapshot":1}'])
def test_hint_that_misleads_costs_time_only(tmp_path: Path, hint: bytes) -> None:
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, 4)
    tend(writer)
    Path(log.layout.hint).write_bytes(hint)
    assert log.fold().next_seq == writer.fold.next_seq


def test_snapshot_of_another_version_of_the_fold_is_ignored_whatever_its_side_file_says(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, EVERY)
    tend(writer)
    (put,) = [found for found, _ in log.records() if isinstance(found.body, SnapshotRecord)][-1:]
    assert snapshot.load_snapshot(log.storage, log.layout, put) is not None
    assert isinstance(put.body, SnapshotRecord)
    newer = replace(put, body=replace(put.body, version=put.body.version + 1))
    assert snapshot.load_snapshot(log.storage, log.layout, newer) is None
    # Nor does one that is said to be of another slot than it is.
    other = replace(put, body=replace(put.body, through=put.body.through + 1))
    assert snapshot.load_snapshot(log.storage, log.layout, other) is None


def test_side_file_that_is_what_was_written_and_no_fold_is_told(tmp_path: Path) -> None:
    """Nobody damaged it: whoever wrote it had a fault, and the next one would write it again."""
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, EVERY)
    tend(writer)
    (put,) = [found for found, _ in log.records() if isinstance(found.body, SnapshotRecord)][-1:]
    assert isinstance(put.body, SnapshotRecord)
    side = Path(log.layout.snapshot(put.body.side))
    side.write_bytes(b"{}")
    forged = replace(put, body=replace(put.body, sha256=hashlib.sha256(b"{}").hexdigest()))
    with pytest.raises(LedgerCorruptError, match="but no fold") as caught:
        snapshot.load_snapshot(log.storage, log.layout, forged)
    assert caught.value.where == str(side)


def test_snapshot_of_what_is_not_published_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    writer = take_over(log)
    writer.commit(sources(0))
    writer.commit(data(1, 0, span(0, 0, 4)))
    with pytest.raises(InvariantError, match="needs everything published"):
        snapshot.write_side_file(log.storage, log.layout, writer.fold)


def test_snapshot_that_falls_back_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, 4)
    old = snapshot.write_side_file(log.storage, log.layout, writer.fold)
    write_rows(writer, 1)
    tend(writer)
    with pytest.raises(InvariantError, match="rule 19"):
        writer.commit(old)


def test_partitions_touched_long_ago_leave_the_side_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_partitions, "MAX_PARTITIONS", 0)
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, 1)
    writer.set_effects(writer.fold.next_seq)
    write_rows(writer, 4)
    tend(writer)
    fold, whole = log.fold(), Fold()
    log.advance(whole)
    assert fold.partitions == whole.partitions == writer.fold.partitions == {}
    assert fold.forgotten_up_to == whole.forgotten_up_to == "dt=20261120/hr=08"
    # When it is touched again, the catalog is asked for it again.
    write_rows(writer, 1)
    (again,) = log.fold().partitions.values()
    assert again.first_seq >= log.fold().effects_through
    assert not again.whole


def test_partitions_that_the_catalog_is_owed_stay_in_the_side_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_partitions, "MAX_PARTITIONS", 0)
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, 5)
    tend(writer)
    assert list(log.fold().partitions) == ["dt=20261120/hr=08"]


def test_only_the_newest_side_files_stay(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    writer = take_over(log)
    for _ in range(5):
        write_rows(writer, EVERY)
        tend(writer)
    names = sorted(path.name for path in Path(log.layout.snapshots).iterdir())
    assert len(names) == 2
    assert int(names[-1].partition("-")[0]) == writer.fold.snapshot_through


@pytest.mark.parametrize("slot", [0, 2, 3])
def test_log_that_is_damaged_is_never_emptied(tmp_path: Path, slot: int) -> None:
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, 5)
    path = Path(log.layout.record(slot))
    path.write_bytes(path.read_bytes().replace(b'"engine":"', b'"engine":"x'))
    tended = LogUpkeep(writer)
    assert tended.run().snapshot_seq is not None
    damage = tended.run().damage
    assert damage is not None
    assert re.search("chain|follow", str(damage))
    assert len(list(Path(log.layout.log_folder(0)).iterdir())) == 4


def test_damage_that_a_snapshot_covers_is_told_once_a_snapshot_and_stops_no_commit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, 5)
    tend(writer)
    pack = Path(log.layout.pack(0))
    whole = pack.read_bytes()
    pack.write_bytes(whole[:-20])
    tended = LogUpkeep(writer)
    for _ in range(12):
        write_rows(writer, 1)
        keep_log_short(tended, stderr_log(level="warning"))
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    snapshots = [r for r, _ in log.records(4) if isinstance(r.body, SnapshotRecord)]
    assert 1 <= len(told) <= len(snapshots) + 1
    assert {(line["event"], line["code"]) for line in told} == {("old_records_damaged", "SW453")}
    assert str(pack) in told[0]["error"]
    # What follows the damage is all there, as slots and as what was packed before it was met.
    assert Path(log.layout.log_folder(1)).exists()
    assert log.fold().sources == writer.fold.sources
    # Once it was put right, the log is packed again.
    pack.write_bytes(whole)
    write_rows(writer, EVERY)
    tend(writer)
    assert not Path(log.layout.log_folder(1)).exists()


def test_record_before_the_tail_that_is_gone_stops_a_snapshot_as_any_commit(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, 5)
    Path(log.layout.record(writer.fold.next_seq - 1)).unlink()
    with pytest.raises(LedgerCorruptError, match="was there and is gone"):
        LogUpkeep(writer).run()


def test_pack_with_a_record_too_many_is_damaged_and_the_log_stays(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, 12)
    LogUpkeep(writer).run()
    pack = Path(log.layout.pack(0))
    pack.parent.mkdir(exist_ok=True)
    raw = b"".join(Path(log.layout.record(seq)).read_bytes() for seq in range(5))
    pack.write_bytes(gzip.compress(raw))
    with pytest.raises(LedgerCorruptError, match="more than its 4 records"):
        log.packs.pack_next(writer.fold.snapshot_through)
    assert Path(log.layout.record(0)).exists()


def test_damaged_pack_halts_and_says_where(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, 5)
    tend(writer)
    pack = Path(log.layout.pack(0))
    whole = pack.read_bytes()
    short = gzip.compress(b"".join(gzip.decompress(whole).splitlines(keepends=True)[:3]))
    for harm in (whole[:-20], b"", whole[:40] + b"\0" + whole[41:], short):
        pack.write_bytes(harm)
        with pytest.raises((LedgerCorruptError, InvariantError)):
            list(LedgerLog(LocalStorage(), log.layout).records())


def test_old_driver_does_not_win_an_emptied_slot(tmp_path: Path) -> None:
    """It read the log up to slot 2 and slept while slots 0 to 3 were packed."""

    class Late(LocalStorage):
        """The put arrives after everything that others do meanwhile."""

        meanwhile: Callable[[], None] | None = None

        def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
            act, self.meanwhile = self.meanwhile, None
            if act is not None:
                act()
            return super().put_if_absent(path, content, tmp_folder=tmp_folder)

    storage = Late()
    log = open_log(tmp_path, storage)
    old = take_over(log)
    old.commit(sources(0))
    other = open_log(tmp_path)

    def others_go_on() -> None:
        new = take_over(other, "d2")
        write_rows(new, 6)
        tend(new)
        assert not Path(other.layout.log_folder(0)).exists()

    storage.meanwhile = others_go_on
    with pytest.raises(FencedError):
        old.commit(data(1, 0, span(0, 0, 2)))
    assert not Path(other.layout.record(2)).exists()
    assert whole_fold(other) == other.fold()
    assert other.fold().counts.written == 12


def test_driver_that_finds_its_slot_in_a_pack_puts_nothing_there(tmp_path: Path) -> None:
    """A crash between its put and its look for the pack would leave a record in an empty slot."""
    put: list[str] = []

    class Noting(LocalStorage):
        def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
            put.append(path)
            return super().put_if_absent(path, content, tmp_folder=tmp_folder)

    log = open_log(tmp_path, Noting())
    old = take_over(log)
    old.commit(sources(0))
    other = open_log(tmp_path)
    new = take_over(other, "d2")
    write_rows(new, 6)
    tend(new)
    put.clear()
    with pytest.raises(FencedError):
        old.commit(data(1, 0, span(0, 0, 2)))
    assert put == []


def test_record_left_in_an_emptied_slot_is_read_by_nobody(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, 6)
    stray = Path(log.layout.record(1)).read_bytes().replace(b'"engine":"', b'"engine":"z')
    tend(writer)
    Path(log.layout.log_folder(0)).mkdir()
    Path(log.layout.record(1)).write_bytes(stray)
    fresh = LedgerLog(LocalStorage(), log.layout)
    assert whole_fold(fresh) == writer.fold
    assert fresh.read_bytes(1) != stray
    tend(take_over(fresh, "d2"))
    assert not Path(log.layout.log_folder(0)).exists()


class PowerCutError(Exception):
    """The process is gone."""


def _dying(calls: int, *, after: bool) -> LocalStorage:
    """A store whose driver dies before or after its n-th call that changes something."""
    storage: Any = LocalStorage()
    left = [calls]
    names = ["put_if_absent", "overwrite", "make_folders", "publish", "remove"]
    # After it nobody would close the file.
    names += [] if after else ["create_staged"]

    def wrap(name: str) -> Callable[..., object]:
        real = getattr(LocalStorage, name)

        def call(*arguments: object, **named: object) -> object:
            left[0] -= 1
            if left[0] < 0 or (left[0] == 0 and not after):
                raise PowerCutError
            done = real(storage, *arguments, **named)
            if left[0] == 0:
                raise PowerCutError
            return done

        return call

    for name in names:
        setattr(storage, name, wrap(name))
    found: LocalStorage = storage
    return found


@pytest.mark.parametrize("after", [False, True])
def test_upkeep_that_dies_anywhere_is_finished_by_the_next(tmp_path: Path, after: bool) -> None:  # noqa: FBT001
    base = tmp_path / "base"
    write_rows(take_over(open_log(base)), 14)
    deaths = 0
    for calls in range(1, 60):
        root = tmp_path / f"{calls}"
        shutil.copytree(base, root)
        log = open_log(root, _dying(calls + 2, after=after))  # two folders are made by open_log
        died = False
        try:
            dying = take_over(log, "d2")
            write_rows(dying, 1)
            tend(dying)
        except PowerCutError:
            died = True
        deaths += died
        fresh = open_log(root)
        last = take_over(fresh, "d3")
        last.set_published()
        write_rows(last, EVERY)
        tend(last)
        assert kept_folders(fresh)[0] > f"{3:016d}"
        kinds = [record.type for record, _ in fresh.records()]
        assert kinds.count(RecordType.SNAPSHOT) in (1, 2)
        assert fresh.fold() == whole_fold(fresh)
        assert not list(Path(fresh.layout.stage).glob("pack-*"))
        if not died:
            break
    else:
        pytest.fail("it never came to its end")
    assert deaths > 12


def test_partly_emptied_folder_is_emptied_by_the_next(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, 6)
    shutil.copytree(log.layout.log_folder(0), tmp_path / "kept")
    tend(writer)
    shutil.copytree(tmp_path / "kept", log.layout.log_folder(0))
    Path(log.layout.record(0)).unlink()
    fresh = LedgerLog(LocalStorage(), log.layout)
    assert whole_fold(fresh) == writer.fold
    tend(take_over(fresh, "d2"))
    assert not Path(log.layout.log_folder(0)).exists()


@pytest.mark.parametrize("same_driver", [True, False])
def test_pack_is_durable_before_its_folder_goes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    same_driver: bool,  # noqa: FBT001
) -> None:
    """Its name was linked, and the sync of that name failed or never came."""
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, 8)
    tended = LogUpkeep(writer)
    tended.run()
    packs = Path(log.layout.packs_of(0))
    synced: list[str] = []
    real = local._sync_folder

    def sync(folder: Path) -> None:
        if folder == packs and not synced:
            synced.append("failed")
            raise OSError(errno.EIO, "input/output error")
        if folder == packs:
            assert Path(log.layout.log_folder(0)).exists()
            synced.append("done")
        real(folder)

    monkeypatch.setattr(local, "_sync_folder", sync)
    with pytest.raises(StorageUnavailableError):
        tended.run()
    assert Path(log.layout.pack(0)).exists()
    if not same_driver:
        tended = LogUpkeep(take_over(open_log(tmp_path), "d2"))
    tended.run()
    assert not Path(log.layout.log_folder(0)).exists()
    assert synced[-1] == "done"


@pytest.mark.parametrize(
    "hint", [b'{"snapshot":' + b"9" * 300 + b"}", None], ids=["300 digits", "a folder"]
)
def test_hint_that_cannot_be_followed_keeps_no_start_waiting(
    tmp_path: Path, hint: bytes | None
) -> None:
    log = open_log(tmp_path)
    writer = take_over(log)
    write_rows(writer, 4)
    tend(writer)
    path = Path(log.layout.hint)
    path.unlink()
    if hint is None:
        path.mkdir()
    else:
        path.write_bytes(hint)
    assert log.fold() == writer.fold
