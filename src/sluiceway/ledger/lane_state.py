"""What the ledger's lanes add up to."""

from bisect import bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from sluiceway.ledger.lane_records import NO_LANE_ROWS, LaneCounts, LaneRange, LaneSpan
from sluiceway.types.strict_json import BigInt


@dataclass(slots=True)
class LaneState:
    """One lane.

    Attributes:
        seq: Slot that opened it.
        ranges: What it consumes, in this order; none once it is finished.
        ends: Committed end in each range.
    """

    lane: str
    kind: str
    seq: int
    ranges: tuple[LaneRange, ...] = ()
    ends: list[int] = field(default_factory=list)
    rows: int = 0
    counts: LaneCounts = NO_LANE_ROWS

    @property
    def finished(self) -> bool:
        """Whether all of its rows are consumed."""
        return int(self.counts.read) == self.rows

    def left(self) -> Iterator[LaneRange]:
        """What it has still to consume, in order."""
        for each, end in zip(self.ranges, self.ends, strict=True):
            if end < each.stop:
                yield LaneRange(each.source, BigInt(end), each.stop)

    def place(self, span: LaneSpan) -> int | None:
        """Which of its ranges a span goes on; None when it begins at no committed end."""
        for index, (each, end) in enumerate(zip(self.ranges, self.ends, strict=True)):
            if each.source == span.source and end == span.start and span.end <= each.stop:
                return index
        return None


@dataclass(slots=True)
class ReplayLanes:
    """All lanes of a ledger, and the rows that they have taken, for ever.

    Attributes:
        lanes: By id, finished lanes too: their requests are never carried out again.
        taken: Source -> intervals `[start, stop)` of rows, rising, that belong to a lane.
        counts: Counts of all lanes of dirty rows together; `late` counts the lanes of late rows.
    """

    lanes: dict[str, LaneState] = field(default_factory=dict)
    taken: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    counts: LaneCounts = NO_LANE_ROWS
    late: LaneCounts = NO_LANE_ROWS

    def open_lanes(self) -> list[LaneState]:
        """Lanes that have rows left, oldest first."""
        found = [lane for lane in self.lanes.values() if not lane.finished]
        return sorted(found, key=lambda lane: lane.seq)

    def is_taken(self, source: str, start: int, stop: int) -> bool:
        """Whether any row of `[start, stop)` belongs to a lane already."""
        intervals = self.taken.get(source, [])
        at = bisect_right(intervals, (start, start))
        before = intervals[at - 1][1] > start if at > 0 else False
        return before or (at < len(intervals) and intervals[at][0] < stop)

    def add(self, source: str, start: int, stop: int) -> None:
        """Note that these rows belong to a lane; neighbours become one interval."""
        intervals = self.taken.setdefault(source, [])
        insort(intervals, (start, stop))
        joined: list[tuple[int, int]] = []
        for begin, end in intervals:
            if joined and joined[-1][1] == begin:
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((begin, end))
        self.taken[source] = joined
