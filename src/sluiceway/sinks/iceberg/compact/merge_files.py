"""Merges small files of a partition into one; runs in a process of its own (`sluiceway.work`)."""

import io
from dataclasses import dataclass
from typing import Any

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq

from sluiceway.errors import FileLostError, TaskFailedError
from sluiceway.storage.access import Stores
from sluiceway.storage.contract import Storage
from sluiceway.storage.registry import open_storage

_ZSTD_LEVEL = 1


@dataclass(frozen=True, slots=True)
class MergeSource:
    """A committed file: where it is, and what it must be."""

    path: str
    rows: int
    crc32c: str


@dataclass(frozen=True, slots=True)
class MergeGroup:
    """Files of one partition that become one.

    Attributes:
        target: Name of the new file, as the storage has it.
        sources: Files in the order that their rows keep.
    """

    target: str
    sources: tuple[MergeSource, ...]


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What the process gets.

    Attributes:
        location: Location of the table.
        stores: How its store is reached.
        compression: Compression of new files.
    """

    location: str
    stores: Stores
    compression: str
    groups: tuple[MergeGroup, ...]


@dataclass(frozen=True, slots=True)
class MergedOne:
    """A new file. None of a group whose files have unlike columns."""

    target: str
    rows: int
    size_bytes: int


def merge_in_table(plan: MergePlan, attempt: str) -> tuple[MergedOne | None, ...]:
    """`merge_files` as work for a process of its own, with unique new names."""
    del attempt
    storage, _ = open_storage(plan.location, plan.stores)
    return merge_files(plan, storage)


def merge_files(plan: MergePlan, storage: Storage) -> tuple[MergedOne | None, ...]:
    """Write each group's file; rows keep their order.

    Raises:
        FileLostError: A file is not the one that was committed.
        TaskFailedError: The new file does not have the rows of the old ones.
        StorageUnavailableError: The store failed.
    """
    return tuple(_merged(group, plan, storage) for group in plan.groups)


def _merged(group: MergeGroup, plan: MergePlan, storage: Storage) -> MergedOne | None:
    opened = [_opened(source, storage) for source in group.sources]
    encoded = _with_dictionary(opened)
    # A column of few values stays as it was encoded, from the old files to the new one.
    texts = [path for path, kind in encoded.items() if kind == "BYTE_ARRAY" and "." not in path]
    tables = [
        _rows(source, file, texts) for source, file in zip(group.sources, opened, strict=True)
    ]
    schema = tables[0].schema
    if any(not table.schema.equals(schema, check_metadata=True) for table in tables):
        return None
    whole = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    storage.expect_files(group.target.rpartition("/")[0])
    writer = storage.create_staged(group.target)
    try:
        with pq.ParquetWriter(
            writer.handle(),
            schema,
            compression=plan.compression,
            compression_level=_ZSTD_LEVEL if plan.compression == "zstd" else None,
            use_dictionary=list(encoded),
            store_schema=False,
            store_decimal_as_integer=True,
        ) as parquet:
            parquet.write_table(whole, row_group_size=max(whole.num_rows, 1))
        seal = writer.seal()
    except BaseException:
        writer.abort()
        raise
    with storage.open_read(group.target) as handle:
        rows = pq.ParquetFile(handle).metadata.num_rows
    if rows != sum(source.rows for source in group.sources):
        raise TaskFailedError(f"it has {rows} rows, not those of its sources", where=group.target)
    storage.sync_folder(group.target.rpartition("/")[0])
    return MergedOne(group.target, rows, seal.size_bytes)


def _opened(source: MergeSource, storage: Storage) -> bytes:
    with storage.open_read(source.path) as handle:
        raw: bytes = handle.read()
    found = f"{google_crc32c.value(raw):08x}"
    if found != source.crc32c:
        raise FileLostError(f"its checksum is {found}, not {source.crc32c}", where=source.path)
    return raw


def _rows(source: MergeSource, raw: bytes, texts: list[str]) -> Any:
    table = pq.read_table(io.BytesIO(raw), read_dictionary=texts)
    if table.num_rows != source.rows:
        raise FileLostError(f"it has {table.num_rows} rows, not {source.rows}", where=source.path)
    return table


def _with_dictionary(files: list[bytes]) -> dict[str, str]:
    """Columns that have a dictionary in any of the files, with how Parquet stores them."""
    found = {}
    for raw in files:
        footer = pq.read_metadata(io.BytesIO(raw))
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        for chunk in (group.column(at) for group in groups for at in range(group.num_columns)):
            if chunk.has_dictionary_page:
                found[chunk.path_in_schema] = chunk.physical_type
    return found
