"""Copies of dirty files in a table: each there once and whole, whatever was done before."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import google_crc32c
import pytest

from sluiceway.errors import FileLostError, LedgerCorruptError, StorageUnavailableError
from sluiceway.followers.dirty_feed import DirtyPlace
from sluiceway.followers.dirty_table import DirtyTable
from sluiceway.jobfile.compile.dirty_limits import PREPARED_AT
from sluiceway.ledger.dirty_files import CommittedDirty
from sluiceway.ledger.dirty_sources import DirtySource
from sluiceway.ledger.file_names import FileRecord
from sluiceway.storage.contract import StagedWriter
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from tools.ledger_records import LEDGER, data, fence, fold_of, record, sources, span

if TYPE_CHECKING:
    from sluiceway.sinks.side_tables import DayFolders

CONTENT = b"dirty rows as they were committed"
CRC = google_crc32c.Checksum(CONTENT).hexdigest().decode()
DAY = "2026-11-20"


class Days:
    """A table by day on this disk."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.storage = LocalStorage()
        self.shown: list[str] = []
        self.opened = False

    def open(self) -> None:
        self.opened = True

    def folder(self, day: str) -> str:
        return f"{self.root}/dt={day}"

    def show(self, day: str) -> None:
        # Readers are sent to a day when its copy is there.
        assert self.opened
        assert list(Path(self.folder(day)).iterdir())
        self.shown.append(day)


@pytest.fixture
def days(tmp_path: Path) -> Days:
    return Days(tmp_path / "copies")


def _table(days: Days) -> DirtyTable:
    made = DirtyTable(cast("DayFolders", days), LocalStorage(), LEDGER)
    made.open()
    return made


def _committed(folder: Path, content: bytes = CONTENT) -> CommittedDirty:
    """A dirty file of three rows that lies where its record says."""
    body = data(1, 0, span(0, 0, 3), dirty=3)
    fold = fold_of(fence(), sources(0))
    put = record(fold, replace(body, timings_ms={PREPARED_AT: 1_795_200_000_000}))
    path = folder / "dirty-a.parquet"
    path.write_bytes(content)
    file = FileRecord(
        "1-0-x/dirty-a.parquet",
        "_sluiceway/orders/dirty/dirty-a.parquet",
        (),
        BigInt(3),
        BigInt(len(CONTENT)),
        CRC,
        {},
    )
    return CommittedDirty(DirtySource(LEDGER, 2, "dirty-a.parquet"), file, put, str(path))


def _copies(days: Days) -> list[Path]:
    return sorted(Path(days.root).glob("dt=*/*"))


def test_dirty_file_is_copied_once_and_whole_and_its_day_is_shown(
    tmp_path: Path, days: Days
) -> None:
    found = _committed(tmp_path)
    for _ in range(2):
        # The second time is that of a driver that does not know of the first.
        table = _table(days)
        behind = DirtyPlace(2, "dirty-a.parquet", 3)
        assert list(table.feed(found, 0)) == [(3, behind)]
        assert table.place() == behind
        (copy,) = _copies(days)
        assert copy == Path(days.root) / f"dt={DAY}" / "dirty-a.parquet"
        assert copy.read_bytes() == CONTENT
    assert days.shown == [DAY, DAY]


def test_copy_that_is_not_whole_is_never_taken_for_the_file(tmp_path: Path, days: Days) -> None:
    table, found = _table(days), _committed(tmp_path)
    torn = Path(days.root) / f"dt={DAY}" / "dirty-a.parquet"
    torn.parent.mkdir(parents=True)
    torn.write_bytes(CONTENT[:7])
    with pytest.raises(FileLostError):
        list(table.feed(found, 0))
    assert table.place() == DirtyPlace()
    assert days.shown == []


def test_file_whose_rows_are_all_fed_is_not_copied_again(tmp_path: Path, days: Days) -> None:
    table = _table(days)
    assert list(table.feed(_committed(tmp_path), 3)) == [(0, DirtyPlace(2, "dirty-a.parquet", 3))]
    assert (_copies(days), days.shown) == ([], [])


@pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT[:-1] + b"?", CONTENT + b"?"])
def test_file_that_is_not_what_was_committed_is_never_copied(
    tmp_path: Path, days: Days, content: bytes
) -> None:
    table = _table(days)
    with pytest.raises(StorageUnavailableError, match="not the one that was committed"):
        list(table.feed(_committed(tmp_path, content), 0))
    assert (_copies(days), days.shown) == ([], [])
    assert table.place() == DirtyPlace()
    assert list(Path(days.root).glob("_sluiceway_dirty/*/stage/*")) == []


def test_what_a_feeder_that_died_has_staged_goes_when_the_next_one_opens(
    tmp_path: Path, days: Days
) -> None:
    _table(days)
    (stage,) = Path(days.root).glob("_sluiceway_dirty/*/stage")
    (stage / "half-a-copy").write_bytes(CONTENT[:5])
    list(_table(days).feed(_committed(tmp_path), 0))
    assert list(stage.iterdir()) == []
    assert len(_copies(days)) == 1


def test_copy_is_begun_where_the_next_feeder_takes_it_away(tmp_path: Path, days: Days) -> None:
    begun: list[str] = []

    class Noting(LocalStorage):
        def create_staged(self, path: str) -> StagedWriter:
            begun.append(path)
            return super().create_staged(path)

    days.storage = Noting()
    list(_table(days).feed(_committed(tmp_path), 0))
    (stage,) = Path(days.root).glob("_sluiceway_dirty/*/stage")
    assert [Path(path).parent for path in begun] == [stage]


def test_place_that_cannot_be_read_is_told_and_never_taken_for_the_beginning(days: Days) -> None:
    table = _table(days)
    assert table.place() == DirtyPlace()
    table.keep(DirtyPlace(7))
    (place,) = Path(days.root).glob("_sluiceway_dirty/*/place.json")
    place.write_bytes(b"{")
    with pytest.raises(LedgerCorruptError, match="how far the table of dirty rows is fed"):
        table.place()
