"""Wrong variants of lanes: replays and purges of dirty rows."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

from sim.substitutes import scheduler
from sluiceway.ledger.lane_records import (
    NO_LANE_ROWS,
    LaneDataRecord,
    LaneRange,
    LaneRecord,
    LaneSpan,
)
from sluiceway.ledger.lane_state import LaneState, ReplayLanes
from sluiceway.ledger.snapshot import LaneImage
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.lanes import Lanes
from sluiceway.upkeep.requests import LaneRequest


def never_taken(self: ReplayLanes, source: str, start: int, stop: int) -> bool:
    del self, source, start, stop
    return False


# Ends that the driver keeps for itself


def _memory(lane: str) -> dict[tuple[str, int], int]:
    own: dict[Any, Any] = scheduler().alive().process.own
    found: dict[tuple[str, int], int] = own.setdefault(("lane", lane), {})
    return found


def left_as_remembered(self: LaneState) -> Iterator[LaneRange]:
    for each in self.ranges:
        end = _memory(self.lane).get((each.source, int(each.start)), int(each.start))
        if end < each.stop:
            yield LaneRange(each.source, BigInt(end), each.stop)


def place_anywhere(self: LaneState, span: LaneSpan) -> int | None:
    for index, each in enumerate(self.ranges):
        if each.source == span.source and each.start <= span.start < each.stop:
            return index
    return None


def record_and_remember(self: Lanes, lane: LaneState, results: Any, schema: str) -> LaneDataRecord:
    record = _RECORD(self, lane, results, schema)
    for span in record.ranges:
        place = place_anywhere(lane, span)
        if place is not None:
            each = lane.ranges[place]
            _memory(lane.lane)[each.source, int(each.start)] = int(span.end)
    return record


_RECORD = Lanes._record


# Others


def record_of_new_lane(self: LaneRequest) -> LaneRecord:
    """A request that is found again opens another lane."""
    return LaneRecord(uuid4().hex, self.kind, self.operator, self.reason, self.ranges)


def image_without_lanes(book: ReplayLanes) -> LaneImage:
    del book
    return LaneImage((), (), NO_LANE_ROWS)


def record_without_dirty_rows(
    self: Lanes, lane: LaneState, results: Any, schema: str
) -> LaneDataRecord:
    record = _RECORD(self, lane, results, schema)
    counts = replace(record.counts, dirty=BigInt(0), filtered=record.counts.dirty)
    return replace(record, counts=counts, dirty_files=())


def land_unpublished(self: Lanes, record: LaneDataRecord) -> None:
    before = self._owned.fold.next_seq
    self._owned.writer.commit(record)
    self._owned.writer.set_published()
    self._hooks.applied(before)
