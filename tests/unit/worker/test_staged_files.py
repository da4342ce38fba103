"""Files of an attempt: few of them open, memory bounded, every row in a file of its partition."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.errors import StorageUnavailableError, TaskFailedError
from sluiceway.formats.registry import JSON
from sluiceway.ledger.file_names import FileOrigin, file_origin
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.sinks.files import line_file
from sluiceway.sinks.files.contract import PARQUET_FILES, FileChoice, FileFormat
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.sources.registry import SourceAccess
from sluiceway.storage.contract import FileSeal, StagedWriter
from sluiceway.storage.local import LocalStorage
from sluiceway.types.schema import Field, IntegerType, Schema
from sluiceway.worker import staged_files
from sluiceway.worker.dirty_file import DIRTY_SCHEMA
from sluiceway.worker.open_files import LateWriter, SharedRows
from sluiceway.worker.plan import (
    PLAIN_FILES,
    FileRules,
    LatePlace,
    PartitionRule,
    RoutePlan,
    TaskPlan,
)
from sluiceway.worker.staged_files import StagedFiles

SCHEMA = pa.schema([("id", pa.int64())])
COLUMNS = Schema((Field("id", IntegerType(64)),))
JSON_FILES = FileChoice(FileFormat.JSON, "none", COLUMNS)
BY_APP = PartitionRule("app", None, "app")
FORMATS = [
    pytest.param(PARQUET_FILES, id="parquet"),
    pytest.param(FileChoice(FileFormat.ORC, "zstd", COLUMNS), id="orc"),
    pytest.param(JSON_FILES, id="json"),
    pytest.param(FileChoice(FileFormat.TEXT, "gzip", COLUMNS), id="text-gzip"),
    pytest.param(FileChoice(FileFormat.TEXT, "snappy", COLUMNS), id="text-snappy"),
    pytest.param(FileChoice(FileFormat.AVRO, "none", COLUMNS), id="avro"),
]


class _Watched(LocalStorage):
    """Notes files that were begun, folders that were made durable, and what was expected."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.synced: list[str] = []
        self.expected: list[str] = []
        self.refused = ""
        self.now_s = 0.0

    def sync_folder(self, folder: str) -> None:
        super().sync_folder(folder)
        self.synced.append(folder)

    def expect_files(self, folder: str) -> None:
        super().expect_files(folder)
        self.expected.append(folder)

    def create_staged(self, path: str) -> StagedWriter:
        self.begun.append(path)
        if len(self.begun) == 3 and self.refused:
            raise StorageUnavailableError(self.refused)
        return super().create_staged(path)


def _open_now(root: Path) -> int:
    return len(list(root.rglob("*.inprogress")))


def _files(
    root: Path,
    rolling: FileRules = PLAIN_FILES,
    choice: FileChoice = PARQUET_FILES,
    rule: PartitionRule = BY_APP,
) -> tuple[StagedFiles, _Watched]:
    layout = LedgerLayout(str(root), "orders")
    Path(layout.stage).mkdir(parents=True, exist_ok=True)
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
        partitions=(rule,),
        files=choice,
        rolling=rolling,
    )
    plan = TaskPlan(route, 1, 0, (Split(SourcePartition("orders", 0), 0, 12),), deadline_s=1.0)
    storage = _Watched()
    return StagedFiles(storage, plan, SCHEMA, clock=lambda: storage.now_s), storage


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
    many = PLAIN_FILES.max_open * 3
    for turn in range(2):
        for number in range(many):
            files.write((str(number),), _rows(number, turn))
    assert len(storage.begun) == _open_now(tmp_path) == staged_files.EARLY_FILES
    assert _ids(tmp_path, files) == {str(n): [n, 0, n, 1] for n in range(many)}
    assert len(storage.begun) == many
    assert _open_now(tmp_path) == 0


def test_memory_is_freed_largest_file_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_files, "EARLY_FILES", 0)
    files, storage = _files(tmp_path)
    files.write(("small",), _rows(1, 2))
    files.write(("large",), _rows(*range(10)))
    files.write(("small",), _rows(3))
    assert (storage.begun, files.held_bytes) == ([], 13 * 8)
    files.free(100)
    assert (len(storage.begun), files.held_bytes) == (1, 3 * 8)
    files.write(("large",), _rows(10))
    assert _ids(tmp_path, files) == {"small": [1, 2, 3], "large": list(range(11))}
    assert files.held_bytes == 0


