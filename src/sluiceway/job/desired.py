"""Which partitions the catalog should have, and where, by the ledger."""

from sluiceway.ledger.fold import Fold
from sluiceway.ledger.fold_state import PartitionState
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.places import moved_prefix
from sluiceway.sinks.contract import DesiredPartition
from sluiceway.sinks.hive.partition_path import metastore_values

_MOST = 1000


def desired_partitions(fold: Fold, layout: LedgerLayout, since: int) -> list[DesiredPartition]:
    """Those that records from slot `since` on have made, moved or dropped.

    Called after each commit, and at START for what nobody has applied.
    """
    return [
        desired_partition(state, layout)
        for state in fold.partitions.values()
        if state.values and state.placed_seq >= since
    ]


def moved_last(fold: Fold, layout: LedgerLayout, before: int) -> list[DesiredPartition]:
    """Partitions that moved last, in slots below `before`; called at START."""
    moved = [state for state in fold.partitions.values() if state.version]
    moved.sort(key=lambda state: -state.placed_seq)
    return [
        desired_partition(state, layout) for state in moved[:_MOST] if state.placed_seq < before
    ]


def desired_partition(state: PartitionState, layout: LedgerLayout) -> DesiredPartition:
    """How the catalog should show one partition."""
    return DesiredPartition(
        metastore_values(state.values),
        layout.final(state.location),
        first=layout.final(state.folder) if state.version else "",
        moves=layout.final(moved_prefix(state.folder)) if state.version else "",
        exists=not state.expired,
    )
