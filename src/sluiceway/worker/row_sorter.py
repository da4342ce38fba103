"""Cuts rows into those of each partition; where these are many, many batches at once."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sluiceway.worker.open_files import SharedRows
from sluiceway.worker.places import Place

Write = Callable[[Place, pa.RecordBatch, SharedRows | None], None]
"""(place, its rows, the memory that they share with others)"""

# With more runs of rows for one partition than this, sorting the batch costs less than the slices.
_RUNS_PER_VALUE = 4
# Pieces smaller than this cost more than their rows do: then batches are gathered first.
MIN_PIECE_ROWS = 256
# With so few partitions in a batch that does not matter, and rows are not kept back.
FEW_PARTITIONS = 32
GATHERED_BYTES = 64 << 20
# A slice keeps the whole batch in memory until it is written. Those of small partitions wait long
# for that, and would hold the rows of large ones that are written already: they are copied.
_LARGEST_PER_PIECE = 8


class RowSorter:
    """Hands rows on by partition, those of one source partition in their order. One thread.

    Args:
        write: Takes the rows of one partition.
        gathered_bytes: So much is kept back at most; a single batch may be larger.
    """

    def __init__(self, write: Write, *, gathered_bytes: int = GATHERED_BYTES) -> None:
        self._write = write
        self._gathered_bytes = gathered_bytes
        self._held: list[pa.RecordBatch] = []
        self._held_codes: list[NDArray[np.int32]] = []
        self._held_bytes = 0
        self._codes: dict[Place, int] = {}

    @property
    def held_bytes(self) -> int:
        """Memory of what is kept back."""
        return self._held_bytes

    def add(self, rows: pa.RecordBatch, codes: NDArray[np.int32], values: Sequence[Place]) -> None:
        """Take a batch.

        Args:
            rows: At least one.
            codes: Of each row, its place in `values`.
            values: Of the partitions.

        Raises:
            StorageUnavailableError: The store failed; the attempt is thrown away.
        """
        few = len(values) <= FEW_PARTITIONS
        if not self._held and (few or rows.num_rows >= MIN_PIECE_ROWS * len(values)):
            self._cut(rows, codes, values)
            return
        numbers = [self._codes.setdefault(one, len(self._codes)) for one in values]
        self._held.append(rows)
        self._held_codes.append(np.array(numbers, np.int32)[codes])
        self._held_bytes += rows.nbytes
        if self._held_bytes >= self._gathered_bytes:
            self.flush()

    def flush(self) -> None:
        """Hand on what is kept back.

        Raises:
            StorageUnavailableError: The store failed; the attempt is thrown away.
        """
        if not self._held:
            return
        rows, codes = pa.concat_batches(self._held), np.concatenate(self._held_codes)
        values = list(self._codes)
        self._held, self._held_codes, self._held_bytes, self._codes = [], [], 0, {}
        self._cut(rows, codes, values)

    def _cut(self, rows: pa.RecordBatch, codes: NDArray[np.int32], values: Sequence[Place]) -> None:
        starts = np.concatenate(([0], np.flatnonzero(codes[1:] != codes[:-1]) + 1))
        if len(starts) <= _RUNS_PER_VALUE * len(values):
            # Rows that follow each other go to one place: slices do, nothing is copied.
            self._hand_on(rows, [values[codes[begin]] for begin in starts], [*starts, len(codes)])
            return
        # Stable, so rows of one source partition keep their order in each file.
        order = np.argsort(codes, kind="stable")
        ordered = rows.take(pa.array(order))
        cuts = np.searchsorted(codes[order], np.arange(len(values) + 1))
        self._hand_on(ordered, values, cuts.tolist())

    def _hand_on(self, rows: pa.RecordBatch, values: Sequence[Place], cuts: Sequence[int]) -> None:
        largest = int(np.diff(cuts).max())
        shared = SharedRows(rows.nbytes)
        for value, begin, end in zip(values, cuts[:-1], cuts[1:], strict=True):
            if (end - begin) * _LARGEST_PER_PIECE < largest:
                if end > begin:
                    self._write(value, rows.take(pa.array(np.arange(begin, end))), None)
            else:
                self._write(value, rows.slice(begin, end - begin), shared)
