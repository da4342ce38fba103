"""Mergings of the sinks against the suite for all of them, and one that orders rows anew."""

from collections.abc import Sequence
from pathlib import Path

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.conformance.compaction import CompactionConformance, CompactionUnderTest
from sluiceway.sinks.files.contract import FileFormat
from sluiceway.sinks.files.span_rows import RowSpan, span_batches
from sluiceway.sinks.iceberg.compact.merge_files import (
    MergeGroup,
    MergePlan,
    MergeSource,
    merge_files,
)
from sluiceway.storage.access import NO_STORES
from sluiceway.storage.local import LocalStorage
from tools.small_files import FORMATS, SCHEMA, SmallFiles, row
from tools.suite_runs import fails, names_of_tests


class FilesOfHive(CompactionUnderTest):
    """`rewrite_files`, with targets so small that several new files come of it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._small = SmallFiles(folder, FORMATS[name])

    def merge(self, files: Sequence[Sequence[int]]) -> list[list[int]]:
        for rows in files:
            self._small.add([row(number) for number in rows])
        return [self._read(each.staged, int(each.rows)) for each in self._small.rewrite(4_000)]

    def _read(self, staged: str, rows: int) -> list[int]:
        path = str(self._small.stage / staged)
        wanted = pa.schema([SCHEMA.field("id")])
        with self._small.storage.open_read(path) as handle:
            batches = span_batches(handle, RowSpan(path, 0, rows, rows, {}), wanted)
            return [number for batch in batches for number in batch.column(0).to_pylist()]


class FilesOfIceberg(CompactionUnderTest):
    """`merge_files`: one new file of a group."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def merge(self, files: Sequence[Sequence[int]]) -> list[list[int]]:
        sources = []
        for number, rows in enumerate(files):
            path = self._folder / f"{number}.parquet"
            pq.write_table(pa.table({"id": pa.array(rows, pa.int64())}), path)
            checksum = f"{google_crc32c.value(path.read_bytes()):08x}"
            sources.append(MergeSource(str(path), len(rows), checksum))
        group = MergeGroup(f"{self._folder}/new.parquet", tuple(sources))
        plan = MergePlan(f"file://{self._folder}", NO_STORES, "zstd", (group,))
        merged = merge_files(plan, LocalStorage())
        return [pq.read_table(each.target)["id"].to_pylist() for each in merged if each is not None]


READABLE = [
    name
    for name, choice in FORMATS.items()
    if choice.format in (FileFormat.PARQUET, FileFormat.ORC, FileFormat.AVRO)
]


class TestFilesOfHive(CompactionConformance):
    @pytest.fixture(params=READABLE)
    def compaction(self, tmp_path: Path, request: pytest.FixtureRequest) -> CompactionUnderTest:
        return FilesOfHive(tmp_path, request.param)


class TestFilesOfIceberg(CompactionConformance):
    @pytest.fixture
    def compaction(self, tmp_path: Path) -> CompactionUnderTest:
        return FilesOfIceberg(tmp_path)


class SortsRows(CompactionUnderTest):
    def merge(self, files: Sequence[Sequence[int]]) -> list[list[int]]:
        return [sorted(row for rows in files for row in rows)]


class LastFileFirst(CompactionUnderTest):
    def merge(self, files: Sequence[Sequence[int]]) -> list[list[int]]:
        return [list(rows) for rows in reversed(files)]


class DropsEqualRows(CompactionUnderTest):
    def merge(self, files: Sequence[Sequence[int]]) -> list[list[int]]:
        return [list(dict.fromkeys(row for rows in files for row in rows))]


@pytest.mark.parametrize(
    ("faulty", "test"),
    [
        (SortsRows(), "test_rows_keep_their_order"),
        (SortsRows(), "test_rows_of_many_files_keep_their_order"),
        (LastFileFirst(), "test_rows_keep_their_order"),
        (DropsEqualRows(), "test_rows_that_are_equal_are_all_kept"),
    ],
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
def test_merging_that_changes_the_order_of_rows_is_found(
    faulty: CompactionUnderTest, test: str
) -> None:
    assert test in names_of_tests(CompactionConformance)
    assert fails(CompactionConformance(), test, compaction=faulty)
