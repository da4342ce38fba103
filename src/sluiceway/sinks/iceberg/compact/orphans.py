"""Orphans of a lake table: files in its folders that nothing names. They are found, and removed.

Whoever writes to a table places its files first, and names them by a request then. So a file that
nothing names may be on its way. It is left alone while it is young by the store's own clock.
However old it is, it also stays while the ledger has a slot with it that the table lacks.
"""

import gzip
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from posixpath import normpath
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table

from sluiceway.errors import SluicewayError, StorageUnavailableError
from sluiceway.ledger.lane_records import LaneDataRecord
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import DataRecord
from sluiceway.observe.log import Log
from sluiceway.sinks.iceberg.publish.lake_table import LakeTable, TableLook, hashes_of
from sluiceway.sinks.iceberg.publish.publisher import LakePlace
from sluiceway.storage.contract import FileStatus, Storage
from sluiceway.storage.locations import path_below

FOLDERS = ("data", "metadata")
_OTHERS = ("_sluiceway", "_delta_log", ".hoodie")
_METADATA = "metadata"
_HINT = "version-hint.text"
_UUID = re.compile(rb'"table-uuid"\s*:\s*"([0-9a-fA-F-]{36})"')
_HEAD_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file as the store lists it.

    Attributes:
        inside: Its name below the table's location.
        changed_ms: Since 1970, by the store's clock; None where the store has none.
    """

    inside: str
    size_bytes: int
    changed_ms: int | None


@dataclass(slots=True)
class Listing:
    """What was found.

    Attributes:
        files: Below `data` and `metadata`.
        others: Folders that were left alone: of another table, or links to elsewhere.
    """

    files: list[ListedFile]
    others: list[str]


def list_files(storage: Storage, root: str) -> Listing:
    """List the folders of a table whole. Engines' hidden files are left out, as engines do.

    Args:
        storage: The table's storage.
        root: Its location, as the storage names it.

    Raises:
        StorageUnavailableError: The store failed.
    """
    found = Listing([], [])
    waiting = list(FOLDERS)
    while waiting:
        folder = waiting.pop()
        entries = [(each, _last(each)) for each in storage.list(f"{root}/{folder}")]
        if _is_anothers(storage, [name for each, name in entries if each.is_dir], root, folder):
            found.others.append(folder)
            continue
        for each, name in entries:
            inside = f"{folder}/{name}"
            if not name or _is_hidden(name):
                continue
            if each.is_link:
                found.others.append(inside)
            elif each.is_dir:
                waiting.append(inside)
            else:
                found.files.append(ListedFile(inside, each.size_bytes, each.changed_ms))
    return found


def _last(status: FileStatus) -> str:
    return status.path.rpartition("/")[2]


def _is_hidden(name: str) -> bool:
    """As engines have it; a partition's folder may begin with an underscore too."""
    return name.startswith((".", "_")) and "=" not in name


def _is_anothers(storage: Storage, names: list[str], root: str, folder: str) -> bool:
    """Whether a folder is the location of another table."""
    if any(name in _OTHERS for name in names):
        return True
    if _METADATA not in names:
        return False
    below = (_last(each) for each in storage.list(f"{root}/{folder}/{_METADATA}"))
    return any(name == _HINT or is_table_metadata(name) for name in below)


def is_table_metadata(name: str) -> bool:
    """Whether a file's name is that of a table's metadata."""
    return ".metadata.json" in name


def is_hint(inside: str) -> bool:
    """Whether it is the file by which catalogs of folders find the newest metadata."""
    return inside == f"{_METADATA}/{_HINT}"


def uuid_in(storage: Storage, path: str) -> str | None:
    """The table that a metadata file is of; None when it does not say, or cannot be read."""
    try:
        with storage.open_read(path) as handle:
            raw = handle.read(_HEAD_BYTES)
            if raw[:2] == b"\x1f\x8b":
                raw = gzip.decompress(raw + handle.read())
    except (SluicewayError, OSError, EOFError):
        return None
    found = _UUID.search(raw)
    return None if found is None else found[1].decode().lower()


class TableNames:
    """What a table names, by where it lies.

    Args:
        location: Location of the table, in any spelling.
        named: Files as the table names them.

    Attributes:
        below: Names relative to the location, without a leading slash.
        elsewhere: Last parts of the names of files that lie elsewhere, as they are spelt.
    """

    def __init__(self, location: str, named: Iterable[str]) -> None:
        self._location = location
        self.below: set[str] = set()
        self.elsewhere: dict[str, str] = {}
        for name in named:
            inside = self.inside(name)
            if inside is None:
                self.elsewhere[name.rpartition("/")[2]] = name
            else:
                self.below |= {inside, normpath(inside), unquote(inside)}

    def inside(self, name: str) -> str | None:
        """A file relative to the location; None when it lies elsewhere by its spelling."""
        return path_below(self._location, name)

    def has(self, inside: str) -> bool:
        """Whether a file below the location is named, in any spelling of its name."""
        return inside in self.below or unquote(inside) in self.below

    def alike(self, inside: str) -> str | None:
        """A file that lies elsewhere by its spelling, and may be this one; None without one."""
        last = inside.rpartition("/")[2]
        return self.elsewhere.get(last, self.elsewhere.get(unquote(last)))


