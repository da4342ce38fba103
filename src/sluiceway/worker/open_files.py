"""The files that an attempt has begun or holds rows for, and the memory that these keep."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import BinaryIO

import pyarrow as pa

from sluiceway.sinks.files.contract import TableFile
from sluiceway.storage.contract import FileSeal, StagedWriter, Storage
from sluiceway.worker.plan import Place


class LateWriter(StagedWriter):
    """Until the first byte a partition costs no open file, only the rows that are buffered for it.

    Args:
        storage: The table's storage.
        path: Path of the file.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self.path = path
        self._storage = storage
        self._writer: StagedWriter | None = None

    @property
    def begun(self) -> bool:
        """Whether there is an open file."""
        return self._writer is not None

    @property
    def held_bytes(self) -> int:
        """See `StagedWriter.held_bytes`."""
        return 0 if self._writer is None else self._writer.held_bytes

    def handle(self) -> BinaryIO:
        """See `StagedWriter.handle`; begins the file.

        Raises:
            StorageUnavailableError: It cannot be begun; the attempt is discarded.
        """
        return self._begun().handle()

    def seal(self) -> FileSeal:
        """See `StagedWriter.seal`."""
        return self._begun().seal()

    def abort(self) -> None:
        """See `StagedWriter.abort`."""
        if self._writer is not None:
            self._writer.abort()

    def _begun(self) -> StagedWriter:
        if self._writer is None:
            self._writer = self._storage.create_staged(self.path)
        return self._writer


class SharedRows:
    """Memory that pieces of several partitions share: it is free when the last one is written.

    Args:
        size_bytes: Size of all of it.
    """

    __slots__ = ("pieces", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.pieces = 0


@dataclass(slots=True, eq=False)
class OpenFile:
    """A file that takes rows.

    Attributes:
        place: Its partition, in time or late; None for dirty rows.
        began_s: When its first row came, on the monotonic clock.
        written_s: When its last one did.
        counted_bytes: Size of its buffers, as they were last counted.
        pieces: Shared memory that its rows lie in, and how much of it is theirs.
    """

    place: Place | None
    file: TableFile
    writer: LateWriter
    began_s: float
    written_s: float
    counted_bytes: int = 0
    pieces: list[tuple[SharedRows, int]] = field(default_factory=list)


class OpenFiles:
    """Files by partition, in the order in which they were made. One thread.

    The file of dirty rows is counted here, but is none of them.

    Attributes:
        held_bytes: Memory of all their buffers, shared memory counted until it is free.
        most_begun: The most that had an open file at once.
    """

    def __init__(self) -> None:
        self._by_place: OrderedDict[Place, OpenFile] = OrderedDict()
        # Places with an open file, the one written longest ago first.
        self._begun: OrderedDict[Place, OpenFile] = OrderedDict()
        self.held_bytes = 0
        self.most_begun = 0

    def __len__(self) -> int:
        return len(self._by_place)

    def __iter__(self) -> Iterator[OpenFile]:
        return iter(list(self._by_place.values()))

    @property
    def begun(self) -> int:
        """How many have an open file."""
        return len(self._begun)

    def get(self, place: Place) -> OpenFile | None:
        """The file of a partition that takes rows."""
        return self._by_place.get(place)

    def add(self, place: Place, of: OpenFile) -> None:
        """Take in a new file of a partition."""
        self._by_place[place] = of

    def begun_until(self, time_s: float) -> list[OpenFile]:
        """Files whose first row came at this time or before."""
        # They lie in the order in which their first rows came.
        return list(takewhile(lambda of: of.began_s <= time_s, self._by_place.values()))

    def idle_since(self, time_s: float) -> list[OpenFile]:
        """Open files whose last row came at this time or before."""
        return [of for of in self._begun.values() if of.written_s <= time_s]

    def longest_idle(self, count: int) -> list[OpenFile]:
        """So many open files, the ones whose last rows came longest ago."""
        return list(islice(self._begun.values(), count))

    def write(self, of: OpenFile, rows: pa.RecordBatch, shared: SharedRows | None) -> None:
        """Append rows to a file and count what it keeps.

        Raises:
            TaskFailedError: The rows cannot be written; the attempt is discarded.
            StorageUnavailableError: The store failed; the attempt is discarded.
        """
        before = of.counted_bytes
        of.file.write(rows)
        self._count(of)
        # What was written at once, or copied, keeps nothing of shared memory.
        if shared is not None and of.file.keeps_batches and of.file.flushable_bytes > 0:
            self._share(of, shared, of.counted_bytes - before)
        self._count_begun(of)

    def flush(self, of: OpenFile) -> None:
        """Write what waits in a file's buffers.

        Raises:
            TaskFailedError: The rows cannot be written; the attempt is discarded.
            StorageUnavailableError: The store failed; the attempt is discarded.
        """
        of.file.flush()
        if of.writer.begun:
            # What the storage gathers is memory too.
            of.writer.handle().flush()
        self._count(of)
        self._count_begun(of)

    def remove(self, of: OpenFile) -> None:
        """Let a file go that is about to be closed or dropped."""
        if of.place is not None:
            del self._by_place[of.place]
            self._begun.pop(of.place, None)
        self.held_bytes -= of.counted_bytes
        self._release(of)

    def _count(self, of: OpenFile) -> None:
        now_bytes = of.file.buffered_bytes + of.writer.held_bytes
        self.held_bytes += now_bytes - of.counted_bytes
        of.counted_bytes = now_bytes
        if of.pieces and of.file.flushable_bytes == 0:
            self._release(of)

    def _share(self, of: OpenFile, shared: SharedRows, own_bytes: int) -> None:
        """Count shared memory once for all its files, parts that no file has as its own too."""
        if shared.pieces == 0:
            self.held_bytes += shared.size_bytes
        shared.pieces += 1
        self.held_bytes -= own_bytes
        of.pieces.append((shared, own_bytes))

    def _release(self, of: OpenFile) -> None:
        for shared, own_bytes in of.pieces:
            shared.pieces -= 1
            self.held_bytes += own_bytes
            if shared.pieces == 0:
                self.held_bytes -= shared.size_bytes
        of.pieces = []

    def _count_begun(self, of: OpenFile) -> None:
        if of.place is not None and of.writer.begun:
            self._begun[of.place] = of
            self.most_begun = max(self.most_begun, len(self._begun))
            self._begun.move_to_end(of.place)
