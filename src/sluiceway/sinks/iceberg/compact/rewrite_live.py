"""Rewrites live files of one partition as one, without their dead rows; in a process of its own.

A row keeps its order: file by file as the plan names them, in each as it lies there. So the place
of each row in the new file is known without reading it. A group that fails leaves no file,
and is not in the way of the others.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sluiceway.errors import (
    FileLostError,
    SluicewayError,
    StorageUnavailableError,
    TaskFailedError,
)
from sluiceway.storage.access import Stores
from sluiceway.storage.contract import Storage
from sluiceway.storage.registry import open_storage
from sluiceway.work.process import UnattendedProcess
from sluiceway.work.request import WorkRequest

Positions = NDArray[np.int64]

_FIELD_ID = b"PARQUET:field_id"
_ZSTD_LEVEL = 1
_GROUP_BYTES = 64 << 20
_NICER = 10


@dataclass(frozen=True, slots=True, eq=False)
class LiveFile:
    """A file that the table has.

    Attributes:
        path: Path as the storage names it.
        rows: Rows in it, dead ones too.
        dead: Rows that no reader sees, rising.
    """

    path: str
    rows: int
    dead: Positions


@dataclass(frozen=True, slots=True, eq=False)
class RewriteGroup:
    """Files of one partition that become one, or one for each set of columns.

    Attributes:
        stem: Beginning of the new files' names, as the storage has them; unique. A number
            follows, from 0 on without a gap.
        sources: Files in the order that their rows keep.
    """

    stem: str
    sources: tuple[LiveFile, ...]


@dataclass(frozen=True, slots=True, eq=False)
class LakeRewritePlan:
    """What the process gets; see `MergePlan`."""

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


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """What became of a group.

    Attributes:
        files: The new ones.
        failure: Why there are none.
        bad: The file of the group that could not be read, by number; None when it is not known.
    """

    files: tuple[NewFile, ...] = ()
    failure: SluicewayError | None = None
    bad: int | None = None


class _UnreadableError(Exception):
    """A file of a group cannot be read."""

    def __init__(self, source: LiveFile, failure: SluicewayError) -> None:
        super().__init__(source.path)
        self.source = source
        self.failure = failure


def begin_rewriting(plan: LakeRewritePlan) -> UnattendedProcess:
    """Have a plan carried out by a process of its own: an answer for each group.

    Raises:
        TaskFailedError: No process can be begun.
    """
    return UnattendedProcess(WorkRequest(f"{__name__}:{rewrite_in_table.__name__}", plan))


def rewrite_in_table(plan: LakeRewritePlan, attempt: str) -> Iterator[GroupAnswer]:
    """`rewrite_live` as work for a process of its own, with little priority."""
    del attempt
    storage, _ = open_storage(plan.location, plan.stores)
    # No caller waits for it: rows that are merged before their snapshot are waited for.
    os.nice(_NICER)
    yield from rewrite_live(plan, storage)


def rewrite_live(plan: LakeRewritePlan, storage: Storage) -> Iterator[GroupAnswer]:
    """Rewrite each group, one when it is asked for. Never raises for what is in a group.

    Files that no other of the group is like are left alone.
    """
    for group in plan.groups:
        yield _answered(group, plan, storage)


def _answered(group: RewriteGroup, plan: LakeRewritePlan, storage: Storage) -> GroupAnswer:
    bad: int | None = None
    try:
        return GroupAnswer(tuple(_rewritten(group, plan, storage)))
    except _UnreadableError as error:
        failure, bad = error.failure, group.sources.index(error.source)
    except SluicewayError as error:
        failure = error
    except Exception as error:  # noqa: BLE001 - a group's boundary: the others go on
        failure = TaskFailedError(f"{type(error).__name__}: {str(error)[:300]}")
    try:
        remove_new(group, storage)
    except SluicewayError as error:
        failure = TaskFailedError(f"{failure}; what was written of it stays: {error}")
    return GroupAnswer(failure=failure, bad=bad)


def remove_new(group: RewriteGroup, storage: Storage) -> None:
    """Remove what was written of a group. Only while no request has named a file of it.

    Raises:
        StorageUnavailableError: What is left is an orphan.
    """
    for number in count():
        path = _new_path(group, number)
        if storage.status(path) is None:
            return
        storage.remove(path)


def _new_path(group: RewriteGroup, number: int) -> str:
    return f"{group.stem}-{number}.parquet"


def _rewritten(group: RewriteGroup, plan: LakeRewritePlan, storage: Storage) -> Iterator[NewFile]:
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
    written = 0
    for schema, numbers in alike:
        if len(numbers) > 1:
            sources = [group.sources[number] for number in numbers]
            path = _new_path(group, written)
            rows, size_bytes = _write(path, schema, sources, plan.compression, storage)
            written += 1 if rows else 0
            yield NewFile(path if rows else "", rows, size_bytes, tuple(numbers))


@contextmanager
def _reading(source: LiveFile, storage: Storage) -> Iterator[BinaryIO]:
    """A file of a group, open; whatever fails in reading it says which one it is."""
    failure: SluicewayError
    try:
        with storage.open_read(source.path) as handle:
            yield handle
    except SluicewayError as error:
        failure = error
    except OSError as error:
        failure = StorageUnavailableError(f"cannot be read: {error}", where=source.path)
    except (pa.ArrowException, ValueError) as error:
        failure = TaskFailedError(f"it cannot be rewritten: {error}", where=source.path)
    else:
        return
    raise _UnreadableError(source, failure)


def _schema(source: LiveFile, storage: Storage) -> pa.Schema | None:
    """Columns of a file; None where the file would not be the same once we write it."""
    with _reading(source, storage) as handle:
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
    with _reading(source, storage) as handle:
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
