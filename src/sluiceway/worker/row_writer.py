"""From sorted-out batches to files of one route, within the task's memory."""

import time

import pyarrow as pa

from sluiceway.errors import SluicewayError
from sluiceway.ledger.late_records import NO_LATE_ROWS
from sluiceway.worker.late_rows import LateSplit
from sluiceway.worker.row_files import RowFiles, WrittenFiles
from sluiceway.worker.row_sorter import RowSorter
from sluiceway.worker.task_memory import MemoryUser, TaskMemory


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
        seconds: That writing took.
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
            StorageUnavailableError: The store failed; the attempt is thrown away.
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
            StorageUnavailableError: The store failed; the attempt is thrown away.
        """
        self._files.close_due()
        self._memory.balance(self)

    def free(self, kept_bytes: int) -> None:
        """See `MemoryUser.free`; what fails is told to the route itself."""
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
            StorageUnavailableError: The store failed; the attempt is thrown away.
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
