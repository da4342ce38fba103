"""What a route holds while its driver owns its ledger."""

from dataclasses import dataclass, field

from sluiceway.job.counts_feed import CountsFeed
from sluiceway.job.desired import (
    desired_partition,
    desired_partitions,
    empty_partitions,
    is_to_be_seen,
    moved_last,
)
from sluiceway.job.desk import BackgroundWork, RouteDesk
from sluiceway.job.dirty_limits import DirtyWatch
from sluiceway.job.effects import EffectsApplier
from sluiceway.job.epoch_times import EpochClock
from sluiceway.job.housekeeping import Housekeeper
from sluiceway.job.lanes import Lanes
from sluiceway.job.late_follow import LateTableFollower
from sluiceway.job.moved_partitions import MovedPartitions, OldFolder
from sluiceway.job.planner import PlannedEpoch
from sluiceway.job.publish import Publisher
from sluiceway.job.ready_effects import ReadyEffects
from sluiceway.job.ready_rule import ReadyRule
from sluiceway.job.route_readiness import RouteReadiness
from sluiceway.job.schema_follow import SchemaFollower
from sluiceway.job.takeover import OwnedLedger
from sluiceway.ledger.fold import Fold
from sluiceway.ledger.partition_records import ReplaceRecord
from sluiceway.ledger.records import EpochRecord
from sluiceway.ledger.upkeep import LogUpkeep
from sluiceway.observe.log import Log


@dataclass(slots=True)
class HeldRoute:
    """From START to the end of its session, which closes it.

    Attributes:
        unshown: First slot that the catalog was not told of yet; None when it was told of all.
    """

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
    ready_effects: ReadyEffects | None = None
    readiness: RouteReadiness | None = None
    counts: CountsFeed | None = None
    late_table: LateTableFollower | None = None
    clock: EpochClock = field(default_factory=EpochClock)
    unshown: int | None = None

    def begin_readiness(
        self, rule: ReadyRule | None, effects: ReadyEffects | None, log: Log
    ) -> None:
        """Go on closing and announcing where the ledger is. Called once, at START."""
        self.ready_effects = effects
        if rule is not None:
            self.readiness = RouteReadiness(rule, self.desk, self.owned.fold, log)
            self.readiness.close_due(self.owned.fold)

    def mark_planned(self, planned: PlannedEpoch, fold: Fold) -> None:
        """Say what is closed and what is late for an epoch that is planned now.

        Args:
            planned: The epoch.
            fold: What it is planned from.
        """
        planned.closed, planned.bound_us = self.desk.closed(), self.desk.bound_us
        planned.dates = self.clock.date(fold, planned.route.late)

    def untold(self) -> tuple[str, ...]:
        """Receivers and a table of late rows that do not know what they should; for any thread."""
        receivers = () if self.ready_effects is None else self.ready_effects.troubles
        return receivers if self.late_table is None else receivers + self.late_table.troubles

    @property
    def announcing(self) -> bool:
        """Whether something that is closed is still to be announced, or may be closed at once."""
        counting = self.counts is not None and self.counts.pressing
        return counting or (self.readiness is not None and self.readiness.waits)

    def note_landed(self, record: EpochRecord | ReplaceRecord) -> None:
        """An epoch is committed and published: close what its watermark has passed."""
        if self.readiness is not None and isinstance(record, EpochRecord):
            self.readiness.note_late(record.late_in)
            self.readiness.close_due(self.owned.fold)

    def want_partitions(self, since: int, *, anew: bool = False) -> None:
        """Have the catalog follow what records from slot `since` on have changed.

        Called by the driver's thread after each record; returns at once.

        Args:
            since: First slot that matters.
            anew: At START: look again at those that have moved last too. A call of the driver
                before may have landed after it had looked.
        """
        fold, layout = self.owned.fold, self.owned.layout
        # A turn of the desk may have failed after records of it had landed.
        since = since if self.unshown is None else min(since, self.unshown)
        self.unshown = None
        on_ready = self.readiness is not None and self.readiness.rule.on_ready
        wanted = desired_partitions(fold, layout, since, on_ready=on_ready)
        if self.readiness is not None and self.readiness.rule.whole_key:
            wanted += empty_partitions(fold, layout, since)
        if anew and self.ready_effects is not None:
            self.ready_effects.begin(fold)
        if anew:
            wanted += moved_last(fold, layout, since, on_ready=on_ready)
        for folder in self.moved.take_gone():
            fold.left.pop(folder, None)
        old = []
        for folder, left in fold.left.items():
            state = fold.partitions[left.partition]
            seen = is_to_be_seen(fold, state, on_ready=on_ready)
            now = desired_partition(fold, layout, state, seen=seen)
            old.append(OldFolder(folder, left.seq, now))
        self.moved.take(wanted, old)
        if self.schema.owes_columns():
            # Also those that no record has changed: readers go by a partition's own columns.
            wanted += desired_partitions(fold, layout, 0, on_ready=on_ready)
        if self.readiness is not None:
            self.readiness.note_record(fold)
        if self.readiness is not None and self.ready_effects is not None:
            self.ready_effects.want_complete(self.readiness.complete_us)
        self.effects.want(wanted, fold.next_seq)

    def settle(self, timeout_s: float) -> bool:
        """Give the catalog a while to follow; whether it has. Called at the end of a run.

        Args:
            timeout_s: For the table, and once more for that of its late rows.
        """
        late = self.late_table
        settled = self.effects.settle(timeout_s)
        return (late is None or late.settle(timeout_s)) and settled
