"""Which partitions the catalog should have, by the ledger."""

from sluiceway.job.takeover import OwnedLedger
from sluiceway.sinks.contract import DesiredPartition
from sluiceway.sinks.hive.partition_path import metastore_values


def desired_partitions(owned: OwnedLedger, since: int) -> list[DesiredPartition]:
    """Those that records from slot `since` on have made. Called after each commit."""
    return [
        DesiredPartition(metastore_values(state.values), owned.layout.final(state.folder))
        for state in owned.fold.partitions.values()
        if state.values and state.first_seq >= since
    ]
