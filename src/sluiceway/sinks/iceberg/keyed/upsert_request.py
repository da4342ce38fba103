"""The request of a keyed table: new rows, positions of the rows they replace, files that go."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, SnapshotSummaryCollector, Summary

from sluiceway.sinks.iceberg.commit_request import (
    MERGED_AT_MANIFESTS,
    SMALL_MANIFEST_BYTES,
    CommitRequest,
    Manifests,
    SlotBatch,
    batch_request,
)


@dataclass(frozen=True, slots=True)
class TableChange:
    """What one snapshot of a keyed table does.

    Attributes:
        added: New data files.
        deletes: New files of position deletes.
        removed: Paths of live files, of rows or of deletes, that are not in the table any more.
    """

    added: Sequence[DataFile]
    deletes: Sequence[DataFile] = ()
    removed: frozenset[str] = frozenset()


Entries = Mapping[str, Sequence[ManifestEntry]]
"""Live entries of the head's manifests, by the manifest's path."""


def upsert_request(
    table: Table, batch: SlotBatch, change: TableChange, entries: Entries
) -> CommitRequest:
    """The request that brings a batch into a table as it was loaded. Writes the manifests.

    Args:
        table: The table as the catalog has it now: what it holds is what the request asserts, and
            what the positions of `change` were found in.
        batch: The slots.
        change: What becomes of its files.
        entries: Entries of the table's head.
    """
    metadata = table.metadata
    head = metadata.snapshot_by_name(MAIN_BRANCH)
    summary = SnapshotSummaryCollector(partition_summary_limit=0)
    writer = ChangedManifests(table, metadata.new_snapshot_id())
    manifests = writer.added(change.added, summary)
    manifests += writer.added(change.deletes, summary, DeleteManifestWriter)
    held = list(head.manifests(table.io)) if head is not None else []
    manifests += writer.kept(held, change.removed, entries, summary)
    only_adds = not change.deletes and not change.removed
    operation = Operation.APPEND if only_adds else Operation.OVERWRITE
    return batch_request(
        table, batch, writer, manifests, Summary(operation=operation, **summary.build())
    )


class DeleteManifestWriter(ManifestWriterV2):  # type: ignore[misc]
    """Manifests of delete files. Source: Iceberg table spec, "Manifests"."""

    def content(self) -> ManifestContent:
        """What the files are that it lists."""
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


_WRITERS = {
    ManifestContent.DATA: ManifestWriterV2,
    ManifestContent.DELETES: DeleteManifestWriter,
}


class ChangedManifests(Manifests):
    """Manifests of a snapshot that also removes files."""

    def kept(
        self,
        held: Sequence[ManifestFile],
        removed: frozenset[str],
        entries: Entries,
        summary: SnapshotSummaryCollector,
    ) -> list[ManifestFile]:
        """The table's manifests without the files that go; many small ones become one."""
        left: list[ManifestFile] = []
        again: dict[tuple[ManifestContent, int], list[ManifestFile]] = {}
        small = _many_small(held)
        for manifest in held:
            found = entries[manifest.manifest_path]
            kind = manifest.content, manifest.partition_spec_id
            if any(entry.data_file.file_path in removed for entry in found) or (
                kind in small and manifest.manifest_length < SMALL_MANIFEST_BYTES
            ):
                again.setdefault(kind, []).append(manifest)
            elif found:
                left.append(manifest)
        for (content, spec_id), group in again.items():
            live = [entry for each in group for entry in entries[each.manifest_path]]
            if not live:
                continue
            with self._writer(spec_id, _WRITERS[content]) as writer:
                for entry in live:
                    if entry.data_file.file_path not in removed:
                        writer.existing(entry)
                        continue
                    writer.delete(entry)
                    summary.remove_file(
                        entry.data_file, self._metadata.schema(), self._spec(spec_id)
                    )
            left.append(writer.to_manifest_file())
        return left

    def _spec(self, spec_id: int) -> Any:
        return self._metadata.specs()[spec_id]


def _many_small(held: Sequence[ManifestFile]) -> set[tuple[ManifestContent, int]]:
    """Kinds of which there are as many small manifests as are merged."""
    counts: dict[tuple[ManifestContent, int], int] = {}
    for manifest in held:
        if manifest.manifest_length < SMALL_MANIFEST_BYTES:
            kind = manifest.content, manifest.partition_spec_id
            counts[kind] = counts.get(kind, 0) + 1
    return {kind for kind, count in counts.items() if count >= MERGED_AT_MANIFESTS}
