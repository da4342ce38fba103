"""Wrong variants of what becomes of late rows."""

from typing import Any

from sluiceway.ledger import placing
from sluiceway.ledger.file_records import FileRecord
from sluiceway.ledger.layout import is_late_place
from sluiceway.schedule.epoch_times import EpochDates
from sluiceway.sources.contract import Split
from sluiceway.worker.plan import EpochTimes


def without_closed(
    dates: EpochDates, splits: tuple[Split, ...], closed: tuple[str, ...]
) -> EpochTimes:
    """Tasks are not told what is closed: rows go to their own partitions, uncounted."""
    del splits, closed
    return EpochTimes(dates.clock_us)


def files_in_time(record: Any) -> tuple[FileRecord, ...]:
    """Only files that readers see get their final names."""
    return tuple(file for file in placing.all_files(record) if not is_late_place(file.final))
