"""Turns of lanes, for routes in the loop."""

from collections.abc import Callable, Sequence

from sluiceway.job.route_pool import RoutePool
from sluiceway.job.route_slot import RouteSlot
from sluiceway.route.status import RouteState


def turn_lanes(
    route_slots: Sequence[RouteSlot], pool: RoutePool, settle: Callable[[Sequence[RouteSlot]], None]
) -> None:
    """Run replays and purges of routes without work in flight, for a short while.

    Called by the loop's thread between epochs.

    Args:
        route_slots: All routes.
        pool: Runs the turns.
        settle: Waits a little for the work of these routes.
    """
    running = [s for s in route_slots if s.state is RouteState.RUNNING and s.staged is None]
    due = [s for s in running if s.session.started and s.session.lanes.pressing]
    # They wait for the running commit, and for no other one.
    settle([route_slot for route_slot in due if route_slot.ahead is not None])
    due += [s for s in running if s not in due and s.work is None and s.session.lanes.is_read_due]
    due = [s for s in due if s.work is None and s.state is RouteState.RUNNING]
    for route_slot in due:
        route_slot.work = pool.submit(route_slot.session.lanes.turn)
    settle(due)
