"""Whether the start of a route that a template has just made is known."""

from collections.abc import Mapping
from dataclasses import replace

from sluiceway.job.discovery import Discovery
from sluiceway.job.route_slot import RouteSlot
from sluiceway.jobfile.blocks.start import EARLIEST
from sluiceway.route.status import RouteState


def knows_start(
    route_slot: RouteSlot, discovered: Mapping[str, RouteSlot], discovery: Discovery
) -> bool:
    """Whether it is known if the topics of a new route came while no driver ran.

    They did when the ledger of another route of its template names the pattern. The pattern was
    read before, so topics that came since are read from their first row on (commit rule 5). Called
    before each plan; sets the route's start when it is found out.

    Args:
        route_slot: The slot of the new route.
        discovered: Slots of all routes that were made of topics.
        discovery: Knows which of them come from one template.
    """
    session = route_slot.session
    config = session.config
    if discovered.get(config.route) is not route_slot or config.start == EARLIEST:
        return True
    if session.read_before is not None:
        return True
    siblings = discovery.siblings(config.route) - {config.route}
    others = [discovered[name] for name in siblings if name in discovered]
    if any(other.session.read_before == config.pattern for other in others):
        session.config = replace(config, start=EARLIEST)
        return True
    ended = (RouteState.HALTED, RouteState.CAUGHT_UP)
    return all(other.session.started or other.state in ended for other in others)
