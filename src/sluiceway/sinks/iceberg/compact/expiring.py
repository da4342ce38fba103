"""Carries an expiry out: one request, one look, then the files that nothing names any more."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    TableUpdate,
)

from sluiceway.errors import SluicewayError
from sluiceway.observe.failpoints import reach
from sluiceway.observe.log import Log
from sluiceway.sinks.iceberg.commit_request import CommitRequest
from sluiceway.sinks.iceberg.compact.old_metadata import remove_old_metadata
from sluiceway.sinks.iceberg.publish.lake_table import HashOf, LakeTable, TableLook
from sluiceway.sinks.iceberg.publish.publisher import LakePlace
from sluiceway.sinks.iceberg.table_history import SUMMARY_THROUGH, LastSnapshot

LEAST_KEPT = 100
"""So many of the newest snapshots stay, however old they are."""
_COLLECTED = "gc.enabled"


@dataclass(frozen=True, slots=True)
class Expiry:
    """What goes.

    Attributes:
        snapshots: Ids, rising by age.
        tags: Names of tags whose own age is over.
    """

    snapshots: tuple[int, ...]
    tags: tuple[str, ...]


def due_expiry(
    metadata: TableMetadata,
    through: LastSnapshot,
    *,
    now_ms: int,
    keep_ms: int,
    least: int,
    slowest: int | None = None,
) -> Expiry:
    """The snapshots that are old enough to go. Decides only.

    Args:
        metadata: Metadata as it was loaded.
        through: Our last snapshot, as the same metadata names it.
        now_ms: Since 1970.
        keep_ms: For how long snapshots stay.
        least: How many of the newest of main stay.
        slowest: Slot up to which all queries are through; snapshots stay from the one that they
            have read last. None where no query reads by the ledger.
    """
    if metadata.properties.get(_COLLECTED, "true").lower() == "false":
        # Its owner shares files with other tables, or wants every snapshot for ever.
        return Expiry((), ())
    held = {each.snapshot_id: each for each in metadata.snapshots}
    tags = tuple(
        name
        for name, ref in sorted(metadata.refs.items())
        if ref.snapshot_ref_type == SnapshotRefType.TAG
        and ref.max_ref_age_ms is not None
        and ref.snapshot_id in held
        and now_ms - held[ref.snapshot_id].timestamp_ms > ref.max_ref_age_ms
    )
    kept: set[int] = set()
    for name, ref in metadata.refs.items():
        if name == MAIN_BRANCH:
            chain = enumerate(_back_from(ref.snapshot_id, held))
            kept |= {
                each.snapshot_id
                for at, each in chain
                if at < least or (each.sequence_number or 0) >= through.sequence_number
            }
        elif ref.snapshot_ref_type == SnapshotRefType.BRANCH:
            kept |= {each.snapshot_id for each in _back_from(ref.snapshot_id, held)}
        elif name not in tags:
            kept.add(ref.snapshot_id)
    read_from = through.sequence_number if slowest is None else _last_read(metadata, slowest)
    old = [
        each
        for each in metadata.snapshots
        if each.snapshot_id not in kept
        and now_ms - each.timestamp_ms > keep_ms
        and (each.sequence_number or 0) < min(through.sequence_number, read_from)
    ]
    old.sort(key=lambda each: each.sequence_number or 0)
    return Expiry(tuple(each.snapshot_id for each in old), tags)


def _last_read(metadata: TableMetadata, slot: int) -> int:
    """Sequence number of our newest snapshot whose slots are all up to this one; 0 without one."""
    known = 0
    for each in metadata.snapshots:
        said = None if each.summary is None else each.summary.additional_properties
        through = "" if said is None else said.get(SUMMARY_THROUGH, "")
        if through.isdecimal() and int(through) <= slot:
            known = max(known, each.sequence_number or 0)
    return known


def _back_from(snapshot_id: int, held: Mapping[int, Snapshot]) -> Iterator[Snapshot]:
    at: int | None = snapshot_id
    while at is not None and at in held:
        yield held[at]
        at = held[at].parent_snapshot_id


def expire_request(metadata: TableMetadata, expiry: Expiry) -> CommitRequest:
    """The request that takes snapshots and tags out of a table as it was loaded."""
    updates: list[TableUpdate] = [RemoveSnapshotRefUpdate(ref_name=name) for name in expiry.tags]
    if expiry.snapshots:
        updates.append(RemoveSnapshotsUpdate(snapshot_ids=list(expiry.snapshots)))
    asserted = (
        AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id)
        for name, ref in sorted(metadata.refs.items())
    )
    return CommitRequest(tuple(updates), (AssertTableUUID(uuid=metadata.table_uuid), *asserted))


@dataclass(frozen=True, slots=True)
class Unnamed:
    """Files that only expired snapshots have named.

    Attributes:
        metadata: Manifests and their lists.
        data: Files of rows and of deletes.
    """

    metadata: tuple[str, ...]
    data: tuple[str, ...]


def unnamed_files(
    before: Table, after: Table, expiry: Expiry, over: Callable[[], bool] = lambda: False
) -> Unnamed:
    """What no snapshot of a table names any more. Reads manifests, of all that stay.

    Args:
        before: As the expiry was decided for.
        after: As the catalog has it now, without these snapshots.
        expiry: Expiry that has landed.
        over: Whether to end as soon as it can; then nothing is known to be unnamed.
    """
    try:
        return _unnamed_files(before, after, expiry, over)
    except _EndedError:
        return Unnamed((), ())


class _EndedError(Exception):
    """Too little is known so far to remove anything."""


def _unless(over: Callable[[], bool], items: Iterable[Any]) -> Iterator[Any]:
    """All of them.

    Raises:
        _EndedError: It is to end.
    """
    for each in items:
        if over():
            raise _EndedError
        yield each


def _unnamed_files(
    before: Table, after: Table, expiry: Expiry, over: Callable[[], bool]
) -> Unnamed:
    io = after.io
    gone = [each for each in before.metadata.snapshots if each.snapshot_id in expiry.snapshots]
    stay = after.metadata.snapshots
    lists = {each.manifest_list for each in gone} - {each.manifest_list for each in stay}
    old = {each.manifest_path: each for each in _manifests(_unless(over, gone), before)}
    held = {each.manifest_path: each for each in _manifests(_unless(over, stay), after)}
    dead = [manifest for path, manifest in old.items() if path not in held]
    data = {path for manifest in _unless(over, dead) for path in _live(manifest, io)}
    if data:
        for manifest in _unless(over, held.values()):
            data.difference_update(_live(manifest, io))
    return Unnamed(
        tuple(sorted({*lists, *(manifest.manifest_path for manifest in dead)})),
        tuple(sorted(data)),
    )


def _manifests(snapshots: Iterable[Snapshot], table: Table) -> Iterator[ManifestFile]:
    for snapshot in snapshots:
        yield from snapshot.manifests(table.io)


def _live(manifest: ManifestFile, io: object) -> Iterator[str]:
    for entry in manifest.fetch_manifest_entry(io, discard_deleted=True):
        yield entry.data_file.file_path


_TRIES = 3


@dataclass(frozen=True, slots=True)
class Expired:
    """What has gone.

    Attributes:
        snapshots: How many.
        tags: How many, whose own age was over.
        data_files: How many files of rows and deletes.
        metadata_files: How many manifests and lists.
        left: Why nothing has gone; empty when it has, or when nothing was due.
    """

    snapshots: int = 0
    tags: int = 0
    data_files: int = 0
    metadata_files: int = 0
    left: str = ""


class LakeExpiry:
    """Expires snapshots of one table. One thread at a time; safe next to publishers and others.

    Args:
        table: By a catalog object of its own.
        place: Where its files lie.
        hash_of: Returns the hash of a ledger's record.
        log: Log for people.
        least: How many of the newest snapshots always stay.
        slowest: Called with a time in milliseconds; returns the slot up to which all queries that
            read by the ledger are through, None without such a query.
    """

    def __init__(
        self,
        table: LakeTable,
        place: LakePlace,
        hash_of: HashOf,
        log: Log,
        *,
        least: int = LEAST_KEPT,
        slowest: Callable[[int], int | None] = lambda _: None,
    ) -> None:
        self._least = least
        self._slowest = slowest
        self._table = table
        self._place = place
        self._hash_of = hash_of
        self._events = log

    def due(self, keep_s: float) -> tuple[TableLook, Expiry]:
        """What would go now. Changes nothing.

        Raises:
            TableHistoryError: The table was rolled back or replaced.
            TableMismatchError: It was dropped, or dropped and created again.
            MetastoreUnavailableError: The catalog does not answer.
            StorageUnavailableError: It is unknown what queries need.
        """
        look = self._table.read(self._hash_of)
        if look.through is None:
            return look, Expiry((), ())
        now_ms, keep_ms = int(time.time() * 1000), int(keep_s * 1000)
        metadata = look.table.metadata
        return look, due_expiry(
            metadata,
            look.through,
            now_ms=now_ms,
            keep_ms=keep_ms,
            least=self._least,
            slowest=self._slowest(now_ms),
        )

    def expire(self, keep_s: float, over: Callable[[], bool] = lambda: False) -> Expired:
        """Take old snapshots out of the table, then remove what only they have named.

        A process that dies in between leaves orphans, and so does a process that is asked to end.
        Raises as `due`.

        Args:
            keep_s: How long snapshots stay, in seconds; the newest hundred always do.
            over: Whether to end as soon as it can; asked before each file.
        """
        said = ""
        for _ in range(_TRIES):
            if over():
                return Expired(left="it was asked to end")
            look, expiry = self.due(keep_s)
            if not expiry.snapshots and not expiry.tags:
                return Expired()
            said = self._table.send(look.table, expire_request(look.table.metadata, expiry))
            after = self._table.read(self._hash_of)
            metadata = after.table.metadata
            # Whoever has taken them out: files of theirs may be removed.
            left = {each.snapshot_id for each in metadata.snapshots}
            if left.isdisjoint(expiry.snapshots) and metadata.refs.keys().isdisjoint(expiry.tags):
                break
        else:
            return Expired(left=f"the catalog did not take it: {said}")
        reach("lake.expired", self._table.where)
        try:
            unnamed = unnamed_files(look.table, after.table, expiry, over)
        except Exception as error:  # noqa: BLE001 - any store's error: orphans stay
            self._events.warning("garbage_left", path=self._table.where, error=str(error))
            unnamed = Unnamed((), ())
        data, metadata_files = self._remove(after, unnamed, over)
        if not over():
            remove_old_metadata(look.table, after.table, self._events)
        done = Expired(len(expiry.snapshots), len(expiry.tags), data, metadata_files)
        self._events.info(
            "lake_expired",
            table=self._table.where,
            snapshots=done.snapshots,
            tags=done.tags,
            data_files=done.data_files,
        )
        return done

    def _remove(
        self, after: TableLook, unnamed: Unnamed, over: Callable[[], bool]
    ) -> tuple[int, int]:
        """Remove files below the table's location; what stays is an orphan, never an error.

        Returns:
            How many of both kinds it has come to.
        """
        place = self._place
        for number, uri in enumerate(unnamed.data):
            if over():
                return number, 0
            if not uri.startswith(f"{place.uri}/"):
                continue
            try:
                place.storage.remove(f"{place.root}{uri.removeprefix(place.uri)}")
            except SluicewayError as error:
                self._events.info("garbage_left", path=uri, error=str(error))
        for number, location in enumerate(unnamed.metadata):
            if over():
                return len(unnamed.data), number
            try:
                after.table.io.delete(location)
            except Exception as error:  # noqa: BLE001 - any store's error: an orphan stays
                self._events.info("garbage_left", path=location, error=str(error))
        return len(unnamed.data), len(unnamed.metadata)
