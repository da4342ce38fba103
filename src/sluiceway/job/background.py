"""What goes on beside the epochs of a route, from its START until it is left."""

from sluiceway.job import counts_feed, desk, dirty_stores, late_follow
from sluiceway.job.compact_requests import CompactRequest
from sluiceway.job.compactor import Compactor
from sluiceway.job.config import RouteConfig
from sluiceway.job.expirer import Expirer
from sluiceway.job.forget_requests import ForgetRequest
from sluiceway.job.held_route import HeldRoute
from sluiceway.job.rewriting import ProcessRewriter
from sluiceway.observe.log import Log


def begin_background(held: HeldRoute, config: RouteConfig, log: Log) -> None:
    """Begin it. Called once, when the route has recovered; its session ends it.

    Args:
        held: The route.
        config: Its choices.
        log: Bound to it.
    """
    rules = config.rolling
    rewriter = ProcessRewriter(held.owned.layout, held.owned.state.files, rules)
    compactor = Compactor(held.desk, rewriter, rules.target_bytes, log)
    readiness = held.readiness
    if readiness is not None and readiness.rule.on_ready and config.compact_before_ready:
        readiness.before = compactor
    expirer = Expirer(held.desk, config.retention, log)

    def hand_on(request: CompactRequest | ForgetRequest) -> None:
        if isinstance(request, CompactRequest):
            compactor.take(request)
        else:
            expirer.take(request)

    held.lanes.hand_on = hand_on
    feeders = dirty_stores.begin(config, held.owned, log)
    held.background += [compactor, expirer, *feeders]
    held.housekeeper.dirty = dirty_stores.keeper_of(config, held.owned, feeders, log)
    held.housekeeper.tidy(held.owned.fold)
    held.late_table = late_follow.begin(config, held.owned, log)
    held.background += [] if held.late_table is None else [held.late_table]
    held.counts = counts_feed.begin(config, held.desk, log)
    held.background += [] if held.counts is None else [held.counts]
    held.background.extend(begin(held.desk) for begin in desk.BEGIN)
