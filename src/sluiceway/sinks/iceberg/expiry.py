"""Old snapshots of a lake table go, and with them the files that only they name.

One request takes them out of the metadata; it asserts every branch and tag as they were looked at.
Our last snapshot and all after it always stay: a table's history is followed back to it.
"""

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

from sluiceway.sinks.iceberg.commit_request import CommitRequest
from sluiceway.sinks.iceberg.through import LastSnapshot

LEAST_KEPT = 100
"""Of the newest snapshots so many stay, however old they are."""
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
    metadata: TableMetadata, through: LastSnapshot, *, now_ms: int, keep_ms: int, least: int
) -> Expiry:
    """What is old enough to go. Decides only.

    Args:
        metadata: As it was loaded.
        through: Our last snapshot, as the same metadata names it.
        now_ms: Since 1970.
        keep_ms: For how long snapshots stay.
        least: How many of the newest of main stay.
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
    old = [
        each
        for each in metadata.snapshots
        if each.snapshot_id not in kept
        and now_ms - each.timestamp_ms > keep_ms
        and (each.sequence_number or 0) < through.sequence_number
    ]
    old.sort(key=lambda each: each.sequence_number or 0)
    return Expiry(tuple(each.snapshot_id for each in old), tags)


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
        expiry: That has landed.
        over: Whether to end as soon as it can; then nothing is known to be unnamed.
    """
    try:
        return _unnamed_files(before, after, expiry, over)
    except _EndedError:
        return Unnamed((), ())


class _EndedError(Exception):
    """What is known so far is not enough to remove anything."""


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
