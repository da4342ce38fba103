"""A ledger with rows in some partitions, and background work on them next to its driver."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import TypeVar

from sluiceway.errors import FencedError, StorageUnavailableError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.storage.copying import stream_crc32c
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.record_queue import Build, RecordQueue
from tools.ledger_records import data, fence, sources, span

ResultT = TypeVar("ResultT")

EIGHT, NINE, TEN = (f"dt=20261120/hr={hour:02d}" for hour in (8, 9, 10))


def _no_wait(attempts: int, error: StorageUnavailableError) -> None:
    raise AssertionError((attempts, error))


def drive_work(
    record_queue: RecordQueue,
    fold: Callable[[], Fold],
    put: Callable[[Build], int | None],
    work: Callable[[], ResultT],
    between: Callable[[], None] = lambda: None,
) -> ResultT:
    """Do work; its records are put here, as the driver's thread does.

    Args:
        record_queue: Where the work asks.
        fold: The driver's.
        put: Lands a record and publishes its files.
        work: Asks for records.
        between: What the driver does before it puts anything.
    """
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        try:
            while not working.done():
                if record_queue.is_waited_for(fold()):
                    between()
                    with suppress(StorageUnavailableError):
                        # A route whose store fails waits, and goes on.
                        record_queue.serve(put)
                time.sleep(0.001)
        finally:
            record_queue.end(FencedError("the route was left"))
        return working.result()


class WorkedRoute:
    """A ledger with one epoch's file in each partition, and work on them next to its driver.

    Args:
        root: The table's folder.
        partitions: Names of partitions, of which the last `later` ones have no row yet.
    """

    def __init__(self, root: Path, *partitions: str, later: int = 0) -> None:
        layout = LedgerLayout(str(root), "orders")
        self.log = LedgerLog(LocalStorage(), layout)
        for folder in (layout.log, layout.stage):
            self.log.storage.make_folders(folder)
        self.names = partitions or (EIGHT,)
        self._epochs = count()
        self._ends = dict.fromkeys(self.names, 0)
        self.writer = self.driver("d1")
        self.writer.commit(sources(*range(len(self.names))))
        self.begun = 2 + len(self.names)
        for name in self.names[: len(self.names) - later]:
            self.commit_file(name)
        self.begun -= later
        self.record_queue = RecordQueue(self.log, ())
        self.landed: Callable[[str], None] = lambda _: None

    def driver(self, name: str) -> LedgerWriter:
        """One that has taken the ledger over."""
        writer = LedgerWriter(self.log, self.log.fold(), _no_wait)
        writer.fence(fence(driver=name), lambda: None)
        return writer

    def new_queue(self) -> RecordQueue:
        """Another record queue: one that has ended takes no work any more."""
        self.record_queue = RecordQueue(self.log, ())
        return self.record_queue

    def drive(
        self, work: Callable[[], ResultT], between: Callable[[], None] = lambda: None
    ) -> ResultT:
        """As `drive_work`, for this route."""
        return drive_work(self.record_queue, lambda: self.writer.fold, self.put, work, between)

    def commit_file(self, name: str) -> None:
        """An epoch writes four rows more to a partition."""
        number, epoch, end = self.names.index(name), next(self._epochs), self._ends[name] + 4
        body = data(1, epoch, span(number, self._ends[name], end))
        self._ends[name] = end
        content = b"rows %d" % epoch
        file = replace(
            body.files[0],
            final=f"{name}/{body.files[0].final.rpartition('/')[2]}",
            values=("20261120", name[-2:]),
            size_bytes=BigInt(len(content)),
            crc32c=stream_crc32c(BytesIO(content)),
        )
        path = Path(self.log.layout.final(file.final))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self.writer.commit(replace(body, files=(file,)))
        self.writer.set_published()

    def put(self, build: Build) -> int | None:
        """Land a record, as the driver's thread does."""
        committed = self.writer.commit_made(build)
        self.writer.set_published()
        if committed is None:
            return None
        found = self.log.read_slot(committed.seq)
        assert found is not None
        self.landed(found[0].type.value)
        return committed.seq

    def kinds(self) -> list[str]:
        """What was put since the work began."""
        return [record.type.value for record, _ in self.log.records()][self.begun :]
