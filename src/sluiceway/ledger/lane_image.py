"""Lanes as the side file of a SNAPSHOT holds them."""

from dataclasses import dataclass
from typing import ClassVar

from sluiceway.ledger.lane_records import NO_LANE_ROWS, LaneCounts, LaneRange
from sluiceway.ledger.lane_state import LaneState, ReplayLanes
from sluiceway.types.strict_json import BigInt


@dataclass(frozen=True, slots=True)
class _Lane:
    lane: str
    kind: str
    seq: int
    ranges: tuple[LaneRange, ...]
    ends: tuple[BigInt, ...]
    rows: BigInt
    counts: LaneCounts


@dataclass(frozen=True, slots=True)
class _Interval:
    start: BigInt
    stop: BigInt


@dataclass(frozen=True, slots=True)
class _Taken:
    source: str
    intervals: tuple[_Interval, ...]


@dataclass(frozen=True, slots=True)
class LaneImage:
    """All lanes, as strict JSON holds them."""

    SPARSE: ClassVar[frozenset[str]] = frozenset({"late"})

    lanes: tuple[_Lane, ...]
    taken: tuple[_Taken, ...]
    counts: LaneCounts
    late: LaneCounts = NO_LANE_ROWS


def lane_image(book: ReplayLanes) -> LaneImage:
    """What a snapshot keeps of the lanes: all of it."""
    lanes = sorted(book.lanes.values(), key=lambda lane: lane.seq)
    return LaneImage(
        lanes=tuple(
            _Lane(
                each.lane,
                each.kind,
                each.seq,
                each.ranges,
                tuple(BigInt(end) for end in each.ends),
                BigInt(each.rows),
                each.counts,
            )
            for each in lanes
        ),
        taken=tuple(
            _Taken(source, tuple(_Interval(BigInt(a), BigInt(b)) for a, b in intervals))
            for source, intervals in sorted(book.taken.items())
        ),
        counts=book.counts,
        late=book.late,
    )


def lane_book(image: LaneImage) -> ReplayLanes:
    """The lanes of a snapshot."""
    return ReplayLanes(
        lanes={
            each.lane: LaneState(
                each.lane,
                each.kind,
                each.seq,
                each.ranges,
                [int(end) for end in each.ends],
                int(each.rows),
                each.counts,
            )
            for each in image.lanes
        },
        taken={
            each.source: [(int(one.start), int(one.stop)) for one in each.intervals]
            for each in image.taken
        },
        counts=image.counts,
        late=image.late,
    )
