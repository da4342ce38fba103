"""Rows with origin headers, readers over them, and answers about them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from sluiceway.ledger.offset_sum import ZERO
from sluiceway.ledger.records import NO_ROWS, RowCounts
from sluiceway.sources.contract import Headers, SourceBatch, SplitEnd, SplitReader
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import SplitResult, TaskResult
from tools.ledger_records import LEDGER
from tools.small_task import MadeBatch


@dataclass
class OriginBatch(MadeBatch):
    """Rows of split 0, each with headers."""

    of_rows: list[Headers] = field(default_factory=list)

    @classmethod
    def of(cls, first: int, of_rows: Sequence[Headers], time_ms: int) -> Self:
        """Rows from an offset on, all of one time."""
        offsets = list(range(first, first + len(of_rows)))
        values: list[bytes | None] = [b"%d" % offset for offset in offsets]
        return cls(0, values, offsets, [time_ms] * len(offsets), list(of_rows))

    def headers(self) -> Sequence[Headers]:
        return self.of_rows


class SimpleReader(SplitReader):
    """Returns batches of one split as they are, each once."""

    def __init__(self, batches: Sequence[SourceBatch], start: int) -> None:
        self._left = list(batches)
        self._end, self._rows = start, 0
        self.closed: list[bool] = []

    def read(self, timeout_s: float) -> list[SourceBatch]:
        if not self._left:
            return []
        batch = self._left.pop(0)
        self._rows += len(batch.values)
        self._end = int(batch.offsets[-1]) + 1
        return [batch]

    def finished(self) -> bool:
        return not self._left

    def ends(self) -> tuple[SplitEnd, ...]:
        return (SplitEnd(self._end, self._rows, 0, None),)

    def close(self, *, reusable: bool) -> None:
        self.closed.append(reusable)


def origin_answer(term: int, epoch: int, start: int, end: SplitEnd) -> TaskResult:
    """What a task answers that has read partition 0 of orders."""
    rows, no = BigInt(end.rows), BigInt(0)
    read = SplitResult(
        *("orders", 0, BigInt(start), BigInt(end.end_offset), rows, BigInt(end.gaps)),
        None,
        None,
        ZERO,
        copies=BigInt(end.copies),
        origin_end=None if end.origin_end is None else BigInt(end.origin_end),
    )
    return TaskResult(
        ledger=LEDGER,
        term=term,
        epoch=epoch,
        task=0,
        attempt="",
        splits=(read,),
        files=(),
        dirty_files=(),
        counts=RowCounts(rows, rows, no, no, no, no) if rows else NO_ROWS,
        dirty_reasons={},
        timings_ms={},
        consumer_reused=False,
        failure=None,
    )
