"""What goes on beside the epochs of a route, from its START until it is left."""

from sluiceway.job import desk
from sluiceway.job.compactor import Compactor
from sluiceway.job.held_route import HeldRoute
from sluiceway.job.rewriting import ProcessRewriter
from sluiceway.observe.log import Log


def begin_background(held: HeldRoute, log: Log) -> None:
    """Begin it. Called once, when the route has recovered; its session ends it.

    Args:
        held: The route.
        log: Bound to it.
    """
    rules = held.plan.rolling
    rewriter = ProcessRewriter(held.owned.layout, held.owned.state.files, rules)
    compactor = Compactor(held.desk, rewriter, rules.target_bytes, log)
    held.lanes.hand_on = compactor.take
    held.background.append(compactor)
    held.background.extend(begin(held.desk) for begin in desk.BEGIN)
