"""Ends tasks before their deadline when their results are of no use."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sluiceway.errors import Fatal, StorageUnavailableError
from sluiceway.job.route_slot import RouteSlot
from sluiceway.observe.log import Log
from sluiceway.schedule.planner import PlannedEpoch


@dataclass(slots=True)
class EarlyEnd:
    """Checks, again and again while the tasks of an epoch run, whether they should go on.

    They should not when the driver has to stop. For one route they should not when the epoch before
    has failed. The plan of its tasks builds on that epoch, and this one will be discarded.

    Args:
        running: Routes of the epoch, and the plans of their tasks.
        stop_requested: Returns whether the driver has to stop.
        log: Gets an event when the store rejects the request.
    """

    running: Sequence[tuple[RouteSlot, PlannedEpoch]]
    stop_requested: Callable[[], bool]
    log: Log
    _requested: set[int] = field(default_factory=set)

    def check(self) -> None:
        """Ask the tasks of each route to end, at most once."""
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
    """Whether the epoch before has failed, so that this one will be discarded."""
    if route_slot.work is None or not route_slot.work.done():
        return False
    error = route_slot.work.exception()
    # A route that halts, above all a fenced one, writes nothing.
    return error is not None and not isinstance(error, Fatal)
