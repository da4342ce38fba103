"""The tail of what a task reads of one split: its last rows alone are looked at."""

from sluiceway.ledger.log_tail import NO_TAIL, RUNS, joined_tails, tail_of, tail_runs
from sluiceway.sources.contract import SourceBatch
from sluiceway.sources.missing_rows import hashed_rows


def batch_tail(batch: SourceBatch) -> str:
    """The tail of a fetch; more rows are read only where many equal ones end it."""
    rows, count = len(batch.values), RUNS
    while True:
        first = max(0, rows - count)
        tail = tail_of(hashed_rows(batch, range(first, rows)))
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
