"""Writes the rows of many small files of a partition into few larger ones.

Runs in a process of its own next to the driver, or as a task of Spark (`sluiceway.work`).
Memory holds one row group at the most, however large the partition is.
"""

from dataclasses import dataclass, replace

import pyarrow as pa

from sluiceway.errors import (
    FileLostError,
    StorageUnavailableError,
    TaskFailedError,
)
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.observe.failpoints import Role, arm, reach
from sluiceway.sinks.files.column_bounds import widest_bounds
from sluiceway.sinks.files.contract import FileChoice, WrittenFile
from sluiceway.sinks.files.merging import ClosedFile, MergedFile, open_closed
from sluiceway.sinks.files.reading import count_rows, file_ending, has_footer
from sluiceway.storage.access import NO_STORES, Stores
from sluiceway.storage.contract import Storage
from sluiceway.storage.copying import stream_crc32c
from sluiceway.storage.registry import open_storage
from sluiceway.types.strict_json import BigInt
from sluiceway.work.request import WorkRequest
from sluiceway.worker.plan import FileRules


@dataclass(frozen=True, slots=True)
class RewritePlan:
    """What a rewriting process, or a task, gets of one partition.

    Attributes:
        folder: Where the new files are staged: absolute, and it exists.
        files: To be read, in the order that their rows keep.
        choice: How the table's files are written.
        rules: Size at which a new file is ended and another one begun, and how they are named.
        stores: How the table's store is reached.
        again: See `rewrite_partition`.
    """

    layout: LedgerLayout
    folder: str
    files: tuple[FileRecord, ...]
    choice: FileChoice
    rules: FileRules
    stores: Stores = NO_STORES
    again: str = ""


def rewrite_request(plan: RewritePlan) -> WorkRequest:
    """The request to rewrite a partition; its answer holds `FileRecord`s."""
    return WorkRequest(
        f"{__name__}:{rewrite_partition.__name__}",
        plan,
        "a bug, or files that this version cannot rewrite; nothing was changed",
        size_bytes=sum(int(record.size_bytes) for record in plan.files),
        place=(plan.layout.table_root, plan.stores),
        route=plan.layout.route,
    )


def rewrite_partition(plan: RewritePlan, attempt: str) -> tuple[FileRecord, ...]:
    """Rewrite a partition.

    Args:
        plan: What to do.
        attempt: Keeps the files of a further attempt apart from files that earlier ones may have
            begun or still write; empty for the first.

    Raises:
        SluicewayError: As `rewrite_files`.
    """
    arm(Role.WORKER)
    storage, _ = open_storage(plan.layout.table_root, plan.stores)
    files = rewrite_files(replace(plan, again=attempt), storage)
    reach("rewrite.done", plan.folder)
    return files


def rewrite_files(plan: RewritePlan, storage: Storage) -> tuple[FileRecord, ...]:
    """Rewrite the rows of all files; rows keep their order, files of unlike columns stay apart.

    Each file is compared with its record, whole, before it is read, and each new one after it was
    written (commit rule 28).

    Args:
        plan: What to do.
        storage: The table's storage.

    Returns:
        The new files, in the order of their rows, named in the plan's folder.

    Raises:
        FileLostError: A file is not the one that was committed.
        TaskFailedError: A file cannot be read or written exactly; says which and why.
        StorageUnavailableError: The store failed.
    """
    merge = _Merge(plan, storage)
    try:
        for record in plan.files:
            merge.append(record)
        return merge.finish()
    except BaseException:
        merge.abort()
        raise


