"""When the lanes of the routes in the loop have their turn."""

from collections.abc import Callable, Sequence

from sluiceway.job.route_pool import RoutePool
from sluiceway.job.seat import Seat
from sluiceway.route.status import RouteState


def turn_lanes(
    seats: Sequence[Seat], pool: RoutePool, settle: Callable[[Sequence[Seat]], None]
) -> None:
    """Have replays and purges go on, of routes that have nothing in flight; for a short while.

    Called by the loop's thread between epochs.

    Args:
        seats: All routes.
        pool: Runs the turns.
        settle: Waits a little for what runs for these seats.
    """
    running = [s for s in seats if s.state is RouteState.RUNNING and s.staged is None]
    due = [s for s in running if s.session.started and s.session.lanes.pressing]
    # They wait for the commit that is under way, and for no other one.
    settle([seat for seat in due if seat.ahead is not None])
    due += [s for s in running if s not in due and s.work is None and s.session.lanes.look_due]
    due = [s for s in due if s.work is None and s.state is RouteState.RUNNING]
    for seat in due:
        seat.work = pool.submit(seat.session.lanes.turn)
    settle(due)
