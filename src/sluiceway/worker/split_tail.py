"""The tail of what a task reads of one split: its last rows alone are looked at."""

from sluiceway.ledger.log_tail import NO_TAIL, RUNS, joined_tails, row_hash, tail_of, tail_runs
from sluiceway.sources.contract import SourceBatch

NO_TIME = -1
"""Stands for the record time of a row that has none."""


def batch_tail(batch: SourceBatch) -> str:
    """The tail of a fetch; more rows are read only where many equal ones end it."""
    rows, count = len(batch.values), RUNS
    while True:
        first = max(0, rows - count)
        found = batch.records(range(first, rows))
        times = [NO_TIME if each is None else each for each in found.timestamps_ms]
        hashed = map(row_hash, found.keys, found.values, times)
        tail = tail_of(zip(hashed, times, strict=True))
        if first == 0 or len(tail_runs(tail)) == RUNS:
            return tail
        count *= 4


class SplitTail:
    """Of one split. Used by its task's thread.

    Attributes:
        text: See `ledger.log_tail`; empty before the first row.
    """

    __slots__ = ("text",)

    def __init__(self) -> None:
        self.text = NO_TAIL

    def add(self, batch: SourceBatch) -> None:
        """Take in a fetch, in the order of the offsets."""
        if len(batch.values):
            self.text = joined_tails(self.text, batch_tail(batch))
