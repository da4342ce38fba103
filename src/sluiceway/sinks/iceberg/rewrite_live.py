"""Writes live files of one partition anew as one, without their dead rows; in `merge_process`.

A row keeps its order: file by file as the plan names them, in each as it lies there. So the place
of each row in the new file is known without reading it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sluiceway.errors import FileLostError, SluicewayError, TaskFailedError
from sluiceway.storage.access import Stores
from sluiceway.storage.contract import Storage

Positions = NDArray[np.int64]

_FIELD_ID = b"PARQUET:field_id"
_ZSTD_LEVEL = 1
_GROUP_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, eq=False)
class LiveFile:
    """A file that the table has.

    Attributes:
        path: As the storage names it.
        rows: In it, dead ones too.
        dead: Rows that nobody reads, rising.
    """

    path: str
    rows: int
    dead: Positions


@dataclass(frozen=True, slots=True, eq=False)
class RewriteGroup:
    """Files of one partition that become one, or one for each set of columns.

    Attributes:
        stem: Of the new files' names, as the storage has them; nobody else has it.
        sources: In the order that their rows keep.
    """

    stem: str
    sources: tuple[LiveFile, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RewritePlan:
    """What the process is told; see `MergePlan`."""

    location: str
    stores: Stores
    compression: str
    groups: tuple[RewriteGroup, ...]


@dataclass(frozen=True, slots=True)
class NewFile:
    """What stands for some files of a group.

    Attributes:
        path: Empty when no row of them is alive.
        sources: Which of the group, by number, in the order of their rows.
    """

    path: str
    rows: int
    size_bytes: int
    sources: tuple[int, ...]


RewriteAnswer = tuple[tuple[NewFile, ...], ...] | SluicewayError
"""Those of each group, or why there are none."""


def rewrite_live(plan: RewritePlan, storage: Storage) -> tuple[tuple[NewFile, ...], ...]:
    """Write each group anew. Files that no other of the group is like are left alone.

    Raises:
        FileLostError: A file does not have the rows that the table says.
        TaskFailedError: A new file does not have the rows of the old ones.
        StorageUnavailableError: The store failed.
    """
    return tuple(tuple(_rewritten(group, plan, storage)) for group in plan.groups)


def _rewritten(group: RewriteGroup, plan: RewritePlan, storage: Storage) -> Iterator[NewFile]:
    alike: list[tuple[pa.Schema, list[int]]] = []
    for number, source in enumerate(group.sources):
        schema = _schema(source, storage)
        if schema is None:
            continue
        for held, numbers in alike:
            if held.equals(schema, check_metadata=True):
                numbers.append(number)
                break
        else:
            alike.append((schema, [number]))
    for at, (schema, numbers) in enumerate(alike):
        if len(numbers) > 1:
            sources = [group.sources[number] for number in numbers]
            path = f"{group.stem}-{at}.parquet"
            rows, size_bytes = _write(path, schema, sources, plan.compression, storage)
            yield NewFile(path if rows else "", rows, size_bytes, tuple(numbers))


def _schema(source: LiveFile, storage: Storage) -> pa.Schema | None:
    """Columns of a file; None of one that would not be the same when it is written by us."""
    with storage.open_read(source.path) as handle:
        file = _opened(handle, source)
        if any(file.schema.column(n).physical_type == "INT96" for n in range(len(file.schema))):
            return None
        schema = file.schema_arrow.remove_metadata()
    if any(_FIELD_ID not in (field.metadata or {}) for field in schema):
        return None
    return schema


def _opened(handle: BinaryIO, source: LiveFile) -> Any:
    try:
        file = pq.ParquetFile(handle)
    except pa.ArrowException as error:
        raise FileLostError(f"it is no whole Parquet file: {error}", where=source.path) from error
    if file.metadata.num_rows != source.rows:
        raise FileLostError(
            f"it has {file.metadata.num_rows} rows, the table says {source.rows}",
            where=source.path,
        )
    return file


def _write(
    path: str, schema: pa.Schema, sources: list[LiveFile], compression: str, storage: Storage
) -> tuple[int, int]:
    """Write the living rows; their number, and the file's size."""
    wanted = sum(source.rows - len(source.dead) for source in sources)
    if not wanted:
        return 0, 0
    storage.expect_files(path.rpartition("/")[0])
    writer = storage.create_staged(path)
    try:
        with pq.ParquetWriter(
            writer.handle(),
            schema,
            compression=compression,
            compression_level=_ZSTD_LEVEL if compression == "zstd" else None,
            store_schema=False,
            store_decimal_as_integer=True,
        ) as parquet:
            for rows in _gathered(sources, storage):
                parquet.write_table(rows, row_group_size=max(rows.num_rows, 1))
        seal = writer.seal()
    except BaseException:
        writer.abort()
        raise
    with storage.open_read(path) as handle:
        held = pq.ParquetFile(handle).metadata.num_rows
    if held != wanted:
        raise TaskFailedError(f"it has {held} rows, its sources have {wanted}", where=path)
    storage.sync_folder(path.rpartition("/")[0])
    return wanted, seal.size_bytes


def _gathered(sources: list[LiveFile], storage: Storage) -> Iterator[pa.Table]:
    """Living rows in pieces of a row group."""
    parts: list[pa.Table] = []
    for source in sources:
        for rows in _living(source, storage):
            parts.append(rows.replace_schema_metadata(None))
            if sum(part.nbytes for part in parts) >= _GROUP_BYTES:
                yield pa.concat_tables(parts).combine_chunks()
                parts = []
    if parts:
        yield pa.concat_tables(parts).combine_chunks()


def _living(source: LiveFile, storage: Storage) -> Iterator[pa.Table]:
    with storage.open_read(source.path) as handle:
        file, first = _opened(handle, source), 0
        for number in range(file.num_row_groups):
            rows = file.read_row_group(number)
            start, stop = np.searchsorted(source.dead, (first, first + rows.num_rows))
            if stop > start:
                kept = np.ones(rows.num_rows, bool)
                kept[source.dead[start:stop] - first] = False
                yield rows.filter(pa.array(kept))
            else:
                yield rows
            first += rows.num_rows
