"""Files of late rows are copied for their partitions, byte for byte."""

from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.errors import FileLostError, StorageUnavailableError
from sluiceway.ledger.dirty_sources import LateSource
from sluiceway.ledger.file_names import FileOrigin, FileRecord, file_origin
from sluiceway.ledger.lane_records import LaneRange
from sluiceway.storage.local import LocalStorage, file_crc32c
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.lanes import lane_plan
from sluiceway.worker.answers import check_staged_files
from sluiceway.worker.lane_task import copy_late_files
from sluiceway.worker.plan import TaskPlan
from tools.ledger_records import LEDGER
from tools.small_task import route_plan

HOUR = "dt=20261120/hr=08"


class Place:
    """A late place with files, and the plan that reads them."""

    def __init__(self, folder: Path) -> None:
        self.route = route_plan(str(folder), None, ())
        self.storage = LocalStorage()
        self.layout = self.route.layout
        self.storage.make_folders(self.layout.stage)
        self.files: list[FileRecord] = []

    def add(self, content: bytes, *, partition: str = HOUR, ending: str = ".parquet") -> Path:
        name = f"x.{self.layout.route}-1-4-2-{len(self.files):032x}-y{ending}"
        final = self.layout.late_relative(partition, name)
        path = Path(self.layout.final(final))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        size, crc32c = BigInt(len(content)), file_crc32c(path)
        made = FileRecord("1-4-a/x", final, ("20261120", "08"), BigInt(3), size, crc32c, {})
        self.files.append(replace(made, bounds={"id": ("1", "3")}))
        return path

    def plan(self) -> TaskPlan:
        names = [each.final.rpartition("/")[2] for each in self.files]
        sources = [str(LateSource(LEDGER, 5, name)) for name in names]
        ranges = [LaneRange(source, BigInt(0), BigInt(3)) for source in sources]
        return lane_plan(self.route, 9, ranges)


def test_copy_has_the_bytes_of_the_late_file_and_a_name_of_its_own(tmp_path: Path) -> None:
    place = Place(tmp_path)
    first = place.add(b"one" * 1_500_000)
    second = place.add(b"two", partition="", ending=".txt.gz")
    result = copy_late_files(place.plan(), place.storage, place.files)
    check_staged_files(place.storage, place.layout, [result])
    assert [Path(place.layout.attempt(each.staged)).read_bytes() for each in result.files] == [
        first.read_bytes(),
        second.read_bytes(),
    ]
    for made, of in zip(result.files, place.files, strict=True):
        folder, _, name = made.final.rpartition("/")
        assert folder == ("" if of is place.files[1] else HOUR)
        assert file_origin(place.layout.route, name) == FileOrigin(place.route.term, 9)
        assert name != of.final.rpartition("/")[2]
        assert (name[:2], name.partition("-y")[2]) == ("x.", of.final.partition("-y")[2])
        assert replace(made, staged="", final="") == replace(of, staged="", final="")
    assert [(int(each.start), int(each.end)) for each in result.splits] == [(0, 3), (0, 3)]
    again = copy_late_files(place.plan(), place.storage, place.files)
    for answer in (result, again):
        assert answer.attempt.startswith(f"{place.route.term}-9-")
        assert {each.staged.partition("/")[0] for each in answer.files} == {answer.attempt}
    assert result.attempt != again.attempt
    assert (result.counts.read, result.counts.written, result.counts.balanced()) == (6, 6, True)


def test_epoch_ends_at_its_deadline_and_takes_one_file_at_least(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.add(b"one")
    place.add(b"two")
    result = copy_late_files(replace(place.plan(), deadline_s=0.0), place.storage, place.files)
    assert [int(each.end) for each in result.splits] == [3, 0]
    assert (len(result.files), result.counts.read) == (1, 3)


def test_late_file_that_is_damaged_or_gone_is_told_and_nothing_is_named(tmp_path: Path) -> None:
    place = Place(tmp_path)
    path = place.add(b"one")
    path.write_bytes(b"two")
    with pytest.raises(FileLostError, match="it has 3 bytes with the checksum"):
        copy_late_files(place.plan(), place.storage, place.files)
    path.unlink()
    with pytest.raises(StorageUnavailableError, match=r"x\.orders"):
        copy_late_files(place.plan(), place.storage, place.files)


class Noting(LocalStorage):
    """Notes which folders are made durable, and how many files each had by then."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[tuple[str, int]] = []

    def sync_folder(self, folder: str) -> None:
        self.synced.append((folder, sum(1 for each in self.list(folder) if not each.is_dir)))
        super().sync_folder(folder)


def test_copies_and_their_folder_are_durable_before_a_record_names_them(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.add(b"one")
    place.add(b"two")
    storage = Noting()
    result = copy_late_files(place.plan(), storage, place.files)
    folder = place.layout.attempt(result.attempt)
    assert storage.synced == [(folder, 2), (place.layout.stage, 0)]
