"""START and RECOVER of one route: from its job file to a fenced ledger whose log is published."""

from collections.abc import Callable
from dataclasses import dataclass

from sluiceway.eventtime.prefix_periods import Period, PrefixPeriods
from sluiceway.followers.ready_effects import ReadyEffects, ready_effects
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.dirty_limits import DirtyWatch
from sluiceway.jobfile.compile.ready_rule import ReadyRule
from sluiceway.jobfile.compile.retention import RetentionRule
from sluiceway.ledger.folding.fold_state import FoldState
from sluiceway.ledger.placing import all_files
from sluiceway.ledger.sealing import MaySeal
from sluiceway.ledger.upkeep import LogUpkeep
from sluiceway.ledger.value_tables import ValueTableLog
from sluiceway.observe.metrics import RecoveryKind
from sluiceway.observe.steps import Step
from sluiceway.route.background import begin_background
from sluiceway.route.committer import EpochCommitter
from sluiceway.route.composition import Composed, compose
from sluiceway.route.owned_route import OwnedRoute, RouteBackground
from sluiceway.route.registry_columns import with_registry_columns
from sluiceway.route.route_context import RouteContext
from sluiceway.route.schema_follow import SchemaFollower
from sluiceway.route.side_records import abandon_left
from sluiceway.route.sql_columns import (
    refuse_replay,
    with_sql_columns,
    with_table_columns,
    with_unit_columns,
)
from sluiceway.route.sql_epoch import SqlEpochs
from sluiceway.route.status import last_commit_ms
from sluiceway.route.takeover import OwnedTable, ReleasedLedger, TakeoverHooks, take_over
from sluiceway.schedule.sql_tables import SqlTables
from sluiceway.sources.contract import SourceIdentity, SourcePartition
from sluiceway.upkeep.housekeeping import FileCleaner
from sluiceway.upkeep.lanes import LaneHooks, Lanes
from sluiceway.upkeep.record_queue import RecordQueue
from sluiceway.worker.plan import LatePolicy, LateRule


@dataclass(frozen=True, slots=True)
class RouteSealing:
    """Says what may be sealed by a route's job file (`ledger.sealing.SealChoice`).

    Attributes:
        ready: What it announces; None for nothing.
        late: What becomes of late rows.
        retention: How long partitions are kept; None for ever.
        told_below: Slot below which all receivers know of all announcements.
    """

    ready: ReadyRule | None
    late: LateRule
    retention: RetentionRule | None
    told_below: Callable[[], int | None]

    def __call__(self, fold: FoldState) -> MaySeal:
        """What may be sealed of this fold."""
        periods = None if self.ready is None else self.ready.periods()
        found = () if periods is None else map(periods.of, fold.closed)
        latest = max((each for each in found if each is not None), default=None)
        reopen_us = self._reopen_us(fold)
        told_below = self.told_below()

        def may_seal(name: str) -> bool:
            if self.retention is not None and fold.below(name):
                # Whoever lets go of it has to know what there is.
                return False
            closed = fold.closed.get(name)
            if closed is None:
                # Times that are announced are closed first.
                return self.ready is None or not fold.below(name)
            if told_below is not None and closed.ready_seq >= told_below:
                return False
            return _is_over(periods, name, latest, reopen_us)

        return may_seal

    def _reopen_us(self, fold: FoldState) -> int | None:
        """Rows before it do not reopen what is closed; None when none is bound by its age."""
        if self.late.policy is not LatePolicy.REOPEN or self.late.window_us is None:
            return None
        times = [known.max_event_time_us for known in fold.sources.values() if not known.retired]
        seen = [each for each in times if each is not None]
        return min(seen) - self.late.window_us if seen else None


def route_sealing(config: RouteConfig, ready: ReadyEffects | None) -> RouteSealing:
    """What a route's job file seals, given the targets that get its driver's announcements."""
    return RouteSealing(
        config.ready,
        config.late,
        config.retention,
        lambda: None if ready is None else ready.unannounced_from,
    )


def _is_over(
    periods: PrefixPeriods | None, name: str, latest: Period | None, reopen_us: int | None
) -> bool:
    """Whether a closed prefix is no use any more for closing others, nor takes late rows."""
    if periods is None:
        return False
    period = periods.of(name)
    if period is None:
        return True
    # What ends before the latest one is closed by it (`eventtime.prefix_periods`).
    before = latest is not None and period < latest
    return before and (reopen_us is None or period.end_us <= reopen_us)


def fence_route(
    context: RouteContext, hooks: TakeoverHooks, left: ReleasedLedger | None
) -> OwnedTable:
    """Take over the ledger of a route. Called once a START, first.

    Args:
        context: Context of the route's session.
        hooks: See `take_over`.
        left: How the session gave the ledger back before; None when it never had it.

    Raises:
        SluicewayError: As `take_over`.
    """
    context.config, context.parts = with_registry_columns(context.config, context.parts)
    context.config, context.parts = with_sql_columns(context.config, context.parts)
    context.config, context.parts = with_unit_columns(context.config, context.parts)
    owned = take_over(context.config, context.parts.sink, hooks, left)
    context.config = with_table_columns(context.config, owned.state)
    context.log.info(
        "fenced",
        term=owned.writer.term,
        seq=owned.fold.next_seq - 1,
        table=str(owned.state.identity),
        ledger=owned.owner.ledger,
    )
    return owned


