"""Files of an attempt: few of them open, memory bounded, every row in a file of its partition."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.errors import StorageUnavailableError
from sluiceway.formats.registry import JSON
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.sinks.files.contract import PARQUET_FILES
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.sources.registry import SourceAccess
from sluiceway.storage.contract import StagedWriter
from sluiceway.storage.local import LocalStorage
from sluiceway.types.schema import Field, IntegerType, Schema
from sluiceway.worker import staged_files
from sluiceway.worker.dirty_file import DIRTY_SCHEMA
from sluiceway.worker.plan import PartitionRule, RoutePlan, TaskPlan
from sluiceway.worker.staged_files import StagedFiles

SCHEMA = pa.schema([("id", pa.int64())])


class _Watched(LocalStorage):
    """Counts files that were begun and are not closed, and the most there were."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.refused = ""

    def create_staged(self, path: str) -> StagedWriter:
        self.begun.append(path)
        if len(self.begun) == 3 and self.refused:
            raise StorageUnavailableError(self.refused)
        return super().create_staged(path)


def _open_now(root: Path) -> int:
    return len(list(root.rglob("*.inprogress")))


def _files(root: Path) -> tuple[StagedFiles, _Watched]:
    layout = LedgerLayout(str(root), "orders")
    Path(layout.stage).mkdir(parents=True)
    route = RoutePlan(
        ledger="orders",
        term=1,
        layout=layout,
        source=SourceAccess("kafka", ()),
        format=JSON,
        schema=Schema((Field("id", IntegerType(64)),)),
        schema_version="1",
        meta=(),
        event_time=None,
        partitions=(PartitionRule("app", None, "app"),),
        files=PARQUET_FILES,
    )
    plan = TaskPlan(route, 1, 0, (Split(SourcePartition("orders", 0), 0, 12),), deadline_s=1.0)
    storage = _Watched()
    return StagedFiles(storage, plan, SCHEMA), storage


def _rows(*ids: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(ids, pa.int64())})


def _ids(root: Path, files: StagedFiles) -> dict[str, list[int]]:
    """Close the files and read them back, by partition, a list a file joined in file order."""
    clean, _, _ = files.close()
    stage = Path(LedgerLayout(str(root), "orders").stage)
    found: dict[str, list[int]] = {}
    for file in clean:
        ids = pq.read_table(stage / file.staged)["id"].to_pylist()
        assert int(file.rows) == len(ids)
        found.setdefault(str(file.values[0]), []).extend(ids)
    return found


def test_many_partitions_in_memory_have_few_open_files_and_one_file_each(tmp_path: Path) -> None:
    files, storage = _files(tmp_path)
    many = staged_files.MAX_OPEN_FILES * 3
    for turn in range(2):
        for number in range(many):
            files.write((str(number),), _rows(number, turn))
    assert len(storage.begun) == _open_now(tmp_path) == staged_files.EARLY_FILES
    assert _ids(tmp_path, files) == {str(n): [n, 0, n, 1] for n in range(many)}
    assert len(storage.begun) == many
    assert _open_now(tmp_path) == 0


def test_memory_above_the_limit_is_written_largest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_files, "MAX_BUFFERED_BYTES", 100)
    monkeypatch.setattr(staged_files, "EARLY_FILES", 0)
    files, storage = _files(tmp_path)
    files.write(("small",), _rows(1, 2))
    files.write(("large",), _rows(*range(10)))
    assert storage.begun == []
    files.write(("small",), _rows(3))
    assert len(storage.begun) == 1
    files.write(("large",), _rows(10))
    assert _ids(tmp_path, files) == {"small": [1, 2, 3], "large": list(range(11))}


def test_open_files_are_bounded_and_the_idle_one_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_files, "MAX_BUFFERED_BYTES", 0)
    monkeypatch.setattr(staged_files, "MAX_OPEN_FILES", 3)
    files, storage = _files(tmp_path)
    for number in (0, 1, 2, 0, 3, 4, 0, 1):
        files.write((str(number),), _rows(number))
        assert _open_now(tmp_path) <= 3
    # 1 was closed when 3 came, and got another file.
    assert len(storage.begun) == 6
    assert _ids(tmp_path, files) == {"0": [0, 0, 0], "1": [1, 1], "2": [2], "3": [3], "4": [4]}


def test_file_that_fails_at_close_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_files, "EARLY_FILES", 0)
    files, storage = _files(tmp_path)
    storage.refused = "the disk is gone"
    for number in range(20):
        files.write((str(number),), _rows(number))
    with pytest.raises(StorageUnavailableError, match="the disk is gone"):
        files.close()
    files.abort()
    assert _open_now(tmp_path) == 0


def test_abort_drops_what_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_files, "MAX_BUFFERED_BYTES", 0)
    files, _ = _files(tmp_path)
    files.write(("a",), _rows(1))
    dirty = pa.RecordBatch.from_pylist(
        [
            {field.name: b"x" if pa.types.is_binary(field.type) else None for field in DIRTY_SCHEMA}
            | dict.fromkeys(("topic", "stage", "reason", "path", "message"), "x")
            | {"partition": 0, "offset": 0, "schema_version": "1"}
        ],
        schema=DIRTY_SCHEMA,
    )
    files.write_dirty(dirty)
    assert _open_now(tmp_path) == 2
    files.abort()
    assert _open_now(tmp_path) == 0