class MetadataFiles:
    """All that a table's metadata names. What was read of its files once is not read again."""

    def __init__(self) -> None:
        self._lists: dict[str, list[ManifestFile]] = {}
        self._entries: dict[str, tuple[str, ...]] = {}

    def of(self, table: Table) -> Iterator[str]:
        """Data, delete, metadata and statistics files of every snapshot, live in it or removed.

        Raises:
            StorageUnavailableError: A file of the metadata cannot be read.
        """
        metadata = table.metadata
        yield table.metadata_location
        yield from (entry.metadata_file for entry in metadata.metadata_log)
        told = (*metadata.statistics, *metadata.partition_statistics)
        yield from (each.statistics_path for each in told)
        for snapshot in metadata.snapshots:
            listed = snapshot.manifest_list
            yield listed
            if listed not in self._lists:
                self._lists[listed] = _read(listed, partial(snapshot.manifests, table.io))
            for manifest in self._lists[listed]:
                path = manifest.manifest_path
                yield path
                if path not in self._entries:
                    self._entries[path] = _read(path, partial(_names, manifest, table))
                yield from self._entries[path]

    def live(self, table: Table) -> set[str]:
        """Files that a reader of the newest snapshot opens. Raises as `of`."""
        head = table.current_snapshot()
        if head is None:
            return set()
        return {
            entry.data_file.file_path
            for manifest in _read(head.manifest_list, partial(head.manifests, table.io))
            for entry in _read(
                manifest.manifest_path, partial(manifest.fetch_manifest_entry, table.io)
            )
        }


def _names(manifest: ManifestFile, table: Table) -> tuple[str, ...]:
    entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    return tuple(entry.data_file.file_path for entry in entries)


