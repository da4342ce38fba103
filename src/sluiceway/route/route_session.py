"""One route's side of the protocol; one file because its steps are read in their order.

`JobLoop` owns the order. Each step may be the last one of this process: START + RECOVER of the next
one continues from the ledger alone. Nothing here waits for the world except a put whose outcome is
not known.
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
    MetastoreUnavailableError,
    SluicewayError,
    StorageRefusedError,
    StorageUnavailableError,
    UnhealthyEnvironmentError,
)
from sluiceway.followers.ready_effects import ready_effects
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.dirty_limits import DirtyWatch
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import Subscription
from sluiceway.ledger.partition_records import ReplaceRecord
from sluiceway.ledger.placing import all_files, placed
from sluiceway.ledger.records import DataRecord, EpochRecord, SourcesRecord
from sluiceway.ledger.upkeep import LogUpkeep
from sluiceway.observe.failpoints import reach
from sluiceway.observe.metrics import RecoveryKind
from sluiceway.observe.steps import Step
from sluiceway.route.ahead import fold_after, follows
from sluiceway.route.background import begin_background
from sluiceway.route.composition import compose
from sluiceway.route.end_epochs import with_end_epochs
from sluiceway.route.epoch_report import EpochDone, log_epoch, log_sealed
from sluiceway.route.held_route import OwnedRoute
from sluiceway.route.key_drain import KeyOrderGuard
from sluiceway.route.prepare import prepare_record
from sluiceway.route.registry_columns import with_registry_columns
from sluiceway.route.route_figures import RouteFigures
from sluiceway.route.route_meter import RouteMeter
from sluiceway.route.route_parts import RouteParts
from sluiceway.route.row_log import RowLog
from sluiceway.route.schema_follow import SchemaFollower
from sluiceway.route.seal_rule import route_sealing
from sluiceway.route.side_records import (
    abandon_left,
    closing_marked,
    is_due,
    put_announcements,
    put_due,
    put_requested,
)
from sluiceway.route.status import last_commit_ms
from sluiceway.route.takeover import ReleasedLedger, TakeoverHooks, take_over
from sluiceway.schedule.demand import ReadAhead
from sluiceway.schedule.left_out import SkippedPartitions
from sluiceway.schedule.log_end_history import LogEndHistory
from sluiceway.schedule.open_transactions import OpenTransactions
from sluiceway.schedule.planner import (
    EpochPace,
    PlannedEpoch,
    check_described,
    check_identities,
    check_still_there,
    missed_partitions,
    new_partitions,
    plan_sources,
    plan_splits,
    unpinned,
)
from sluiceway.schedule.run_targets import RunTargets
from sluiceway.schedule.source_view import SourceView
from sluiceway.schedule.start_offsets import resolve_start
from sluiceway.schedule.task_failures import RetryPause, failures_of
from sluiceway.storage.contract import Storage
from sluiceway.upkeep.housekeeping import FileCleaner, keep_log_short
from sluiceway.upkeep.lanes import LaneHooks, Lanes
from sluiceway.upkeep.record_queue import RecordQueue
from sluiceway.worker.answers import check_staged_files
from sluiceway.worker.plan import TaskPlan, TaskResult, stop_path

_SETTLE_S = 20.0
_WAIT_TURN_S = 2.0
PUBLISH_MOMENT_S = 2.0
"""How long a commit waits for its files' names: a store that is slower keeps nobody waiting."""


