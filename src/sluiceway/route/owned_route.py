"""What a route holds while its driver owns its ledger."""

from dataclasses import dataclass, field

from sluiceway.errors import UnpublishedError
from sluiceway.followers.catalog import CatalogFollower
from sluiceway.followers.desired import (
    desired_partition,
    desired_partitions,
    empty_partitions,
    is_to_be_shown,
    moved_last,
)
from sluiceway.followers.moved_partitions import MovedPartitions, OldFolder
from sluiceway.followers.runner import FollowerRunner
from sluiceway.jobfile.compile.dirty_limits import DirtyWatch
from sluiceway.jobfile.compile.ready_rule import ReadyRule
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.records import EpochRecord, FilesRecord
from sluiceway.ledger.upkeep import LogUpkeep
from sluiceway.observe.log import Log
from sluiceway.route.inherited_readiness import InheritedReadiness
from sluiceway.route.route_readiness import RouteReadiness
from sluiceway.route.schema_follow import SchemaFollower
from sluiceway.route.takeover import OwnedTable
from sluiceway.schedule.closed_hint import ClosedHint
from sluiceway.schedule.epoch_times import EpochClock
from sluiceway.schedule.planner import PlannedEpoch
from sluiceway.sources.contract import SourceClient
from sluiceway.upkeep.backfiller import Backfiller
from sluiceway.upkeep.counts_feed import CountsFeed
from sluiceway.upkeep.housekeeping import FileCleaner
from sluiceway.upkeep.lanes import Lanes
from sluiceway.upkeep.recomputing import Recomputer
from sluiceway.upkeep.record_queue import BackgroundWork, RecordQueue

LONGEST_UNPUBLISHED_S = 600.0
"""A committed record may be unpublished for so long while later records are committed."""


@dataclass(slots=True)
class RouteBackground:
    """What goes on next to the epochs of a route, from its START until it is left.

    Attributes:
        housekeeper: Removes files that no record names.
        lanes: Replays and purges of dirty rows.
        counts: Reads audited counts; None in a route without them.
        backfiller: Reads hours again; None before the route has recovered.
        units: Computes units of a table; None in a route that appends rows.
        work: What has threads of its own.
    """

    housekeeper: FileCleaner
    lanes: Lanes
    counts: CountsFeed | None = None
    backfiller: Backfiller | None = None
    units: Recomputer | None = None
    work: list[BackgroundWork] = field(default_factory=list)

    def is_computing(self, slots: int) -> bool:
        """Whether units or corrections are due, or were not looked for yet.

        Args:
            slots: Number of slots of the ledger.
        """
        if self.units is not None:
            return not self.units.idle
        return self.backfiller is not None and not self.backfiller.has_followed(slots)

    def refuse_if_failed(self) -> None:
        """Called by the driver's thread before it goes on.

        Raises:
            SluicewayError: Why the route has to halt.
        """
        if self.units is not None:
            self.units.refuse_if_failed()

    def close_work(self) -> None:
        """End what has threads of its own."""
        for each in self.work:
            each.close()


