"""Leases of queries that read a table: how far each is, so that nothing goes which it needs.

`readers/<query>.json` says up to which slot a query has read everything for good. As long as the
lease is younger than a day, files that rows of later slots may be read from stay. No row's safety
rests on it: a query whose files are gone stops, and says so.
"""

import hashlib
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from uuid import uuid4

from sluiceway.errors import (
    LedgerMismatchError,
    ReaderNameTakenError,
    StorageUnavailableError,
    WrongUsageError,
)
from sluiceway.host.process import is_alive, own_identity
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.lease import HeldByProcess
from sluiceway.ledger.lease_renewal import Renewal, process_renewals
from sluiceway.storage.contract import Storage
from sluiceway.types.strict_json import BigInt, StrictJsonError, decode, encode

YOUNG_MS = 24 * 3_600_000
"""A lease that was not renewed for so long keeps nothing any more."""

FORGOTTEN_MS = 30 * YOUNG_MS
"""A lease that was not renewed for so long is removed."""

RENEW_INTERVAL_S = 10.0
DEAD_AFTER_S = 40.0
_WATCH_INTERVAL_S = 0.5
_LAST_WAIT_S = 5.0
_VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MOST_CHARS = 100
_KEPT_CHARS = 80
"""Of a longer name; a hash of the whole follows."""


def lease_name(text: str) -> str:
    """A name that a lease can have: the text itself, where it is not too long."""
    if len(text) <= _MOST_CHARS:
        return text
    return f"{text[:_KEPT_CHARS]}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class ReaderLease(HeldByProcess):
    """Content of `readers/<query>.json`.

    Attributes:
        version: Version of the file's form.
        ledger: Uuid of the ledger that is read.
        slot: All rows up to this slot are read and done with; -1 when none are.
        at_ms: When it was renewed last, by the reader's clock.
        reader: Made for each run of the query.
        counter: Rises with each renewal.
        released: The query has ended in good order.
    """

    version: int
    ledger: str
    slot: int
    at_ms: BigInt
    reader: str
    counter: int
    released: bool


def read_reader_lease(storage: Storage, path: str) -> ReaderLease | None:
    """A lease as it stands; None when there is none, or it is unreadable.

    Raises:
        StorageUnavailableError: The store failed.
    """
    raw = storage.read(path)
    try:
        return None if raw is None else decode(raw, ReaderLease)
    except StrictJsonError:
        return None


def slot_of_slowest(storage: Storage, layout: LedgerLayout, now_ms: int) -> int | None:
    """The slot up to which all readers with a young lease are through; None without such a reader.

    Called before something is removed that a reader may need. Leases of long ago are removed.

    Args:
        storage: The table's storage.
        layout: The route's layout.
        now_ms: The clock, since 1970.

    Raises:
        StorageUnavailableError: The store failed; remove nothing.
    """
    slots = []
    for status in storage.list(layout.readers):
        if status.is_dir or not status.path.endswith(".json"):
            continue
        lease = read_reader_lease(storage, status.path)
        if lease is None:
            # Of a newer version, perhaps: what it needs is not known.
            at_ms, slot = status.changed_ms or 0, -1
        else:
            at_ms, slot = int(lease.at_ms), lease.slot
        if now_ms - at_ms < YOUNG_MS:
            slots.append(slot)
        elif now_ms - at_ms >= FORGOTTEN_MS:
            storage.remove(status.path)
    return min(slots, default=None)


