"""The lease: advice that keeps two drivers from fighting. Safety never rests on it.

Rewritten every two seconds. A peer reads it and calls its owner dead when the process is gone on
the same boot of the same host, or when the counter stood still for ten seconds of the peer's own
monotonic clock (commit rule 25). No wall clock takes part.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from sluiceway.errors import LeaseHeldError, StorageUnavailableError
from sluiceway.host.process import ProcessIdentity, is_alive
from sluiceway.observe.failpoints import reach
from sluiceway.storage.contract import Storage
from sluiceway.types.strict_json import StrictJsonError, decode, encode

RENEW_INTERVAL_S = 2.0
DEAD_AFTER_S = 10.0
_WATCH_INTERVAL_S = 0.5


@dataclass(frozen=True, slots=True)
class Lease:
    """Content of `lease.json`."""

    driver: str
    term: int
    counter: int
    released: bool
    host: str
    boot_id: str
    pid: int
    start_ticks: int

    def process(self) -> ProcessIdentity:
        """The owner's process."""
        return ProcessIdentity(self.host, self.boot_id, self.pid, self.start_ticks)


def read_lease(storage: Storage, path: str) -> Lease | None:
    """The lease as it stands; None when absent or unreadable (it is advice only)."""
    raw = storage.read(path)
    if raw is None:
        return None
    try:
        return decode(raw, Lease)
    except StrictJsonError:
        return None


def wait_until_free(
    storage: Storage, path: str, *, sleep: Callable[[float], None] = time.sleep
) -> Lease | None:
    """Return when no live driver holds the lease. Called once, before fencing.

    Returns:
        The dead owner's lease, or None when it was free.

    Raises:
        LeaseHeldError: Its counter moves, so its owner lives.
        StorageUnavailableError: The store failed.
    """
    first = read_lease(storage, path)
    if first is None or first.released:
        return None
    watched_since = time.monotonic()
    while time.monotonic() - watched_since < DEAD_AFTER_S:
        if is_alive(first.process()) is False:
            return first
        sleep(_WATCH_INTERVAL_S)
        now = read_lease(storage, path)
        if now is None or now.released:
            return first
        if (now.driver, now.counter) != (first.driver, first.counter):
            raise LeaseHeldError(
                f"a live driver runs this route: {now.host} pid {now.pid}, term {now.term}",
                where=path,
                hint="stop it first; one route has one driver",
            )
    return first


class LeaseKeeper:
    """Rewrites the lease from a thread of its own until stopped."""

    def __init__(self, storage: Storage, path: str, lease: Lease) -> None:
        self._storage = storage
        self._path = path
        self._lease = lease
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        """Write the lease and keep it. Called once, after fencing."""
        self._write()
        self._thread.start()

    def release(self) -> None:
        """Stop and say so, so that a successor need not wait. Safe to repeat."""
        if self._stop.is_set():
            return
        self._stop.set()
        reach("lease.release", self._path)
        if self._thread.is_alive():
            self._thread.join(DEAD_AFTER_S)
        held = self._try_read()
        # A fenced driver leaves its successor's lease alone.
        if held is not None and held.driver == self._lease.driver:
            self._lease = replace(self._lease, released=True)
            self._write()

    def _run(self) -> None:
        while not self._stop.wait(RENEW_INTERVAL_S):
            reach("lease.renew", self._path)
            held = self._try_read()
            if held is not None and held.term > self._lease.term:
                return
            self._lease = replace(self._lease, counter=self._lease.counter + 1)
            self._write()

    def _try_read(self) -> Lease | None:
        try:
            return read_lease(self._storage, self._path)
        except StorageUnavailableError:
            return None

    def _write(self) -> None:
        try:
            self._storage.overwrite(self._path, encode(self._lease))
        except StorageUnavailableError:
            # A lease that is not renewed costs a needless takeover, never a row.
            return
