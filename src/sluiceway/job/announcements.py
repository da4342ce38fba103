"""Tells others of announcements, beside the commits: at least once, in order, with a key.

Each receiver has a thread and a place of its own. The ledger says what there is to tell; the file
`told-<receiver>.json` only how far that was done, so that a restart does not begin at slot 0.
"""

import json
import threading
from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sluiceway.errors import LedgerCorruptError, Retriable, SluicewayError
from sluiceway.ledger.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import ReadyRecord
from sluiceway.ledger.records import FenceRecord
from sluiceway.observe.log import Log
from sluiceway.storage.contract import Storage
from sluiceway.types.strict_json import StrictJsonError, decode, encode

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 300.0
_LAST_WAIT_S = 5.0
_MOST_PARTITIONS = 1000
_MOST_NAME_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a receiver is told.

    Attributes:
        key: Of this announcement for ever: ledger, prefix, version.
        body: Canonical JSON.
    """

    key: str
    body: bytes


class Receiver(ABC):
    """Somebody who is told of announcements."""

    name: str

    @abstractmethod
    def send(self, announcement: Announcement) -> None:
        """Tell it; returns when it has said that it knows. Called again after any failure.

        Raises:
            SluicewayError: It did not, or nobody knows. Holds no secret.
        """

    def close(self) -> None:
        """Release connections, until something is sent again. Safe to repeat."""
        return


@dataclass(frozen=True, slots=True)
class _Told:
    through: int


def announcement_of(fence: FenceRecord, body: ReadyRecord, ready_seq: int) -> Announcement:
    """What is told of a READY record.

    Args:
        fence: The ledger's.
        body: Of the record.
        ready_seq: Its slot.
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
    """Partitions that are told by name: no more than any receiver takes, whatever rows say."""
    named: list[str] = []
    left = _MOST_NAME_BYTES
    for each in body.partitions[:_MOST_PARTITIONS]:
        left -= len(json.dumps(each.partition))
        if left < 0:
            break
        named.append(each.partition)
    return named


class Teller:
    """Tells one receiver, from a thread of its own.

    Args:
        receiver: Closed by this.
        ledger_log: Of the route, to read.
        log: Of the route.

    Attributes:
        trouble: Why the receiver does not know what it should; None when it does. Any thread may
            look.
    """

    def __init__(self, receiver: Receiver, ledger_log: LedgerLog, log: Log) -> None:
        self._receiver = receiver
        self._ledger_log = ledger_log
        self._log = log
        self._path = ledger_log.layout.told(receiver.name)
        self._waiting: list[int] = []
        self._shown_through = 0
        self._effects_through = 0
        self._fence: FenceRecord | None = None
        self._state = threading.Condition()
        self._closed = self._known = False
        self.trouble: SluicewayError | None = None
        self._thread = threading.Thread(target=self._run, name=f"tell-{receiver.name}", daemon=True)

    def begin(self, fold: Fold) -> None:
        """Go on where the receiver was left. Called once, at START, by the driver's thread."""
        self._fence = fold.first_fence
        self._effects_through = fold.effects_through
        self.want(each.ready_seq for each in fold.closed.values() if each.version)
        self._thread.start()

    def want(self, slots: Iterable[int]) -> None:
        """Have announcements told, once they are shown. Returns at once."""
        with self._state:
            for slot in slots:
                insort(self._waiting, slot)
            self._state.notify_all()

    def shown(self, through: int) -> None:
        """The catalog has what all records below this slot ask for, but for what is parked."""
        with self._state:
            self._shown_through = max(self._shown_through, through)
            self._state.notify_all()

    @property
    def waiting(self) -> int:
        """Announcements that it was not told of."""
        with self._state:
            return len(self._waiting)

    @property
    def shown_trouble(self) -> str:
        """Who waits for what, in words."""
        return f"{self._receiver.name}: {self.waiting} announcements wait: {self.trouble}"

    def close(self) -> None:
        """End; what was not told is told by the next driver. Safe to repeat."""
        with self._state:
            self._closed = True
            self._state.notify_all()
        if self._thread.is_alive():
            self._thread.join(_LAST_WAIT_S)

    def _due(self) -> bool:
        return bool(self._waiting) and self._waiting[0] < self._shown_through

    def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        try:
            while True:
                with self._state:
                    self._state.wait_for(lambda: self._closed or not self._known or self._due())
                    if self._closed:
                        return
                failure = self._try(self._tell if self._known else self._go_on)
                if failure is None:
                    pause_s = _FIRST_PAUSE_S
                    continue
                self._log.warning(
                    "announcement_waits",
                    target=self._receiver.name,
                    waiting=self.waiting,
                    error=str(failure),
                    retry_in_s=pause_s,
                )
                with self._state:
                    self._state.wait_for(lambda: self._closed, pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        finally:
            self._receiver.close()

    def _go_on(self) -> None:
        """Forget what it was told of."""
        storage, through = self._ledger_log.storage, self._effects_through
        raw = storage.read(self._path)
        try:
            through = through if raw is None else decode(raw, _Told).through
        except StrictJsonError:
            raw = None
        if raw is None:
            # What is announced from now on is told, whatever happens to this process.
            storage.overwrite(self._path, encode(_Told(through)))
        with self._state:
            self._waiting = [slot for slot in self._waiting if slot >= through]
            self._known = True

    def _tell(self) -> None:
        slot = self._waiting[0]
        self._receiver.send(self._read(slot))
        self._ledger_log.storage.overwrite(self._path, encode(_Told(slot + 1)))
        with self._state:
            self._waiting.remove(slot)
            done = not self._waiting
        if done:
            # The next one may be an hour away, and there may be a thousand routes.
            self._receiver.close()

    def _try(self, act: Callable[[], None]) -> SluicewayError | None:
        try:
            act()
        except SluicewayError as error:
            self.trouble = error
        except Exception as error:  # noqa: BLE001 - the thread's boundary: never end silently
            # A library's own words may hold an address with a secret.
            self.trouble = Retriable(f"{type(error).__name__} while it was told")
        else:
            self.trouble = None
        return self.trouble

    def _read(self, slot: int) -> Announcement:
        found = self._ledger_log.read_slot(slot)
        body = None if found is None else found[0].body
        if not isinstance(body, ReadyRecord) or self._fence is None:
            raise LedgerCorruptError(f"slot {slot} is no READY, and one was there")
        return announcement_of(self._fence, body, slot)


def told_through(storage: Storage, layout: LedgerLayout, receiver: str) -> int:
    """Slot below which a receiver knows all announcements, as the driver has noted last.

    Raises:
        StorageUnavailableError: The store failed.
    """
    raw = storage.read(layout.told(receiver))
    try:
        return 0 if raw is None else decode(raw, _Told).through
    except StrictJsonError:
        return 0
