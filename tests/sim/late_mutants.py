"""Wrong variants of what becomes of late rows."""

from dataclasses import replace
from typing import Any

from sluiceway.ledger import placing
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.lane_records import LATE, LaneDataRecord
from sluiceway.ledger.lane_state import LaneState, ReplayLanes
from sluiceway.ledger.layout import is_late_place
from sluiceway.schedule.epoch_times import EpochDates
from sluiceway.sources.contract import Split
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.lanes import Lanes
from sluiceway.worker.plan import EpochTimes


def without_closed(
    dates: EpochDates, splits: tuple[Split, ...], closed: tuple[str, ...]
) -> EpochTimes:
    """Tasks do not get what is closed: rows go to their own partitions, uncounted."""
    del splits, closed
    return EpochTimes(dates.clock_us)


def files_in_time(record: Any) -> tuple[FileRecord, ...]:
    """Only files that readers see get their final names."""
    return tuple(file for file in placing.all_files(record) if not is_late_place(file.final))


def taken_unless_late(self: ReplayLanes, source: str, start: int, stop: int) -> bool:
    """Late rows are brought in again, whoever has brought them in."""
    return not source.startswith("late:") and _IS_TAKEN(self, source, start, stop)


_IS_TAKEN = ReplayLanes.is_taken


def record_without_late_rows(
    self: Lanes, lane: LaneState, results: Any, schema: str
) -> LaneDataRecord:
    """Late rows of a lane count as filtered, and their copies belong to no partition."""
    record = _RECORD(self, lane, results, schema)
    if lane.kind != LATE:
        return record
    counts = replace(record.counts, written=BigInt(0), filtered=record.counts.written)
    return replace(record, counts=counts, files=())


_RECORD = Lanes._record
