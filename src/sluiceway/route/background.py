"""What goes on beside the epochs of a route, from its START until it is left."""

from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.observe.log import Log
from sluiceway.route import dirty_stores
from sluiceway.route.held_route import OwnedRoute
from sluiceway.upkeep import counts_feed, record_queue
from sluiceway.upkeep.compact_requests import CompactRequest
from sluiceway.upkeep.compactor import Compactor
from sluiceway.upkeep.expirer import Expirer
from sluiceway.upkeep.forget_requests import ForgetRequest
from sluiceway.upkeep.rewriting import WorkRewriter
from sluiceway.work.request import ClusterWork


def begin_background(
    held: OwnedRoute, config: RouteConfig, log: Log, work: ClusterWork | None = None
) -> None:
    """Begin it. Called once, when the route has recovered; its session ends it.

    Args:
        held: The route.
        config: Its choices.
        log: Bound to it.
        work: Executors that may compact; None has the driver's machine do it.
    """
    rules = config.rolling
    owned = held.owned
    rewriter = WorkRewriter(owned.layout, owned.state.files, rules, config.stores, cluster=work)
    compactor = Compactor(held.record_queue, rewriter, rules.target_bytes, log)
    readiness = held.readiness
    if readiness is not None and readiness.rule.on_ready and config.compact_before_ready:
        readiness.before = compactor
    expirer = Expirer(held.record_queue, config.retention, log)

    def hand_on(request: CompactRequest | ForgetRequest) -> None:
        if isinstance(request, CompactRequest):
            compactor.enqueue(request)
        else:
            expirer.enqueue(request)

    held.lanes.hand_on = hand_on
    held.background += [compactor, expirer]
    held.housekeeper.dirty = dirty_stores.keeper_of(config, held.owned, held.feeders, log)
    held.housekeeper.tidy(held.owned.fold)
    held.counts = counts_feed.begin(config, held.record_queue, log)
    held.background += [] if held.counts is None else [held.counts]
    held.background.extend(begin(held.record_queue) for begin in record_queue.BEGIN)
