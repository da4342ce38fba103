"""One route's driver: owns the protocol and calls the parts that decide.

The order of the steps is the design of the product; each step may be the last one of this
process, and START + RECOVER of the next one continues from the ledger alone.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from sluiceway.errors import (
    Fatal,
    MetastoreUnavailableError,
    Retriable,
    SluicewayError,
    SourceUnavailableError,
    StorageUnavailableError,
    TaskFailedError,
)
from sluiceway.job.config import RouteConfig
from sluiceway.job.effects import EffectsApplier
from sluiceway.job.planner import (
    PlannedSplit,
    assign,
    check_identities,
    plan_sources,
    plan_splits,
)
from sluiceway.job.prepare import check_staged_files, prepare_record
from sluiceway.job.publish import Publisher
from sluiceway.job.route_plan import route_plan
from sluiceway.job.runner import TaskRunner
from sluiceway.job.stop import StopSignal
from sluiceway.job.takeover import OwnedLedger, TakeoverHooks, take_over
from sluiceway.ledger.fold import PartitionState
from sluiceway.ledger.records import DataRecord
from sluiceway.observe.log import Log
from sluiceway.observe.progress import Progress
from sluiceway.observe.steps import Observer, Step
from sluiceway.sinks.contract import DesiredPartition, TableSink
from sluiceway.sinks.hive.partition_path import metastore_values
from sluiceway.sources.contract import LogBounds, SourceClient, SourcePartition
from sluiceway.worker.plan import RoutePlan, TaskPlan, TaskResult, stop_path

_RETRY_S = 2.0
_LONGEST_RETRY_S = 15.0
_SETTLE_S = 20.0
_FAILED_EPOCHS = 4

T = TypeVar("T")


@dataclass(slots=True)
class RouteParts:
    """What a route's driver works with; made and closed by its caller."""

    source: SourceClient
    sink: TableSink
    runner: TaskRunner
    stop: StopSignal
    log: Log
    observe: Observer
    progress: Progress = field(default_factory=Progress)


