"""What a route holds while its driver owns its ledger."""

from dataclasses import dataclass, field

from sluiceway.job.desired import desired_partition, desired_partitions, moved_last
from sluiceway.job.desk import BackgroundWork, RouteDesk
from sluiceway.job.dirty_limits import DirtyWatch
from sluiceway.job.effects import EffectsApplier
from sluiceway.job.housekeeping import Housekeeper
from sluiceway.job.lanes import Lanes
from sluiceway.job.moved_partitions import MovedPartitions, OldFolder
from sluiceway.job.publish import Publisher
from sluiceway.job.schema_follow import SchemaFollower
from sluiceway.job.takeover import OwnedLedger
from sluiceway.ledger.upkeep import LogUpkeep


@dataclass(frozen=True, slots=True)
class HeldRoute:
    """From START to the end of its session, which closes it."""

    owned: OwnedLedger
    publisher: Publisher
    effects: EffectsApplier
    moved: MovedPartitions
    housekeeper: Housekeeper
    schema: SchemaFollower
    upkeep: LogUpkeep
    desk: RouteDesk
    lanes: Lanes
    dirty: DirtyWatch
    background: list[BackgroundWork] = field(default_factory=list)

    def want_partitions(self, since: int, *, anew: bool = False) -> None:
        """Have the catalog follow what records from slot `since` on have changed.

        Called by the driver's thread after each record; returns at once.

        Args:
            since: First slot that matters.
            anew: At START: look again at those that have moved last too. A call of the driver
                before may have landed after it had looked.
        """
        fold, layout = self.owned.fold, self.owned.layout
        wanted = desired_partitions(fold, layout, since)
        if anew:
            wanted += moved_last(fold, layout, since)
        for folder in self.moved.take_gone():
            fold.left.pop(folder, None)
        old = [
            OldFolder(folder, left.seq, desired_partition(fold.partitions[left.partition], layout))
            for folder, left in fold.left.items()
        ]
        self.moved.take(wanted, old)
        if self.schema.owes_columns():
            # Also those that no record has changed: readers go by a partition's own columns.
            wanted += desired_partitions(fold, layout, 0)
        self.effects.want(wanted, fold.next_seq)
