"""The request of a compaction: files that stand for others with the same living rows.

It asserts what every request of ours asserts, and leaves the ledger's property alone: how far the
table has the log does not change.
"""

from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

from sluiceway.errors import InvariantError
from sluiceway.sinks.iceberg.commit_request import CommitRequest, requirements_of
from sluiceway.sinks.iceberg.keyed.upsert_request import (
    ChangedManifests,
    DeleteManifestWriter,
    Entries,
    TableChange,
)
from sluiceway.sinks.iceberg.table_history import SUMMARY_COMPACTION


def replace_request(
    table: Table, change: TableChange, entries: Entries, ledger: str
) -> CommitRequest:
    """The request that puts new files in the place of old ones. Writes the manifests.

    Args:
        table: The table as the catalog has it now: its head is what `change` was made for.
        change: Files that come and go.
        entries: Entries of the table's head.
        ledger: Uuid, for the summary.
    """
    metadata = table.metadata
    head = metadata.snapshot_by_name(MAIN_BRANCH)
    if head is None:
        raise InvariantError("a table without a snapshot has no files to be replaced")
    counts = SnapshotSummaryCollector(partition_summary_limit=0)
    writer = ChangedManifests(table, metadata.new_snapshot_id())
    manifests = writer.added(change.added, counts)
    manifests += writer.added(change.deletes, counts, DeleteManifestWriter)
    manifests += writer.kept(head.manifests(table.io), change.removed, entries, counts)
    told = {**counts.build(), SUMMARY_COMPACTION: ledger}
    # The client adds up totals for what changes rows only.
    totals = update_snapshot_summaries(Summary(Operation.OVERWRITE, **told), head.summary)
    sequence_number = metadata.last_sequence_number + 1
    snapshot = Snapshot(
        snapshot_id=writer.snapshot_id,
        parent_snapshot_id=head.snapshot_id,
        sequence_number=sequence_number,
        manifest_list=writer.manifest_list(manifests, head.snapshot_id, sequence_number),
        summary=Summary(Operation.REPLACE, **totals.additional_properties),
        schema_id=metadata.current_schema_id,
    )
    updates = (
        AddSnapshotUpdate(snapshot=snapshot),
        SetSnapshotRefUpdate(
            ref_name=MAIN_BRANCH, type=SnapshotRefType.BRANCH, snapshot_id=writer.snapshot_id
        ),
    )
    return CommitRequest(updates, requirements_of(metadata))
