"""Small files of a table become few, with the same rows in the same order, in every format."""

import zlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import fastavro
import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from sluiceway.errors import FileLostError, TaskFailedError
from sluiceway.ledger.file_names import FileRecord
from sluiceway.sinks.files.contract import FileChoice, FileFormat
from sluiceway.sinks.files.reading import file_ending, line_chunks
from sluiceway.types.strict_json import BigInt
from tools.small_files import FORMATS, PARQUET, SCHEMA, USUAL, SmallFiles, choice_of, row

OLD = datetime.fromisoformat("0001-01-01T00:00:00.000001")
FAR = datetime.fromisoformat("9999-12-31T23:59:59.999999")


def encoded(paths: Sequence[Path]) -> bytes:
    """Lines of files, without their compression."""

    def chunks() -> Iterator[bytes]:
        for path in paths:
            with path.open("rb") as handle:
                yield from line_chunks(str(path), handle)

    return b"".join(chunks())


def rows_of(choice: FileChoice, paths: Sequence[Path]) -> Any:
    """Rows of files by other readers than the one that merges."""
    match choice.format:
        case FileFormat.PARQUET:
            tables = [pq.read_table(path, coerce_int96_timestamp_unit="us") for path in paths]
            return pa.concat_tables(tables).to_pylist()
        case FileFormat.ORC:
            return pa.concat_tables([orc.read_table(path) for path in paths]).to_pylist()
        case FileFormat.AVRO:
            found = []
            for path in paths:
                with path.open("rb") as handle:
                    found += list(fastavro.reader(handle))
            return found
        case _:
            return encoded(paths)


@pytest.mark.parametrize("name", FORMATS)
def test_small_files_become_one_with_the_same_rows_in_order(name: str, tmp_path: Path) -> None:
    choice = FORMATS[name]
    table = SmallFiles(tmp_path, choice)
    for start in range(0, 120, 10):
        table.add([row(number) for number in range(start, start + 10)])
    (made,) = table.rewrite()
    path = table.staged(made)
    same = rows_of(choice, [path]) == rows_of(choice, table.old())
    assert same
    assert made.rows == 120
    assert path.name == f"orders-i7-0-0{file_ending(choice)}"
    assert path.stat().st_size == made.size_bytes
    # As one file, written by a task, would have it.
    whole = SmallFiles(tmp_path / "whole", choice)
    whole.add([row(number) for number in range(120)])
    assert made.bounds == whole.files[0].bounds
    assert made.values == ("1",)


@pytest.mark.parametrize("name", ["parquet", "parquet_micros"])
def test_parquet_keeps_every_physical_form(name: str, tmp_path: Path) -> None:
    table = SmallFiles(tmp_path, FORMATS[name])
    table.add([row(0, at=OLD), row(1, at=FAR)])
    table.add([row(2), row(3)])
    (made,) = table.rewrite()
    old, new = pq.ParquetFile(table.old()[0]), pq.ParquetFile(table.staged(made))
    assert str(new.schema).partition("\n")[2] == str(old.schema).partition("\n")[2]
    assert new.schema_arrow.equals(old.schema_arrow, check_metadata=True)
    assert new.num_row_groups == 1
    kinds = {new.schema.column(at).physical_type for at in range(len(new.schema))}
    assert ("INT96" in kinds) == (name == "parquet")
    read = pq.read_table(table.staged(made), coerce_int96_timestamp_unit="us")
    at = read["at"].cast(pa.timestamp("us")).to_pylist()
    assert at[:2] == [OLD, FAR]
    assert made.bounds["at"] == ("0001-01-01T00:00:00.000001Z", "9999-12-31T23:59:59.999999Z")
    first = new.metadata.row_group(0).column(0)
    assert (first.statistics.min, first.statistics.max, first.statistics.null_count) == (0, 3, 0)
    assert first.compression == FORMATS[name].compression.upper()


def test_parquet_builds_dictionaries_where_they_pay_as_a_task_does(tmp_path: Path) -> None:
    table = SmallFiles(tmp_path, PARQUET)
    for start in range(0, 40, 10):
        table.add([{**row(n), "name": "Berlin"} for n in range(start, start + 10)])
    (made,) = table.rewrite()
    footer = pq.ParquetFile(table.staged(made)).metadata.row_group(0)
    found = {footer.column(at).path_in_schema: footer.column(at) for at in range(8)}
    assert found["name"].has_dictionary_page
    assert not found["id"].has_dictionary_page