def test_memory_of_more_files_than_may_be_open_is_freed_by_closing_them(tmp_path: Path) -> None:
    files, storage = _files(tmp_path, FileRules(max_open=2))
    for number in range(9):
        files.write((str(number),), _rows(*range(number + 1)))
    files.free(8)
    assert files.held_bytes <= 8
    assert _open_now(tmp_path) <= 2
    for number in range(9):
        files.write((str(number),), _rows(100))
    expected = {str(number): [*range(number + 1), 100] for number in range(9)}
    assert _ids(tmp_path, files) == expected
    assert len(storage.begun) > 9


def test_memory_that_pieces_share_is_held_until_the_last_is_written(tmp_path: Path) -> None:
    files, _ = _files(tmp_path)
    rows = _rows(*range(12))
    shared = SharedRows(rows.nbytes)
    for number, (begin, count) in enumerate(((0, 3), (3, 8), (11, 1))):
        files.write((str(number),), rows.slice(begin, count), shared)
    assert files.held_bytes == 12 * 8
    # The largest is written, and its part of the memory is still there.
    files.free(12 * 8 - 1)
    assert files.held_bytes == 0
    assert shared.pieces == 0
    assert _ids(tmp_path, files) == {"0": [0, 1, 2], "1": list(range(3, 11)), "2": [11]}


@pytest.mark.parametrize("choice", FORMATS)
def test_held_memory_is_that_of_the_rows_and_none_after_the_close(
    tmp_path: Path, choice: FileChoice
) -> None:
    files, storage = _files(tmp_path, choice=choice)
    for turn in range(3):
        for number in range(40):
            files.write((str(number),), _rows(*range(turn, turn + 50)))
    # Each row is at least two bytes in any format: none is in a file before there is a need.
    assert files.held_bytes >= 3 * 40 * 50 * 2
    assert len(storage.begun) == staged_files.EARLY_FILES
    files.free(0)
    assert files.held_bytes == 0
    clean, _, _ = files.close()
    assert sum(int(file.rows) for file in clean) == 3 * 40 * 50


@pytest.mark.parametrize("choice", FORMATS)
def test_file_that_reached_its_size_is_closed_and_another_begun(
    tmp_path: Path, choice: FileChoice
) -> None:
    # ORC's blocks are of 16 MiB, whatever is wanted: a file is weighed when one is written.
    is_orc = choice.format is FileFormat.ORC
    target_bytes, rows = (1 << 20, 1 << 20) if is_orc else (1 << 16, 1 << 12)
    files, _ = _files(tmp_path, FileRules(target_bytes=target_bytes), choice)
    random = np.random.default_rng(1)
    for _ in range(8 if is_orc else 40):
        files.write(("a",), pa.record_batch({"id": pa.array(random.integers(0, 2**62, rows))}))
    clean, _, _ = files.close()
    sizes = [int(file.size_bytes) for file in clean]
    assert sum(int(file.rows) for file in clean) == rows * (8 if is_orc else 40)
    assert len(sizes) > 1
    most_bytes = 32 << 20 if is_orc else 20 * target_bytes
    assert all(target_bytes <= size <= most_bytes for size in sizes[:-1])


def test_file_that_is_open_for_long_is_closed_and_another_begun(tmp_path: Path) -> None:
    rules = FileRules(roll_interval_s=600.0, idle_close_s=600.0)
    files, storage = _files(tmp_path, rules)
    for minute in range(25):
        storage.now_s = minute * 60.0
        files.write(("a",), _rows(minute))
    clean, _, _ = files.close()
    minutes = [int(file.rows) for file in clean]
    assert sum(minutes) == 25
    # It is looked for such files a few times within the interval.
    assert all(10 <= each <= 12 for each in minutes[:-1])
    assert len(minutes) == 3


def test_open_file_without_rows_is_closed_though_none_comes(tmp_path: Path) -> None:
    files, storage = _files(tmp_path, FileRules(idle_close_s=30.0))
    files.write(("idle",), _rows(1))
    storage.now_s = 20.0
    files.write(("busy",), _rows(2))
    assert _open_now(tmp_path) == 2
    storage.now_s = 35.0
    files.close_due()
    assert _open_now(tmp_path) == 1
    files.write(("idle",), _rows(3))
    assert _ids(tmp_path, files) == {"idle": [1, 3], "busy": [2]}
    assert len(storage.begun) == 3