class RouteDriver:
    """Runs one route until it is told to stop, has caught up, or must halt.

    Args:
        config: What to do.
        parts: What to do it with.
    """

    def __init__(self, config: RouteConfig, parts: RouteParts) -> None:
        self._config = config
        self._parts = parts
        self._log = parts.log.bind(job=config.job, route=config.route)
        self._epoch = 0
        self._failed_epochs = 0
        self._targets: dict[SourcePartition, int] | None = None

    def run(self, *, until_caught_up: bool = False) -> None:
        """Fence, recover, then read and commit epoch by epoch.

        Called once. Returns after a graceful stop or when caught up; everything read is then
        committed and published.

        Raises:
            Fatal: The route must halt; the class says why.
            Retriable: The runner is gone; a new process goes on.
        """
        owned = self._until_it_answers(self._take_over)
        if owned is None:
            return
        publisher = Publisher(owned.storage, owned.layout, self._log)
        effects = EffectsApplier(self._parts.sink, self._log, owned.writer.note_effects)
        try:
            self._recover(owned, publisher)
            effects.start()
            self._want_partitions(owned, effects, owned.fold.effects_through)
            self._loop(owned, publisher, effects, until_caught_up=until_caught_up)
            if not effects.settle(_SETTLE_S):
                self._log.warning("effects_left", hint="the next start applies them")
            if effects.failure is not None:
                raise effects.failure
        finally:
            effects.close()
            publisher.close()
            owned.lease.release()

    # START and RECOVER

    def _take_over(self) -> OwnedLedger:
        hooks = TakeoverHooks(self._parts.observe, self._on_put_wait)
        owned = take_over(self._config, self._parts.sink, hooks)
        self._log.info(
            "fenced",
            term=owned.writer.term,
            seq=owned.fold.next_seq - 1,
            table=str(owned.state.identity),
            ledger=owned.owner.ledger,
        )
        return owned

    def _recover(self, owned: OwnedLedger, publisher: Publisher) -> None:
        unpublished = sorted(owned.fold.unpublished.items())
        for seq, record in unpublished:
            self._publish(owned, publisher, record)
            self._log.info("recovered", seq=seq, epoch=record.epoch, files=len(record.files))
        owned.writer.note_published()
        self._parts.observe(Step.RECOVERED)

    # One epoch after the other

    def _loop(
        self,
        owned: OwnedLedger,
        publisher: Publisher,
        effects: EffectsApplier,
        *,
        until_caught_up: bool,
    ) -> None:
        plan = route_plan(self._config, owned)
        first = True
        while not self._parts.stop.asked():
            if effects.failure is not None:
                raise effects.failure
            bounds = self._until_it_answers(lambda: self._look_at_source(owned))
            if bounds is None:
                return
            if first and until_caught_up:
                self._targets = {part: place.end_offset for part, place in bounds.items()}
            first = False
            self._parts.progress.lag(_lag(owned, bounds))
            planned = assign(
                plan_splits(owned.fold, bounds, self._targets), self._parts.runner.slots()
            )
            if not planned:
                if self._targets is not None:
                    return
                self._parts.stop.sleep(self._config.interval_s)
                continue
            self._run_epoch(owned, publisher, effects, _EpochInput(plan, planned))

    def _look_at_source(self, owned: OwnedLedger) -> Mapping[SourcePartition, LogBounds]:
        """Discover, pin what is new, and read the logs' ends."""
        source = self._parts.source
        discovered = source.discover(self._config.topics)
        check_identities(owned.fold, discovered)
        bounds = source.bounds([found.partition for found in discovered])
        record = plan_sources(
            owned.fold, self._config.topics, self._config.start, discovered, bounds
        )
        if record is not None:
            committed = owned.writer.commit(record)
            self._parts.observe(Step.PINNED)
            self._log.info("sources_pinned", seq=committed.seq, partitions=len(record.partitions))
        return bounds

    def _run_epoch(
        self,
        owned: OwnedLedger,
        publisher: Publisher,
        effects: EffectsApplier,
        given: "_EpochInput",
    ) -> None:
        epoch, self._epoch = self._epoch, self._epoch + 1
        started = time.monotonic()
        self._parts.observe(Step.PLANNED)
        results, failures = self._run_tasks(owned, epoch, given)
        self._parts.observe(Step.WRITTEN)
        ran = time.monotonic()
        record = prepare_record(
            owned.fold, epoch, given.planned, results, given.plan.schema_version
        )
        if record is not None:
            misfit = self._misfit_of_staged(owned, results)
            if misfit is not None:
                self._raise_failures([*failures, misfit], committed=False)
                return
            if not self._source_is_the_same(owned):
                return
            self._parts.observe(Step.PREPARED)
            before = owned.fold.next_seq
            committed = owned.writer.commit(record)
            self._parts.observe(Step.COMMITTED)
            self._publish(owned, publisher, record)
            owned.writer.note_published()
            self._parts.observe(Step.PUBLISHED)
            self._want_partitions(owned, effects, before)
            self._report(owned)
            self._log_epoch(record, committed.seq, results, (started, ran))
        self._raise_failures(failures, committed=record is not None)

    def _misfit_of_staged(
        self, owned: OwnedLedger, results: list[TaskResult]
    ) -> TaskFailedError | None:
        """Why the staged files are not what the tasks named; the epoch is thrown away then."""
        try:
            self._until_stored(lambda: check_staged_files(owned.storage, owned.layout, results))
        except TaskFailedError as error:
            return error
        return None

    def _source_is_the_same(self, owned: OwnedLedger) -> bool:
        """Look again after reading: a topic created anew in between reads like the old one.

        Returns:
            False when a stop was asked for before the broker answered; nothing is committed then.

        Raises:
            OffsetsLostError: It is another topic, or the log no longer has the committed end.
        """

        def look() -> bool:
            discovered = self._parts.source.discover(self._config.topics)
            check_identities(owned.fold, discovered)
            bounds = self._parts.source.bounds([found.partition for found in discovered])
            plan_splits(owned.fold, bounds, None)
            return True

        return self._until_it_answers(look) is True

    def _run_tasks(
        self, owned: OwnedLedger, epoch: int, given: "_EpochInput"
    ) -> tuple[list[TaskResult], list[SluicewayError]]:
        plans = [
            TaskPlan(
                route=given.plan,
                epoch=epoch,
                task=task,
                splits=tuple(planned.split for planned in splits),
                deadline_s=self._config.interval_s,
            )
            for task, splits in enumerate(given.planned)
        ]
        flag = stop_path(owned.layout, owned.writer.term, epoch)
        told = False

        def wait() -> None:
            nonlocal told
            if self._parts.stop.asked() and not told:
                told = True
                owned.storage.make_folders(flag.rpartition("/")[0])
                owned.storage.overwrite(flag, b"")

        try:
            answers = self._parts.runner.run(
                plans,
                wait=wait,
                give_up_after_s=self._config.interval_s + self._config.straggler_timeout_s,
            )
        except TaskFailedError as error:
            return [], [error]
        failures = [answer.failure.to_error() for answer in answers if answer.failure is not None]
        if len(answers) < len(plans):
            self._log.warning("stragglers", epoch=epoch, missing=len(plans) - len(answers))
        return [answer for answer in answers if answer.failure is None], failures

    def _raise_failures(self, failures: list[SluicewayError], *, committed: bool) -> None:
        """Fatal ones halt the route; the others are tried again, after longer and longer pauses.

        An outage may last; a task that keeps failing on its own rows is no outage, so after some
        epochs without any commit the run ends with that error.
        """
        for failure in failures:
            self._log.warning("task_failed", code=failure.code, error=str(failure))
        fatal = next((failure for failure in failures if isinstance(failure, Fatal)), None)
        if fatal is not None:
            raise fatal
        own = [failure for failure in failures if isinstance(failure, TaskFailedError)]
        self._failed_epochs = self._failed_epochs + 1 if own and not committed else 0
        if self._failed_epochs >= _FAILED_EPOCHS:
            raise own[0]
        if failures:
            self._parts.stop.sleep(_RETRY_S * 2**self._failed_epochs)

    def _publish(self, owned: OwnedLedger, publisher: Publisher, record: DataRecord) -> None:
        self._until_stored(lambda: publisher.publish(record))
        publisher.drop_attempts(record, owned.layout.results(owned.writer.term, record.epoch))

    def _want_partitions(self, owned: OwnedLedger, effects: EffectsApplier, since: int) -> None:
        """Ask the catalog for the partitions that records from slot `since` on have made."""
        new = [state for state in owned.fold.partitions.values() if state.first_seq >= since]
        effects.want([_desired(owned, state) for state in new], owned.fold.next_seq)
        self._parts.observe(Step.APPLIED)

    def _report(self, owned: OwnedLedger) -> None:
        """Tell lag tools; never read back, so a failure is only noted."""
        ends = {
            SourcePartition(topic, number): known.end
            for (topic, number), known in owned.fold.sources.items()
            if not known.retired
        }
        try:
            self._parts.source.report(self._config.group, ends)
        except SluicewayError as error:
            self._log.info("report_failed", error=str(error))
        self._parts.observe(Step.REPORTED)

    def _log_epoch(
        self,
        record: DataRecord,
        seq: int,
        results: list[TaskResult],
        times: tuple[float, float],
    ) -> None:
        started, ran = times
        counts = record.counts
        self._parts.progress.epoch(
            seq, int(counts.read), int(counts.dirty), time.monotonic() - started
        )
        self._log.info(
            "committed",
            seq=seq,
            epoch=record.epoch,
            read=counts.read,
            written=counts.written,
            dirty=counts.dirty,
            skipped=counts.skipped,
            files=len(record.files),
            run_ms=int((ran - started) * 1000),
            commit_ms=int((time.monotonic() - ran) * 1000),
            consumers_reused=sum(result.consumer_reused for result in results),
            tasks=len(results),
        )

    # Waiting for the world

    def _until_it_answers(self, call: Callable[[], T]) -> T | None:
        """Repeat a call that changes nothing while it fails; None when a stop is asked for."""
        pause_s = _RETRY_S
        while True:
            try:
                return call()
            except (SourceUnavailableError, MetastoreUnavailableError) as error:
                self._wait_for("unavailable", error, pause_s)
            except StorageUnavailableError as error:
                self._wait_for("storage_unavailable", error, pause_s)
            if self._parts.stop.asked():
                return None
            pause_s = min(pause_s * 1.5, _LONGEST_RETRY_S)

    def _until_stored(self, call: Callable[[], None]) -> None:
        """Repeat an idempotent storage call until it is known to have worked."""
        pause_s = _RETRY_S
        while True:
            try:
                return call()
            except StorageUnavailableError as error:
                self._log.warning("storage_unavailable", error=str(error), retry_in_s=pause_s)
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_RETRY_S)

    def _wait_for(
        self, event: str, error: Retriable | StorageUnavailableError, pause_s: float
    ) -> None:
        self._log.warning(event, code=error.code, error=str(error), retry_in_s=round(pause_s, 1))
        self._parts.progress.waiting(str(error))
        self._parts.stop.sleep(pause_s)

    def _on_put_wait(self, attempts: int, error: StorageUnavailableError) -> None:
        self._log.warning("commit_unknown", attempts=attempts, error=str(error))


@dataclass(frozen=True, slots=True)
class _EpochInput:
    plan: RoutePlan
    planned: list[tuple[PlannedSplit, ...]]


def _desired(owned: OwnedLedger, state: PartitionState) -> DesiredPartition:
    return DesiredPartition(metastore_values(state.values), owned.layout.final(state.folder))


def _lag(owned: OwnedLedger, bounds: Mapping[SourcePartition, LogBounds]) -> int:
    return sum(
        max(0, place.end_offset - owned.fold.sources[(part.topic, part.partition)].end)
        for part, place in bounds.items()
        if (part.topic, part.partition) in owned.fold.sources
    )
