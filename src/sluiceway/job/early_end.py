"""Ends tasks before their deadline when nobody needs the rest of their time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sluiceway.errors import Fatal, StorageUnavailableError
from sluiceway.job.route_slot import RouteSlot
from sluiceway.observe.log import Log
from sluiceway.schedule.planner import PlannedEpoch


@dataclass(slots=True)
class EarlyEnd:
    """Looks, again and again while the tasks of an epoch run, whether they should go on.

    They should not when the driver is to stop and, for one route, when the epoch before has
    failed: what its tasks read was planned upon that one and will be thrown away.

    Args:
        running: Routes of the epoch, and what their tasks were asked for.
        stop_requested: Whether the driver is to stop.
        log: Told when the store does not take the request.
    """

    running: Sequence[tuple[RouteSlot, PlannedEpoch]]
    stop_requested: Callable[[], bool]
    log: Log
    _requested: set[int] = field(default_factory=set)

    def check(self) -> None:
        """Ask the tasks of each route at most once."""
        stop = self.stop_requested()
        for route_slot, planned in self.running:
            if id(route_slot) not in self._requested and (stop or _is_vain(route_slot)):
                self._requested.add(id(route_slot))
                self._ask(route_slot, planned)

    def _ask(self, route_slot: RouteSlot, planned: PlannedEpoch) -> None:
        try:
            route_slot.session.planner.end_epoch_early(planned)
        except StorageUnavailableError as error:
            self.log.warning("stop_waits_for_deadline", error=str(error))


def _is_vain(route_slot: RouteSlot) -> bool:
    """Whether the epoch before has failed, so that this one will be thrown away."""
    if route_slot.work is None or not route_slot.work.done():
        return False
    error = route_slot.work.exception()
    # A route that halts, a fenced one above all, leaves everything as it is.
    return error is not None and not isinstance(error, Fatal)
