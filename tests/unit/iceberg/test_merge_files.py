"""Files of a partition become one: rows in order, ids and encodings kept."""

import io
from pathlib import Path
from typing import Any

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.ledger.file_names import FileRecord
from sluiceway.sinks.iceberg.compact.merge_files import (
    MergeGroup,
    MergePlan,
    MergeSource,
    merge_files,
)
from sluiceway.sinks.iceberg.compact.small_files import merge_groups
from sluiceway.storage.access import NO_STORES
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt

FEW, MANY = ["a", None, "b", "a"], ["x1", "x2", "x3", None]


def source(folder: Path, number: int, table: pa.Table, dictionary: list[str]) -> MergeSource:
    """A committed file."""
    raw = io.BytesIO()
    pq.write_table(table, raw, use_dictionary=dictionary, store_schema=False)
    path = folder / f"{number}.parquet"
    path.write_bytes(raw.getvalue())
    return MergeSource(str(path), table.num_rows, f"{google_crc32c.value(raw.getvalue()):08x}")


def with_ids(columns: dict[str, pa.Array]) -> pa.Table:
    fields = [
        pa.field(name, values.type, metadata={"PARQUET:field_id": str(10 + at)})
        for at, (name, values) in enumerate(columns.items())
    ]
    return pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))


def columns(offset: int) -> dict[str, pa.Array]:
    return {
        "few": pa.array(FEW),
        "many": pa.array(MANY),
        "raw": pa.array([b"p", b"q", None, b"p"], pa.binary()),
        "a.b": pa.array(FEW),
        "tags": pa.array([["t"], None, [], ["t", "u"]], pa.list_(pa.string())),
        "n": pa.array([offset, offset + 1, offset + 2, offset + 3]),
    }


def merged(folder: Path, dictionaries: list[list[str]]) -> Any:
    sources = tuple(
        source(folder, number, with_ids(columns(4 * number)), dictionary)
        for number, dictionary in enumerate(dictionaries)
    )
    group = MergeGroup(f"{folder}/new.parquet", sources)
    plan = MergePlan(f"file://{folder}", NO_STORES, "zstd", (group,))
    (one,) = merge_files(plan, LocalStorage())
    assert one is not None
    assert one.rows == 4 * len(sources)
    return pq.ParquetFile(one.target)


def chunks(file: Any) -> dict[str, bool]:
    """Which columns have a dictionary."""
    group = file.metadata.row_group(0)
    found = [group.column(at) for at in range(group.num_columns)]
    return {chunk.path_in_schema: chunk.has_dictionary_page for chunk in found}


def test_columns_keep_their_dictionaries_and_others_get_none(tmp_path: Path) -> None:
    wanted = ["few", "raw", "a.b", "tags.list.element"]
    file = merged(tmp_path, [wanted, wanted])
    assert {path for path, has in chunks(file).items() if has} == set(wanted)
    table = file.read()
    expected = pa.concat_tables([with_ids(columns(0)), with_ids(columns(4))])
    assert table.to_pylist() == expected.to_pylist()
    ids = [field.metadata[b"PARQUET:field_id"] for field in table.schema]
    assert ids == [b"10", b"11", b"12", b"13", b"14", b"15"]
    assert table.schema.types == expected.schema.types


def test_a_dictionary_that_only_one_file_has_is_kept(tmp_path: Path) -> None:
    file = merged(tmp_path, [[], ["few"], []])
    assert {path for path, has in chunks(file).items() if has} == {"few"}
    assert file.read()["few"].to_pylist() == FEW * 3
    assert file.metadata.num_row_groups == 1


@pytest.mark.parametrize("folder", ["c=", "c=__HIVE_DEFAULT_PARTITION__"])
def test_files_of_an_empty_text_and_of_null_are_never_merged(folder: str) -> None:
    """Whatever their folders are called: a merged file has one partition."""

    def file(name: str, value: str | None) -> FileRecord:
        at = f"{folder}/{name}.parquet"
        return FileRecord(f"s/{name}", at, (value,), BigInt(1), BigInt(9), "0" * 8, {})

    files = [(1, file("a", "")), (1, file("b", None)), (2, file("c", "")), (2, file("d", None))]
    groups = merge_groups(files, 1 << 20)
    assert [[each.values for _, each in group] for group in groups] == [[("",)] * 2, [(None,)] * 2]
