"""How old the oldest record is that waits in the logs, found by the brokers' own index of times.

No record is read: a log has one from before a moment when the first one from that moment on lies
above the committed end.
"""

import math
import time
from collections.abc import Collection, Mapping

from sluiceway.errors import SluicewayError
from sluiceway.sources.contract import LogBounds, SourceClient, SourcePartition

_YOUNGEST_MS = 1_000
_OLDEST_MS = 30 * 365 * 86_400_000
_PRECISION = 1.1
_LONGEST_S = 5.0

Waiting = Mapping[str, Mapping[SourcePartition, int]]
"""Route -> its logs that have more than is committed, each with its committed end."""


def waiting_ends(
    ends: Mapping[SourcePartition, int], bounds: Mapping[SourcePartition, LogBounds]
) -> dict[SourcePartition, int]:
    """The logs of a route that have records above the committed end, with that end."""
    return {one: end for one, end in ends.items() if one in bounds and bounds[one].end_offset > end}


def oldest_waiting_ms(client: SourceClient, waiting: Waiting) -> dict[str, int]:
    """The age of each route's oldest waiting record, in milliseconds: at least so old.

    Called by whoever shows lag, with a client of its own; some ten requests for one route.

    Args:
        client: Reads the logs.
        waiting: Ends as `waiting_ends` finds them.

    Returns:
        At most a tenth too little. A route is left out when its records are younger than a second
        or have no time, or its leaders are slow to answer.
    """
    search = _Search(client, waiting)
    logs = {(one, route) for route, ends in waiting.items() for one in ends}
    logs = search.older(logs, _YOUNGEST_MS)
    # Records without a time count as older than any.
    timeless = {route for _, route in search.older(logs, _OLDEST_MS)}
    search.halve({each for each in logs if each[1] not in timeless}, _YOUNGEST_MS, _OLDEST_MS)
    return search.found


_Log = tuple[SourcePartition, str]
"""A log, and the route that waits for it."""


class _Search:
    def __init__(self, client: SourceClient, waiting: Waiting) -> None:
        self._client = client
        self._waiting = waiting
        self._now_ms = time.time_ns() // 1_000_000
        self._until = time.monotonic() + _LONGEST_S
        self.found: dict[str, int] = {}

    def halve(self, logs: Collection[_Log], least: float, most: float) -> None:
        """Halve, in powers, the ages between which the oldest records of these logs lie."""
        for _, route in logs:
            self.found[route] = max(self.found.get(route, 0), int(least))
        if not logs or most / least <= _PRECISION or time.monotonic() > self._until:
            return
        middle = math.sqrt(least * most)
        older = self.older(logs, middle)
        # A route's oldest record counts; its other logs have nothing to add.
        settled = {route for _, route in older}
        younger = {each for each in logs if each[1] not in settled}
        self.halve(older, middle, most)
        self.halve(younger, least, middle)

    def older(self, logs: Collection[_Log], age_ms: float) -> set[_Log]:
        """Logs that have a waiting record of at least this age."""
        if not logs:
            return set()
        partitions = sorted({one for one, _ in logs})
        try:
            first = self._client.offsets_at(partitions, self._now_ms - int(age_ms))
        except SluicewayError:
            # What is known so far still holds.
            self._until = 0.0
            return set()
        return {each for each in logs if first.get(each[0], 0) > self._waiting[each[1]][each[0]]}