class ReaderLeaseKeeper:
    """Keeps the lease of one query while it runs. `start` first; any thread may call.

    Args:
        storage: The table's storage.
        layout: The route's layout.
        query: Name of the query, which no other live query may have.
        ledger: Uuid of the ledger.

    Raises:
        WrongUsageError: The name cannot be the name of a file.
    """

    def __init__(self, storage: Storage, layout: LedgerLayout, query: str, ledger: str) -> None:
        if _NAME.fullmatch(query) is None:
            raise WrongUsageError(
                f"{query[:200]!r} cannot be the name of a query",
                hint='give option("query", ...) up to 100 letters, digits, `.`, `_` and `-`',
            )
        self._storage = storage
        self._path = layout.reader(query)
        self._folder = layout.readers
        self._query = query
        own = own_identity()
        self._lease = ReaderLease(
            _VERSION,
            ledger,
            -1,
            BigInt(0),
            uuid4().hex,
            0,
            released=False,
            host=own.host,
            boot_id=own.boot_id,
            pid=own.pid,
            start_ticks=own.start_ticks,
        )
        self._lock = threading.Lock()
        self._renewal: Renewal | None = None
        self._successor: ReaderLease | None = None

    def start(self, slot: int, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """Take the name, and keep it until `release`.

        Waits for an earlier run that was killed: until its process is gone, or on another host
        until its lease has stood still long enough.

        Args:
            slot: Slot up to which the query has planned everything.
            sleep: Pause between two readings, in seconds.

        Raises:
            ReaderNameTakenError: Another query lives under this name.
            LedgerMismatchError: The lease is of another ledger's query.
            StorageUnavailableError: The store failed.
        """
        before = self._wait_until_free(sleep)
        self._storage.make_folders(self._folder)
        with self._lock:
            # The run before may have planned more than it has done, which is read again.
            done = slot if before is None else min(slot, before.slot)
            self._lease = replace(self._lease, slot=done)
            self._write()
        volume = self._storage.volume(self._path)
        self._renewal = process_renewals().add(volume, self._renew, RENEW_INTERVAL_S)

    def advance(self, slot: int) -> None:
        """Say that everything up to a slot is read for good.

        Raises:
            ReaderNameTakenError: Another query has taken the name.
            StorageUnavailableError: The store failed.
        """
        with self._lock:
            self._check_own()
            if slot > self._lease.slot:
                self._lease = replace(self._lease, slot=slot)
                self._write()

    def check(self) -> None:
        """Check that this query still has the name. Costs nothing.

        Raises:
            ReaderNameTakenError: Another query has taken it.
        """
        if self._successor is not None:
            raise self._taken_by(self._successor)

    def release(self) -> None:
        """Stop, and say that another run need not wait. Safe to repeat; never raises."""
        renewal, self._renewal = self._renewal, None
        if renewal is None or not renewal.end(_LAST_WAIT_S):
            return
        try:
            with self._lock:
                self._check_own()
                self._lease = replace(self._lease, released=True)
                self._write()
        except (ReaderNameTakenError, StorageUnavailableError):
            # The next run waits until this process is gone.
            return

    def _renew(self) -> float | None:
        try:
            with self._lock:
                self._check_own()
                self._write()
        except ReaderNameTakenError:
            return None
        except StorageUnavailableError:
            return RENEW_INTERVAL_S / 2
        return RENEW_INTERVAL_S

    def _write(self) -> None:
        now_ms = BigInt(time.time_ns() // 1_000_000)
        self._lease = replace(self._lease, counter=self._lease.counter + 1, at_ms=now_ms)
        self._storage.overwrite(self._path, encode(self._lease))

    def _check_own(self) -> None:
        held = read_reader_lease(self._storage, self._path)
        if held is not None and held.reader != self._lease.reader:
            self._successor = held
        self.check()

    def _wait_until_free(self, sleep: Callable[[float], None]) -> ReaderLease | None:
        """Wait until no live query has the name; the lease of the one before, if any."""
        first = read_reader_lease(self._storage, self._path)
        if first is not None and first.ledger != self._lease.ledger:
            raise LedgerMismatchError(
                f"query {self._query} has read the ledger {first.ledger}, the table has "
                f"{self._lease.ledger} now",
                where=self._path,
                hint="the table was made again: give the query a new name and a new checkpoint",
            )
        watched_s = 0.0
        while first is not None and not first.released and watched_s < DEAD_AFTER_S:
            lives = is_alive(first.process())
            if lives is False:
                return first
            now = read_reader_lease(self._storage, self._path)
            if now is None or now.released:
                return now
            moves = (now.reader, now.counter) != (first.reader, first.counter)
            # A worker of a query that was killed needs a moment to notice it.
            if moves or (lives and watched_s >= _LAST_WAIT_S):
                raise self._taken_by(now)
            sleep(_WATCH_INTERVAL_S)
            watched_s += _WATCH_INTERVAL_S
        return first

    def _taken_by(self, held: ReaderLease) -> ReaderNameTakenError:
        return ReaderNameTakenError(
            f"another query reads the table under the name `{self._query}`: "
            f"{held.host} pid {held.pid}",
            where=self._path,
            hint='stop it, or give this query a name of its own with option("query", "...")',
        )
