"""The files of one attempt: staged in a folder of its own, checked after close."""

from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa

from sluiceway.ledger.file_records import FileRecord
from sluiceway.ledger.layout import is_late_place
from sluiceway.sinks.files.contract import PARQUET_FILES, TableFile, TableFormat
from sluiceway.sinks.files.registry import open_format
from sluiceway.sinks.hive.partition_path import partition_folder
from sluiceway.storage.contract import Storage
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.dirty_file import DIRTY_SCHEMA
from sluiceway.worker.late_writer import LateWriter
from sluiceway.worker.places import LatePlace, Place
from sluiceway.worker.plan import TaskPlan
from sluiceway.worker.row_files import WrittenFiles

MAX_OPEN_FILES = 64
# So many are begun with their first rows, so that what a store refuses is known early.
EARLY_FILES = 32
MAX_BUFFERED_BYTES = 512 << 20
# Files that are closed at once: each waits for the disk, and the waits are shared.
CLOSERS = 8


@dataclass(frozen=True, slots=True)
class _Open:
    file: TableFile
    writer: LateWriter


class StagedFiles:
    """Writers of one attempt, one a partition, bounded in open files and memory. One thread.

    Partitions whose rows are all in memory still have no open file, so they may be many.

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
        self._open: OrderedDict[Place, _Open] = OrderedDict()
        # Of those, the ones with an open file, the one written longest ago first.
        self._begun: OrderedDict[Place, None] = OrderedDict()
        self._dirty: _Open | None = None
        self._buffered_bytes = 0
        self._records: list[FileRecord] = []

    def write(self, place: Place, rows: pa.RecordBatch) -> None:
        """Append rows to the partition's file, or to that of its late rows.

        Raises:
            StorageUnavailableError: The store failed; the attempt is thrown away.
        """
        of = self._open.get(place)
        if of is None:
            of = self._open[place] = self._new_file(self._rows_format)
            if len(self._begun) < EARLY_FILES:
                of.writer.handle()
        self._append(of, rows)
        self._note_begun(place, of)
        self._bound_memory()

    def write_dirty(self, rows: pa.RecordBatch) -> None:
        """Append dirty rows to the attempt's dirty file.

        Raises:
            StorageUnavailableError: The store failed; the attempt is thrown away.
        """
        if self._dirty is None:
            self._dirty = self._new_file(self._dirty_format)
        self._append(self._dirty, rows)
        self._bound_memory()

    def close(self) -> WrittenFiles:
        """Close and check every file. Called once.

        Returns:
            Records of the clean files, of the dirty and of the late ones.

        Raises:
            StorageUnavailableError: The store failed; the attempt is thrown away.
            TaskFailedError: A file is not what was written.
        """
        self._close_all()
        dirty: tuple[FileRecord, ...] = ()
        if self._dirty is not None:
            last, self._dirty = self._dirty, None
            dirty = (self._close(self._dirty_format, last.file, None),)
        if self._made_folder:
            self._storage.sync_folder(self._folder)
            self._storage.sync_folder(self._plan.route.layout.stage)
        clean = tuple(file for file in self._records if not is_late_place(file.final))
        late = tuple(file for file in self._records if is_late_place(file.final))
        return clean, dirty, late

    def abort(self) -> None:
        """Drop what is open; closed files stay as garbage of this attempt."""
        for of in self._open.values():
            of.file.abort()
        if self._dirty is not None:
            self._dirty.file.abort()

    def _append(self, of: _Open, rows: pa.RecordBatch) -> None:
        before = of.file.buffered_bytes
        of.file.write(rows)
        self._buffered_bytes += of.file.buffered_bytes - before

    def _note_begun(self, place: Place, of: _Open) -> None:
        if not of.writer.begun:
            return
        self._begun[place] = None
        self._begun.move_to_end(place)
        if len(self._begun) > MAX_OPEN_FILES:
            # The one written longest ago is closed whole; its partition gets another file.
            idle, _ = self._begun.popitem(last=False)
            closed = self._open.pop(idle)
            self._buffered_bytes -= closed.file.buffered_bytes
            self._records.append(self._close(self._rows_format, closed.file, idle))

    def _close_all(self) -> None:
        """Close the partitions' files; each that fails is dropped, and the first error raised."""
        if CLOSERS == 1 or len(self._open) <= 1:
            while self._open:
                values, of = self._open.popitem(last=False)
                self._records.append(self._close(self._rows_format, of.file, values))
            return
        waiting = list(self._open.items())
        self._open.clear()
        with ThreadPoolExecutor(CLOSERS, thread_name_prefix="close") as pool:
            closing = [
                pool.submit(self._close, self._rows_format, of.file, values)
                for values, of in waiting
            ]
        self._records += [done.result() for done in closing]

    def _new_file(self, table_format: TableFormat) -> _Open:
        if not self._made_folder:
            self._storage.make_folders(self._folder)
            self._made_folder = True
        plan = self._plan
        name = (
            f"{plan.route.layout.route}-{plan.route.term}-{plan.epoch}-{plan.task}-"
            f"{uuid4().hex}{table_format.extension}"
        )
        writer = LateWriter(self._storage, f"{self._folder}/{name}")
        return _Open(table_format.new_file(writer), writer)

    def _close(self, table_format: TableFormat, file: TableFile, place: Place | None) -> FileRecord:
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
            final=self._final(name, place),
            values=_values(place),
            rows=BigInt(written.rows),
            size_bytes=BigInt(size),
            crc32c=written.seal.crc32c,
            bounds=dict(written.column_bounds) if place is not None else {},
        )

    def _final(self, name: str, place: Place | None) -> str:
        layout = self._plan.route.layout
        if place is None:
            return layout.dirty_relative(name)
        values = _values(place)
        folder = partition_folder(self._names, values) if values else ""
        if isinstance(place, LatePlace):
            return layout.late_relative(folder, name)
        return f"{folder}/{name}" if folder else name

    def _bound_memory(self) -> None:
        if self._buffered_bytes <= MAX_BUFFERED_BYTES:
            return
        places: list[tuple[Place | None, _Open]] = [*self._open.items()]
        if self._dirty is not None:
            places.append((None, self._dirty))
        # Some more than needed: many small partitions are not looked through at every write.
        kept_bytes = MAX_BUFFERED_BYTES // 4 * 3
        by_size = sorted(places, key=lambda place: place[1].file.buffered_bytes, reverse=True)
        for values, of in by_size:
            if self._buffered_bytes <= kept_bytes:
                return
            if values is None or values in self._open:
                self._buffered_bytes -= of.file.buffered_bytes
                of.file.flush()
                if values is not None:
                    self._note_begun(values, of)


def _values(place: Place | None) -> tuple[str | None, ...]:
    if isinstance(place, LatePlace):
        return place.values
    return place or ()
