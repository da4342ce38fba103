"""One request to a catalog: a snapshot, the branch that it moves and the property, all or nothing.

It uses what pyiceberg has for metadata and manifests, but not its commits, retries and clean-ups.
Only the table shows afterwards what became of a request.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from sluiceway.sinks.iceberg.table_history import (
    SUMMARY_FROM,
    SUMMARY_LEDGER,
    SUMMARY_THROUGH,
    LastSnapshot,
    property_name,
)

CODEC = "gzip"
MERGED_AT_MANIFESTS = 100
SMALL_MANIFEST_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class SlotBatch:
    """Slots that one snapshot brings into the table.

    Attributes:
        ledger: Uuid.
        first: First slot.
        last: Last slot; all between are in it, with rows or without.
        record_hash: Hash of the last slot's record.
        properties: Table properties that the same request sets, in addition to ours.
        notes: For the snapshot's summary: offsets and watermark.
        tags: Tags that are to name the snapshot, each with how long it is kept, in ms.
    """

    ledger: str
    first: int
    last: int
    record_hash: str
    properties: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """The one request, as it is sent.

    Attributes:
        through: What the table will say when it lands; None for a request that brings no slots.
    """

    updates: tuple[TableUpdate, ...]
    requirements: tuple[TableRequirement, ...]
    through: LastSnapshot | None = None


def append_request(table: Table, batch: SlotBatch, files: Sequence[DataFile]) -> CommitRequest:
    """The request that appends a batch to a table as it was loaded. Writes the manifests.

    Args:
        table: The table as the catalog has it now: what it holds is what the request asserts.
        batch: The slots.
        files: Placed; each under the spec that its partition is of. May be none.
    """
    metadata = table.metadata
    head = metadata.snapshot_by_name(MAIN_BRANCH)
    writer = Manifests(table, metadata.new_snapshot_id())
    summary = SnapshotSummaryCollector(partition_summary_limit=0)
    added = writer.added(files, summary)
    held = list(head.manifests(table.io)) if head is not None else []
    manifests = [*added, *writer.merged(held)]
    counted = Summary(operation=Operation.APPEND, **summary.build())
    return batch_request(table, batch, writer, manifests, counted)


def batch_request(
    table: Table,
    batch: SlotBatch,
    writer: "Manifests",
    manifests: Sequence[ManifestFile],
    counted: Summary,
) -> CommitRequest:
    """The request that makes these manifests the table's, with a batch's slots. Writes their list.

    Args:
        table: The table as the catalog has it now.
        batch: The slots.
        writer: The writer that wrote them.
        manifests: All of the new snapshot.
        counted: What is done, and the counts of what was added and removed.
    """
    metadata = table.metadata
    head = metadata.snapshot_by_name(MAIN_BRANCH)
    sequence_number = metadata.last_sequence_number + 1
    through = LastSnapshot(batch.last, writer.snapshot_id, sequence_number, batch.record_hash)
    notes = {
        SUMMARY_LEDGER: batch.ledger,
        SUMMARY_FROM: str(batch.first),
        SUMMARY_THROUGH: str(batch.last),
        **batch.notes,
    }
    counted = update_snapshot_summaries(
        Summary(operation=counted.operation, **counted.additional_properties, **notes),
        None if head is None else head.summary,
    )
    parent = None if head is None else head.snapshot_id
    snapshot = Snapshot(
        snapshot_id=writer.snapshot_id,
        parent_snapshot_id=parent,
        sequence_number=sequence_number,
        manifest_list=writer.manifest_list(manifests, parent, sequence_number),
        summary=counted,
        schema_id=metadata.current_schema_id,
    )
    properties = {**batch.properties, property_name(batch.ledger): str(through)}
    updates = (
        AddSnapshotUpdate(snapshot=snapshot),
        SetSnapshotRefUpdate(
            ref_name=MAIN_BRANCH, type=SnapshotRefType.BRANCH, snapshot_id=writer.snapshot_id
        ),
        *(
            SetSnapshotRefUpdate(
                ref_name=name,
                type=SnapshotRefType.TAG,
                snapshot_id=writer.snapshot_id,
                max_ref_age_ms=age,
            )
            for name, age in batch.tags.items()
        ),
        SetPropertiesUpdate(updates=properties),
    )
    return CommitRequest(updates, requirements_of(metadata), through)


def requirements_of(metadata: TableMetadata) -> tuple[TableRequirement, ...]:
    """What has to hold still when a request lands that was built on this metadata."""
    head = metadata.snapshot_by_name(MAIN_BRANCH)
    return (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertRefSnapshotId(
            ref=MAIN_BRANCH, snapshot_id=None if head is None else head.snapshot_id
        ),
        AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
        AssertDefaultSpecId(default_spec_id=metadata.default_spec_id),
    )


class Manifests:
    """Writes the manifests of one snapshot, under unique names.

    Attributes:
        snapshot_id: Id of the snapshot.
    """

    def __init__(self, table: Table, snapshot_id: int) -> None:
        self._metadata: TableMetadata = table.metadata
        self._io = table.io
        self._locations = table.location_provider()
        self.snapshot_id = snapshot_id
        self._id = uuid4()
        self._next = 0

    def added(
        self,
        files: Iterable[DataFile],
        summary: SnapshotSummaryCollector,
        kind: type[ManifestWriterV2] = ManifestWriterV2,
    ) -> list[ManifestFile]:
        """A manifest for each spec.

        Args:
            files: All of one content.
            summary: Counts them.
            kind: Writes manifests of that content.
        """
        by_spec: dict[int, list[DataFile]] = {}
        for file in files:
            by_spec.setdefault(file.spec_id, []).append(file)
        made = []
        for spec_id, group in sorted(by_spec.items()):
            spec = self._metadata.specs()[spec_id]
            with self._writer(spec_id, kind) as writer:
                for file in group:
                    writer.add(
                        ManifestEntry.from_args(
                            status=ManifestEntryStatus.ADDED,
                            snapshot_id=self.snapshot_id,
                            sequence_number=None,
                            file_sequence_number=None,
                            data_file=file,
                        )
                    )
                    summary.add_file(
                        data_file=file, partition_spec=spec, schema=self._metadata.schema()
                    )
            made.append(writer.to_manifest_file())
        return made

    def merged(self, held: Sequence[ManifestFile]) -> list[ManifestFile]:
        """The table's manifests; where many are small, these in one, their numbers kept."""
        small: dict[int, list[ManifestFile]] = {}
        for manifest in held:
            if manifest.content == ManifestContent.DATA and (
                manifest.manifest_length < SMALL_MANIFEST_BYTES
            ):
                small.setdefault(manifest.partition_spec_id, []).append(manifest)
        left = list(held)
        for spec_id, group in small.items():
            if len(group) < MERGED_AT_MANIFESTS:
                continue
            gone = {manifest.manifest_path for manifest in group}
            left = [each for each in left if each.manifest_path not in gone]
            entries = [
                entry
                for manifest in group
                for entry in manifest.fetch_manifest_entry(self._io, discard_deleted=True)
            ]
            if not entries:
                continue
            with self._writer(spec_id) as writer:
                for entry in entries:
                    writer.existing(entry)
            left.append(writer.to_manifest_file())
        return left

    def manifest_list(
        self, manifests: Sequence[ManifestFile], parent: int | None, sequence_number: int
    ) -> str:
        """Write the list of a snapshot; its location."""
        name = f"snap-{self.snapshot_id}-0-{self._id}.avro"
        location: str = self._locations.new_metadata_location(name)
        with write_manifest_list(
            format_version=2,
            output_file=self._io.new_output(location),
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=parent,
            sequence_number=sequence_number,
            avro_compression=CODEC,
        ) as writer:
            writer.add_manifests(list(manifests))
        return location

    def _writer(
        self, spec_id: int, kind: type[ManifestWriterV2] = ManifestWriterV2
    ) -> ManifestWriterV2:
        location = self._locations.new_metadata_location(f"{self._id}-m{self._next}.avro")
        self._next += 1
        return kind(
            self._metadata.specs()[spec_id],
            self._metadata.schema(),
            self._io.new_output(location),
            self.snapshot_id,
            CODEC,
        )
