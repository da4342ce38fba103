"""The lease: advice that keeps two drivers from fighting. Safety never rests on it.

Rewritten every two seconds. A peer reads it and calls its owner dead in two cases (commit rule 25).
The process is gone on the same boot of the same host, or the counter stood still for ten seconds of
the peer's own monotonic clock. No wall clock takes part.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import ClassVar

from sluiceway.errors import LeaseHeldError, StorageUnavailableError
from sluiceway.host.process import ProcessIdentity, is_alive
from sluiceway.ledger.lease_renewal import Renewal, process_renewals
from sluiceway.observe.failpoints import reach
from sluiceway.storage.contract import Storage
from sluiceway.types.strict_json import StrictJsonError, decode, encode

RENEW_INTERVAL_S = 2.0
DEAD_AFTER_S = 10.0
_WATCH_INTERVAL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldByProcess:
    """What every lease says of its owner: a `ProcessIdentity`, field by field."""

    host: str
    boot_id: str
    pid: int
    start_ticks: int

    def process(self) -> ProcessIdentity:
        """The owner's process."""
        return ProcessIdentity(self.host, self.boot_id, self.pid, self.start_ticks)


@dataclass(frozen=True, slots=True)
class Lease(HeldByProcess):
    """Content of `lease.json`.

    Attributes:
        room: Room of the driver; empty for a job without rooms.
        digest: Digest of its job file, without `rooms` and secrets; empty without rooms.
        released_to: Room that it was released to; empty for any.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"room", "digest", "released_to"})
    driver: str
    term: int
    counter: int
    released: bool
    room: str = ""
    digest: str = ""
    released_to: str = ""


def read_lease(storage: Storage, path: str) -> Lease | None:
    """The lease as it stands; None when absent or unreadable (it is advice only)."""
    raw = storage.read(path)
    return None if raw is None else _decoded(raw)


def _decoded(raw: bytes) -> Lease | None:
    try:
        return decode(raw, Lease)
    except StrictJsonError:
        return None


def wait_until_free(
    storage: Storage, path: str, *, sleep: Callable[[float], None] = time.sleep
) -> Lease | None:
    """Return when no live driver holds the lease. Called once, before fencing.

    Returns:
        The last lease that was seen, when its owner is dead or has released it; None when there is
        none, or it is unreadable.

    Raises:
        LeaseHeldError: Its counter moves, so its owner lives.
        StorageUnavailableError: The store failed.
    """
    first = read_lease(storage, path)
    if first is None or first.released:
        return first
    watched_since = time.monotonic()
    while time.monotonic() - watched_since < DEAD_AFTER_S:
        if is_alive(first.process()) is False:
            return first
        sleep(_WATCH_INTERVAL_S)
        now = read_lease(storage, path)
        if now is None or now.released:
            return now
        if (now.driver, now.counter) != (first.driver, first.counter):
            raise held_by(now, path)
    return first


def held_by(lease: Lease, path: str) -> LeaseHeldError:
    """The error for a driver that finds the lease of a live one."""
    room = f" in room {lease.room}" if lease.room else ""
    error = LeaseHeldError(
        f"a live driver runs this route: {lease.host} pid {lease.pid}{room}, term {lease.term}",
        where=path,
        hint="stop it first; one route has one driver. If it hangs, name its term to replace it",
    )
    evidence = {"host": lease.host, "pid": lease.pid, "term": lease.term}
    # Each route of a job has terms of its own, so its name goes with the term.
    named = f"{PurePosixPath(path).parent.name}={lease.term}"
    error.with_report(evidence, ("sluiceway status JOB", f"sluiceway run JOB --takeover {named}"))
    return error


class LeaseKeeper:
    """Keeps one lease: written at once, then again and again until it is released.

    The threads are those of the process (`lease_renewal`). Leases whose volumes differ do not
    wait for each other.

    Attributes:
        successor: The lease of a higher term that was found in its place; any thread may read it.
    """

    def __init__(self, storage: Storage, path: str, lease: Lease) -> None:
        self._storage = storage
        self._path = path
        self._lease = lease
        self._written: bytes | None = None
        self._renewal: Renewal | None = None
        self._released = False
        self.successor: Lease | None = None

    def start(self) -> None:
        """Write the lease and keep it. Called once, after fencing."""
        try:
            self._write()
            volume = self._storage.volume(self._path)
        except StorageUnavailableError:
            # A lease that is not written costs a needless takeover, never a row.
            volume = self._path
        self._renewal = process_renewals().add(volume, self.renew, RENEW_INTERVAL_S)

    def release(self, to: str = "") -> None:
        """Stop and say so, so that a successor need not wait. Safe to repeat.

        Args:
            to: Room that is to take over; empty for any.
        """
        if self._released:
            return
        self._released = True
        reach("lease.release", self._path)
        if self._renewal is not None and not self._renewal.end(DEAD_AFTER_S):
            # The store hangs. A write of ours might come before the one that hangs.
            return
        try:
            held = read_lease(self._storage, self._path)
            # A fenced driver leaves its successor's lease alone.
            own = self._lease.driver, self._lease.term
            if held is not None and (held.driver, held.term) == own:
                self._lease = replace(self._lease, released=True, released_to=to)
                self._write()
        except StorageUnavailableError:
            # The successor waits until the counter has stood still for long enough.
            return

    def renew(self) -> float | None:
        """Count up, once. Called by a thread of the process's renewals.

        Returns:
            Seconds until the next time; None when another driver has fenced this one.
        """
        reach("lease.renew", self._path)
        try:
            raw = self._storage.read(self._path)
            if raw is not None and raw != self._written and self._is_successors(raw):
                return None
            self._lease = replace(self._lease, counter=self._lease.counter + 1)
            self._write()
        except StorageUnavailableError:
            # Leave it alone for a little longer; a peer still sees two renewals before it gives up.
            return 2 * RENEW_INTERVAL_S
        return RENEW_INTERVAL_S

    def _is_successors(self, raw: bytes) -> bool:
        held = _decoded(raw)
        if held is None or held.term <= self._lease.term:
            return False
        self.successor = held
        return True

    def _write(self) -> None:
        content = encode(self._lease)
        self._storage.overwrite(self._path, content)
        self._written = content
