"""The files of one attempt: staged in a folder of its own, checked after close."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pyarrow as pa

from sluiceway.ledger.file_names import FileOrigin, FileRecord, new_file_name
from sluiceway.ledger.layout import is_late_place
from sluiceway.ledger.places import is_below
from sluiceway.sinks.files.contract import PARQUET_FILES
from sluiceway.sinks.files.registry import open_format
from sluiceway.sinks.partition_path import partition_folder
from sluiceway.storage.contract import Storage
from sluiceway.storage.copying import check_content
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.dirty_file import dirty_schema
from sluiceway.worker.open_files import LateWriter, OpenFile, OpenFiles, SharedRows
from sluiceway.worker.plan import LatePlace, Place, TaskPlan, Values
from sluiceway.worker.row_files import WrittenFiles

# So many are begun with their first rows, so that what a store refuses is known early.
EARLY_FILES = 32
# Files that are closed at once: each waits for the disk, and the waits are shared.
CLOSERS = 8
# When files close to free memory, so many are closed before it is measured again.
CLOSED_AT_ONCE = 64
# To read such a file as a whole costs less than to open its footer.
SMALL_BYTES = 128 << 10
# So often within the shorter of both times, old or idle files are searched for.
DUE_LOOKS = 8

Clock = Callable[[], float]


class StagedFiles:
    """Writers of one attempt, one a partition, bounded in open files. One thread.

    Partitions whose rows are all in memory still have no open file, so they may be many. What
    they keep there is `held_bytes`, and who bounds it calls `free`.

    Args:
        storage: The table's storage.
        plan: The task.
        schema: Schema of the clean rows.
        clock: Monotonic, in seconds.
    """

    def __init__(
        self,
        storage: Storage,
        plan: TaskPlan,
        schema: pa.Schema,
        *,
        clock: Clock = time.monotonic,
    ) -> None:
        route = plan.route
        self._storage = storage
        self._plan = plan
        self._rules = route.rolling
        self._clock = clock
        self._stored = tuple(
            (index, rule.name) for index, rule in enumerate(route.partitions) if rule.is_stored
        )
        for _, name in self._stored:
            schema = schema.append(pa.field(name, pa.string()))
        self._rows_format = open_format(schema, route.files)
        self._dirty_format = open_format(dirty_schema(text_keys=route.text_keys), PARQUET_FILES)
        self._names = tuple(rule.name for rule in route.partitions)
        # Made inside the attempt, so that two attempts at one task never share a folder.
        self.attempt = f"{route.term}-{plan.epoch}-{uuid4().hex}"
        if plan.prefix is not None:
            self.attempt = plan.prefix.attempt
        self._folder = route.layout.attempt(self.attempt)
        self._made_folder = False
        self._files = OpenFiles()
        self._dirty: OpenFile | None = None
        self._records: list[FileRecord] = []
        self._next_due_s = clock()

    @property
    def most_open(self) -> int:
        """See `RowFiles`."""
        return self._files.most_begun

    @property
    def held_bytes(self) -> int:
        """Memory of what was written and is in no file yet."""
        return self._files.held_bytes

    def write(self, place: Place, rows: pa.RecordBatch, shared: SharedRows | None = None) -> None:
        """Append rows to the partition's file, or to that of its late rows.

        Args:
            place: The partition.
            rows: Rows, at least one.
            shared: The memory that they lie in, if rows of other partitions do too.

        Raises:
            TaskFailedError: A file cannot be written, or is not what was written.
            StorageUnavailableError: The store failed; the attempt is discarded.
        """
        if self._is_outside(place):
            return
        of = self._files.get(place)
        if of is None:
            of = self._new_file(place)
            self._files.add(place, of)
            if self._files.begun < min(EARLY_FILES, self._rules.max_open):
                of.writer.handle()
        of.written_s = self._clock()
        self._files.write(of, self._with_stored(place, rows), shared)
        self._roll(of)
        self.close_due()
        self._keep_open(self._rules.max_open)

    def _is_outside(self, place: Place) -> bool:
        """Whether rows of a place are not asked for."""
        wanted = self._plan.prefix
        if wanted is None:
            return False
        return not is_below(partition_folder(self._names, _values(place)), wanted.prefix)

    def _with_stored(self, place: Place, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with the columns that say their partition, where files hold them."""
        for index, name in self._stored:
            value = pa.scalar(_values(place)[index], pa.string())
            field = pa.field(name, pa.string())
            rows = rows.append_column(field, pa.repeat(value, rows.num_rows))
        return rows

    def write_dirty(self, rows: pa.RecordBatch) -> None:
        """Append dirty rows to the attempt's dirty file.

        Raises:
            TaskFailedError: The file cannot be written.
            StorageUnavailableError: The store failed; the attempt is discarded.
        """
        if self._dirty is None:
            self._dirty = self._new_file(None)
        self._files.write(self._dirty, rows, None)

    def close_due(self) -> None:
        """Close files that are open for too long, or had no row for too long.

        Called with every write, and now and then while none comes.

        Raises:
            TaskFailedError: A file is not what was written.
            StorageUnavailableError: The store failed; the attempt is discarded.
        """
        now_s = self._clock()
        if now_s < self._next_due_s:
            return
        rules = self._rules
        self._close_all(self._files.begun_until(now_s - rules.roll_interval_s))
        self._close_all(self._files.idle_since(now_s - rules.idle_close_s))
        self._next_due_s = now_s + min(rules.roll_interval_s, rules.idle_close_s) / DUE_LOOKS

    def free(self, kept_bytes: int) -> None:
        """Free memory, the largest file first, until at most `kept_bytes` are held.

        A file stays open after that while there is room for open files. The others are closed, and
        their partitions get another file with their next row.

        Raises:
            TaskFailedError: A file cannot be written, or is not what was written.
            StorageUnavailableError: The store failed; the attempt is discarded.
        """
        while self.held_bytes > kept_bytes and (holding := self._largest_first()):
            self._shed_some(holding, kept_bytes)

    def close(self) -> WrittenFiles:
        """Close and check every file. Called once.

        Returns:
            Records of the clean files, of the dirty and of the late ones.

        Raises:
            StorageUnavailableError: The store failed; the attempt is discarded.
            TaskFailedError: A file is not what was written.
        """
        self._close_all(list(self._files))
        dirty: tuple[FileRecord, ...] = ()
        if self._dirty is not None:
            last, self._dirty = self._dirty, None
            dirty = (self._close(last),)
        if self._made_folder:
            self._storage.sync_folder(self._folder)
            self._storage.sync_folder(self._plan.route.layout.stage)
        clean = tuple(file for file in self._records if not is_late_place(file.final))
        late = tuple(file for file in self._records if is_late_place(file.final))
        return clean, dirty, late

    def abort(self) -> None:
        """Drop what is open; closed files stay as garbage of this attempt."""
        for of in self._files:
            of.file.abort()
        if self._dirty is not None:
            self._dirty.file.abort()

    def _keep_open(self, most: int) -> None:
        """Close the open files that were written longest ago; a partition may get another."""
        surplus = self._files.begun - most
        if surplus > 0:
            self._close_all(self._files.longest_idle(surplus))

    def _roll(self, of: OpenFile) -> None:
        """End a file that is large enough. Rows that wait are weighed when they are written."""
        if of.counted_bytes >= self._rules.target_bytes:
            self._files.flush(of)
        if of.writer.begun and of.file.written_bytes >= self._rules.target_bytes:
            self._close_all([of])

    def _largest_first(self) -> list[OpenFile]:
        holding = [of for of in self._files if of.counted_bytes > 0]
        if self._dirty is not None and self._dirty.file.flushable_bytes > 0:
            holding.append(self._dirty)
        return sorted(holding, key=lambda of: of.counted_bytes, reverse=True)

    def _shed_some(self, holding: Sequence[OpenFile], kept_bytes: int) -> None:
        closing: list[OpenFile] = []
        freed_bytes = 0
        for of in holding:
            if self.held_bytes - freed_bytes <= kept_bytes or len(closing) == CLOSED_AT_ONCE:
                break
            if self._may_stay_open(of):
                self._files.flush(of)
            else:
                closing.append(of)
                freed_bytes += of.counted_bytes
        self._close_all(closing)

    def _may_stay_open(self, of: OpenFile) -> bool:
        # What only closing frees, a codec's state or an open stripe, would stay.
        frees_most = of.file.flushable_bytes * 2 >= of.counted_bytes
        room = of.writer.begun or self._files.begun < self._rules.max_open
        return of.place is None or (frees_most and room)

    def _close_all(self, closing: list[OpenFile]) -> None:
        """Close files and empty the list; each that fails is dropped, the first error raised."""
        if CLOSERS == 1 or len(closing) <= 1:
            for of in closing:
                self._files.remove(of)
                self._records.append(self._close(of))
            return
        with ThreadPoolExecutor(CLOSERS, thread_name_prefix="close") as pool:
            waiting = []
            closing.reverse()
            while closing:
                # Nothing refers to a file once it is closed: ten thousand of them hold much.
                self._files.remove(closing[-1])
                waiting.append(pool.submit(self._close, closing.pop()))
        self._records += [done.result() for done in waiting]

    def _new_file(self, place: Place | None) -> OpenFile:
        if not self._made_folder:
            self._storage.expect_files(self._folder)
            self._made_folder = True
        plan, rules = self._plan, self._rules
        route = plan.route
        table_format = self._dirty_format if place is None else self._rows_format
        prefix, suffix = ("", "") if place is None else (rules.prefix, rules.suffix)
        if plan.prefix is not None:
            # As compaction names its files: they are of no epoch.
            name = f"{prefix}{route.layout.route}-{self.attempt}-{uuid4().hex}{suffix}"
        else:
            name = new_file_name(
                route.layout.route,
                FileOrigin(route.term, plan.epoch),
                plan.task,
                prefix=prefix,
                suffix=suffix,
            )
        writer = LateWriter(self._storage, f"{self._folder}/{name}{table_format.extension}")
        now_s = self._clock()
        return OpenFile(place, table_format.new_file(writer), writer, now_s, now_s)

    def _close(self, of: OpenFile) -> FileRecord:
        table_format = self._dirty_format if of.place is None else self._rows_format
        try:
            written = of.file.close()
        except BaseException:
            of.file.abort()
            raise
        size = written.seal.size_bytes
        if not written.seal.attested and size <= SMALL_BYTES:
            check_content(self._storage, written.path, written.seal)
        elif not written.seal.attested:
            table_format.check(self._storage, written.path, size_bytes=size, rows=written.rows)
        name = written.path.rpartition("/")[2]
        return FileRecord(
            staged=f"{self.attempt}/{name}",
            final=self._final(name, of.place),
            values=_values(of.place),
            rows=BigInt(written.rows),
            size_bytes=BigInt(size),
            crc32c=written.seal.crc32c,
            bounds=dict(written.column_bounds) if of.place is not None else {},
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


def _values(place: Place | None) -> Values:
    if isinstance(place, LatePlace):
        return place.values
    return place or ()
