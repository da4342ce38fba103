"""From sorted-out batches to files of one route, within the task's memory."""

import time
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sluiceway.errors import SluicewayError
from sluiceway.ledger.data_parts import NO_LATE_ROWS
from sluiceway.worker.late_rows import LateSplit
from sluiceway.worker.open_files import SharedRows
from sluiceway.worker.plan import Place
from sluiceway.worker.row_files import RowFiles, WrittenFiles
from sluiceway.worker.task_memory import MemoryUser, TaskMemory

Write = Callable[[Place, pa.RecordBatch, SharedRows | None], None]
"""(place, its rows, the memory that they share with others)"""

# With more runs of rows for one partition than this, sorting the batch costs less than the slices.
_RUNS_PER_VALUE = 4
# Pieces smaller than this cost more than their rows do: then batches are gathered first.
MIN_PIECE_ROWS = 256
# With so few partitions in a batch that does not matter, and rows are not kept back.
FEW_PARTITIONS = 32
GATHERED_BYTES = 64 << 20
# A slice keeps the whole batch in memory until it is written. Slices of small partitions wait long
# for that, and would hold the rows of large ones that are written already: they are copied.
_LARGEST_PER_PIECE = 8


class RowSorter:
    """Hands rows on by partition; rows of one source partition keep their order. One thread.

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
            rows: Rows, at least one.
            codes: For each row, its place in `values`.
            values: Values of the partitions.

        Raises:
            StorageUnavailableError: The store failed; the attempt is discarded.
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
            StorageUnavailableError: The store failed; the attempt is discarded.
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


class RowWriter(MemoryUser):
    """Sorts rows by partition, hands them to the files and answers for the memory of both.

    `write` and `poll` run in the thread that writes; `close` and `abort` in the task's, when
    nothing of the route waits there any more.

    Args:
        files: Takes the rows.
        memory: The task's.

    Attributes:
        rows: Clean ones that were written into partitions.
        late_rows: Late ones that were written, by where.
        seconds: Time that writing took.
    """

    def __init__(self, files: RowFiles, memory: TaskMemory) -> None:
        self._files = files
        self._memory = memory
        self._sorter = RowSorter(files.write, gathered_bytes=memory.shares.gathered_bytes)
        self._failure: SluicewayError | None = None
        self.rows = 0
        self.late_rows = NO_LATE_ROWS
        self.seconds = 0.0

    @property
    def held_bytes(self) -> int:
        """See `MemoryUser.held_bytes`."""
        return self._sorter.held_bytes + self._files.held_bytes

    def write(
        self, rows: pa.RecordBatch, going: LateSplit, rejected: pa.RecordBatch | None
    ) -> None:
        """Write what one read came to.

        Args:
            rows: Clean ones.
            going: Where each goes.
            rejected: Dirty rows.

        Raises:
            TaskFailedError: Rows cannot be written.
            StorageUnavailableError: The store failed; the attempt is discarded.
        """
        started = time.monotonic()
        self._raise_failure()
        if rows.num_rows > 0:
            late = going.rows()
            self.rows += rows.num_rows - int(late.side)
            self.late_rows = self.late_rows.plus(late)
            self._sorter.add(rows, going.codes, going.places)
        if rejected is not None:
            self._files.write_dirty(rejected)
        self._memory.balance(self)
        self.seconds += time.monotonic() - started

    def poll(self) -> None:
        """Close files that are due, while no row comes.

        Raises:
            TaskFailedError: A file is not what was written.
            StorageUnavailableError: The store failed; the attempt is discarded.
        """
        self._files.close_due()
        self._memory.balance(self)

    def free(self, kept_bytes: int) -> None:
        """See `MemoryUser.free`; the route itself gets what fails."""
        try:
            if self.held_bytes > kept_bytes:
                self._sorter.flush()
            self._files.free(kept_bytes)
        except SluicewayError as error:
            self._failure = error

    def close(self) -> WrittenFiles:
        """Write what is kept back and close all files. Called once.

        Returns:
            Records of the clean files, of the dirty and of the late ones.

        Raises:
            TaskFailedError: A file is not what was written.
            StorageUnavailableError: The store failed; the attempt is discarded.
        """
        self._memory.leave(self)
        self._raise_failure()
        self._sorter.flush()
        return self._files.close()

    def abort(self) -> None:
        """Drop what is open. Safe to repeat."""
        self._memory.leave(self)
        self._files.abort()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
