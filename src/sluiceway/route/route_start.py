"""START and RECOVER of one route: from its job file to a fenced ledger whose log is published."""

from sluiceway.followers.ready_effects import ReadyEffects, ready_effects
from sluiceway.jobfile.compile.dirty_limits import DirtyWatch
from sluiceway.ledger.placing import all_files
from sluiceway.ledger.upkeep import LogUpkeep
from sluiceway.observe.metrics import RecoveryKind
from sluiceway.observe.steps import Step
from sluiceway.route.background import begin_background
from sluiceway.route.committer import EpochCommitter
from sluiceway.route.composition import Composed, compose
from sluiceway.route.held_route import OwnedRoute, RouteBackground
from sluiceway.route.registry_columns import with_registry_columns
from sluiceway.route.route_context import RouteContext
from sluiceway.route.schema_follow import SchemaFollower
from sluiceway.route.seal_rule import route_sealing
from sluiceway.route.side_records import abandon_left
from sluiceway.route.status import last_commit_ms
from sluiceway.route.takeover import OwnedTable, ReleasedLedger, TakeoverHooks, take_over
from sluiceway.upkeep.housekeeping import FileCleaner
from sluiceway.upkeep.lanes import LaneHooks, Lanes
from sluiceway.upkeep.record_queue import RecordQueue


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
    owned = take_over(context.config, context.parts.sink, hooks, left)
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
    sink = context.parts.sink
    ready = ready_effects(context.config.ready, owned.log, sink)
    composed = compose(context.config, owned, context.parts, ready, context.log)
    try:
        context.held = _owned_route(context, committer, owned, composed, ready)
        context.held.begin_readiness(context.config.ready, context.log, context.parts.source)
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
    hooks = LaneHooks(
        observe=parts.observe,
        next_epoch=context.next_epoch,
        publish=committer.publish,
        applied=committer.want_partitions,
        held_up=committer.is_held_up,
    )
    lanes = Lanes(owned, schema.current, hooks, log, tasks=parts.work)
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


def begin_following(context: RouteContext, committer: EpochCommitter, composed: Composed) -> None:
    """Have the catalog follow, and begin what goes on next to the epochs. Called after RECOVER."""
    held = context.state
    owned = held.owned
    context.meter.advance(owned.fold)
    context.meter.recall(last_commit_ms(owned.storage, owned.layout.status))
    committer.want_partitions(owned.fold.effects_through, anew=True)
    begin_background(held, composed.feeders, context.config, context.parts, context.log)
