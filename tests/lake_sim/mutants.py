"""Wrong variants of publishing: each has to be caught by some seed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate

from lake_sim.keyed_mutants import KEYED_MUTANTS
from lake_sim.lending_mutants import LENDING_MUTANTS
from sluiceway.ledger.follower import LogView
from sluiceway.sinks.iceberg import commit_request
from sluiceway.sinks.iceberg.compact import compaction, expiring, orphans
from sluiceway.sinks.iceberg.compact.compaction import LakeCompaction
from sluiceway.sinks.iceberg.compact.expiring import due_expiry, unnamed_files
from sluiceway.sinks.iceberg.compact.orphans import MetadataFiles
from sluiceway.sinks.iceberg.compact.replace_request import replace_request
from sluiceway.sinks.iceberg.keyed.table_head import Head
from sluiceway.sinks.iceberg.publish import lake_table, publisher
from sluiceway.sinks.iceberg.publish.lake_batch import LakeBatch, next_batch
from sluiceway.sinks.iceberg.publish.lake_table import LakeTable
from sluiceway.sinks.iceberg.publish.publisher import LakePublisher
from sluiceway.sinks.iceberg.table_history import Lineage, lineage, property_name
from tools.ledger_records import LEDGER
from tools.mutant_fit import Patch, held

_REQUIREMENTS = commit_request.requirements_of
_NEXT = next_batch
_TRY = LakePublisher._try
_SEND = LakeTable.send
_CARRIED = LakeCompaction._carried
_LIVE = LakeCompaction._live
_REPLACE = replace_request
_DUE = due_expiry
_UNNAMED = unnamed_files
_NAMED = MetadataFiles.of


def without_head(metadata: TableMetadata) -> Any:
    """A request does not say on which head it was built."""
    return tuple(
        each for each in _REQUIREMENTS(metadata) if not isinstance(each, AssertRefSnapshotId)
    )


def head_of_now(self: LakeTable, table: Any, request: Any) -> str:
    """What a request asserts is looked up anew when it is sent."""
    now = self.load()
    return _SEND(self, table, replace(request, requirements=_REQUIREMENTS(now.metadata)))


def property_apart(self: LakeTable, table: Any, request: Any) -> str:
    """Rows first, and how far they are by a request of its own."""
    rows = tuple(each for each in request.updates if not isinstance(each, SetPropertiesUpdate))
    told = tuple(each for each in request.updates if isinstance(each, SetPropertiesUpdate))
    said = _SEND(self, table, replace(request, updates=rows))
    if said:
        return said
    now = self.load()
    return _SEND(self, now, commit_request.CommitRequest(told, _REQUIREMENTS(now.metadata)))


def answer_believed(self: LakePublisher, batch: LakeBatch, view: LogView) -> None:
    """Sent is done: nobody looks."""
    look = self._read_table(view.log)
    self._go_on_at(look, view)
    if look.next_slot != batch.first:
        batch = _NEXT(view, look.next_slot, view.over)
        if not batch.is_due:
            return
    self._try(look.table, batch, view)
    self._place = batch.last + 1


def sent_again(self: LakeTable, table: Any, request: Any) -> str:
    """What was not answered well is sent again as it is, on the head of that moment."""
    said = _SEND(self, table, request)
    if not said:
        return said
    return head_of_now(self, table, request)


def first_slot_left(
    view: LogView, first: int, over: Callable[[], bool], **bounds: Any
) -> LakeBatch:
    """A batch leaves out its first slot."""
    batch = _NEXT(view, first, over, **bounds)
    batch.files = [(seq, file) for seq, file in batch.files if seq != first]
    return batch


def empty_is_through(
    view: LogView, first: int, over: Callable[[], bool], **bounds: Any
) -> LakeBatch:
    """Behind as many slots without rows as a batch holds nothing is looked for."""
    batch = _NEXT(view, first, over, **bounds)
    batch.more = batch.more and batch.is_due
    return batch


def expired_is_lost(metadata: TableMetadata, through: Any) -> Lineage:
    """Snapshots that others expired look like a table that was replaced."""
    found = _LINEAGE(metadata, through)
    return Lineage.LOST if found is Lineage.UNPROVEN else found


_LINEAGE = lineage


def cleaned_up(self: LakePublisher, table: Any, batch: LakeBatch, view: LogView) -> str:
    """What was refused, as it seems, is removed: files, and the names under which they wait."""
    said = _TRY(self, table, batch, view)
    if said:
        for _, file in batch.files:
            self._files.storage.remove(f"{self._files.root}/data/{file.final}")
    return said


def deletes_forgotten(self: LakeCompaction, each: Any, head: Head) -> Any:
    """Rows that others deleted while a file was written anew are alive in it."""
    carry, why = _CARRIED(self, each, head)
    return carry[:0], why


def old_places(self: LakeCompaction, each: Any, head: Head) -> Any:
    """Rows that others deleted meanwhile are looked for in the new file where they were."""
    carry, why = _CARRIED(self, each, head)
    if why or not len(carry):
        return carry, why
    now = [np.setdiff1d(self._heads.dead(uri), source.dead) for uri, source in each.sources.items()]
    return np.unique(np.concatenate(now)), why


def replaced_twice(self: LakeCompaction, each: Any, head: Head) -> Any:
    """Files need not be live any more to be replaced."""
    carry, why = _CARRIED(self, each, head)
    return carry, "" if "others have replaced" in why else why


def dead_written(self: Any, uri: str, head: Head) -> Any:
    """Rows that were deleted before are written into the new file."""
    return replace(_LIVE(self, uri, head), dead=np.empty(0, np.int64))


def property_again(table: Any, change: Any, entries: Any, ledger: str) -> Any:
    """A compaction sets the property, as it was read some time before."""
    made = _REPLACE(table, change, entries, ledger)
    name = property_name(LEDGER)
    told = SetPropertiesUpdate(updates={name: table.metadata.properties.get(name, "")})
    kept = tuple(each for each in made.requirements if not isinstance(each, AssertRefSnapshotId))
    return replace(made, updates=(*made.updates, told), requirements=kept)


def ours_expired(metadata: TableMetadata, through: Any, **given: Any) -> Any:
    """Our last snapshot goes as others do."""
    return _DUE(metadata, replace(through, sequence_number=1 << 60), **given)


def live_removed(before: Any, after: Any, expiry: Any, over: Any) -> Any:
    """What an expired snapshot has added goes, whoever names it still."""
    found = _UNNAMED(before, after, expiry, over)
    ids = set(expiry.snapshots)
    added = {
        entry.data_file.file_path
        for each in before.metadata.snapshots
        if each.snapshot_id in ids
        for manifest in each.manifests(before.io)
        for entry in manifest.fetch_manifest_entry(before.io)
    }
    return replace(found, data=tuple(added))


def young_removed(each: Any, now_ms: int, age_s: float) -> bool:
    """What nobody names is an orphan, however young it is."""
    return True


def ledger_not_asked(ledger: Any, next_slot: int) -> Iterator[str]:
    """Files of slots that the table does not have yet are orphans when they are old."""
    return iter(())


def main_alone(self: MetadataFiles, table: Any) -> Iterator[str]:
    """Only what main leads to is named: no other branch, no tag."""
    held = {each.snapshot_id: each for each in table.metadata.snapshots}
    at, kept = table.metadata.current_snapshot_id, []
    while at in held:
        kept.append(held[at])
        at = held[at].parent_snapshot_id
    metadata = table.metadata.model_copy(update={"snapshots": kept})
    return _NAMED(self, replace_metadata(table, metadata))


def replace_metadata(table: Any, metadata: TableMetadata) -> Any:
    """The same table with other metadata in memory."""
    return type(table)(table.name(), metadata, table.metadata_location, table.io, table.catalog)


_APPEND: dict[str, Sequence[Patch]] = {
    "without-head": [(commit_request, "requirements_of", without_head)],
    "head-of-now": [(LakeTable, "send", head_of_now)],
    "property-apart": [(LakeTable, "send", property_apart)],
    "answer-believed": [(LakePublisher, "_publish", answer_believed)],
    "sent-again": [(LakeTable, "send", sent_again)],
    "first-slot-left": [(publisher, "next_batch", first_slot_left)],
    "empty-is-through": [(publisher, "next_batch", empty_is_through)],
    "expired-is-lost": [(lake_table, "lineage", expired_is_lost)],
    "deletes-forgotten": [(LakeCompaction, "_carried", deletes_forgotten)],
    "old-places": [(LakeCompaction, "_carried", old_places)],
    "replaced-twice": [(LakeCompaction, "_carried", replaced_twice)],
    "dead-written": [(LakeCompaction, "_live", dead_written)],
    "property-again": [(compaction, "replace_request", property_again)],
    "ours-expired": [(expiring, "due_expiry", ours_expired)],
    "young-removed": [(orphans, "is_old", young_removed)],
    "ledger-not-asked": [(orphans, "unpublished", ledger_not_asked)],
    "main-alone": [(MetadataFiles, "of", main_alone)],
    "live-removed": [(expiring, "unnamed_files", live_removed)],
    "cleaned-up": [(LakePublisher, "_try", cleaned_up)],
}
# The same requests are wrong for a keyed table.
_KEYED_TOO = ("without-head", "head-of-now", "property-apart", "answer-believed")
KEYED: dict[str, Sequence[Patch]] = {
    **KEYED_MUTANTS,
    **{f"keyed-{name}": _APPEND[name] for name in (*_KEYED_TOO, "first-slot-left")},
}
"""Those of the world of keyed tables; all others are of append tables."""
MUTANTS = {**_APPEND, **LENDING_MUTANTS, **KEYED}


@contextmanager
def patched(name: str) -> Iterator[None]:
    """The product with one of them inside the block; empty is the product itself.

    Raises:
        MisfitError: It does not apply to the product as it is.
    """
    with held(name, MUTANTS[name] if name else ()):
        yield