class RouteSession:
    """One route while its driver lives.

    Used by one thread at a time, except that the next epoch may be planned and its tasks be told
    while `finish` runs: from a fold of its own, so that the two have nothing in common.

    Args:
        config: What to do.
        parts: What to do it with.

    Attributes:
        trouble: What a put that is repeated waits for, or a move that is not published; any thread
            may look.
        figures: What the metrics say of it, for any thread.
        read_before: Pattern of topics in the ledger at the first START; None without sources.
    """

    def __init__(self, config: RouteConfig, parts: RouteParts) -> None:
        self.config = config
        self.figures = RouteFigures(config)
        self._parts = replace(parts, observe=self.figures.watching(parts.observe))
        self._log = parts.log.bind(job=config.job, route=config.route)
        self._held: OwnedRoute | None = None
        self._driver = uuid4().hex
        self._left: ReleasedLedger | None = None
        self._status_place: tuple[Storage, str] | None = None
        self.trouble: SluicewayError | None = None
        self.read_before: str | None = None
        self._epochs = count()
        self._retry_pause = RetryPause()
        self._replaces = parts.replaces
        self._targets = RunTargets()
        self._demand, self._pace = ReadAhead(config.interval_s), EpochPace(config.interval_s)
        self._transactions, self._left_out = (
            OpenTransactions(self._log),
            SkippedPartitions(self._log),
        )
        self._second_look = LogEndHistory()
        key = config.key
        self._drain = KeyOrderGuard(
            None if key is None else key.drain_s,
            self._log,
            one_partition=key is not None and key.one_partition,
        )
        self._row_log = RowLog(self._log, config.route)
        self.meter = RouteMeter(config.interval_s, on_look=self.figures.looked)
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
                hint=error.hint
                or "the table's folder must be one that the driver and the tasks may write",
            ) from error

    def _start(self) -> None:
        self.config, self._parts = with_registry_columns(self.config, self._parts)
        step, wait = self._observe_start, self._on_put_wait
        hooks = TakeoverHooks(
            *(step, wait),
            replaces=self._replaces,
            driver=self._driver,
            measured=self.figures.measured,
        )
        owned = take_over(self.config, self._parts.sink, hooks, self._left)
        self._log.info(
            "fenced",
            term=owned.writer.term,
            seq=owned.fold.next_seq - 1,
            table=str(owned.state.identity),
            ledger=owned.owner.ledger,
        )
        owned.writer.on_effects = self.figures.applied
        sink = self._parts.sink
        ready = ready_effects(self.config.ready, owned.log, sink)
        composed = compose(self.config, owned, self._parts, ready, self._log)
        runner = composed.runner
        try:
            if ready is not None:
                ready.find_first(owned.fold)
            schema = SchemaFollower(self.config, owned, self._parts.sink, self._log, self.meter)
            housekeeper = FileCleaner(owned.log, self._log)
            upkeep = LogUpkeep(owned.writer, route_sealing(self.config, ready))
            place = RecordQueue(owned.log, owned.fold.closed)
            tasks = self._parts.work
            lanes = Lanes(owned, schema.current, self._lane_hooks(), self._log, tasks=tasks)
            dirty = DirtyWatch.recalled(self.config.dirty, owned.log, owned.fold.next_seq)
            follow = (runner, composed.catalog, composed.moved)
            self._held = OwnedRoute(
                owned, *follow, housekeeper, schema, upkeep, place, lanes, dirty
            )
            self._held.max_unpublished = self.config.max_unpublished
            self._held.begin_readiness(self.config.ready, ready, self._log)
            self._held.feeders = composed.feeders
            self.meter.followers = runner.states
            self._recover()
        except BaseException:
            self._held = None
            self._left = ReleasedLedger.of(owned)
            runner.close()
            owned.lease.release()
            raise
        if self._status_place is None and (known := owned.fold.subscription) is not None:
            self.read_before = known.pattern
        self._status_place = owned.storage, owned.layout.status
        self.meter.advance(owned.fold)
        self.meter.recall(last_commit_ms(owned.storage, owned.layout.status))
        self._want_partitions(owned.fold.effects_through, anew=True)
        begin_background(self._held, self.config, self._log, self._parts.work)

    def _observe_start(self, step: Step) -> None:
        if step is Step.FENCED:
            # Said for one fence: if the rest of START fails, the latest term is this driver's own.
            self._replaces = None
        self._parts.observe(step)

    def _recover(self) -> None:
        held, fold = self.state, self.state.owned.fold
        owed = sorted(fold.unpublished.items())
        held.followers.begin(fold)
        self._wait_published(but_for_catalog=True)
        for seq, record in owed:
            if seq not in fold.unpublished:
                self._log.info("recovered", seq=seq, files=len(all_files(record)))
                self.figures.recovered(RecoveryKind.PUBLISH)
        abandon_left(held)
        self.figures.recovered(RecoveryKind.START)
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
            FencedError: Another driver has taken over.
            SourceUnavailableError: The source does not say where the start is.
        """
        held = self.state
        # An idle route puts nothing, and would never meet the fence.
        held.owned.tenure.refuse_if_lost()
        held.followers.refuse_if_failed()
        fold, wanted = ahead or held.owned.fold, self._subscription(view)
        discovered = view.of(wanted.topics)
        check_identities(fold, discovered)
        # Those that are pinned may lack a leader for a while; where others begin only it can tell.
        check_described(unpinned(fold, discovered), view.bounds)
        discovered = self._drain.admitted(discovered, fold, view.bounds)
        new = new_partitions(fold, wanted, discovered)
        starts = resolve_start(self.config.start, new, view.bounds, self._parts.source)
        found = any(start.how == "group" for start in starts.values())
        if self.config.start.kind == "group" and new and not found:
            self._log.warning("group_has_no_offsets", group=self.config.start.group)
        kept = self._with_topics_away(fold, wanted)
        return plan_sources(fold, kept, discovered, view.bounds, starts)

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
        away = {one.topic for one in set(missed) - self._parts.source.gone(missed)}
        return replace(wanted, topics=tuple(sorted({*wanted.topics, *away})))

    def set_topics(self, topics: tuple[str, ...]) -> None:
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

    def is_record_due(self, view: SourceView | None = None) -> bool:
        """Whether a record is due beside the epochs. Called when no epoch is in flight."""
        return is_due(self.state, view)

    def pin(self, record: SourcesRecord | None, view: SourceView | None = None) -> None:
        """Commit where new source partitions start, and what is due beside the epochs.

        Called when no epoch is in flight.

        Raises:
            FencedError: Another driver has taken over.
        """
        if record is not None:
            self._pin(record)
        put_due(self.state, self._publish, view, partial(next, self._epochs))
        self.meter.advance(self.state.owned.fold)

    def _pin(self, record: SourcesRecord) -> None:
        owned = self.state.owned
        committed = owned.writer.commit(record)
        # It asks nothing of the catalog, which would count as behind until the next one does.
        self.state.want_partitions(committed.seq)
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
        self.figures.planning()
        self.state.refuse_unpublished(in_flight=0 if ahead is None else 1)
        route = self.state.schema.read()
        if self._retry_pause.in_doubt:
            self.state.owned.writer.read_new()
            self._retry_pause.in_doubt = False
        fold = ahead or self.state.owned.fold
        discovered = view.of(self._subscription(view).topics)
        check_described(unpinned(fold, discovered), view.bounds)
        if ahead is None:
            self._second_look.update(fold, view.bounds)
        logs = (found.partition for found in discovered)
        awaited = self._drain.ends
        targets = self._targets.aim(fold, logs, view.bounds, awaited) if bounded else None
        splits = plan_splits(fold, view.bounds, targets, view.copies)
        splits = self._demand.expect(splits, {**view.copies, **view.bounds})
        self._look_at_logs(fold, view, measured=ahead is None)
        if bounded and not splits and ahead is None:
            self._targets.check_reached(fold, view.bounds)
        over = bounded and not splits and ahead is None and not self._drain.holds
        if over:
            self.state.followers.hasten()
        busy = self.state.lanes.pressing or self.state.announcing
        self.caught_up = over and not busy and self.state.read_published()
        if not splits:
            return None
        planned = PlannedEpoch(next(self._epochs), splits, route, ahead=ahead is not None)
        self.state.mark_planned(planned, fold)
        self._parts.observe(Step.PLANNED)
        return planned

    def _look_at_logs(self, fold: Fold, view: SourceView, *, measured: bool) -> None:
        self._left_out.update(fold, view)
        self.meter.left_out = (self._left_out.why, self._left_out.count)
        if measured:
            # What is not committed yet lags; the commit that is under way will say how much does.
            self.lag_records = self.meter.update(fold, view.bounds)
        self._transactions.update(fold, view.bounds)

    def task_plans(self, planned: PlannedEpoch) -> dict[int, TaskPlan]:
        """Plans of the tasks that the loop has spread the splits over."""
        return self._pace.task_plans(planned)

    def _is_full(self) -> bool:
        return self.state.is_full()

    def _lane_hooks(self) -> LaneHooks:
        epoch, applied = partial(next, self._epochs), self._want_partitions
        return LaneHooks(self._parts.observe, epoch, self._publish, applied, self._is_full)

    @property
    def lanes(self) -> Lanes:
        """Replays and purges of dirty rows."""
        return self.state.lanes

    @property
    def ledger(self) -> str:
        """Which answers are this route's."""
        return self.state.owned.owner.ledger

    def end_epoch_early(self, planned: PlannedEpoch) -> None:
        """Ask the tasks of the running epoch to close their files and answer.

        Raises:
            StorageUnavailableError: The store failed; the deadline ends them.
        """
        owned = self.state.owned
        flag = stop_path(owned.layout, owned.writer.term, planned.epoch)
        owned.storage.make_folders(flag.rpartition("/")[0])
        owned.storage.overwrite(flag, b"")

    # After the tasks

    def set_written(self, planned: PlannedEpoch) -> None:
        """The tasks have answered; nothing has been looked at since."""
        self._pace.set_answered(planned)
        self._parts.observe(Step.WRITTEN)

    def ahead_of(self, answers: Sequence[TaskResult]) -> Fold | None:
        """What the next epoch may be planned from while `finish` of these runs; None if nothing."""
        return fold_after(self.state.owned.fold, answers)

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
        self.figures.finishing()
        # Its commit may have waited for the one before.
        ran = planned.answered or time.monotonic()
        held = self.state
        owned = held.owned
        results = [answer for answer in answers if answer.failure is None]
        outdated = self._outdated(planned, results)
        if outdated:
            self._log.info("epoch_discarded", epoch=planned.epoch, reason=outdated)
            self.figures.thrown_away(answers)
            return
        schema = planned.route.schema_version
        record = prepare_record(owned.fold, planned.epoch, planned.by_task, results, schema)
        if record is not None:
            record = with_end_epochs(record, planned.splits, view.bounds)
            record = held.dirty.checked(record, results, str(owned.state.identity))
            check_staged_files(owned.storage, owned.layout, results)
            self._look_again(record, view)
            self._parts.observe(Step.PREPARED)
            put_requested(held, self._publish)
            self._keep_log_short()
            before = owned.fold.next_seq
            record = closing_marked(held, record, planned, view)
            committed = owned.writer.commit(partial(placed, record))
            held.dirty.count(record)
            self.meter.commit(owned.fold, record.counts, record.dirty_reasons)
            self.lag_records = self.meter.update(owned.fold, view.bounds, at=ran)
            self._parts.observe(Step.COMMITTED)
            # The names that it has got in its slot.
            landed = owned.fold.unpublished[committed.seq]
            log_sealed(self._log, record, landed)
            held.wait_published(PUBLISH_MOMENT_S)
            self._parts.observe(Step.PUBLISHED)
            self._want_partitions(before)
            held.close_passed(landed)
            self._parts.observe(Step.REPORTED)
            asked = owned.storage.pop_request_count()
            done = EpochDone(committed.seq, record, results, planned, ran, asked)
            log_epoch(self._log, self._parts.progress, self.config.route, done)
            self.figures.record_commit(done, landed, owned.fold)
            put_requested(held, self._publish)
            put_announcements(held)
            self._row_log.log_rows(record, results)
            self._keep_log_short()
            held.housekeeper.tidy(owned.fold)
            held.lanes.read_requests()
        self.figures.failed(answers)
        failures = failures_of(planned, answers, owned.fold, view.bounds)
        for failure in failures:
            self._log.warning("task_failed", code=failure.code, error=str(failure))
        self._retry_pause.judge(failures, landed=record is not None)

    def _look_again(self, record: DataRecord, view: SourceView) -> None:
        """See that what was read is still there, and of the same logs (commit rule 13)."""
        fold = self.state.owned.fold
        # A topic created anew while it was read reads like the old one.
        check_identities(fold, view.of(self._subscription(view).topics))
        self._second_look.update(fold, view.bounds)
        plan_splits(fold, view.bounds, None, view.copies)
        check_still_there(record.ranges, view.bounds, view.copies)

    def _outdated(self, planned: PlannedEpoch, results: Sequence[TaskResult]) -> str:
        """Why an epoch was planned from what is not so; empty when it was not."""
        if not follows(self.state.owned.fold, planned):
            return "planned ahead"
        return "schema change" if self.state.schema.add_columns(planned.route, results) else ""

    def pause_s(self, error: SluicewayError) -> float | None:
        """How long to leave the route alone after an error; None halts it."""
        return self._retry_pause.pause_s(error)

    def _publish(self, record: EpochRecord | ReplaceRecord) -> None:
        """Have a record published that has landed; one that moves a partition, at all costs."""
        if isinstance(record, ReplaceRecord):
            self._wait_published()
        else:
            self.state.publish_lane(record, PUBLISH_MOMENT_S)

    def _wait_published(self, *, but_for_catalog: bool = False) -> None:
        """Wait until all is published, however long the store takes.

        Args:
            but_for_catalog: Not for a catalog that does not answer.

        Raises:
            Fatal: A follower that owns the table has ended the route.
        """
        held = self.state
        held.followers.hasten()
        while not held.wait_published(_WAIT_TURN_S):
            self.trouble = held.followers.trouble_of(publishing=True)
            if but_for_catalog and isinstance(self.trouble, MetastoreUnavailableError):
                break
        self.trouble = None
        held.followers.hasten(on=False)

    def _keep_log_short(self) -> None:
        held = self.state
        # Also records without files: a SNAPSHOT says that all before it is published.
        held.update_followers()
        held.record_queue.forget_sealed(keep_log_short(held.upkeep, self._log))

    def _want_partitions(self, since: int, *, anew: bool = False) -> None:
        """Have the catalog follow what records from slot `since` on have changed."""
        self.meter.advance(self.state.owned.fold)
        self.state.want_partitions(since, anew=anew)
        self._parts.observe(Step.APPLIED)

    # END

    def finish_effects(self) -> None:
        """Give the catalog a last while to follow. Called once, after the last epoch.

        Raises:
            Fatal: The table is gone.
        """
        reach("run.settle")
        held = self.state
        left = held.followers.finish(_SETTLE_S)
        held.followers.refuse_if_failed()
        if left:
            names = ", ".join(left)
            self._log.warning("followers_left", followers=names, hint="the next start goes on")

    def leave(self) -> None:
        """Give back all that is held, and remember how the ledger was left. Safe to repeat.

        Called when the route has halted, and at the end. What is not in the catalog yet is left to
        the next START.
        """
        held, self._held = self._held, None
        if held is not None:
            self._left = ReleasedLedger.of(held.owned)
            held.record_queue.end(FencedError("the route was left"))
            for work in held.background:
                work.close()
            held.followers.close()
            held.housekeeper.close()
            held.owned.lease.release()
        self._parts.sink.close()
        self._retry_pause.begin_anew()

    @property
    def started(self) -> bool:
        """Whether START has been done."""
        return self._held is not None

    def status_place(self) -> tuple[Storage, str] | None:
        """Where the route's status is written; None before it held a ledger. For any thread."""
        return self._status_place

    @property
    def state(self) -> OwnedRoute:
        """What the session holds from START to its end.

        Raises:
            InvariantError: The route was not started.
        """
        if self._held is None:
            raise InvariantError(f"route {self.config.route} is used before it was started")
        return self._held

    def _on_put_wait(self, attempts: int, error: StorageUnavailableError) -> None:
        if isinstance(error, StorageRefusedError) and not self.started:
            # Waiting is for what is owed, and a START owes nothing: a fence that did land after
            # all only makes the next term one higher.
            raise error
        self.trouble = error
        self.figures.put_repeated()
        self._log.warning("commit_unknown", attempts=attempts, error=str(error))
