"""What goes on beside the epochs of a route, from its START until it is left."""

from sluiceway.job import desk
from sluiceway.job.compact_requests import CompactRequest
from sluiceway.job.compactor import Compactor
from sluiceway.job.expirer import Expirer
from sluiceway.job.forget_requests import ForgetRequest
from sluiceway.job.held_route import HeldRoute
from sluiceway.job.retention import RetentionRule
from sluiceway.job.rewriting import ProcessRewriter
from sluiceway.observe.log import Log


def begin_background(held: HeldRoute, retention: RetentionRule | None, log: Log) -> None:
    """Begin it. Called once, when the route has recovered; its session ends it.

    Args:
        held: The route.
        retention: Of its job file.
        log: Bound to it.
    """
    rules = held.plan.rolling
    rewriter = ProcessRewriter(held.owned.layout, held.owned.state.files, rules)
    compactor = Compactor(held.desk, rewriter, rules.target_bytes, log)
    expirer = Expirer(held.desk, retention, log)

    def hand_on(request: CompactRequest | ForgetRequest) -> None:
        if isinstance(request, CompactRequest):
            compactor.take(request)
        else:
            expirer.take(request)

    held.lanes.hand_on = hand_on
    held.background += [compactor, expirer]
    held.background.extend(begin(held.desk) for begin in desk.BEGIN)