def start_route(context: RouteContext, committer: EpochCommitter, owned: OwnedTable) -> Composed:
    """Own a route whose ledger was taken over, and publish what earlier drivers left.

    Called once a START. When it fails, the context owns nothing.

    Args:
        context: Context of the route's session.
        committer: Puts its records.
        owned: The ledger and the table, fenced.

    Returns:
        The followers that have begun.

    Raises:
        SluicewayError: As at any driver's start.
    """
    owned.writer.on_effects = context.figures.applied
    context.choose_source(owned.fold)
    context.source.expect(
        {
            SourcePartition(*key): SourceIdentity(known.cluster_id, known.topic_id)
            for key, known in owned.fold.sources.items()
            if not known.retired
        }
    )
    rule, engine = context.config.sql, context.parts.sql
    if rule is not None and engine is not None:
        check = owned.tenure.refuse_if_lost
        committer.sql = SqlEpochs(
            context.config, rule, engine, owned.storage, context.log, check, SqlTables(rule)
        )
    sink = context.parts.sink
    ready = ready_effects(context.config.announcements, owned.log, sink)
    composed = compose(context, owned, ready)
    try:
        context.held = _owned_route(context, committer, owned, composed, ready)
        context.held.begin_readiness(context.config.ready, context.log, context.source)
        context.meter.followers = composed.runner.states
        recover(context, committer)
    except BaseException:
        context.held = None
        composed.runner.close()
        raise
    return composed


def _owned_route(
    context: RouteContext,
    committer: EpochCommitter,
    owned: OwnedTable,
    composed: Composed,
    ready: ReadyEffects | None,
) -> OwnedRoute:
    config, parts, log = context.config, context.parts, context.log
    if ready is not None:
        ready.find_first(owned.fold)
    schema = SchemaFollower(config, owned, parts.sink, log, context.meter)
    housekeeper = FileCleaner(owned.log, log)
    upkeep = LogUpkeep(owned.writer, route_sealing(config, ready))
    record_queue = RecordQueue(owned.log, owned.fold.closed)
    replayed = refuse_replay if committer.sql is None else committer.sql.replayed
    hooks = LaneHooks(
        observe=parts.observe,
        next_epoch=context.next_epoch,
        publish=committer.publish,
        applied=committer.want_partitions,
        held_up=committer.is_held_up,
        **({} if config.sql_columns is None else {"transformed": replayed}),
    )
    lanes = Lanes(owned, schema.current, hooks, log, tasks=parts.work)
    if config.max_tables:
        owned.value_tables = ValueTableLog(owned.storage, owned.layout)
    return OwnedRoute(
        owned=owned,
        followers=composed.runner,
        catalog=composed.catalog,
        moved=composed.moved,
        schema=schema,
        upkeep=upkeep,
        record_queue=record_queue,
        dirty=DirtyWatch.recalled(config.dirty, owned.log, owned.fold.next_seq),
        background=RouteBackground(housekeeper, lanes),
        max_unpublished=config.max_unpublished,
    )


def recover(context: RouteContext, committer: EpochCommitter) -> None:
    """Publish what is committed, and end the work of earlier drivers. Called once a START."""
    held, fold = context.state, context.state.owned.fold
    owed = sorted(fold.unpublished.items())
    held.followers.begin(fold)
    committer.wait_published(but_for_catalog=True)
    for seq, record in owed:
        if seq not in fold.unpublished:
            context.log.info("recovered", seq=seq, files=len(all_files(record)))
            context.figures.recovered(RecoveryKind.PUBLISH)
    abandon_left(held)
    context.figures.recovered(RecoveryKind.START)
    context.observe(Step.RECOVERED)


def begin_following(
    context: RouteContext, committer: EpochCommitter, composed: Composed, *, whole: bool = False
) -> None:
    """Have the catalog follow, and begin what goes on next to the epochs. Called after RECOVER.

    Args:
        context: Context of the route's session.
        committer: Puts its records.
        composed: The followers.
        whole: Whether the catalog is compared with all partitions, not only with the ones that
            records above `effects_through` have changed: another room's catalog may have lost more.
    """
    held = context.state
    owned = held.owned
    context.meter.advance(owned.fold)
    context.meter.recall(last_commit_ms(owned.storage, owned.layout.status, owned.fold))
    committer.want_partitions(0 if whole else owned.fold.effects_through, again=True)
    begin_background(held, composed.feeders, context.config, context.parts, context.log)
    units = held.background.units
    if units is not None:
        context.meter.units_wait_for = lambda: units.waits_for
