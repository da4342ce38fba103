"""From a selection of dirty rows to the request that replays or purges them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice

from sluiceway.audit.dirty_rows import DirtyFilter, DirtyRows, DirtyState, matching
from sluiceway.ledger.lane_records import LaneRange
from sluiceway.upkeep.requests import MOST_RANGES, REQUEST_VERSION, LaneRequest


@dataclass(frozen=True, slots=True)
class Choice:
    """Open dirty rows that a lane can take.

    Attributes:
        ranges: At most as many as a request holds; the oldest rows.
        rows: How many rows these ranges hold.
        reasons: Reason -> how many of these rows have it.
        left_out: Whether the selection has more rows than `ranges`.
    """

    ranges: tuple[LaneRange, ...]
    rows: int
    reasons: dict[str, int]
    left_out: bool

    def request(self, rows: DirtyRows, kind: str, operator: str, reason: str) -> LaneRequest:
        """The request for the driver."""
        first = rows.fold.first_fence
        ledger = first.ledger if first is not None else ""
        return LaneRequest(REQUEST_VERSION, ledger, kind, operator, reason, self.ranges)


def choose(rows: DirtyRows, wanted: DirtyFilter) -> Choice:
    """Open rows of the selection, as runs in their files, the oldest first.

    Raises:
        StorageUnavailableError: The store failed, or a file cannot be read.
    """
    wanted = replace(wanted, states=frozenset([DirtyState.OPEN]))
    ranges: list[LaneRange] = []
    reasons: Counter[str] = Counter()
    left_out = False
    for found in matching(rows, wanted):
        room = MOST_RANGES - len(ranges)
        runs = list(islice(found.ranges(), room + 1))
        left_out = len(runs) > room
        ranges += runs[:room]
        taken = _rows(runs[:room])
        reasons.update(found.keys.column("reason").to_pylist()[:taken])
        if left_out:
            break
    return Choice(tuple(ranges), _rows(ranges), dict(reasons), left_out)


def _rows(ranges: Iterable[LaneRange]) -> int:
    return sum(int(each.stop - each.start) for each in ranges)