class _Merge:
    """The new files of one rewriting, one open at a time."""

    def __init__(self, plan: RewritePlan, storage: Storage) -> None:
        self._plan = plan
        self._storage = storage
        self._attempt = plan.folder.rpartition("/")[2]
        self._open: MergedFile | None = None
        self._kind: object = None
        self._sources: list[FileRecord] = []
        self._records: list[FileRecord] = []

    def append(self, record: FileRecord) -> None:
        """Take all rows of a file."""
        path = self._plan.layout.final(record.final)
        reach("rewrite.file", path)
        self._check_whole(path, size_bytes=record.size_bytes, crc32c=record.crc32c)
        before = self._rows()
        try:
            with self._storage.open_read(path) as handle:
                source = open_closed(path, handle, self._plan.choice, record.bounds)
                self._copy(source, record)
        except (pa.ArrowException, ValueError) as error:
            raise TaskFailedError(f"it cannot be rewritten: {error}", where=path) from error
        except OSError as error:
            raise StorageUnavailableError(f"cannot be read: {error}", where=path) from error
        read = self._rows() - before
        if read != record.rows:
            raise TaskFailedError(f"it has {read} rows, its record {record.rows}", where=path)

    def finish(self) -> tuple[FileRecord, ...]:
        """End the last file; all that were written."""
        self._end_file()
        return tuple(self._records)

    def abort(self) -> None:
        """Drop the open file; closed ones stay as garbage of the folder."""
        if self._open is not None:
            self._open.abort()

    def _rows(self) -> int:
        written = sum(int(record.rows) for record in self._records)
        return written + (self._open.rows if self._open is not None else 0)

    def _copy(self, source: ClosedFile, record: FileRecord) -> None:
        if self._is_full() or self._kind != source.kind:
            self._end_file()
        self._kind = source.kind
        for piece in source.pieces():
            if not source.encoded and self._is_full():
                self._end_file()
            if self._open is None:
                self._open = source.new_file(self._storage.create_staged(self._next_path()))
            self._open.write(piece)
            if self._open.buffered_bytes >= self._plan.rules.target_bytes:
                self._open.flush()
        if source.encoded:
            self._sources.append(record)

    def _next_path(self) -> str:
        rules, number = self._plan.rules, len(self._records)
        middle = f"{self._plan.layout.route}-{self._attempt}{self._plan.again}-{number}"
        name = f"{rules.prefix}{middle}{rules.suffix}"
        return f"{self._plan.folder}/{name}{file_ending(self._plan.choice)}"

    def _is_full(self) -> bool:
        return self._open is not None and self._open.written_bytes >= self._plan.rules.target_bytes

    def _end_file(self) -> None:
        if self._open is None:
            return
        written = self._open.close()
        self._open = None
        self._records.append(self._checked(written))
        self._sources = []

    def _checked(self, written: WrittenFile) -> FileRecord:
        """The record of a new file, after reading it through a fresh handle."""
        name = written.path.rpartition("/")[2]
        seal = written.seal
        self._check_whole(written.path, size_bytes=seal.size_bytes, crc32c=seal.crc32c)
        if has_footer(written.path):
            with self._storage.open_read(written.path) as handle:
                found = count_rows(written.path, handle)
            if found != written.rows:
                raise TaskFailedError(f"it has {found} rows, not {written.rows}", where=name)
        bounds = widest_bounds(record.bounds for record in self._sources) or written.column_bounds
        return FileRecord(
            staged=f"{self._attempt}/{name}",
            final=name,
            values=self._plan.files[0].values,
            rows=BigInt(written.rows),
            size_bytes=BigInt(seal.size_bytes),
            crc32c=seal.crc32c,
            bounds=dict(bounds),
        )

    def _check_whole(self, path: str, *, size_bytes: int, crc32c: str) -> None:
        status = self._storage.status(path)
        if status is None or status.size_bytes != size_bytes:
            found = "gone" if status is None else f"{status.size_bytes} bytes long"
            raise FileLostError(f"it is {found}, expected {size_bytes} bytes", where=path)
        try:
            with self._storage.open_read(path) as handle:
                found = stream_crc32c(handle)
        except OSError as error:
            raise StorageUnavailableError(f"cannot be read: {error}", where=path) from error
        if found != crc32c:
            raise FileLostError(f"its checksum is {found}, expected {crc32c}", where=path)
