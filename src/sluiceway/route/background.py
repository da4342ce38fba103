"""What a route does at the same time as its epochs, from its START until it is left."""

from collections.abc import Sequence

from sluiceway.chains.open_units import unit_upstream
from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.followers.dirty_feed import DirtyFeeder
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.observe.log import Log
from sluiceway.route import dirty_stores
from sluiceway.route.owned_route import OwnedRoute
from sluiceway.route.route_context import RouteParts
from sluiceway.schedule.sql_tables import SqlTables
from sluiceway.upkeep import counts_feed
from sluiceway.upkeep.backfiller import Backfiller
from sluiceway.upkeep.compactor import Compactor
from sluiceway.upkeep.expirer import Expirer
from sluiceway.upkeep.partition_requests import BackfillRequest, CompactRequest, UpkeepRequest
from sluiceway.upkeep.recomputing import Recomputer, UnitWork
from sluiceway.upkeep.rereading import Rereading
from sluiceway.upkeep.rewriting import WorkRewriter


def begin_background(
    held: OwnedRoute,
    feeders: Sequence[DirtyFeeder],
    config: RouteConfig,
    parts: RouteParts,
    log: Log,
) -> None:
    """Begin it. Called once, when the route has recovered; its session ends it.

    Args:
        held: The route.
        feeders: Followers that feed dirty rows to further stores.
        config: Its choices.
        parts: What it works with.
        log: Bound to it.
    """
    rules = config.rolling
    owned = held.owned
    rewriter = WorkRewriter(
        owned.layout, owned.state.files, rules, config.stores, cluster=parts.work
    )
    compactor = Compactor(held.record_queue, rewriter, rules.target_bytes, log)
    readiness = held.readiness
    if readiness is not None and readiness.rule.on_ready and config.compact_before_ready:
        readiness.before = compactor
    expirer = Expirer(held.record_queue, config.retention, log)

    reading = Rereading(
        parts.source, held.schema.current, owned.owner.ledger, parts.work, config.table
    )
    units = _begin_units(held, config, parts, log)
    backfiller = Backfiller(
        held.record_queue,
        reading,
        log,
        follows=parts.source.inherits,
        computes=None if units is None else units.computation,
    )

    def hand_on(request: UpkeepRequest) -> None:
        if isinstance(request, CompactRequest):
            compactor.enqueue(request)
        elif isinstance(request, BackfillRequest):
            backfiller.enqueue(request)
        else:
            expirer.enqueue(request)

    background = held.background
    background.lanes.hand_on = hand_on
    background.backfiller = backfiller
    background.work += [compactor, expirer, backfiller]
    background.housekeeper.dirty = dirty_stores.keeper_of(config, owned, feeders, log)
    background.housekeeper.tidy(owned.fold)
    background.counts = counts_feed.begin(config, held.record_queue, log)
    background.work += [] if background.counts is None else [background.counts]
    background.units = units
    background.work += [] if units is None else [units]
    background.work.extend(begin(held.record_queue) for begin in parts.background)


def _begin_units(
    held: OwnedRoute,
    config: RouteConfig,
    parts: RouteParts,
    log: Log,
) -> Recomputer | None:
    """What computes units; None in a route that appends rows, and in a command without Spark.

    Raises:
        UnhealthyEnvironmentError: There is no Spark to run the SQL.
    """
    if config.units is None or config.sql is None:
        return None
    if parts.unit_sql is None and parts.slots is None:
        return None
    if parts.unit_sql is None:
        raise UnhealthyEnvironmentError(
            "there is no Spark to run transform.sql of the route", hint="`sluiceway run JOB` has it"
        )
    work = UnitWork(
        rule=config.units,
        query=config.sql,
        upstream=unit_upstream(dict(config.source.options), config.source.kind),
        reader=config.group,
        sql=parts.unit_sql,
        plan=held.schema.current,
        interval_s=config.interval_s,
        tables=SqlTables(config.sql).read,
        on_request=parts.units_on_request,
    )
    return Recomputer(held.record_queue, work, log)