def test_names_have_the_prefix_and_suffix_and_still_tell_who_wrote_them(tmp_path: Path) -> None:
    files, _ = _files(tmp_path, FileRules(prefix="part.", suffix=".c000"))
    files.write(("a",), _rows(1))
    files.write_dirty(_dirty_rows())
    (clean,), (dirty,), _ = files.close()
    name = clean.final.rpartition("/")[2]
    assert re.fullmatch(r"part\.orders-1-1-0-[0-9a-f]{32}\.c000\.parquet", name)
    assert file_origin("orders", name) == FileOrigin(1, 1)
    assert file_origin("orders", dirty.final.rpartition("/")[2]) == FileOrigin(1, 1)
    assert "part." not in dirty.final
    assert ".c000" not in dirty.final


def test_open_files_are_bounded_and_the_idle_one_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each row is in its file at once.
    monkeypatch.setattr(line_file, "_PUT_BYTES", 1)
    files, storage = _files(tmp_path, FileRules(max_open=3), JSON_FILES)
    for number in (0, 1, 2, 0, 3, 4, 0, 1):
        files.write((str(number),), _rows(number))
        assert _open_now(tmp_path) <= 3
    clean, _, _ = files.close()
    # 1 was closed when 3 came, and got another file.
    rows = sorted((file.values[0], int(file.rows)) for file in clean)
    assert rows == [("0", 3), ("1", 1), ("1", 1), ("2", 1), ("3", 1), ("4", 1)]
    assert len(storage.begun) == 6


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


def test_abort_drops_what_is_open(tmp_path: Path) -> None:
    files, _ = _files(tmp_path)
    files.write(("a",), _rows(1))
    files.write_dirty(_dirty_rows())
    files.free(0)
    assert _open_now(tmp_path) == 2
    files.abort()
    assert _open_now(tmp_path) == 0


def _dirty_rows() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {field.name: b"x" if pa.types.is_binary(field.type) else None for field in DIRTY_SCHEMA}
            | dict.fromkeys(("topic", "stage", "reason", "path", "message"), "x")
            | {"partition": 0, "offset": 0, "schema_version": "1"}
        ],
        schema=DIRTY_SCHEMA,
    )


def test_memory_that_a_store_holds_is_counted_and_freed_by_ending_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StagedWriter, "held_bytes", property(lambda _: 1000))
    files, storage = _files(tmp_path)
    for number in range(3):
        files.write((str(number),), _rows(number))
    assert len(storage.begun) == 3
    assert files.held_bytes >= 3 * 1000
    files.free(1500)
    assert files.held_bytes <= 1500
    assert _ids(tmp_path, files) == {str(n): [n] for n in range(3)}


def test_each_attempt_has_a_folder_of_its_own_that_tells_term_and_epoch(tmp_path: Path) -> None:
    attempts = [_files(tmp_path)[0] for _ in range(2)]
    for files in attempts:
        files.write(("a",), _rows(1))
    folders = {file.staged.partition("/")[0] for each in attempts for file in each.close()[0]}
    assert folders == {each.attempt for each in attempts}
    assert len(folders) == 2
    assert all(re.fullmatch("1-1-[0-9a-f]{32}", folder) for folder in folders)


def test_files_are_durable_under_their_folder_and_it_under_stage_before_they_are_told(
    tmp_path: Path,
) -> None:
    files, storage = _files(tmp_path)
    for number in range(3):
        files.write((str(number),), _rows(number))
    files.close()
    stage = LedgerLayout(str(tmp_path), "orders").stage
    # It is made ready once, however many files come.
    assert storage.expected == [f"{stage}/{files.attempt}"]
    assert storage.synced[-2:] == [f"{stage}/{files.attempt}", stage]


def test_attempt_without_a_row_makes_nothing(tmp_path: Path) -> None:
    files, storage = _files(tmp_path)
    assert files.close() == ((), (), ())
    assert (storage.expected, storage.synced, storage.begun) == ([], [], [])


def test_late_rows_are_in_files_of_their_own_that_readers_do_not_see(tmp_path: Path) -> None:
    files, _ = _files(tmp_path)
    files.write(("a",), _rows(1, 2))
    files.write(LatePlace(("a",)), _rows(3))
    (clean,), dirty, (late,) = files.close()
    assert (int(clean.rows), dirty, int(late.rows)) == (2, (), 1)
    assert clean.final.startswith("app=a/")
    assert late.final.startswith("_sluiceway/orders/late/app=a/")
    assert clean.values == late.values == ("a",)


