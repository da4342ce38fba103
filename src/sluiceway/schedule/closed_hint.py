"""Which closed prefixes a task gets: as few as say the same (`eventtime.prefix_periods`).

What ends before a closed prefix is closed as well. So of all that have a time the latest one is
enough; prefixes without a time are named. A plan does not grow with the age of its table.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sluiceway.worker.late_rows import closing_periods
from sluiceway.worker.plan import RoutePlan

if TYPE_CHECKING:
    from sluiceway.eventtime.prefix_periods import Period


class ClosedHint:
    """Hints for one route. Used by one thread; each name is parsed once."""

    def __init__(self) -> None:
        self._route: RoutePlan | None = None
        self._latest: Period | None = None
        self._known: set[str] = set()
        self._without_time: set[str] = set()

    def of(self, route: RoutePlan, closed: Iterable[str]) -> tuple[str, ...]:
        """The closed prefixes that the tasks of an epoch get. Called once an epoch.

        Args:
            route: Plan of the route, as the epoch is planned.
            closed: All prefixes that are closed, except sealed ones.
        """
        if route != self._route:
            self._route, self._latest = route, None
            self._known, self._without_time = set(), set()
        names = set(closed)
        new = names - self._known
        periods = closing_periods(route) if new else None
        for name in new:
            period = None if periods is None else periods.of(name)
            if period is None:
                self._without_time.add(name)
            elif self._latest is None or period > self._latest:
                self._latest = period
        self._known = names
        self._without_time &= names
        latest = () if self._latest is None else (self._latest.prefix,)
        return (*sorted(self._without_time), *latest)
