"""Wrong variants of what becomes of late rows."""

from collections.abc import Iterable
from typing import Any

from sluiceway.job import prepare
from sluiceway.job.epoch_times import EpochDates
from sluiceway.ledger.collect import GarbageCollector
from sluiceway.ledger.file_records import FileRecord
from sluiceway.ledger.layout import is_late_place
from sluiceway.sources.contract import Split
from sluiceway.worker.plan import EpochTimes

_LOOK_UP = GarbageCollector._look_up


def without_closed(
    dates: EpochDates, splits: tuple[Split, ...], closed: tuple[str, ...]
) -> EpochTimes:
    """Tasks are not told what is closed: rows go to their own partitions, uncounted."""
    del splits, closed
    return EpochTimes(dates.clock_us)


def files_in_time(record: Any) -> tuple[FileRecord, ...]:
    """Only files that readers see get their final names."""
    return tuple(file for file in prepare.all_files(record) if not is_late_place(file.final))


def look_up_in_time(self: GarbageCollector, epochs: Iterable[Any]) -> Any:
    """Late files are named by nobody that counts."""
    found = _LOOK_UP(self, epochs)
    for each in found.values():
        kept = tuple(file for file in each.files if not is_late_place(file.final))
        object.__setattr__(each, "files", kept)
    return found