def test_dirty_rows_are_parquet_whatever_the_table_holds_and_have_no_bounds(tmp_path: Path) -> None:
    files, _ = _files(tmp_path, choice=JSON_FILES)
    files.write(("a",), _rows(1))
    files.write_dirty(_dirty_rows())
    (clean,), (dirty,), _ = files.close()
    stage = Path(LedgerLayout(str(tmp_path), "orders").stage)
    assert pq.read_table(stage / dirty.staged)["message"].to_pylist() == ["x"]
    assert (dirty.final.startswith("_sluiceway/orders/dirty/"), dirty.values) == (True, ())
    assert dirty.bounds == {}
    assert clean.final.endswith(".json")


def test_bounds_of_columns_are_told_of_files_of_the_table(tmp_path: Path) -> None:
    files, _ = _files(tmp_path)
    files.write(("a",), _rows(7, 3))
    ((clean,), _, _) = files.close()
    assert "id" in clean.bounds


def test_column_that_only_the_partition_says_is_in_each_file(tmp_path: Path) -> None:
    rule = PartitionRule("dt", "%Y%m%d", None, in_files=True)
    files, _ = _files(tmp_path, rule=rule)
    files.write(("20261120",), _rows(1, 2))
    ((clean,), _, _) = files.close()
    stage = Path(LedgerLayout(str(tmp_path), "orders").stage)
    table = pq.ParquetFile(stage / clean.staged).read()
    assert table["dt"].to_pylist() == ["20261120", "20261120"]


@pytest.mark.parametrize("closed_at_once", [1, 3])
def test_file_that_is_not_what_was_written_fails_the_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed_at_once: int
) -> None:
    files, _ = _files(tmp_path)
    for number in range(closed_at_once):
        files.write((str(number),), _rows(number))
    _cut_when_sealed(monkeypatch, attested=False)
    with pytest.raises(TaskFailedError):
        files.close()


def test_dirty_file_is_checked_for_its_rows_whatever_the_table_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, _ = _files(tmp_path, choice=JSON_FILES)
    files.write_dirty(_dirty_rows())
    sealed = LateWriter.seal

    def damaged(writer: LateWriter) -> FileSeal:
        seal = sealed(writer)
        Path(writer.path).write_bytes(b"x" * seal.size_bytes)
        return seal

    monkeypatch.setattr(LateWriter, "seal", damaged)
    with pytest.raises(TaskFailedError):
        files.close()


@pytest.mark.parametrize("choice", FORMATS)
def test_small_file_is_compared_byte_by_byte_whatever_its_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: FileChoice
) -> None:
    files, _ = _files(tmp_path, choice=choice)
    files.write(("a",), _rows(1))
    sealed = LateWriter.seal

    def damaged(writer: LateWriter) -> FileSeal:
        seal = sealed(writer)
        content = bytearray(Path(writer.path).read_bytes())
        content[len(content) // 2] ^= 1
        Path(writer.path).write_bytes(content)
        return seal

    monkeypatch.setattr(LateWriter, "seal", damaged)
    with pytest.raises(TaskFailedError, match="checksum"):
        files.close()


def test_large_file_is_checked_by_its_size_and_footer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_files, "SMALL_BYTES", 0)
    files, _ = _files(tmp_path)
    files.write(("a",), _rows(1))
    _cut_when_sealed(monkeypatch, attested=False)
    with pytest.raises(TaskFailedError, match="bytes, found"):
        files.close()


def test_file_that_its_store_has_compared_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, _ = _files(tmp_path)
    files.write(("a",), _rows(1))
    _cut_when_sealed(monkeypatch, attested=True)
    (clean,) = files.close()[0]
    assert int(clean.rows) == 1


def _cut_when_sealed(monkeypatch: pytest.MonkeyPatch, *, attested: bool) -> None:
    """What lies on the disk is shorter than what was written."""
    sealed = LateWriter.seal

    def cut(writer: LateWriter) -> FileSeal:
        seal = sealed(writer)
        with Path(writer.path).open("r+b") as stream:
            stream.truncate(seal.size_bytes - 1)
        return replace(seal, attested=attested)

    monkeypatch.setattr(LateWriter, "seal", cut)


def test_file_that_cannot_be_made_durable_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(writer: LateWriter) -> FileSeal:
        raise StorageUnavailableError("ENOSPC", where=writer.path)

    monkeypatch.setattr(LateWriter, "seal", refused)
    files, _ = _files(tmp_path)
    files.write(("a",), _rows(1))
    with pytest.raises(StorageUnavailableError, match="ENOSPC"):
        files.close()
    # Nobody calls `abort` for it any more: it is out of the attempt.
    assert _open_now(tmp_path) == 0
