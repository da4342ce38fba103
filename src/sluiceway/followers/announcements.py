"""Sends announcements to receivers, apart from commits: at least once, in order, with a key.

Each receiver has its own place. The ledger holds the announcements. The file `told-<receiver>.json`
holds only how far they were sent, so that a restart does not begin at slot 0.
"""

import json
import threading
import time
from abc import ABC, abstractmethod
from bisect import insort
from dataclasses import dataclass

from sluiceway.errors import LedgerCorruptError, Retriable, SluicewayError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.follower import PIECE_S, Follower, LogView
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import ReadyRecord
from sluiceway.ledger.records import FenceRecord
from sluiceway.storage.contract import Storage
from sluiceway.types.strict_json import StrictJsonError, decode, encode

_MOST_PARTITIONS = 1000
_MOST_NAME_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Announcement:
    """A message to a receiver.

    Attributes:
        key: Unique and constant key of the announcement: ledger, prefix, version.
        body: Canonical JSON.
    """

    key: str
    body: bytes


class Receiver(ABC):
    """A system that receives announcements."""

    name: str

    @abstractmethod
    def send(self, announcement: Announcement) -> None:
        """Send it; returns when the receiver has confirmed it. Called again after any failure.

        Raises:
            SluicewayError: The receiver failed, or its answer is not known. Holds no secret.
        """

    def close(self) -> None:
        """Release connections, until something is sent again. Safe to repeat."""
        return


@dataclass(frozen=True, slots=True)
class _Told:
    through: int


def announcement_of(fence: FenceRecord, body: ReadyRecord, ready_seq: int) -> Announcement:
    """The announcement of a READY record.

    Args:
        fence: The FENCE record of the ledger.
        body: Body of the READY record.
        ready_seq: Slot of the READY record.
    """
    key = f"{fence.ledger}:{body.prefix}:{body.version}"
    told: dict[str, object] = {
        "idempotency_key": key,
        "job": fence.job,
        "route": fence.route,
        "ledger": fence.ledger,
        "table": f"{fence.table.database}.{fence.table.name}",
        "prefix": body.prefix,
        "version": body.version,
        "ready_seq": ready_seq,
        "as_of_seq": body.as_of_seq,
        "rows": int(body.rows),
        "files": int(body.files),
        "whole": body.whole,
    }
    named = _named(body)
    told["partitions"] = named
    if len(body.partitions) > len(named):
        told["more_partitions"] = len(body.partitions) - len(named)
    return Announcement(key, json.dumps(told, sort_keys=True, separators=(",", ":")).encode())


def _named(body: ReadyRecord) -> list[str]:
    """Partitions in the announcement: no more than any receiver takes, however many have rows."""
    named: list[str] = []
    left = _MOST_NAME_BYTES
    for each in body.partitions[:_MOST_PARTITIONS]:
        left -= len(json.dumps(each.partition))
        if left < 0:
            break
        named.append(each.partition)
    return named


class Announcer(Follower):
    """Sends announcements to one receiver.

    Args:
        receiver: The receiver; closed by this.
        ledger: Log of the route, to read.
    """

    after: tuple[str, ...] = ("catalog",)

    def __init__(self, receiver: Receiver, ledger: LedgerLog) -> None:
        self.name = f"tell-{receiver.name}"
        self.connection = f"receiver {ledger.layout.route} {receiver.name}"
        self._receiver = receiver
        self._ledger = ledger
        self._path = ledger.layout.announced(receiver.name)
        self._waiting: list[int] = []
        self._through = 0
        self._first = 0
        self._fence: FenceRecord | None = None
        self._lock = threading.Lock()

    def find_first(self, fold: Fold) -> None:
        """Find the receiver's first slot, and keep it for the next driver.

        The route's own thread calls it at START, before this driver writes anything after its
        fence. Announcements from then on are sent, whatever happens to this process. The ledger's
        `effects_through` rises with each record, so a later look would miss some.

        Args:
            fold: State of the ledger at START.

        Raises:
            StorageUnavailableError: The store failed.
            FencedError: Another driver has taken over.
        """
        storage = self._ledger.storage
        raw = storage.read(self._path)
        try:
            told = None if raw is None else decode(raw, _Told)
        except StrictJsonError:
            told = None
        if told is None:
            told = _Told(fold.effects_through)
            self._ledger.check_held()
            storage.overwrite(self._path, encode(told))
        self._first = told.through

    def update(self, fold: Fold, since: int, *, again: bool = False) -> None:
        """See `Follower.update`: collects the announcements to send."""
        if again:
            self._fence = fold.first_fence
            since = max(since, self._first)
        slots = [each.ready_seq for each in fold.closed.values() if each.version]
        with self._lock:
            for slot in slots:
                if slot >= since:
                    insort(self._waiting, slot)
            self._through = fold.next_seq

    def place(self) -> int:
        """See `Follower.place`."""
        with self._lock:
            return self._waiting[0] if self._waiting else self._through

    @property
    def waiting(self) -> int:
        """Announcements that the receiver does not have yet."""
        with self._lock:
            return len(self._waiting)

    @property
    def first_waiting(self) -> int | None:
        """Slot of the first announcement that the receiver lacks; None when it has all."""
        with self._lock:
            return min(self._waiting, default=None)

    def waits(self) -> str:
        """See `Follower.waits`."""
        waiting = self.waiting
        return f"{waiting} announcements wait" if waiting else ""

    def follow(self, view: LogView) -> int:
        """See `Follower.follow`: one announcement after the other.

        Raises:
            SluicewayError: The receiver does not have it, or that is not known.
        """
        until = time.monotonic() + PIECE_S
        try:
            while (slot := self.first_waiting) is not None and slot < view.through:
                self._log_slot(slot)
                if view.over() or time.monotonic() >= until:
                    break
        except SluicewayError:
            raise
        except Exception as error:  # noqa: BLE001 - a library's own words may hold an address
            # with a secret: neither they nor the stack are logged.
            raise Retriable(f"{type(error).__name__} while it was sent") from None
        return self.place()

    def close(self) -> None:
        """See `Follower.close`; the next driver sends what is left."""
        self._receiver.close()

    def _log_slot(self, slot: int) -> None:
        announcement = self._read(slot)
        self._ledger.check_held()
        self._receiver.send(announcement)
        self._ledger.storage.overwrite(self._path, encode(_Told(slot + 1)))
        with self._lock:
            self._waiting.remove(slot)
            done = not self._waiting
        if done:
            # The next announcement may be an hour away, and there may be a thousand routes.
            self._receiver.close()

    def _read(self, slot: int) -> Announcement:
        found = self._ledger.read_slot(slot)
        body = None if found is None else found[0].body
        if not isinstance(body, ReadyRecord) or self._fence is None:
            raise LedgerCorruptError(f"slot {slot} is no READY, and one was there")
        return announcement_of(self._fence, body, slot)


def announced_through(storage: Storage, layout: LedgerLayout, receiver: str) -> int:
    """Slot below which a receiver has all announcements, as a driver last wrote it.

    Raises:
        StorageUnavailableError: The store failed.
    """
    raw = storage.read(layout.announced(receiver))
    try:
        return 0 if raw is None else decode(raw, _Told).through
    except StrictJsonError:
        return 0
