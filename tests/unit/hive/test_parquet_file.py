"""Staged Parquet files: what is written is what is read, by two readers."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.errors import StorageUnavailableError, TaskFailedError
from sluiceway.sinks.files.contract import FileChoice
from sluiceway.sinks.files.parquet_file import (
    FileColumns,
    ParquetFormat,
    ParquetStagedFile,
    dictionary_columns,
)
from sluiceway.storage.checksummed import ChecksummedStream
from sluiceway.storage.local import LocalStorage

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(18, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("geo", pa.struct([("city", pa.string()), ("lat", pa.float64())])),
        ("tags", pa.list_(pa.string())),
        ("attrs", pa.map_(pa.string(), pa.int32())),
        ("ratio", pa.float64()),
        ("none", pa.int32()),
    ]
)
FORMAT = ParquetFormat(SCHEMA, FileChoice())


def row(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "name": f"name {number % 7}",
        "price": Decimal(number) / 100,
        "at": datetime(2026, 11, 20, 8, 0, 0, number, tzinfo=UTC),
        "day": date(2026, 11, 1 + number % 20),
        "geo": {"city": "北京", "lat": number / 3},
        "tags": ["a", None, f"t{number}"],
        "attrs": [("k", number)],
        "ratio": float("nan") if number % 2 else number / 2,
        "none": None,
    }


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def new_file(folder: Path, **options: Any) -> ParquetStagedFile:
    writer = LocalStorage().create_staged(str(folder / "a.parquet"))
    return ParquetStagedFile(writer, SCHEMA, **options)


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip"])
def test_staged_file_rows_read_back_equal(tmp_path: Path, compression: str) -> None:
    rows = [row(number) for number in range(100)]
    file = new_file(tmp_path, compression=compression)
    file.write(batch_of(rows[:60]))
    file.write(batch_of(rows[60:]))
    written = file.close()
    content = Path(written.path).read_bytes()
    checksum = google_crc32c.Checksum(content).hexdigest().decode()
    assert (written.rows, written.seal.size_bytes, written.seal.crc32c) == (
        100,
        len(content),
        checksum,
    )
    columns = "id, name, price, geo, tags, attrs['k'] as k"
    found = duckdb.sql(f"select {columns} from '{written.path}' order by id").fetchall()  # noqa: S608
    assert found[99] == (
        99,
        "name 1",
        Decimal("0.99"),
        {"city": "北京", "lat": 33.0},
        ["a", None, "t99"],
        99,
    )
    footer = pq.ParquetFile(written.path)
    assert footer.metadata.row_group(0).column(0).compression == compression.upper()
    assert footer.schema.column(3).physical_type == "INT96"
    FORMAT.check(
        LocalStorage(), written.path, size_bytes=written.seal.size_bytes, rows=written.rows
    )


def test_staged_file_old_and_far_timestamps_keep_their_microsecond(tmp_path: Path) -> None:
    moments = [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1582, 10, 4, 1, 2, 3, 4, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ]
    file = new_file(tmp_path)
    file.write(batch_of([{**row(index), "at": at} for index, at in enumerate(moments)]))
    written = file.close()
    found = duckdb.sql(f"select epoch_us(\"at\") from '{written.path}' order by id").fetchall()  # noqa: S608
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    expected = [(at - epoch) // (datetime.resolution) for at in moments]
    assert [micros for (micros,) in found] == expected
    assert written.column_bounds["at"] == (
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
    )


def test_staged_file_column_bounds_are_of_simple_columns_only(tmp_path: Path) -> None:
    file = new_file(tmp_path, row_group_bytes=1)
    for number in (5, 3, 8):
        file.write(batch_of([row(number)]))
    assert file.close().column_bounds == {
        "id": ("3", "8"),
        "price": ("0.03", "0.08"),
        "at": ("2026-11-20T08:00:00.000003Z", "2026-11-20T08:00:00.000008Z"),
        "day": ("2026-11-04", "2026-11-09"),
        "ratio": ("4.0", "4.0"),
    }


def test_a_small_file_is_handed_on_in_few_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    write = ChecksummedStream.write

    def counted(self: ChecksummedStream, data: bytes | memoryview) -> int:
        sizes.append(len(data))
        return write(self, data)

    monkeypatch.setattr(ChecksummedStream, "write", counted)
    file = new_file(tmp_path)
    file.write(batch_of([row(number) for number in range(50)]))
    written = file.close()
    assert sum(sizes) == written.seal.size_bytes == Path(written.path).stat().st_size
    assert len(sizes) <= 3


def test_staged_file_row_groups_are_bounded_by_bytes(tmp_path: Path) -> None:
    batch = batch_of([row(number) for number in range(50)])
    file = new_file(tmp_path, row_group_bytes=2 * batch.nbytes)
    file.write(batch)
    assert file.buffered_bytes == batch.nbytes
    file.write(batch)
    assert file.buffered_bytes == 0
    assert file.written_bytes > 0
    file.write(batch)
    written = file.close()
    metadata = pq.ParquetFile(written.path).metadata
    assert [metadata.row_group(group).num_rows for group in range(2)] == [100, 50]
    assert written.rows == file.rows == 150


def test_staged_file_without_rows_is_a_whole_file(tmp_path: Path) -> None:
    file = new_file(tmp_path)
    file.write(batch_of([]))
    written = file.close()
    assert written.rows == 0
    assert written.column_bounds == {}
    FORMAT.check(LocalStorage(), written.path, size_bytes=written.seal.size_bytes, rows=0)


def test_staged_file_abort_leaves_nothing(tmp_path: Path) -> None:
    file = new_file(tmp_path, row_group_bytes=1)
    file.write(batch_of([row(1)]))
    file.abort()
    file.abort()
    assert list(tmp_path.iterdir()) == []


def test_staged_file_other_schema_fails_the_task(tmp_path: Path) -> None:
    file = new_file(tmp_path)
    file.write(pa.RecordBatch.from_pylist([{"other": 1}]))
    with pytest.raises(TaskFailedError, match="cannot be written"):
        file.flush()
    file.abort()


def test_staged_file_full_disk_is_a_storage_error(tmp_path: Path) -> None:
    file = new_file(tmp_path, row_group_bytes=1)

    def full(_data: object) -> int:
        raise OSError(28, "No space left on device")

    file._writer.handle().write = full  # type: ignore[method-assign]
    with pytest.raises(StorageUnavailableError, match="No space left"):
        file.write(batch_of([row(1)]))
    file.abort()


@pytest.mark.parametrize(("size_change", "row_change"), [(1, 0), (0, 1)])
def test_check_wrong_numbers_fail_the_task(
    tmp_path: Path, size_change: int, row_change: int
) -> None:
    file = new_file(tmp_path)
    file.write(batch_of([row(1)]))
    written = file.close()
    with pytest.raises(TaskFailedError, match="expected"):
        FORMAT.check(
            LocalStorage(),
            written.path,
            size_bytes=written.seal.size_bytes + size_change,
            rows=1 + row_change,
        )


def test_check_damaged_footer_fails_the_task(tmp_path: Path) -> None:
    file = new_file(tmp_path)
    file.write(batch_of([row(1)]))
    written = file.close()
    path = Path(written.path)
    path.write_bytes(path.read_bytes()[:-4] + b"XXXX")
    with pytest.raises(TaskFailedError, match="footer"):
        FORMAT.check(LocalStorage(), str(path), size_bytes=written.seal.size_bytes, rows=1)
    path.unlink()
    with pytest.raises(TaskFailedError, match="found None"):
        FORMAT.check(LocalStorage(), str(path), size_bytes=written.seal.size_bytes, rows=1)


def test_small_files_of_a_task_take_the_columns_that_one_of_them_has_found() -> None:
    few = pa.table({"app": ["a"] * 49})
    columns = FileColumns(few.schema)
    assert columns.with_dictionary(few) == ["app"]
    unlike = pa.table({"app": [f"{number}" for number in range(50)]})
    assert columns.with_dictionary(unlike) == [], "49 rows are no word for others"
    assert columns.with_dictionary(few) == []
    many = pa.table({"app": ["a"] * 2_000})
    assert columns.with_dictionary(many) == ["app"], "a large file looks for itself"
    assert columns.with_dictionary(few) == ["app"]


def test_bounds_are_read_from_the_chunks_of_their_own_columns(tmp_path: Path) -> None:
    point = pa.struct([("x", pa.int64()), ("tags", pa.list_(pa.int32()))])
    columns = [
        ("at", point),
        ("small", pa.int8()),
        ("counts", pa.map_(pa.string(), point)),
        ("price", pa.decimal128(9, 2)),
        ("name", pa.string()),
        ("seen", pa.timestamp("us")),
        ("day", pa.date32()),
        ("all", pa.list_(point)),
        ("share", pa.float64()),
    ]
    schema = pa.schema(columns)
    path = tmp_path / "f.parquet"
    pq.write_table(schema.empty_table(), path)
    chunks = pq.read_metadata(path).schema
    found = {chunks.column(chunk).path: name for chunk, name in FileColumns(schema).bounded}
    assert found == {name: name for name in ("small", "price", "day", "share")}


def test_dictionary_columns_follow_the_share_of_distinct_values() -> None:
    table = pa.table(
        {
            "unique": [f"event {index:08x}" for index in range(1000)],
            "few": ["abc"[index % 3] for index in range(1000)],
            "flag": [True] * 1000,
            "empty": pa.nulls(1000, pa.string()),
            "geo": [{"city": "x", "lat": index / 7} for index in range(1000)],
            "tags": [["p", "q"]] * 1000,
            "attrs": pa.array(
                [[("k", index)] for index in range(1000)], SCHEMA.field("attrs").type
            ),
        }
    )
    assert dictionary_columns(table) == [
        "few",
        "geo.city",
        "tags.list.element",
        "attrs.key_value.key",
    ]
