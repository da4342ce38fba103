"""PUBLISH: committed staged files get their final names; idempotent, in slot order."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from sluiceway.errors import FileLostError, StorageUnavailableError
from sluiceway.job import patience
from sluiceway.job.prepare import all_files
from sluiceway.ledger.file_records import FileRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.partition_records import ReplaceRecord
from sluiceway.ledger.records import EpochRecord
from sluiceway.observe.failpoints import reach
from sluiceway.observe.log import Log
from sluiceway.storage.contract import Storage

_PARALLEL = 8


class Publisher:
    """Publishes records of one route. Used by the driver's thread only."""

    def __init__(self, storage: Storage, layout: LedgerLayout, log: Log) -> None:
        self._storage = storage
        self._layout = layout
        self._log = log
        self._pool = ThreadPoolExecutor(_PARALLEL, thread_name_prefix="publish")

    def publish(self, record: EpochRecord | ReplaceRecord) -> None:
        """Give every file of a committed record its final name. Safe to repeat.

        Raises:
            FileLostError: A file is neither staged nor at its final name.
            StorageUnavailableError: The store failed; repeat.
        """
        # list() waits for all and raises the first error.
        list(self._pool.map(self._publish_file, all_files(record)))

    def _publish_file(self, file: FileRecord) -> None:
        reach("publish.file", file.final)
        self._storage.publish(
            self._layout.attempt(file.staged),
            self._layout.final(file.final),
            size_bytes=int(file.size_bytes),
            crc32c=file.crc32c,
        )

    def drop_attempts(self, record: EpochRecord | ReplaceRecord, results_folder: str = "") -> None:
        """Remove the emptied staged folders of a published record, and its task results, if any.

        The garbage rule allows it: the log has DATA of this term with this epoch, or the REPLACE
        of the intent, and every file that it names is at its final name. What stays behind is
        garbage, never an error.
        """
        reach("publish.drop", results_folder)
        folders = {file.staged.partition("/")[0] for file in all_files(record)}
        paths = [self._layout.attempt(folder) for folder in sorted(folders)]
        for path in [*paths, *([results_folder] if results_folder else [])]:
            try:
                self._storage.remove(path)
            except StorageUnavailableError as error:
                self._log.info("garbage_left", path=path, error=str(error))

    def close(self) -> None:
        """Release the threads. Safe to repeat."""
        self._pool.shutdown()


def publish_patiently(
    publisher: Publisher,
    record: EpochRecord | ReplaceRecord,
    look: Callable[[], None],
    on_wait: Callable[[StorageUnavailableError, float], None],
) -> None:
    """Publish a record, however long the store takes: it has landed.

    Args:
        publisher: Of the route.
        record: Committed.
        look: Reads what others have put into the log.
        on_wait: Told of each failure of the store, and of the seconds to the next try.

    Raises:
        FileLostError: A file is neither staged nor at its final name.
        FencedError: Another driver has taken over.
    """
    pause_s = patience.FIRST_RETRY_S
    while True:
        try:
            publisher.publish(record)
        except FileLostError:
            # Whoever took over may have published it, and moved its partition since.
            look()
            raise
        except StorageUnavailableError as error:
            on_wait(error, pause_s)
        else:
            return
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, patience.LONGEST_RETRY_S)
