"""Ends tasks before their deadline when nobody needs the rest of their time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sluiceway.errors import Fatal, StorageUnavailableError
from sluiceway.job.seat import Seat
from sluiceway.observe.log import Log
from sluiceway.schedule.planner import PlannedEpoch


@dataclass(slots=True)
class EarlyEnd:
    """Looks, again and again while the tasks of an epoch run, whether they should go on.

    They should not when the driver is to stop and, for one route, when the epoch before has
    failed: what its tasks read was planned upon that one and will be thrown away.

    Args:
        running: Routes of the epoch, and what their tasks were asked for.
        stop_asked: Whether the driver is to stop.
        log: Told when the store does not take the request.
    """

    running: Sequence[tuple[Seat, PlannedEpoch]]
    stop_asked: Callable[[], bool]
    log: Log
    _asked: set[int] = field(default_factory=set)

    def look(self) -> None:
        """Ask the tasks of each route at most once."""
        stop = self.stop_asked()
        for seat, planned in self.running:
            if id(seat) not in self._asked and (stop or _is_vain(seat)):
                self._asked.add(id(seat))
                self._ask(seat, planned)

    def _ask(self, seat: Seat, planned: PlannedEpoch) -> None:
        try:
            seat.session.end_epoch_early(planned)
        except StorageUnavailableError as error:
            self.log.warning("stop_waits_for_deadline", error=str(error))


def _is_vain(seat: Seat) -> bool:
    """Whether the epoch before has failed, so that this one will be thrown away."""
    if seat.work is None or not seat.work.done():
        return False
    error = seat.work.exception()
    # A route that halts, a fenced one above all, leaves everything as it is.
    return error is not None and not isinstance(error, Fatal)
