"""Whether a table's history still goes back to our last snapshot (a rollback keeps properties)."""

from enum import StrEnum

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH

from sluiceway.sinks.iceberg.through import LastSnapshot


class Lineage(StrEnum):
    """What the walk from the head of main met."""

    GOOD = "good"
    UNPROVEN = "unproven"
    LOST = "lost"


def lineage(metadata: TableMetadata, through: LastSnapshot) -> Lineage:
    """Walk back from the head of main.

    Args:
        metadata: Metadata as it was loaded.
        through: Our last snapshot, as the same metadata names it.

    Returns:
        `good` when the walk meets our snapshot. `lost` when it meets the table's first snapshot, or
        another as old as ours: the table was rolled back or replaced. `unproven` when a snapshot on
        the way was expired.
    """
    snapshot = metadata.snapshot_by_name(MAIN_BRANCH)
    if snapshot is None:
        return Lineage.LOST
    while True:
        if snapshot.snapshot_id == through.snapshot_id:
            return Lineage.GOOD
        if (snapshot.sequence_number or 0) <= through.sequence_number:
            return Lineage.LOST
        parent_id = snapshot.parent_snapshot_id
        if parent_id is None:
            return Lineage.LOST
        parent = metadata.snapshot_by_id(parent_id)
        if parent is None:
            return Lineage.UNPROVEN
        snapshot = parent
