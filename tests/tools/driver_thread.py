"""A driver's thread over a table on disk, for what works next to a driver."""

import threading
import time
from typing import TypeVar

from sluiceway.upkeep.record_queue import Build, RecordQueue
from tools.table_on_disk import TableOnDisk

PATIENCE_S = 120.0

Body = TypeVar("Body")


class Driver:
    """Puts what is asked for, one after the other, between what the test commits.

    Attributes:
        table: Whose log it writes.
        record_queue: Takes what is asked for.
        turn: Held while it puts; a test that commits itself holds it.
    """

    def __init__(self, table: TableOnDisk) -> None:
        self.table = table
        self.record_queue = RecordQueue(table.log, ())
        self.turn = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            with self.turn:
                self.record_queue.serve(self._put)
            time.sleep(0.005)

    def _put(self, build: Build) -> int | None:
        committed = self.table.writer.commit_made(build)
        self.table.writer.set_published()
        return None if committed is None else committed.seq

    def end(self) -> None:
        """Its last turn is over when this returns."""
        self._over.set()
        self._thread.join(PATIENCE_S)

    def put(self, kind: type[Body]) -> list[Body]:
        """Bodies of this kind in the log, in order."""
        bodies = [record.body for record, _ in self.table.log.records()]
        return [body for body in bodies if isinstance(body, kind)]
