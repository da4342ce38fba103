"""Whether a driver has a route, told by its lease: by its process here, by its beat elsewhere."""

import time
from collections.abc import Callable

from sluiceway.host.process import is_alive
from sluiceway.ledger.lease import DEAD_AFTER_S, Lease, read_lease
from sluiceway.storage.contract import Storage


class LeaseWatch:
    """Of one route. Looked at again and again; used by one thread.

    Args:
        storage: Of the table.
        path: Of the lease.
        clock: Monotonic seconds.
    """

    def __init__(
        self, storage: Storage, path: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._storage = storage
        self._path = path
        self._clock = clock
        self._observed: Lease | None = None
        self._since = clock()
        self._moves = False

    def check(self) -> bool | None:
        """Whether a driver has it; None as long as one on another host was not watched enough.

        Raises:
            StorageUnavailableError: The store failed.
        """
        lease = read_lease(self._storage, self._path)
        if lease is None or lease.released:
            return False
        lives = is_alive(lease.process())
        if lives is not None:
            return lives
        if lease != self._observed:
            self._moves = self._observed is not None
            self._observed, self._since = lease, self._clock()
        elif self._clock() - self._since >= DEAD_AFTER_S:
            return False
        return True if self._moves else None
