"""One route's side of the protocol, step by step; `JobLoop` owns the order of the steps.

Each step may be the last one of this process: START + RECOVER of the next one continues from
the ledger alone. Nothing here waits for the world except a put whose outcome is not known.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from uuid import uuid4

from sluiceway.errors import (
    FencedError,
    InvariantError,
    SluicewayError,
    StorageRefusedError,
    StorageUnavailableError,
    UnhealthyEnvironmentError,
)
from sluiceway.job.ahead import fold_after, follows
from sluiceway.job.background import begin_background
from sluiceway.job.config import RouteConfig
from sluiceway.job.demand import Demand
from sluiceway.job.desk import RouteDesk
from sluiceway.job.dirty_limits import DirtyWatch
from sluiceway.job.effects import EffectsApplier
from sluiceway.job.epoch_pace import EpochPace
from sluiceway.job.epoch_report import EpochDone, tell_epoch
from sluiceway.job.held_route import HeldRoute
from sluiceway.job.housekeeping import Housekeeper, keep_log_short
from sluiceway.job.lanes import LaneHooks, Lanes
from sluiceway.job.moved_partitions import MovedPartitions
from sluiceway.job.offset_reports import committed_ends
from sluiceway.job.open_transactions import OpenTransactions
from sluiceway.job.patience import Patience
from sluiceway.job.planner import (
    PlannedEpoch,
    Targets,
    check_described,
    check_identities,
    new_partitions,
    plan_sources,
    plan_splits,
)
from sluiceway.job.prepare import all_files, check_staged_files, placed, prepare_record
from sluiceway.job.publish import Publisher, publish_patiently
from sluiceway.job.ready_effects import ready_effects
from sluiceway.job.registry_columns import with_registry_columns
from sluiceway.job.route_meter import RouteMeter
from sluiceway.job.route_parts import RouteParts
from sluiceway.job.row_log import RowLog
from sluiceway.job.schema_follow import SchemaFollower
from sluiceway.job.second_look import SecondLook
from sluiceway.job.side_records import (
    abandon_left,
    closing_marked,
    is_due,
    put_announcements,
    put_asked,
    put_due,
)
from sluiceway.job.source_view import SourceView
from sluiceway.job.start_offsets import resolve_start
from sluiceway.job.status import last_commit_ms
from sluiceway.job.takeover import LeftLedger, TakeoverHooks, take_over
from sluiceway.job.task_failures import failures_of
from sluiceway.ledger.fold import Fold
from sluiceway.ledger.fold_state import Subscription
from sluiceway.ledger.partition_records import ReplaceRecord
from sluiceway.ledger.records import EpochRecord, SourcesRecord
from sluiceway.ledger.upkeep import LogUpkeep
from sluiceway.observe.failpoints import reach
from sluiceway.observe.steps import Step
from sluiceway.storage.contract import Storage
from sluiceway.worker.plan import TaskPlan, TaskResult, stop_path

_SETTLE_S = 20.0


class RouteSession:
    """One route while its driver lives.

    Used by one thread at a time, except that the next epoch may be planned and its tasks be told
    while `finish` runs: from a fold of its own, so that the two have nothing in common.

    Args:
        config: What to do.
        parts: What to do it with.

    Attributes:
        trouble: What a put or a publish that is repeated waits for; any thread may look.
        read_before: Pattern of topics in the ledger at the first START; None without sources.
    """

    def __init__(self, config: RouteConfig, parts: RouteParts) -> None:
        self.config = config
        self._parts = parts
        self._log = parts.log.bind(job=config.job, route=config.route)
        self._held: HeldRoute | None = None
        self._driver = uuid4().hex
        self._left: LeftLedger | None = None
        self._status_place: tuple[Storage, str] | None = None
        self.trouble: SluicewayError | None = None
        self.read_before: str | None = None
        self._epochs = count()
        self._patience = Patience()
        self._replaces = parts.replaces
        self._targets: Targets | None = None
        self._demand, self._pace = Demand(config.interval_s), EpochPace(config.interval_s)
        self._transactions = OpenTransactions(self._log)
        self._second_look = SecondLook()
        self._row_log = RowLog(self._log)
        self.meter = RouteMeter(config.interval_s)
        self.lag_records = 0
        self.caught_up = False

    # START and RECOVER

    def start(self) -> None:
        """Fence, recover, begin to apply effects.

        Repeated by the loop while it fails, and after `leave` when a halted route is tried again.

        Raises:
            UnhealthyEnvironmentError: The store refuses what a ledger needs.
            SluicewayError: The class tells the loop what to do.
        """
        try:
            self._start()
        except StorageRefusedError as error:
            raise UnhealthyEnvironmentError(
                f"the store refuses: {error.message}",
                where=error.where,
                hint="the table's folder must be one that the driver and the tasks may write",
            ) from error

    def _start(self) -> None:
        self.config, self._parts = with_registry_columns(self.config, self._parts)
        step, wait = self._observe_start, self._on_put_wait
        hooks = TakeoverHooks(step, wait, replaces=self._replaces, driver=self._driver)
        owned = take_over(self.config, self._parts.sink, hooks, self._left)
        self._log.info(
            "fenced",
            term=owned.writer.term,
            seq=owned.fold.next_seq - 1,
            table=str(owned.state.identity),
            ledger=owned.owner.ledger,
        )
        publisher = Publisher(owned.storage, owned.layout, self._log)
        moved = MovedPartitions(owned.log, self._log)
        sink, applied = self._parts.sink, owned.writer.note_effects
        ready = ready_effects(self.config.ready, owned.log, sink, self._log)
        effects = EffectsApplier(sink, self._log, applied, moved, ready=ready)
        try:
            schema = SchemaFollower(self.config, owned, self._parts.sink, self._log, self.meter)
            housekeeper = Housekeeper(owned.log, self._log)
            upkeep = LogUpkeep(owned.writer)
            place = RouteDesk(owned.log, owned.fold.closed)
            lanes = Lanes(owned, schema.current, self._lane_hooks(), self._log)
            dirty = DirtyWatch.recalled(self.config.dirty, owned.log, owned.fold.next_seq)
            self._held = HeldRoute(
                owned, publisher, effects, moved, housekeeper, schema, upkeep, place, lanes, dirty
            )
            self._held.begin_readiness(self.config.ready, ready, self._log)
            self.meter.untold = self._held.untold
            self._recover()
        except BaseException:
            self._held = None
            self._left = LeftLedger.of(owned)
            publisher.close()
            owned.lease.release()
            raise
        if self._status_place is None and (known := owned.fold.subscription) is not None:
            self.read_before = known.pattern
        self._status_place = owned.storage, owned.layout.status
        self.meter.advance(owned.fold)
        self.meter.recall(last_commit_ms(owned.storage, owned.layout.status))
        effects.start()
        self._want_partitions(owned.fold.effects_through, anew=True)
        begin_background(self._held, self.config, self._log)

    def _observe_start(self, step: Step) -> None:
        if step is Step.FENCED:
            # Said for one fence: if the rest of START fails, the latest term is this driver's own.
            self._replaces = None
        self._parts.observe(step)

    def _recover(self) -> None:
        owned = self._now.owned
        for seq, record in sorted(owned.fold.unpublished.items()):
            self._publish(record)
            self._log.info("recovered", seq=seq, files=len(all_files(record)))
        owned.writer.note_published()
        abandon_left(self._now)
        self._parts.observe(Step.RECOVERED)

    # Before the tasks

    def due_sources(self, view: SourceView, ahead: Fold | None = None) -> SourcesRecord | None:
        """What has to be pinned before anything new is read; None when all is.

        Args:
            view: What the brokers say now.
            ahead: The fold with an epoch whose commit is under way.

        Raises:
            OffsetsLostError: The source is another one than was read.
            TopicNotFoundError: A topic that is listed by name is gone.
            TableMismatchError: The table was dropped.
            SourceUnavailableError: The source does not say where the start is.
        """
        held = self._now
        if held.effects.failure is not None:
            raise held.effects.failure
        fold, wanted = ahead or held.owned.fold, self._subscription(view)
        discovered = view.of(wanted.topics)
        check_identities(fold, discovered)
        check_described((found.partition for found in discovered), view.bounds)
        new = new_partitions(fold, wanted, discovered)
        starts = resolve_start(self.config.start, new, view.bounds, self._parts.source)
        found = any(start.how == "group" for start in starts.values())
        if self.config.start.kind == "group" and new and not found:
            self._log.warning("group_has_no_offsets", group=self.config.start.group)
        return plan_sources(fold, wanted, discovered, view.bounds, starts)

    def take_topics(self, topics: tuple[str, ...]) -> None:
        """Read these topics from the next epoch on. Called between epochs, for a pattern's route.

        Args:
            topics: All that match now; those that are gone are retired in the ledger.
        """
        if topics != self.config.topics:
            self._log.info("topics_changed", topics=len(topics), before=len(self.config.topics))
            self.config = replace(self.config, topics=topics)

    def _subscription(self, view: SourceView) -> Subscription:
        """What is read now: a topic of a pattern may go, a listed one may not."""
        wanted = self.config.subscription
        return replace(wanted, topics=view.present(wanted.topics)) if wanted.pattern else wanted

    def is_asked(self, view: SourceView | None = None) -> bool:
        """Whether a record is due beside the epochs. Called when no epoch is in flight."""
        return is_due(self._now, view)

    def pin(self, record: SourcesRecord | None, view: SourceView | None = None) -> None:
        """Commit where new source partitions start, and what is due beside the epochs.

        Called when no epoch is in flight.

        Raises:
            FencedError: Another driver has taken over.
        """
        if record is not None:
            self._pin(record)
        put_due(self._now, self._publish, view, partial(next, self._epochs))
        self.meter.advance(self._now.owned.fold)

    def _pin(self, record: SourcesRecord) -> None:
        owned = self._now.owned
        committed = owned.writer.commit(record)
        self.meter.advance(owned.fold)
        self._parts.observe(Step.PINNED)
        self._log.info("sources_pinned", seq=committed.seq, partitions=len(record.partitions))

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
            SourceUnavailableError: A log ends below its committed end, and is looked at again.
            FencedError: After a failed epoch: another driver has taken over.
            SchemaChangedError: The table's columns have changed, and the route does not follow.
        """
        route = self._now.schema.look()
        if self._patience.in_doubt:
            self._now.owned.writer.look()
            self._patience.in_doubt = False
        fold = ahead or self._now.owned.fold
        discovered = view.of(self._subscription(view).topics)
        check_described((found.partition for found in discovered), view.bounds)
        if ahead is None:
            self._second_look.look(fold, view.bounds)
        if bounded and self._targets is None:
            self._targets = {
                found.partition: view.bounds[found.partition].end_offset for found in discovered
            }
        splits = self._demand.expect(plan_splits(fold, view.bounds, self._targets), view.bounds)
        if ahead is None:
            # What is not committed yet lags; the commit that is under way will say how much does.
            self.lag_records = self.meter.look(fold, view.bounds)
        self._transactions.look(fold, view.bounds)
        over = bounded and not splits and ahead is None
        self.caught_up = over and not self._now.lanes.pressing and not self._now.announcing
        if not splits:
            return None
        planned = PlannedEpoch(next(self._epochs), splits, route, ahead=ahead is not None)
        self._now.mark_planned(planned, fold)
        self._parts.observe(Step.PLANNED)
        return planned

    def task_plans(self, planned: PlannedEpoch) -> dict[int, TaskPlan]:
        """Plans of the tasks that the loop has spread the splits over."""
        return self._pace.task_plans(planned)

    def _lane_hooks(self) -> LaneHooks:
        epoch, applied = partial(next, self._epochs), self._want_partitions
        return LaneHooks(self._parts.observe, epoch, self._publish, applied)

    @property
    def lanes(self) -> Lanes:
        """Replays and purges of dirty rows."""
        return self._now.lanes

    @property
    def ledger(self) -> str:
        """Which answers are this route's."""
        return self._now.owned.owner.ledger

    def end_epoch_early(self, planned: PlannedEpoch) -> None:
        """Ask the tasks of the running epoch to close their files and answer.

        Raises:
            StorageUnavailableError: The store failed; the deadline ends them.
        """
        owned = self._now.owned
        flag = stop_path(owned.layout, owned.writer.term, planned.epoch)
        owned.storage.make_folders(flag.rpartition("/")[0])
        owned.storage.overwrite(flag, b"")

    # After the tasks

    def note_written(self, planned: PlannedEpoch) -> None:
        """The tasks have answered; nothing has been looked at since."""
        self._pace.note_answered(planned)
        self._parts.observe(Step.WRITTEN)

    def ahead_of(self, answers: Sequence[TaskResult]) -> Fold | None:
        """What the next epoch may be planned from while `finish` of these runs; None if nothing."""
        return fold_after(self._now.owned.fold, answers)

    def finish(
        self, planned: PlannedEpoch, answers: Sequence[TaskResult], view: SourceView
    ) -> None:
        """Prepare, commit, publish, report. The commit point is the put inside `commit`.

        Called when the outcome of the epoch before is known. An epoch that was planned ahead of
        one that did not land so is thrown away here: nothing of it is committed.

        Args:
            planned: What was asked for.
            answers: This route's; tasks that did not finish have none and keep their ends.
            view: What the brokers say after the tasks have read.

        Raises:
            SluicewayError: The class tells the loop what to do; what landed stays.
        """
        # Its commit may have waited for the one before.
        ran = planned.answered or time.monotonic()
        held = self._now
        owned = held.owned
        if not follows(owned.fold, planned):
            self._log.info("epoch_thrown_away", epoch=planned.epoch, reason="planned ahead")
            return
        results = [answer for answer in answers if answer.failure is None]
        if held.schema.take(planned.route, results):
            self._log.info("epoch_thrown_away", epoch=planned.epoch, reason="schema change")
            return
        schema = planned.route.schema_version
        record = prepare_record(owned.fold, planned.epoch, planned.by_task, results, schema)
        if record is not None:
            record = held.dirty.checked(record, results, str(owned.state.identity))
            check_staged_files(owned.storage, owned.layout, results)
            # A topic created anew while it was read reads like the old one (commit rule 13).
            check_identities(owned.fold, view.of(self._subscription(view).topics))
            self._second_look.look(owned.fold, view.bounds)
            plan_splits(owned.fold, view.bounds, None)
            self._parts.observe(Step.PREPARED)
            put_asked(held, self._publish)
            before = owned.fold.next_seq
            record = closing_marked(held, record, planned, view)
            committed = owned.writer.commit(partial(placed, record))
            held.dirty.note(record)
            self.meter.commit(owned.fold, record.counts, record.dirty_reasons)
            self.lag_records = self.meter.look(owned.fold, view.bounds, at=ran)
            self._parts.observe(Step.COMMITTED)
            # The names that it has got in its slot.
            landed = owned.fold.unpublished[committed.seq]
            self._publish(landed)
            owned.writer.note_published()
            self._parts.observe(Step.PUBLISHED)
            self._want_partitions(before)
            held.note_landed(landed)
            self._report()
            done = EpochDone(committed.seq, record, results, planned, ran=ran)
            tell_epoch(self._log, self._parts.progress, self.config.route, done)
            put_asked(held, self._publish)
            put_announcements(held)
            self._row_log.tell(record, results)
            keep_log_short(held.upkeep, self._log)
            held.housekeeper.tidy(owned.fold)
            held.lanes.look()
        failures = failures_of(planned, answers, owned.fold, view.bounds)
        for failure in failures:
            self._log.warning("task_failed", code=failure.code, error=str(failure))
        self._patience.judge(failures, landed=record is not None)

    def pause_s(self, error: SluicewayError) -> float | None:
        """How long to leave the route alone after an error; None halts it."""
        return self._patience.pause_s(error)

    def _publish(self, record: EpochRecord | ReplaceRecord) -> None:
        """Publish, however long the store takes: the record has landed."""
        held = self._now

        def on_wait(error: StorageUnavailableError, retry_in_s: float) -> None:
            self.trouble = error
            self._log.warning("storage_unavailable", error=str(error), retry_in_s=retry_in_s)

        publish_patiently(held.publisher, record, held.owned.writer.look, on_wait)
        self.trouble = None
        layout, term = held.owned.layout, held.owned.writer.term
        results = layout.results(term, record.epoch) if isinstance(record, EpochRecord) else ""
        held.publisher.drop_attempts(record, results)

    def _want_partitions(self, since: int, *, anew: bool = False) -> None:
        """Have the catalog follow what records from slot `since` on have changed."""
        self.meter.advance(self._now.owned.fold)
        self._now.want_partitions(since, anew=anew)
        self._parts.observe(Step.APPLIED)

    def _report(self) -> None:
        """Have lag tools told; no epoch waits for it."""
        self._parts.reports.want(self.config.group, committed_ends(self._now.owned.fold))
        self._parts.observe(Step.REPORTED)

    # END

    def settle(self) -> None:
        """Give the catalog a last while to follow. Called once, after the last epoch.

        Raises:
            Fatal: The table is gone.
        """
        reach("run.settle")
        held = self._now
        if held.effects.failure is None and not held.settle(_SETTLE_S):
            self._log.warning("effects_left", hint="the next start applies them")
        if held.effects.failure is not None:
            raise held.effects.failure

    def leave(self) -> None:
        """Give back all that is held, and remember how the ledger was left. Safe to repeat.

        Called when the route has halted, and at the end. What is not in the catalog yet is left to
        the next START.
        """
        held, self._held = self._held, None
        if held is not None:
            self._left = LeftLedger.of(held.owned)
            held.desk.end(FencedError("the route was left"))
            for work in held.background:
                work.close()
            held.effects.close()
            held.housekeeper.close()
            held.publisher.close()
            held.owned.lease.release()
        self._parts.sink.close()
        self._patience.begin_anew()

    @property
    def started(self) -> bool:
        """Whether START has been done."""
        return self._held is not None

    def status_place(self) -> tuple[Storage, str] | None:
        """Where the route's status is written; None before it held a ledger. For any thread."""
        return self._status_place

    @property
    def _now(self) -> HeldRoute:
        if self._held is None:
            raise InvariantError(f"route {self.config.route} is used before it was started")
        return self._held

    def _on_put_wait(self, attempts: int, error: StorageUnavailableError) -> None:
        if isinstance(error, StorageRefusedError) and not self.started:
            # Waiting is for what is owed, and a START owes nothing: a fence that did land after
            # all only makes the next term one higher.
            raise error
        self.trouble = error
        self._log.warning("commit_unknown", attempts=attempts, error=str(error))
