"""Dirty rows in a Hive table: copies of the dirty files, by day.

Each dirty file has one copy. Its name and day follow from the record that committed the file, and
it is written as a whole. So repeating a step changes nothing, and the place only saves work.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

import pyarrow.compute as pc

from sluiceway.errors import LedgerCorruptError, StorageUnavailableError
from sluiceway.followers.dirty_feed import DirtyPlace, DirtyStore
from sluiceway.jobfile.compile.dirty_limits import prepared_ms
from sluiceway.ledger.dirty_files import CommittedDirty
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.records import Record
from sluiceway.sinks.side_tables import DayFolders, TypedColumn
from sluiceway.storage.contract import Storage
from sluiceway.storage.copying import copy_staged
from sluiceway.types.strict_json import StrictJsonError, decode, encode
from sluiceway.worker.dirty_reader import read_dirty_rows

_HEADERS: Final = "array<struct<name:string,value:binary>>"
DIRTY_COLUMNS: Final = (
    TypedColumn("topic", "string"),
    TypedColumn("partition", "int"),
    TypedColumn("offset", "bigint"),
    TypedColumn("timestamp_ms", "bigint"),
    TypedColumn("key", "binary"),
    TypedColumn("value", "binary"),
    TypedColumn("headers", _HEADERS),
    *(
        TypedColumn(name, "string")
        for name in ("stage", "reason", "path", "message", "schema_version")
    ),
)
"""Columns of dirty files, with Hive's types."""


def dirty_columns(*, text_keys: bool) -> tuple[TypedColumn, ...]:
    """Columns of a table of dirty rows.

    Args:
        text_keys: Whether keys of the source's partitions are texts; else they are numbers.
    """
    if not text_keys:
        return DIRTY_COLUMNS
    texts = TypedColumn("partition", "string")
    return tuple(texts if of.name == texts.name else of for of in DIRTY_COLUMNS)


_OWN_FOLDER: Final = "_sluiceway_dirty"
_NO_TIME_DAY: Final = "1970-01-01"


@dataclass(frozen=True, slots=True)
class _Own:
    """Place of a ledger's own state in the table's folder; readers do not see it."""

    folder: str

    @property
    def place(self) -> str:
        return f"{self.folder}/place.json"

    @property
    def stage(self) -> str:
        return f"{self.folder}/stage"


class DirtyTable(DirtyStore):
    """A table that gets each dirty file once; several ledgers may share it.

    Args:
        table: The Hive table for the copies.
        storage: The store of the dirty files.
        ledger: Uuid of the ledger.
    """

    def __init__(self, table: DayFolders, storage: Storage, ledger: str) -> None:
        self._table = table
        self._from = storage
        self._ledger = ledger

    def open(self) -> DirtyPlace:
        """See `DirtyStore.open`."""
        self._table.open()
        own, there = self._own(), self._table.storage
        there.make_folders(own.stage)
        for left in there.list(own.stage):
            # A dead feeder's file; a live feeder begins its copy again.
            there.remove(left.path)
        return self.place()

    def __str__(self) -> str:
        return str(self._table)

    @property
    def storage(self) -> Storage:
        """The store of the copies, once the table is open."""
        return self._table.storage

    def folder(self, day: str) -> str:
        """Folder of the copies of a day, once the table is open."""
        return self._table.folder(day)

    def days(self, days: Sequence[str]) -> frozenset[str]:
        """The days of `days` that readers see, once the table is open.

        Raises:
            MetastoreUnavailableError: The metastore does not answer.
        """
        return frozenset(self._table.days(days))

    def find(self) -> bool:
        """Open the table; returns whether it exists. Changes nothing; raises as `open`."""
        return self._table.find()

    def place(self) -> DirtyPlace:
        """How far the table is fed, once it is open.

        Raises:
            LedgerCorruptError: The stored text is no place.
            StorageUnavailableError: The store failed.
        """
        path = self._own().place
        raw = self._table.storage.read(path)
        if raw is None:
            return DirtyPlace()
        try:
            return decode(raw, DirtyPlace)
        except StrictJsonError as error:
            raise LedgerCorruptError(
                f"it does not say how far the table of dirty rows is fed: {error}",
                where=path,
                hint="remove the file: each copy is looked at again, and none made twice",
            ) from error

    def feed(self, found: CommittedDirty, start: int) -> Iterator[tuple[int, DirtyPlace]]:
        """See `DirtyStore.feed`."""
        rows = int(found.file.rows)
        if start < rows:
            day = day_of(found.record, self._from, found.path)
            self._copy(found, day)
            self._table.show(day)
        behind = DirtyPlace(found.source.seq, found.source.file, rows)
        self.keep(behind)
        yield rows - start, behind

    def keep(self, place: DirtyPlace) -> None:
        """See `DirtyStore.keep`."""
        self._table.storage.overwrite(self._own().place, encode(place))

    def close(self) -> None:
        """See `DirtyStore.close`."""
        self._table.close()

    def copy_of(self, file: FileRecord, day: str) -> str:
        """Path of a dirty file's copy, once the table is open."""
        return f"{self.folder(day)}/{file.final.rpartition('/')[2]}"

    def drop(self, found: CommittedDirty) -> None:
        """Remove the copy of a dirty file that still exists. Safe to repeat.

        Raises:
            StorageUnavailableError: The store failed.
        """
        day = day_of(found.record, self._from, found.path)
        self._table.storage.remove(self.copy_of(found.file, day))

    def _copy(self, found: CommittedDirty, day: str) -> None:
        file, there = found.file, self._table.storage
        copy = self.copy_of(file, day)
        held = there.status(copy)
        if held is not None and held.size_bytes == file.size_bytes:
            return
        staged = f"{self._own().stage}/{uuid4().hex}"
        seal = copy_staged(self._from, found.path, there, staged)
        if (seal.size_bytes, seal.crc32c) != (file.size_bytes, file.crc32c):
            there.remove(staged)
            raise StorageUnavailableError(
                "the dirty file is not the one that was committed",
                where=found.path,
                hint="`sluiceway verify JOB --deep` says what is wrong with it; bring it back "
                "from a backup",
            )
        there.publish(staged, copy, size_bytes=seal.size_bytes, crc32c=seal.crc32c)

    def _own(self) -> _Own:
        return _Own(f"{self._table.root}/{_OWN_FOLDER}/{self._ledger}")


def day_of(record: Record, storage: Storage, path: str) -> str:
    """The day (UTC) of a file of dirty rows; always the same for one file.

    The day of its commit. For rows that a replay found dirty again, and for records of old
    versions, which hold no time, the day of the newest row.

    Raises:
        StorageUnavailableError: The store failed, or the file cannot be read.
    """
    at_ms = prepared_ms(record.body) or _newest_ms(storage, path)
    if not at_ms:
        return _NO_TIME_DAY
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()
    except (ValueError, OverflowError):
        return _NO_TIME_DAY


def _newest_ms(storage: Storage, path: str) -> int:
    batches = read_dirty_rows(storage, path, 0, sys.maxsize, ("timestamp_ms",))
    found = [pc.max(rows.column(0)).as_py() for _, rows in batches]
    return max((each for each in found if each is not None), default=0)
