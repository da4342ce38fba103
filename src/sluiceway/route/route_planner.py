"""SOURCES and PLAN of one route: what its next epoch reads, and whether that is still so after."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sluiceway.errors import OffsetsLostError, TableMismatchError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import Subscription
from sluiceway.ledger.records import DataRecord, SourcesRecord
from sluiceway.ledger.value_tables import ValueTableLog
from sluiceway.observe.steps import Step
from sluiceway.rooms.copy_reader import CopyReader, with_tails
from sluiceway.route.key_order import KeyOrderGuard
from sluiceway.route.route_context import RouteContext
from sluiceway.schedule.partition_watch import LogEndHistory, OpenTransactions, SkippedPartitions
from sluiceway.schedule.planner import (
    EpochPace,
    PlannedEpoch,
    PlannedSplit,
    check_described,
    check_identities,
    check_still_there,
    missed_partitions,
    new_partitions,
    plan_hand_over,
    plan_sources,
    plan_splits,
    unpinned,
    up_to_copies,
)
from sluiceway.schedule.read_ahead import ReadAhead
from sluiceway.schedule.run_targets import RunTargets
from sluiceway.schedule.source_view import SourceView, passed_over, view_of_route
from sluiceway.schedule.start_offsets import resolve_start
from sluiceway.schedule.task_failures import RetryPause
from sluiceway.sources.contract import HandOver, SourceIdentity, SourcePartition
from sluiceway.sources.registry import reader_access
from sluiceway.worker.plan import RoutePlan, TaskPlan, TaskResult, stop_path

# Enough to see the usual values, and few enough to be read a second time.
_FIRST_ROWS = 1_000


def hand_over_record(context: RouteContext, fold: Fold) -> SourcesRecord | None:
    """The record that ends the following of a table; None while the table is read on.

    Called before each epoch.

    Args:
        context: Context of the route's session.
        fold: State of the ledger, perhaps with an epoch whose commit is under way.

    Raises:
        TableMismatchError: The table is filled from other topics than the job file lists.
        OffsetsLostError: A topic was made again since, or is another cluster's.
        SourceUnavailableError: The table or the topics cannot be asked now.
    """
    topics = context.topics
    if topics is None:
        return None
    ends = {
        SourcePartition(*key): known.end for key, known in fold.sources.items() if not known.retired
    }
    found = context.source.hand_over(ends, context.config.interval_s)
    if found is None:
        return None
    _check_topics(topics, found, context.config.topics[0])
    described = context.parts.source.discover(topics.topics)
    _check_identities({each.partition: each.identity for each in described}, found)
    return plan_hand_over(fold, topics.subscription, found)


def _check_topics(config: RouteConfig, found: HandOver, table: str) -> None:
    filled = sorted({each.partition.topic for each, _ in found.starts})
    if filled != sorted(config.topics):
        raise TableMismatchError(
            f"{table} is filled from the topics {', '.join(filled)}, and this route lists "
            f"{', '.join(sorted(config.topics))}",
            where="source.topics",
            hint="list the topics of the table's job",
        )


def _check_identities(described: Mapping[SourcePartition, SourceIdentity], found: HandOver) -> None:
    for each, end in found.starts:
        now = described.get(each.partition)
        if now is not None and now != each.identity:
            raise OffsetsLostError(
                f"it is not the topic that the table was filled from: topic id {now.topic_id} in "
                f"cluster {now.cluster_id}, the table has read {each.identity.topic_id} in cluster "
                f"{each.identity.cluster_id} up to {end}",
                where=str(each.partition),
                hint="name the connection of the table's job; where the topic was made again, "
                "that job has to go on with it first",
            )


def fold_after(fold: Fold, answers: Sequence[TaskResult]) -> Fold | None:
    """The fold as it will be for planning if an epoch is committed as its tasks have answered.

    Called by the loop's thread before the commit begins: from then on the fold is the commit's.

    Args:
        fold: State of the ledger; nothing of it is changed.
        answers: Answers of one route and epoch.

    Returns:
        None when too little is known: a task has failed, or answers what it was not asked. Nor
        while tables are made that rows have named: they read the next epoch too.
    """
    sources = dict(fold.sources)
    for answer in answers:
        if answer.failure is not None or answer.tables:
            return None
        for split in answer.splits:
            known = sources.get((split.topic, split.partition))
            if known is None:
                return None
            if split.end > known.end:
                known = replace(known)
                known.advance(split)
                sources[split.topic, split.partition] = known
    return replace(fold, sources=sources)


def follows(fold: Fold, planned: PlannedEpoch) -> bool:
    """Whether an epoch was planned from the very ends that are committed.

    Not when it was planned ahead of an epoch that has landed otherwise, or not at all.
    """
    committed = (
        (fold.sources[each.split.partition.topic, each.split.partition.partition], each)
        for each in planned.splits
    )
    return all(
        (known.end, known.origin) == (each.range_start, each.split.origin)
        for known, each in committed
    )


def with_value_tables(
    known: ValueTableLog, splits: list[PlannedSplit], route: RoutePlan, most: int
) -> tuple[list[PlannedSplit], RoutePlan]:
    """The rest of a `route_by`, with the tables that there are. Called for each of its epochs.

    Until one is known it reads a few rows: their tables then read on together with it.

    Args:
        known: The tables.
        splits: What the rest would read.
        route: Its plan.
        most: Most tables.

    Raises:
        StorageUnavailableError: The store failed.
    """
    known.read_on()
    if route.share is None:
        return splits, route
    if not known.tables:
        splits = [_short(each) for each in splits]
    share = replace(
        route.share, known=frozenset(known.tables), room=max(0, most - len(known.tables))
    )
    return splits, replace(route, share=share)


def _short(planned: PlannedSplit) -> PlannedSplit:
    split, end = planned.split, planned.split.start_offset + _FIRST_ROWS
    if split.stop_offset is not None and split.stop_offset <= end:
        return planned
    most = min(planned.expected_records, _FIRST_ROWS)
    return replace(planned, split=replace(split, stop_offset=end), expected_records=most)


class RoutePlanner:
    """Decides what a route reads next, from its ledger and from what the brokers say.

    Used by one thread at a time, with one exception: the next epoch may be planned while the
    previous commit runs. It has a fold of its own, so the two share nothing. What it knows of logs
    outlives the ledger that its session owns.

    Args:
        context: Context of the route's session.

    Attributes:
        retry_pause: After which time the route is tried again.
        key_order: Holds back new partitions of a keyed route.
        caught_up: Whether a bounded run has read what it set out to read.
    """

    def __init__(self, context: RouteContext) -> None:
        config, log = context.config, context.log
        self._context = context
        self.retry_pause = RetryPause()
        self._targets = RunTargets()
        self._demand, self._pace = ReadAhead(config.interval_s), EpochPace(config.interval_s)
        self._transactions, self._left_out = OpenTransactions(log), SkippedPartitions(log)
        self._second_look = LogEndHistory()
        key = config.key
        self.key_order = KeyOrderGuard(
            None if key is None else key.drain_s,
            log,
            one_partition=key is not None and key.one_partition,
        )
        self.caught_up = False

    def begin_source(self) -> None:
        """Other logs are read from now on: a bounded run aims at their ends too."""
        self._second_look = LogEndHistory()
        self.aim_again()

    def aim_again(self, *, at_end: bool = False) -> None:
        """A bounded run aims at the log ends of its next reading.

        Args:
            at_end: Whether the table that is read gets no more rows, so that all its units count.
        """
        self._targets = RunTargets()
        self.caught_up = False
        held = self._context.held
        if at_end and held is not None and held.background.units is not None:
            held.background.units.look_again()

    # SOURCES

    def set_topics(self, topics: tuple[str, ...]) -> None:
        """Read these topics from the next epoch on. Called between epochs, for a pattern's route.

        Args:
            topics: All that match now; topics that are gone are retired in the ledger.
        """
        context = self._context
        if topics != context.config.topics:
            context.log.info(
                "topics_changed", topics=len(topics), before=len(context.config.topics)
            )
            context.config = replace(context.config, topics=topics)

    def due_sources(self, view: SourceView, ahead: Fold | None = None) -> SourcesRecord | None:
        """What has to be pinned before anything new is read; None when all is.

        Args:
            view: What the brokers say now.
            ahead: The fold with an epoch whose commit is under way.

        Raises:
            OffsetsLostError: The source is another one than was read.
            TopicNotFoundError: A topic that is listed by name is gone.
            TableMismatchError: The table was dropped.
            FencedError: Another driver has taken over.
            SourceUnavailableError: The source does not say where the start is.
        """
        held, config = self._context.state, self._context.config
        # An idle route puts nothing, and would never meet the fence.
        held.owned.tenure.refuse_if_lost()
        held.followers.refuse_if_failed()
        held.background.refuse_if_failed()
        fold, wanted = ahead or held.owned.fold, self._subscription(view)
        view = view_of_route(view, fold)
        discovered = view.of(wanted.topics)
        check_identities(fold, discovered)
        passed = passed_over(fold, view)
        if passed is not None:
            return plan_hand_over(fold, wanted, passed)
        handed_over = hand_over_record(self._context, fold)
        if handed_over is not None:
            return self._with_tails(handed_over)
        # A pinned one may lack a leader for a while; where others begin only a leader can say.
        check_described(unpinned(fold, discovered), view.bounds)
        discovered = self.key_order.admitted(discovered, fold, view.bounds)
        new = new_partitions(fold, wanted, discovered)
        starts = resolve_start(config.start, new, view.bounds, self._context.source)
        found = any(start.how == "group" for start in starts.values())
        if config.start.kind == "group" and new and not found:
            self._context.log.warning("group_has_no_offsets", group=config.start.group)
        kept = self._with_topics_away(fold, wanted)
        return self._with_tails(plan_sources(fold, kept, discovered, view.bounds, starts))

    def _with_tails(self, record: SourcesRecord | None) -> SourcesRecord | None:
        """With the rows before each pin, where the route keeps tails."""
        context = self._context
        config = context.config if context.topics is None else context.topics
        if record is None or not config.keeps_tails:
            return record
        return with_tails(record, CopyReader(config.source, context.parts.source))

    def _with_topics_away(self, fold: Fold, wanted: Subscription) -> Subscription:
        """With topics of an unchanged pattern that are not listed, and may come back as they were.

        Raises:
            SourceUnavailableError: The source does not know whether they are gone.
        """
        if not wanted.pattern or fold.subscription is None:
            return wanted
        missed = missed_partitions(fold, wanted)
        if not missed:
            return wanted
        away = {one.topic for one in set(missed) - self._context.source.gone(missed)}
        return replace(wanted, topics=tuple(sorted({*wanted.topics, *away})))

    def _subscription(self, view: SourceView) -> Subscription:
        """The subscription now: a topic of a pattern may go, a listed one may not."""
        wanted = self._context.config.subscription
        return replace(wanted, topics=view.present(wanted.topics)) if wanted.pattern else wanted

    # PLAN

    def plan(
        self, view: SourceView, *, bounded: bool, ahead: Fold | None = None
    ) -> PlannedEpoch | None:
        """Decide what to read next; None when there is nothing. All sources are pinned.

        Args:
            view: What the brokers say now.
            ahead: The fold with an epoch whose commit is under way; None when none is.
            bounded: Read to the log ends of the first call, then be caught up.

        Raises:
            OffsetsLostError: The source no longer has what the ledger needs.
            SourceUnavailableError: A log ends below its committed end, and is read again.
            FencedError: After a failed epoch: another driver has taken over.
            SchemaChangedError: The table's columns have changed, and the route does not follow.
        """
        held, ask_copied = self._context.state, self._context.copied
        view = view_of_route(view, ahead or held.owned.fold)
        self._context.log_ends = (time.monotonic(), view.bounds)
        self._context.figures.planning()
        held.refuse_unpublished(in_flight=0 if ahead is None else 1)
        route = held.schema.read()
        if self.retry_pause.in_doubt:
            held.owned.writer.read_new()
            self.retry_pause.in_doubt = False
        fold = ahead or held.owned.fold
        discovered = view.of(self._subscription(view).topics)
        check_described(unpinned(fold, discovered), view.bounds)
        if ahead is None:
            self._second_look.update(fold, view.bounds)
        logs = [found.partition for found in discovered]
        awaited = self.key_order.ends
        targets = self._targets.aim(fold, logs, view.bounds, awaited) if bounded else None
        splits = plan_splits(fold, view.bounds, targets, view.copies)
        copied = None if ask_copied is None else ask_copied()
        if copied is not None:
            splits = up_to_copies(splits, copied)
        splits = self._demand.expect(splits, {**view.copies, **view.bounds})
        if self._context.config.units is not None:
            # Units are read whole, elsewhere: no task reads, or waits for, single rows.
            splits = splits[:0]
        self._update_from_logs(fold, view, measured=ahead is None)
        if bounded and not splits and ahead is None:
            self._targets.check_reached(fold, view.bounds)
        over = bounded and not splits and ahead is None and not self.key_order.holds
        if over:
            held.followers.hasten()
        background = held.background
        idle = over and not (background.lanes.pressing or held.announcing)
        idle = idle and not background.is_computing(fold.next_seq)
        self.caught_up = idle and held.read_published()
        if not splits:
            return None
        epoch = self._context.next_epoch()
        source = reader_access(route.source, self._context.source)
        route = route if source is route.source else replace(route, source=source)
        if held.owned.value_tables is not None:
            splits, route = with_value_tables(
                held.owned.value_tables, splits, route, self._context.config.max_tables
            )
        planned = PlannedEpoch(epoch, splits, route, ahead=ahead is not None)
        held.mark_planned(planned, fold)
        self._context.observe(Step.PLANNED)
        return planned

    def _update_from_logs(self, fold: Fold, view: SourceView, *, measured: bool) -> None:
        meter = self._context.meter
        self._left_out.update(fold, view)
        meter.left_out = (self._left_out.why, self._left_out.count)
        if measured:
            # What is not committed yet lags; the commit that is under way will say how much does.
            meter.update(fold, view.bounds)
        self._transactions.update(fold, view.bounds)

    # EPOCH

    def task_plans(self, planned: PlannedEpoch) -> dict[int, TaskPlan]:
        """Plans of the tasks that the loop has spread the splits over."""
        return self._pace.task_plans(planned)

    def end_epoch_early(self, planned: PlannedEpoch) -> None:
        """Ask the tasks of the running epoch to close their files and answer.

        Raises:
            StorageUnavailableError: The store failed; the deadline ends them.
        """
        owned = self._context.state.owned
        flag = stop_path(owned.layout, owned.writer.term, planned.epoch)
        owned.storage.make_folders(flag.rpartition("/")[0])
        owned.storage.overwrite(flag, b"")

    def set_written(self, planned: PlannedEpoch) -> None:
        """The tasks have answered; no log end has been read since."""
        self._pace.set_answered(planned)
        self._context.observe(Step.WRITTEN)

    def ahead_of(self, answers: Sequence[TaskResult]) -> Fold | None:
        """What the next epoch may be planned from while these are committed; None if nothing."""
        return fold_after(self._context.state.owned.fold, answers)

    def check_again(self, record: DataRecord, view: SourceView) -> None:
        """Check that what was read is still there, and of the same logs (commit rule 13)."""
        fold = self._context.state.owned.fold
        # A topic that was created again while it was read reads like the old one.
        check_identities(fold, view.of(self._subscription(view).topics))
        self._second_look.update(fold, view.bounds)
        plan_splits(fold, view.bounds, None, view.copies)
        check_still_there(record.ranges, view.bounds, view.copies)