@dataclass(kw_only=True, slots=True)
class OwnedRoute:
    """From START to the end of its session, which closes it.

    Attributes:
        followers: All that is made equal to the log after the commits.
        catalog: One of them; None for a table that follows the log by itself.
        unshown: First slot that the catalog has not got yet; None when it has all.
        max_unpublished: See `RouteConfig`.
    """

    owned: OwnedTable
    followers: FollowerRunner
    catalog: CatalogFollower | None
    moved: MovedPartitions
    schema: SchemaFollower
    upkeep: LogUpkeep
    record_queue: RecordQueue
    dirty: DirtyWatch
    background: RouteBackground
    readiness: RouteReadiness | None = None
    clock: EpochClock = field(default_factory=EpochClock)
    told_closed: ClosedHint = field(default_factory=ClosedHint)
    unshown: int | None = None
    max_unpublished: int = 100

    def begin_readiness(self, rule: ReadyRule | None, log: Log, source: SourceClient) -> None:
        """Go on closing and announcing where the ledger is. Called once, at START."""
        if rule is None:
            return
        queue, fold = self.record_queue, self.owned.fold
        if source.inherits:
            self.readiness = InheritedReadiness(rule, queue, fold, log, source.inheritance)
        else:
            self.readiness = RouteReadiness(rule, queue, fold, log)
        self.readiness.close_due(fold)

    def mark_planned(self, planned: PlannedEpoch, fold: Fold) -> None:
        """Say what is closed and what is late for an epoch that is planned now.

        Args:
            planned: The epoch.
            fold: What it is planned from.
        """
        planned.closed, planned.bound_us = self.record_queue.closed(), self.record_queue.bound_us
        planned.told_closed = self.told_closed.of(planned.route, planned.closed)
        planned.dates = self.clock.date(fold, planned.route.late)

    @property
    def announcing(self) -> bool:
        """Whether something that is closed is still to be announced, or may be closed at once."""
        counts = self.background.counts
        if counts is not None and counts.pressing:
            return True
        if self.readiness is None:
            return False
        # Closing is a record too, and may have had to wait for others to be published.
        fold = self.owned.fold
        owes = self.record_queue.owes_closing(fold) or self.readiness.inherits_due(fold)
        return self.readiness.waits or owes

    def close_passed(self, record: FilesRecord) -> None:
        """An epoch is committed and published: close what its watermark has passed."""
        if self.readiness is not None and isinstance(record, EpochRecord):
            self.readiness.add_late(record.late_in)
            self.readiness.close_due(self.owned.fold)

    def publish_lane(self, record: EpochRecord, timeout_s: float) -> bool:
        """As `wait_published`, for rows that no epoch has read; they too are announced again."""
        through = self.wait_published(timeout_s)
        if self.readiness is not None:
            self.readiness.add_late(record.late_in)
        return through

    def update_followers(self) -> None:
        """Hand what was put to the followers, and take from them how far it is published.

        Called by the driver's thread after each record; returns at once.
        """
        self.followers.update(self.owned.fold)
        self.read_published()

    def read_published(self) -> bool:
        """Take from the followers how far the log is published; whether all of it is."""
        fold = self.owned.fold
        self.owned.writer.set_published(min(self.followers.published_through, fold.next_seq))
        return not fold.unpublished

    def wait_published(self, timeout_s: float) -> bool:
        """Give publishing a while to be through; whether it is.

        Raises:
            Fatal: A follower that owns the table has ended the route.
        """
        self.update_followers()
        through = self.owned.fold.next_seq
        if self.followers.published_through < through:
            self.followers.wait_published(through, timeout_s)
        return self.read_published()

    def is_full(self) -> bool:
        """Whether no further record may be committed before some are published."""
        try:
            self.refuse_unpublished(0)
        except UnpublishedError:
            return True
        return False

    def refuse_unpublished(self, in_flight: int) -> None:
        """Pass while one more record may be committed although some are not published.

        Called by the driver's thread before an epoch is planned.

        Args:
            in_flight: Epochs whose commit is under way.

        Raises:
            UnpublishedError: First some have to be; says who does not go on, and why.
        """
        if not in_flight:
            # Else the epoch in flight does, in its own thread: the fold is in its hands.
            self.read_published()
        if why := self.followers.holds_up():
            raise UnpublishedError(
                f"nothing more is committed: {why}",
                where=str(self.owned.state.identity),
                hint="it goes on by itself; `sluiceway status JOB` shows all followers",
            )
        waiting = len(self.owned.fold.unpublished)
        full = waiting + in_flight >= self.max_unpublished
        if not waiting and not full:
            return
        for_s = self.followers.publishing_for_s()
        if not (full or for_s >= LONGEST_UNPUBLISHED_S or self.upkeep.starved):
            return
        self.followers.hasten()
        slow = [each for each in self.followers.states() if each.behind_slots and each.waits_for]
        why = "; ".join(f"{each.name}: {each.waits_for}" for each in slow[:1])
        raise UnpublishedError(
            f"{waiting} committed records are not published, the first for {for_s:.0f} s"
            + (f"; {why}" if why else ""),
            where=str(self.owned.state.identity),
            hint="it goes on by itself when they are; `sluiceway status JOB` shows all followers",
        )

    def want_partitions(self, since: int, *, again: bool = False) -> None:
        """Have the catalog follow what records from slot `since` on have changed.

        Called by the driver's thread after each record; returns at once.

        Args:
            since: First slot that matters.
            again: True at START: the last moved partitions are checked again. A call of the driver
                before may have landed after it had read them.
        """
        fold = self.owned.fold
        # A turn of the record_queue may have failed after records of it had landed.
        since = since if self.unshown is None else min(since, self.unshown)
        self.unshown = None
        if self.readiness is not None:
            self.readiness.update(fold)
        if self.catalog is not None:
            self._want(self.catalog, since, again=again)
        self.update_followers()

    def _want(self, catalog: CatalogFollower, since: int, *, again: bool) -> None:
        fold, layout = self.owned.fold, self.owned.layout
        on_ready = self.readiness is not None and self.readiness.rule.on_ready
        wanted = desired_partitions(fold, layout, since, on_ready=on_ready)
        if self.readiness is not None and self.readiness.rule.whole_key:
            wanted += empty_partitions(fold, layout, since)
        if again:
            wanted += moved_last(fold, layout, since, on_ready=on_ready)
        for folder in self.moved.pop_removed():
            fold.left.pop(folder, None)
        old = []
        for folder, left in fold.left.items():
            state = fold.partitions[left.partition]
            seen = is_to_be_shown(fold, state, on_ready=on_ready)
            now = desired_partition(fold, layout, state, seen=seen)
            old.append(OldFolder(folder, left.seq, now))
        self.moved.add(wanted, old, fold.next_seq)
        if self.schema.owes_columns():
            # Also partitions that no record has changed: readers go by a partition's own columns.
            wanted += desired_partitions(fold, layout, 0, on_ready=on_ready)
        complete_us = None if self.readiness is None else self.readiness.complete_us
        catalog.want(wanted, fold.next_seq, complete_us)
