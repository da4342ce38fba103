"""PUBLISH: committed staged files get their final names; idempotent, in slot order."""

import threading
import time
from collections import deque

from sluiceway.errors import FileLostError, StorageUnavailableError
from sluiceway.host.store_calls import process_calls
from sluiceway.ledger.driver_term import DriverTerm
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.follower import PIECE_S, Follower, LogView
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.placing import all_files
from sluiceway.ledger.records import EpochRecord, FilesRecord
from sluiceway.observe.failpoints import reach
from sluiceway.observe.log import Log
from sluiceway.storage.contract import Storage


class Publisher:
    """Publishes records of one route, one at a time."""

    def __init__(self, storage: Storage, layout: LedgerLayout, log: Log) -> None:
        self._storage = storage
        self._layout = layout
        self._log = log

    def publish(self, record: FilesRecord) -> None:
        """Give every file of a committed record its final name. Safe to repeat.

        Raises:
            FileLostError: A file is neither staged nor at its final name.
            StorageUnavailableError: The store failed; repeat.
        """
        process_calls().each(self._publish_file, all_files(record))

    def _publish_file(self, file: FileRecord) -> None:
        reach("publish.file", file.final)
        self._storage.publish(
            self._layout.attempt(file.staged),
            self._layout.final(file.final),
            size_bytes=int(file.size_bytes),
            crc32c=file.crc32c,
        )

    def drop_attempts(self, record: FilesRecord, results_folder: str = "") -> None:
        """Remove the emptied staged folders of a published record, and its task results, if any.

        The garbage rule allows it. The log has DATA of this term with this epoch, or the REPLACE of
        the intent; every file that it names is at its final name. Anything left is garbage, never
        an error.
        """
        reach("publish.drop", results_folder)
        folders = {file.staged.partition("/")[0] for file in all_files(record)}
        paths = [self._layout.attempt(folder) for folder in sorted(folders)]
        for path in [*paths, *([results_folder] if results_folder else [])]:
            try:
                self._storage.remove(path)
            except StorageUnavailableError as error:
                self._log.info("garbage_left", path=path, error=str(error))


class FilesFollower(Follower):
    """Gives the files of committed records their final names; then the rows are in the table.

    Args:
        publisher: Publisher of the route.
        layout: Layout of its ledger.
        tenure: Checked before files get their names.
        term: Term of the driver, whose task results go with their epoch.
        connection: Servers of the store, as `Follower.connection`.
    """

    name = "files"
    owns_table = True
    publishes = True

    def __init__(
        self,
        publisher: Publisher,
        layout: LedgerLayout,
        tenure: DriverTerm,
        *,
        term: int,
        connection: str = "",
    ) -> None:
        self.connection = connection
        self._publisher = publisher
        self._layout = layout
        self._tenure = tenure
        self._term = term
        self._lock = threading.Lock()
        self._through = 0
        self._owed: deque[tuple[int, FilesRecord]] = deque()

    def update(self, fold: Fold, since: int, *, again: bool = False) -> None:
        """See `Follower.update`: landed records with files; others need nothing."""
        owed = [(seq, body) for seq, body in sorted(fold.unpublished.items()) if seq >= since]
        with self._lock:
            self._owed.extend(owed)
            self._through = fold.next_seq

    def place(self) -> int:
        """See `Follower.place`: the first record with a file without its final name."""
        with self._lock:
            return self._owed[0][0] if self._owed else self._through

    def follow(self, view: LogView) -> int:
        """See `Follower.follow`: one record after the other.

        Raises:
            FileLostError: A file is neither staged nor at its final name.
            FencedError: Another driver has taken over.
            StorageUnavailableError: The store failed.
        """
        until = time.monotonic() + PIECE_S
        while (record := self._first(view)) is not None:
            self._tenure.check()
            try:
                self._publisher.publish(record)
            except FileLostError:
                # A new driver may have published it, and moved its partition since.
                self._tenure.check_now()
                raise
            self._publisher.drop_attempts(record, self._results(record))
            with self._lock:
                self._owed.popleft()
            if view.over() or time.monotonic() >= until:
                break
        return self.place()

    def _results(self, record: FilesRecord) -> str:
        if not isinstance(record, EpochRecord):
            return ""
        return self._layout.results(self._term, record.epoch)

    def _first(self, view: LogView) -> FilesRecord | None:
        with self._lock:
            if not self._owed or self._owed[0][0] >= view.through:
                return None
            return self._owed[0][1]
