"""The files of one attempt: staged in a folder of its own, checked after close."""

from collections import OrderedDict
from uuid import uuid4

import pyarrow as pa

from sluiceway.ledger.records import FileRecord
from sluiceway.sinks.files.contract import PARQUET_FILES, TableFile, TableFormat
from sluiceway.sinks.files.registry import open_format
from sluiceway.sinks.hive.partition_path import partition_folder
from sluiceway.storage.contract import Storage
from sluiceway.types.dirty import DirtyRow
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.dirty_file import DIRTY_SCHEMA
from sluiceway.worker.plan import TaskPlan

MAX_OPEN_FILES = 64
MAX_BUFFERED_BYTES = 512 << 20

Values = tuple[str | None, ...]


class StagedFiles:
    """Writers of one attempt, one a partition, bounded in number and memory. One thread.

    Args:
        storage: The table's storage.
        plan: The task.
        schema: Of the clean rows.
    """

    def __init__(self, storage: Storage, plan: TaskPlan, schema: pa.Schema) -> None:
        route = plan.route
        self._storage = storage
        self._plan = plan
        self._rows_format = open_format(schema, route.files)
        self._dirty_format = open_format(DIRTY_SCHEMA, PARQUET_FILES)
        self._names = tuple(rule.name for rule in route.partitions)
        # Made inside the attempt, so that two attempts at one task never share a folder.
        self.attempt = f"{route.term}-{plan.epoch}-{uuid4().hex}"
        self._folder = route.layout.attempt(self.attempt)
        self._made_folder = False
        self._open: OrderedDict[Values, TableFile] = OrderedDict()
        self._dirty: TableFile | None = None
        self._records: list[FileRecord] = []

    def unfit_rows(self, rows: pa.RecordBatch) -> list[DirtyRow]:
        """Rows that the table's files cannot hold; see `TableFormat.unfit_rows`."""
        return self._rows_format.unfit_rows(rows)

    def write(self, values: Values, rows: pa.RecordBatch) -> None:
        """Append rows to the partition's file.

        Raises:
            StorageUnavailableError: The store failed; the attempt is thrown away.
        """
        file = self._open.get(values)
        if file is None:
            if len(self._open) >= MAX_OPEN_FILES:
                # The one written longest ago is closed whole; its partition gets another file.
                idle_values, idle = self._open.popitem(last=False)
                self._records.append(self._close(self._rows_format, idle, idle_values))
            file = self._new_file(self._rows_format)
            self._open[values] = file
        self._open.move_to_end(values)
        file.write(rows)
        self._bound_memory()

    def write_dirty(self, rows: pa.RecordBatch) -> None:
        """Append dirty rows to the attempt's dirty file.

        Raises:
            StorageUnavailableError: The store failed; the attempt is thrown away.
        """
        if self._dirty is None:
            self._dirty = self._new_file(self._dirty_format)
        self._dirty.write(rows)
        self._bound_memory()

    def close(self) -> tuple[tuple[FileRecord, ...], tuple[FileRecord, ...]]:
        """Close and check every file. Called once.

        Returns:
            Records of the clean files and of the dirty ones.

        Raises:
            StorageUnavailableError: The store failed; the attempt is thrown away.
            TaskFailedError: A file is not what was written.
        """
        while self._open:
            values, file = self._open.popitem(last=False)
            self._records.append(self._close(self._rows_format, file, values))
        dirty: tuple[FileRecord, ...] = ()
        if self._dirty is not None:
            last, self._dirty = self._dirty, None
            dirty = (self._close(self._dirty_format, last, None),)
        if self._made_folder:
            self._storage.sync_folder(self._folder)
            self._storage.sync_folder(self._plan.route.layout.stage)
        return tuple(self._records), dirty

    def abort(self) -> None:
        """Drop what is open; closed files stay as garbage of this attempt."""
        for file in self._open.values():
            file.abort()
        if self._dirty is not None:
            self._dirty.abort()

    def _new_file(self, table_format: TableFormat) -> TableFile:
        if not self._made_folder:
            self._storage.make_folders(self._folder)
            self._made_folder = True
        plan = self._plan
        name = (
            f"{plan.route.layout.route}-{plan.route.term}-{plan.epoch}-{plan.task}-"
            f"{uuid4().hex}{table_format.extension}"
        )
        writer = self._storage.create_staged(f"{self._folder}/{name}")
        return table_format.new_file(writer)

    def _close(
        self, table_format: TableFormat, file: TableFile, values: Values | None
    ) -> FileRecord:
        try:
            written = file.close()
        except BaseException:
            file.abort()
            raise
        size = written.seal.size_bytes
        table_format.check(self._storage, written.path, size_bytes=size, rows=written.rows)
        name = written.path.rpartition("/")[2]
        return FileRecord(
            staged=f"{self.attempt}/{name}",
            final=self._final(name, values),
            values=values or (),
            rows=BigInt(written.rows),
            size_bytes=BigInt(size),
            crc32c=written.seal.crc32c,
            bounds=dict(written.column_bounds) if values is not None else {},
        )

    def _final(self, name: str, values: Values | None) -> str:
        if values is None:
            return self._plan.route.layout.dirty_relative(name)
        if not values:
            return name
        return f"{partition_folder(self._names, values)}/{name}"

    def _bound_memory(self) -> None:
        files = [*self._open.values(), *([self._dirty] if self._dirty is not None else [])]
        buffered = sum(file.buffered_bytes for file in files)
        if buffered > MAX_BUFFERED_BYTES:
            max(files, key=lambda file: file.buffered_bytes).flush()