def _read(path: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        raise StorageUnavailableError(
            f"a file of the table's metadata cannot be read: {type(error).__name__}: {error}",
            where=path,
            hint="nothing was removed; run it again, others may have expired the snapshot",
        ) from error


_AT_ONCE = 100
_TOLD_MS = 1_000
_CLOCK_TRIES = 3
_COLLECTED = "gc.enabled"
_UNSURE = "names cannot be compared surely, nothing is removed"


@dataclass(frozen=True, slots=True)
class Orphans:
    """What was found, or has gone.

    Attributes:
        files: How many.
        size_bytes: Size of all of them.
        failed: How many the store did not remove; they stay.
        others: Folders below the table's that were left alone: of another table, or links.
        left: Why no search was made; empty when all is well.
    """

    files: int = 0
    size_bytes: int = 0
    failed: int = 0
    others: tuple[str, ...] = ()
    left: str = ""


@dataclass(slots=True)
class _Known:
    """What keeps a file, at one look at the table.

    Attributes:
        look: The look.
        names: Names that the table has.
        waiting: Beginnings of names of files of slots that the table does not have, in order.
    """

    look: TableLook
    names: TableNames
    waiting: list[str]

    def keeps(self, inside: str) -> bool:
        """Whether a file stays, however old it is."""
        return self.names.has(inside) or is_hint(inside) or self._waits(inside)

    def _waits(self, inside: str) -> bool:
        # None of these is the beginning of another: each has an id of its own.
        at = bisect_right(self.waiting, inside)
        return at > 0 and inside.startswith(self.waiting[at - 1])


class LakeOrphans:
    """Removes orphans of one table. One thread at a time; safe next to publishers and others.

    Args:
        table: By a catalog object of its own.
        place: Where its files lie.
        ledger: Log of its ledger.
        log: Log for people.
    """

    def __init__(self, table: LakeTable, place: LakePlace, ledger: LedgerLog, log: Log) -> None:
        self._table = table
        self._place = place
        self._log = ledger
        self._hash_of = hashes_of(ledger)
        self._events = log
        self._named = MetadataFiles()
        self._known: _Known | None = None

    def find(self, age_s: float) -> Orphans:
        """What would go now. Changes nothing.

        Args:
            age_s: Files that are younger stay.

        Raises:
            TableHistoryError: The table was rolled back or replaced.
            TableMismatchError: It was dropped, or dropped and created again.
            MetastoreUnavailableError: The catalog does not answer.
            StorageUnavailableError: The store does not.
        """
        return self._find(int(time.time() * 1000), age_s)[0]

    def remove(self, age_s: float) -> Orphans:
        """Remove unnamed files. Safe to end anywhere and to repeat. Raises as `find`.

        Args:
            age_s: Files that are younger stay.
        """
        found, due = self._find(min(int(time.time() * 1000), self._store_ms()), age_s)
        gone = Orphans(others=found.others, left=found.left)
        for first in range(0, len(due), _AT_ONCE):
            # Between the listing and now an older metadata file may be back.
            known = self._read_table()
            for each in due[first : first + _AT_ONCE]:
                if known.keeps(each.inside) or known.names.alike(each.inside):
                    continue
                gone = self._remove(each, gone)
        if gone.files:
            self._events.info(
                "lake_orphans_removed",
                table=self._table.where,
                files=gone.files,
                size_bytes=gone.size_bytes,
            )
        return gone

    def _remove(self, each: ListedFile, gone: Orphans) -> Orphans:
        storage, path = self._place.storage, f"{self._place.root}/{each.inside}"
        try:
            now = storage.status(path)
            # Whoever places a file again sets its time again.
            if now is None or not _is_same(now, each):
                return gone
            storage.remove(path)
        except SluicewayError as error:
            self._events.info("garbage_left", path=path, error=str(error))
            return replace(gone, failed=gone.failed + 1)
        return replace(gone, files=gone.files + 1, size_bytes=gone.size_bytes + each.size_bytes)

    def _find(self, now_ms: int, age_s: float) -> tuple[Orphans, list[ListedFile]]:
        # Listed first: what is named by the time of the look was not orphaned by it.
        listing = list_files(self._place.storage, self._place.root)
        known = self._read_table()
        left = self._why_not(listing, known)
        others = tuple(sorted(listing.others))
        if left:
            return Orphans(others=others, left=left), []
        due = [
            each
            for each in listing.files
            if is_old(each, now_ms, age_s) and not known.keeps(each.inside)
        ]
        for each in due:
            alike = known.names.alike(each.inside)
            if alike is not None:
                left = f"{_UNSURE}: {each.inside} may be {alike}, which the table has"
                return Orphans(others=others, left=left), []
        return Orphans(len(due), sum(each.size_bytes for each in due), others=others), due

    def _why_not(self, listing: Listing, known: _Known) -> str:
        """Why nothing can be known of this table; empty when it can."""
        table = known.look.table
        if known.look.through is None:
            return "nothing of the route was ever published into it"
        if table.metadata.properties.get(_COLLECTED, "true").lower() == "false":
            return f"the table's property {_COLLECTED} is false: its files may be others' too"
        if any(each.changed_ms is None for each in listing.files):
            return "the store does not say when files were written"
        listed = {each.inside for each in listing.files}
        storage, root = self._place.storage, self._place.root
        for name in sorted(self._named.live(table)):
            inside = known.names.inside(name)
            if inside is None or inside in listed:
                continue
            if not storage.has_file(f"{root}/{inside}"):
                return f"{_UNSURE}: {name} is in the table, and is not where its name says"
        uuid = str(table.metadata.table_uuid).lower()
        for inside in listed:
            if is_table_metadata(inside) and not known.names.has(inside):
                found = uuid_in(storage, f"{root}/{inside}")
                if found != uuid:
                    return f"{inside} is of another table, {found or 'of which it does not say'}"
        return ""

    def _read_table(self) -> _Known:
        """The table now, then the ledger: what it has there is published, or waits."""
        look, before = self._table.read(self._hash_of), self._known
        if before is not None and (
            (before.look.table.metadata_location, before.look.next_slot)
            == (look.table.metadata_location, look.next_slot)
        ):
            names = before.names
        else:
            names = TableNames(self._place.uri, self._named.of(look.table))
        waiting = sorted(unpublished(self._log, look.next_slot))
        self._known = _Known(look, names, waiting)
        return self._known

    def _store_ms(self) -> int:
        """The store's own clock, by a file next to the ledger.

        A driver's garbage collection may take it at any moment: then by another.
        """
        for left in reversed(range(_CLOCK_TRIES)):
            try:
                found = self._touched(f"{self._log.layout.stage}/clock-{uuid4().hex}")
            except StorageUnavailableError:
                if not left:
                    raise
            else:
                if found is not None:
                    # A store without times is refused before any age matters.
                    return found.changed_ms or 0
        return 0

    def _touched(self, path: str) -> FileStatus | None:
        """A new file as the store has it, and it is gone again."""
        storage = self._place.storage
        storage.overwrite(path, b"")
        try:
            return storage.status(path)
        finally:
            storage.remove(path)


def is_old(each: ListedFile, now_ms: int, age_s: float) -> bool:
    """Whether a file's age allows to remove it."""
    return each.changed_ms is not None and now_ms - each.changed_ms > age_s * 1000


def _is_same(now: FileStatus, each: ListedFile) -> bool:
    """Whether a file is as it was listed; some stores give a single file's time in seconds."""
    if now.changed_ms is None or each.changed_ms is None or now.size_bytes != each.size_bytes:
        return False
    return abs(now.changed_ms - each.changed_ms) < _TOLD_MS


def unpublished(ledger: LedgerLog, next_slot: int) -> Iterator[str]:
    """How names begin, below the table's location, of files of slots that the table lacks.

    A file that was merged or made of several bears the name of the first, with more after it.

    Args:
        ledger: Log of the ledger.
        next_slot: First slot that the table does not have.

    Raises:
        LedgerCorruptError: A record is damaged.
        StorageUnavailableError: The store failed.
    """
    for record, _ in ledger.records(next_slot):
        if isinstance(record.body, DataRecord | LaneDataRecord):
            for file in record.body.files:
                folder, slash, name = file.final.rpartition("/")
                yield f"data/{folder}{slash}{name.rpartition('.')[0]}"
