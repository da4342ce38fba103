"""Counts dirty rows of one task by reason and field, and keeps a few of each reason to show."""

from collections import Counter

from sluiceway.sources.contract import RawRecord
from sluiceway.types.dirty import MOST_COUNTED, DirtyRow, counted_as
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
        self._sampled: Counter[str] = Counter()

    def add(self, row: DirtyRow, record: RawRecord) -> None:
        """Called once per dirty row."""
        reason = row.reason.value
        name = counted_as(reason, row.path)
        if name not in self._counts and len(self._counts) >= MOST_COUNTED:
            name = reason
        self._counts[name] += 1
        if self._sampled[reason] < _SAMPLES_PER_REASON:
            self._sampled[reason] += 1
            self.samples.append(
                DirtySample(
                    topic=record.partition.topic,
                    partition=record.partition.partition,
                    offset=BigInt(record.offset),
                    stage=row.stage,
                    reason=reason,
                    path=row.path,
                    message=row.message,
                )
            )

    def counts(self) -> dict[str, int]:
        """Rows by names of `counted_as`."""
        return dict(self._counts)
