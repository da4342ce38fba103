"""From the answers of an epoch's tasks to its published record, and the records next to it.

`EpochCommitter.commit_epoch` is the second half of the table in docs/contributors/protocol.md. Each
step may be the last one of this process: START + RECOVER of the next one continues from the ledger
alone. Nothing here waits for the world except a put whose outcome is not known.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sluiceway.errors import MetastoreUnavailableError, TaskFailedError
from sluiceway.ledger.placing import placed
from sluiceway.ledger.records import FilesRecord, MovingRecord, SourcesRecord
from sluiceway.observe.steps import Step
from sluiceway.route.epoch_report import EpochDone, log_epoch, log_sealed
from sluiceway.route.leader_epochs import with_end_epochs
from sluiceway.route.prepare import prepare_record
from sluiceway.route.route_context import RouteContext
from sluiceway.route.route_planner import RoutePlanner, follows
from sluiceway.route.row_log import RowLog
from sluiceway.route.side_records import (
    closing_marked,
    is_due,
    put_announcements,
    put_due,
    put_requested,
)
from sluiceway.schedule.planner import PlannedEpoch
from sluiceway.schedule.source_view import SourceView, view_of_route
from sluiceway.schedule.sql_engine import TransformedEpoch
from sluiceway.schedule.task_failures import failures_of
from sluiceway.upkeep.housekeeping import keep_log_short
from sluiceway.worker.answers import check_staged_files
from sluiceway.worker.plan import TaskResult

if TYPE_CHECKING:
    from sluiceway.route.sql_epoch import SqlEpochs

_WAIT_TURN_S = 2.0
PUBLISH_MOMENT_S = 2.0
"""How long a commit waits for its files' names: a slower store blocks no later epoch."""


