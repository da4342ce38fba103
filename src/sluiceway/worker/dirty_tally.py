"""Counts dirty rows of one task by reason and field, and keeps a few of each reason to show."""

from collections import Counter
from collections.abc import Sequence

from sluiceway.sources.contract import RawRecords
from sluiceway.types.dirty import MOST_COUNTED, DirtyReason, DirtyRow, counted_as
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import DirtySample

_SAMPLES_PER_REASON = 3


class DirtyTally:
    """One task's. Used by its thread.

    Attributes:
        samples: The first rows of each reason; messages are as short and redacted as in the file.
    """

    def __init__(self) -> None:
        self.samples: list[DirtySample] = []
        self._counts: Counter[str] = Counter()
        self._sampled: Counter[DirtyReason] = Counter()

    def add(self, rows: Sequence[DirtyRow], records: RawRecords) -> None:
        """Called once for the dirty rows of a read.

        Args:
            rows: Why each is dirty.
            records: The record of each of them.
        """
        found = Counter((row.reason, row.path) for row in rows)
        for (reason, path), count in found.items():
            name = counted_as(reason, path)
            if name not in self._counts and len(self._counts) >= MOST_COUNTED:
                name = reason.value
            self._counts[name] += count
        self._sample(rows, records, {reason for reason, _ in found})

    def _sample(
        self, rows: Sequence[DirtyRow], records: RawRecords, reasons: set[DirtyReason]
    ) -> None:
        wanted = {one for one in reasons if self._sampled[one] < _SAMPLES_PER_REASON}
        for place, row in enumerate(rows):
            if not wanted:
                return
            if row.reason not in wanted:
                continue
            self._sampled[row.reason] += 1
            if self._sampled[row.reason] == _SAMPLES_PER_REASON:
                wanted.remove(row.reason)
            self.samples.append(
                DirtySample(
                    topic=records.topics[place],
                    partition=records.partitions[place],
                    offset=BigInt(records.offsets[place]),
                    stage=row.stage,
                    reason=row.reason.value,
                    path=row.path,
                    message=row.message,
                )
            )

    def counts(self) -> dict[str, int]:
        """Rows by names of `counted_as`."""
        return dict(self._counts)
