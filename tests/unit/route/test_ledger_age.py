"""Where files that the ledger does not know are looked for, and where they are nobody's fault."""

import uuid
from pathlib import Path

import pytest

from sluiceway.errors import LedgerMismatchError, StorageRefusedError, StorageUnavailableError
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import DataRecord
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.route.takeover import RECENT_RECORDS, refuse_older_ledger
from sluiceway.storage.contract import FileStatus
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from tools.ledger_records import data, fence, sources, span


class Table:
    """A table of one-row files, and its ledger."""

    def __init__(self, root: Path, storage: LocalStorage | None = None) -> None:
        layout = LedgerLayout(str(root), "orders")
        self.log = LedgerLog(storage or LocalStorage(), layout)
        for folder in (layout.log, layout.stage):
            self.log.storage.make_folders(folder)

        def no_wait(attempts: int, error: StorageUnavailableError) -> None:
            raise AssertionError((attempts, error))

        self.writer = LedgerWriter(self.log, self.log.fold(), no_wait)
        self.writer.fence(fence(), lambda: None)
        self.writer.commit(sources(0))

    def record(self, *folders: str) -> DataRecord:
        """The next epoch, with a row in each folder."""
        fold = self.writer.fold
        epoch, start = fold.last_epoch + 1, fold.sources[("orders", 0)].end
        body = data(1, epoch, span(0, start, start + len(folders)))
        attempt = f"1-{epoch}-{uuid.uuid4().hex}"
        names = [f"orders-1-{epoch}-0-{uuid.uuid4().hex}.parquet" for _ in folders]
        files = tuple(
            FileRecord(
                staged=f"{attempt}/{name}",
                final=f"{folder}/{name}",
                values=("x",),
                rows=BigInt(1),
                size_bytes=BigInt(1),
                crc32c="00000000",
                bounds={},
            )
            for folder, name in zip(folders, names, strict=True)
        )
        return DataRecord(body.epoch, body.ranges, files, (), body.counts, body.schema, {}, {})

    def publish(self, record: DataRecord) -> None:
        """Its files have their names."""
        for file in record.files:
            path = Path(self.log.layout.final(file.final))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"1")

    def commit(self, *folders: str) -> None:
        body = self.record(*folders)
        self.writer.commit(body)
        self.publish(body)
        self.writer.set_published()

    def look(self) -> None:
        refuse_older_ledger(self.log, self.log.fold())


def test_new_partitions_are_found_beside_many_recent_ones(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.commit(*(f"dt=20261120/app={number:04d}" for number in range(350)))
    table.look()
    table.publish(table.record(*(f"dt=20261121/app={number:04d}" for number in range(350))))
    with pytest.raises(LedgerMismatchError, match="older than its table"):
        table.look()


@pytest.mark.parametrize("late", ["dt=20261101/app=1", "dt=20261101"])
def test_late_rows_in_a_partition_of_old_are_found(tmp_path: Path, late: str) -> None:
    table = Table(tmp_path)
    table.commit(late)
    for _ in range(RECENT_RECORDS + 10):
        table.commit("dt=20261120/app=1" if "/" in late else "dt=20261120")
    table.look()
    table.publish(table.record(late))
    with pytest.raises(LedgerMismatchError, match="older than its table"):
        table.look()


def test_dirty_rows_of_a_lost_record_are_found(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.commit("dt=20261120")
    dirty = Path(table.log.layout.root) / "dirty"
    dirty.mkdir()
    (dirty / f"orders-1-7-0-{uuid.uuid4().hex}.parquet").write_bytes(b"1")
    with pytest.raises(LedgerMismatchError, match="epoch 7"):
        table.look()


def test_folder_of_others_that_may_not_be_read_is_passed_by(tmp_path: Path) -> None:
    asked: list[str] = []

    class Forbidding(LocalStorage):
        def list(self, folder: str) -> list[FileStatus]:
            if folder.endswith("lost+found"):
                asked.append(folder)
                raise StorageRefusedError("permission denied")
            return super().list(folder)

    table = Table(tmp_path, Forbidding())
    table.commit("dt=20261120")
    (tmp_path / "lost+found").mkdir()
    table.look()
    assert asked
    table.publish(table.record("dt=20261121"))
    with pytest.raises(LedgerMismatchError):
        table.look()


def test_driver_that_runs_while_another_looks_is_no_older_ledger(tmp_path: Path) -> None:
    """Its record is in the log before its file has a name, and after the log was folded."""
    table = Table(tmp_path)
    table.commit("dt=20261120")
    fold = table.log.fold()
    table.commit("dt=20261120", "dt=20261121")
    refuse_older_ledger(table.log, fold)
    assert fold.next_seq == table.writer.fold.next_seq
