"""Room for one more record on a full disk (commit-protocol, Crash points).

An epoch whose files are written and closed should not wait for its record because the last bytes
of the disk went elsewhere. The reserve is given up when a record finds no room, and made again
when there is some.
"""

import os

from sluiceway.errors import StorageUnavailableError
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.storage.contract import Storage

SIZE_BYTES = 128 << 10
"""More than nearly all records; a thousand routes hold 128 MiB."""


class SlotReserve:
    """One route's reserve. Owned by its writer."""

    def __init__(self, storage: Storage, layout: LedgerLayout) -> None:
        self._storage = storage
        self._path = layout.reserve
        self._held = False

    def hold(self) -> None:
        """Make it, unless it is there. Called after each commit; never fails."""
        if self._held:
            return
        try:
            status = self._storage.status(self._path)
            if status is None or status.size_bytes != SIZE_BYTES:
                # Bytes that no file system can make smaller.
                self._storage.overwrite(self._path, os.urandom(SIZE_BYTES))
            self._held = True
        except StorageUnavailableError:
            # A disk that is full already has no room to set aside; the next commit tries again.
            return

    def give_up(self) -> bool:
        """Make room for a record; whether there was any to make.

        Raises:
            StorageUnavailableError: The store failed.
        """
        # Also one that an earlier driver has laid aside.
        if self._storage.status(self._path) is None:
            return False
        self._storage.remove(self._path)
        self._held = False
        return True
