"""PUBLISH: committed staged files get their final names; idempotent, in slot order."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from sluiceway.errors import StorageUnavailableError
from sluiceway.job.prepare import all_files
from sluiceway.ledger.file_records import FileRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.records import EpochRecord
from sluiceway.observe.failpoints import reach
from sluiceway.observe.log import Log
from sluiceway.storage.contract import Storage

_PARALLEL = 8

OnPublishWait = Callable[[StorageUnavailableError, float], None]


class Publisher:
    """Publishes records of one route. Used by the driver's thread only."""

    def __init__(self, storage: Storage, layout: LedgerLayout, log: Log) -> None:
        self._storage = storage
        self._layout = layout
        self._log = log
        self._pool = ThreadPoolExecutor(_PARALLEL, thread_name_prefix="publish")

    def publish(self, record: EpochRecord) -> None:
        """Give every file of a committed record its final name. Safe to repeat.

        Raises:
            FileLostError: A file is neither staged nor at its final name.
            StorageUnavailableError: The store failed; repeat.
        """
        # list() waits for all and raises the first error.
        list(self._pool.map(self._publish_file, all_files(record)))

    def publish_until_done(
        self, record: EpochRecord, pauses_s: tuple[float, float], on_wait: OnPublishWait
    ) -> None:
        """Publish, however long the store takes: the record has landed.

        Args:
            record: What was committed.
            pauses_s: The first pause and the longest one.
            on_wait: Told before each pause what failed, and how long it is.

        Raises:
            FileLostError: As in `publish`.
        """
        pause_s, longest_s = pauses_s
        while True:
            try:
                self.publish(record)
            except StorageUnavailableError as error:
                on_wait(error, pause_s)
            else:
                return
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, longest_s)

    def _publish_file(self, file: FileRecord) -> None:
        reach("publish.file", file.final)
        self._storage.publish(
            self._layout.attempt(file.staged),
            self._layout.final(file.final),
            size_bytes=int(file.size_bytes),
            crc32c=file.crc32c,
        )

    def drop_attempts(self, record: EpochRecord, results_folder: str) -> None:
        """Remove the emptied attempt folders of a published record, and its task results.

        The garbage rule allows it: the log has DATA of this term with this epoch, and every file
        that it names is at its final name. What stays behind is garbage, never an error.
        """
        reach("publish.drop", results_folder)
        folders = {file.staged.partition("/")[0] for file in all_files(record)}
        for folder in [*sorted(folders), None]:
            path = results_folder if folder is None else self._layout.attempt(folder)
            try:
                self._storage.remove(path)
            except StorageUnavailableError as error:
                self._log.info("garbage_left", path=path, error=str(error))

    def close(self) -> None:
        """Release the threads. Safe to repeat."""
        self._pool.shutdown()