class EpochCommitter:
    """Puts the records of a route, and has all that follows the log know of them.

    Used by one thread at a time.

    Args:
        context: Context of the route's session.
        planner: Says whether what was read is still there.

    Attributes:
        sql: Runs the SQL of the route; None without one, and before START.
        has_new_tables: Whether values have named tables since the routes were last listed.
    """

    def __init__(self, context: RouteContext, planner: RoutePlanner) -> None:
        self._context = context
        self._planner = planner
        self._log = context.log
        self._figures = context.figures
        self._row_log = RowLog(context.log, context.config.route)
        self.sql: SqlEpochs | None = None
        self.has_new_tables = False

    # SOURCES

    def is_record_due(self, view: SourceView | None = None) -> bool:
        """Whether a record is due that no epoch brings. Called when no epoch is in flight."""
        return is_due(self._context.state, self._own(view))

    def pin(self, record: SourcesRecord | None, view: SourceView | None = None) -> None:
        """Commit where new source partitions start, and what is due between epochs.

        Called when no epoch is in flight.

        Raises:
            FencedError: Another driver has taken over.
        """
        context, held = self._context, self._context.state
        if record is not None:
            self._pin(record)
        put_due(held, self.publish, self._own(view), context.next_epoch)
        context.meter.advance(held.owned.fold)

    def _own(self, view: SourceView | None) -> SourceView | None:
        return None if view is None else view_of_route(view, self._context.state.owned.fold)

    def _pin(self, record: SourcesRecord) -> None:
        context, held = self._context, self._context.state
        committed = held.owned.writer.commit(record)
        # It asks nothing of the catalog, which would count as late until the next one does.
        held.want_partitions(committed.seq)
        context.meter.advance(held.owned.fold)
        context.observe(Step.PINNED)
        self._log.info("sources_pinned", seq=committed.seq, partitions=len(record.partitions))
        if record.because is not None and record.reason:
            self._log.warning("snapshot_passed_over", what=record.reason)
            self._figures.passed_over()

    # PREPARE to REPORT

    def commit_epoch(
        self, planned: PlannedEpoch, answers: Sequence[TaskResult], view: SourceView
    ) -> None:
        """Prepare, commit, publish, report. The commit point is the put inside `commit`.

        Called when the outcome of the epoch before is known. An epoch that was planned ahead of
        an epoch that did not land so is discarded here: nothing of it is committed.

        Args:
            planned: What was asked for.
            answers: This route's; tasks that did not finish have none and keep their ends.
            view: What the brokers say after the tasks have read.

        Raises:
            SluicewayError: The class says what the loop does next; what landed stays.
        """
        self._keep_named(answers)
        self._figures.finishing()
        ran = planned.answered or time.monotonic()  # The commit may have waited since.
        context, held = self._context, self._context.state
        owned, observe, view = held.owned, context.observe, view_of_route(view, held.owned.fold)
        results = [answer for answer in answers if answer.failure is None]
        if outdated := self._outdated(planned, results):
            self._log.info("epoch_discarded", epoch=planned.epoch, reason=outdated)
            self._figures.thrown_away(answers)
            return
        results, pins = self._transformed(planned, results)
        # PREPARE: every claim of a task is checked.
        schema = planned.route.schema_version
        record = prepare_record(owned.fold, planned.epoch, planned.by_task, results, schema)
        if record is not None:
            record = with_end_epochs(replace(record, pins=pins), planned.splits, view.bounds)
            record = held.dirty.checked(record, results, str(owned.state.identity))
            check_staged_files(owned.storage, owned.layout, results)
            self._planner.check_again(record, view)
            observe(Step.PREPARED)
            # What background work asks for takes the slots before.
            put_requested(held, self.publish)
            self.keep_log_short()
            # COMMIT: the record takes the next slot, if that is empty.
            before = owned.fold.next_seq
            record = closing_marked(held, record, planned, view)
            committed = owned.writer.commit(partial(placed, record))
            held.dirty.count(record)
            context.meter.commit(owned.fold, record.counts, record.dirty_reasons)
            context.meter.update(owned.fold, view.bounds, at=ran)
            observe(Step.COMMITTED)
            landed = owned.fold.unpublished[committed.seq]  # With the names of its slot.
            log_sealed(self._log, record, landed)
            # PUBLISH: staged files get their final names.
            if held.wait_published(PUBLISH_MOMENT_S):
                observe(Step.PUBLISHED)
            else:
                self._figures.publishing_left()
            # EFFECTS: the catalog follows; what the watermark has passed is closed for READY.
            self.want_partitions(before)
            held.close_passed(landed)
            # REPORT: followers have the offsets; the log, the metrics and READY come last.
            observe(Step.REPORTED)
            asked = owned.storage.pop_request_count()
            done = EpochDone(committed.seq, record, results, planned, ran, asked)
            log_epoch(self._log, context.parts.progress, context.config.route, done)
            self._figures.record_commit(done, landed, owned.fold)
            put_requested(held, self.publish)
            put_announcements(held)
            self._row_log.log_rows(record, results)
            self.keep_log_short()
            held.background.housekeeper.tidy(owned.fold)
            held.background.lanes.read_requests()
        self._judge(planned, answers, view, landed=record is not None)

    def _keep_named(self, answers: Sequence[TaskResult]) -> None:
        """Keep the tables that rows have named, before a record goes beyond these rows."""
        held = self._context.state
        named = dict.fromkeys(table for answer in answers for table in answer.tables)
        known = held.owned.value_tables
        if not named or known is None:
            return
        fold, most = held.owned.fold, self._context.config.max_tables
        ends = {key: each.end for key, each in fold.sources.items() if not each.retired}
        before = len(known.tables)
        beyond = known.add(tuple(named), ends, most)
        self.has_new_tables = self.has_new_tables or len(known.tables) > before
        if beyond:
            raise TaskFailedError(
                f"rows name more tables than route_by.max_tables, which is {most}; the epoch is "
                "read again, with these rows dirty"
            )

    def _transformed(self, planned: PlannedEpoch, results: list[TaskResult]) -> TransformedEpoch:
        """Answers whose landed rows the SQL has made staged files; without SQL they are already."""
        if self.sql is None:
            return TransformedEpoch(results)
        return self.sql.transformed(planned, results)

    def _outdated(self, planned: PlannedEpoch, results: Sequence[TaskResult]) -> str:
        """Why an epoch was planned from what is not so; empty when it was not."""
        held = self._context.state
        if not follows(held.owned.fold, planned):
            return "planned ahead"
        return "schema change" if held.schema.add_columns(planned.route, results) else ""

    def _judge(
        self,
        planned: PlannedEpoch,
        answers: Sequence[TaskResult],
        view: SourceView,
        *,
        landed: bool,
    ) -> None:
        """Raise what the tasks have failed with, when the route has to wait for it, or to halt."""
        self._figures.failed(answers)
        fold = self._context.state.owned.fold
        failures = failures_of(planned, answers, fold, view.bounds)
        for failure in failures:
            self._log.warning("task_failed", code=failure.code, error=str(failure))
        self._planner.retry_pause.judge(failures, landed=landed)

    # What records ask of their followers

    def publish(self, record: FilesRecord) -> bool:
        """Have a record published that has landed; whether it is, which a move always waits for."""
        if isinstance(record, MovingRecord):
            self.wait_published()
            return True
        return self._context.state.publish_lane(record, PUBLISH_MOMENT_S)

    def wait_published(self, *, but_for_catalog: bool = False) -> None:
        """Wait until all is published, however long the store takes.

        Args:
            but_for_catalog: Not for a catalog that does not answer.

        Raises:
            Fatal: A follower that owns the table has ended the route.
        """
        context, held = self._context, self._context.state
        held.followers.hasten()
        while not held.wait_published(_WAIT_TURN_S):
            context.trouble = held.followers.trouble_of(publishing=True)
            if but_for_catalog and isinstance(context.trouble, MetastoreUnavailableError):
                break
        context.trouble = None
        held.followers.hasten(on=False)

    def is_held_up(self) -> bool:
        """Whether nothing more may be committed before some records are published."""
        return self._context.state.is_full()

    def keep_log_short(self) -> None:
        """Snapshot and pack when it is time. Called between two records."""
        held = self._context.state
        # Also records without files: a SNAPSHOT says that all before it is published.
        held.update_followers()
        held.record_queue.forget_sealed(keep_log_short(held.upkeep, self._log))

    def want_partitions(self, since: int, *, again: bool = False) -> None:
        """Have the catalog follow what records from slot `since` on have changed.

        Args:
            since: First slot that matters.
            again: See `OwnedRoute.want_partitions`.
        """
        held = self._context.state
        self._context.meter.advance(held.owned.fold)
        held.want_partitions(since, again=again)
        self._context.observe(Step.APPLIED)