@pytest.mark.parametrize("name", FORMATS)
def test_files_are_ended_at_the_target_size(name: str, tmp_path: Path) -> None:
    choice = FORMATS[name]
    table = SmallFiles(tmp_path, choice)
    for start in range(0, 60, 10):
        table.add([row(number) for number in range(start, start + 10)])
    size = sum(int(each.size_bytes) for each in table.files)
    target = max(int(each.size_bytes) for each in table.files) + 1
    made = table.rewrite(target)
    assert sum(int(each.rows) for each in made) == 60
    assert 1 <= len(made) <= -(-size // target) + 1
    same = rows_of(choice, [table.staged(each) for each in made]) == rows_of(choice, table.old())
    assert same


@pytest.mark.parametrize("name", ["parquet", "orc"])
def test_files_of_unlike_columns_stay_apart(name: str, tmp_path: Path) -> None:
    choice = FORMATS[name]
    table = SmallFiles(
        tmp_path, FileChoice(choice.format, choice.compression, None, choice.settings)
    )
    less = pa.schema([field for field in SCHEMA if field.name != "price"])
    few = [{key: value for key, value in row(n).items() if key != "price"} for n in range(4)]
    table.add(few[:2], less)
    table.add(few[2:], less)
    table.add([row(4), row(5)])
    table.add([row(6)])
    made = table.rewrite()
    assert [int(each.rows) for each in made] == [4, 3]
    names = [
        (
            pq.read_schema(table.staged(each))
            if name == "parquet"
            else orc.ORCFile(table.staged(each)).schema
        ).names
        for each in made
    ]
    assert names == [less.names, SCHEMA.names]


def test_orc_with_moments_that_cannot_be_read_back_is_refused(tmp_path: Path) -> None:
    table = SmallFiles(tmp_path, FORMATS["orc"])
    table.add([row(0, at=FAR.replace(microsecond=0))])
    with pytest.raises(TaskFailedError, match="column at has moments"):
        table.rewrite()
    inside = pa.schema([("id", pa.int64()), ("s", pa.struct([("t", pa.timestamp("us"))]))])
    nested = SmallFiles(tmp_path / "n", FileChoice(FileFormat.ORC, "zstd", None, ()), inside)
    nested.add([{"id": 1, "s": {"t": USUAL}}])
    with pytest.raises(TaskFailedError, match="column s has timestamps inside"):
        nested.rewrite()


@pytest.mark.parametrize("name", ["parquet", "text", "avro"])
def test_file_that_is_not_the_committed_one_ends_the_work(name: str, tmp_path: Path) -> None:
    table = SmallFiles(tmp_path, FORMATS[name])
    table.add([row(0)])
    table.add([row(1)])
    path = table.old()[1]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(FileLostError, match="its checksum is"):
        table.rewrite()
    path.write_bytes(content[:-1])
    with pytest.raises(FileLostError, match="bytes long"):
        table.rewrite()
    path.unlink()
    with pytest.raises(FileLostError, match="gone"):
        table.rewrite()
    assert not list(table.stage.glob("i7-0/*.inprogress"))


def test_file_of_another_format_is_refused(tmp_path: Path) -> None:
    table = SmallFiles(tmp_path, PARQUET)
    table.add([row(0)])
    table.choice = FORMATS["orc"]
    with pytest.raises(TaskFailedError, match="not of the table's format"):
        table.rewrite()


def test_line_that_does_not_end_is_refused(tmp_path: Path) -> None:
    table = SmallFiles(tmp_path, choice_of(FileFormat.JSON, "none"))
    table.add([row(0)])
    path = table.old()[0]
    content = path.read_bytes() + b'{"id":1}'
    path.write_bytes(content)
    checksum = f"{google_crc32c.value(content):08x}"
    first = table.files[0]
    size = BigInt(len(content))
    table.files[0] = FileRecord("", first.final, ("1",), first.rows, size, checksum, {})
    with pytest.raises(TaskFailedError, match="its last line does not end"):
        table.rewrite()


def test_merged_gzip_file_is_one_member(tmp_path: Path) -> None:
    table = SmallFiles(tmp_path, FORMATS["text"])
    for number in range(3):
        table.add([row(number)])
    (made,) = table.rewrite()
    codec = zlib.decompressobj(31)
    content = codec.decompress(table.staged(made).read_bytes())
    assert codec.eof
    assert not codec.unused_data
    assert content == encoded(table.old())
