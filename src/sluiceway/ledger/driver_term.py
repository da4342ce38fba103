"""The owner of a ledger, and the driver's term: checked before anything outside is changed.

A fence keeps an older driver from committing (P8), and from nothing else: a metastore, a mailbox
and old folders have no fencing. A driver with nothing to commit would never meet the fence.
"""

import time
from dataclasses import dataclass
from typing import ClassVar, Final

from sluiceway.errors import LedgerCorruptError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.generations import Generation, read_generation
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.lease import LeaseKeeper
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import FenceRecord
from sluiceway.ledger.writer import LedgerWriter, fenced_by, fenced_by_room
from sluiceway.storage.contract import Storage
from sluiceway.types.strict_json import StrictJsonError, decode

LOOK_EVERY_S: Final = 10.0
"""Greatest age of a reading of the log that allows a change outside."""


class DriverTerm:
    """The term of one driver and one route, from its fence on. Any thread may ask.

    It is lost once and for ever: when the log has a record of a higher term, or the lease says so.
    A successor writes the lease after its fence.

    Args:
        writer: Writer of the driver, which has fenced.
        lease: Lease that the driver keeps; it reads itself every two seconds.
        copied: Whether another room may adopt a copy of the table: its claim ends this term.
    """

    def __init__(self, writer: LedgerWriter, lease: LeaseKeeper, *, copied: bool = False) -> None:
        self._writer = writer
        self._copied = copied
        self._adopted: Generation | None = None
        self._lease = lease
        self._looked_at = float("-inf")
        self._through = 0
        self._lost: tuple[int, str, int] | None = None

    def check(self) -> None:
        """Pass while the driver holds the ledger, by a reading of the log at most 10 s old.

        Called right before each change of anything that has no fencing, by the thread that makes
        it, and again between the parts of a long one. It reads one empty slot in 10 s at most.

        Raises:
            FencedError: Another driver has taken over. Stop; touch nothing.
            StorageUnavailableError: The answer is unknown: change nothing until this passes.
            LedgerCorruptError: The next slot holds something that is no record.
        """
        self.refuse_if_lost()
        if time.monotonic() - self._looked_at >= LOOK_EVERY_S:
            self._read_log()
            self.refuse_if_lost()

    def refuse_if_lost(self) -> None:
        """As `check`, by what is known, without a call. Called in each turn of the loop.

        Raises:
            FencedError: As in `check`.
        """
        successor = self._lease.successor
        if self._lost is None and successor is not None:
            self._lost = successor.term, successor.host, successor.pid
        if self._adopted is not None:
            raise fenced_by_room(self._adopted.room, self._adopted.number)
        if self._lost is not None:
            raise fenced_by(*self._lost)

    def check_now(self) -> None:
        """As `check`, by a reading of this moment, however recent the last one was.

        Raises:
            SluicewayError: As in `check`.
        """
        self.refuse_if_lost()
        self._read_log()
        self.refuse_if_lost()

    def _read_log(self) -> None:
        """Read the slot after the last record that this driver knows."""
        now, fold = time.monotonic(), self._writer.fold
        # Asked before the term: a fence below it has changed the term already.
        start = max(self._through, fold.next_seq)
        if fold.term > self._writer.term and fold.fence is not None:
            self._lose(fold.term, fold.fence)
            return
        for record, _ in self._writer.log.records(start):
            if record.term > self._writer.term and isinstance(record.body, FenceRecord):
                self._lose(record.term, record.body)
                return
            self._through = record.seq + 1
        if self._copied:
            log = self._writer.log
            number = len(log.generations()) + 1
            self._adopted = read_generation(log.storage, log.layout, number)
        self._looked_at = now

    def _lose(self, term: int, fence: FenceRecord) -> None:
        self._lost = term, fence.host, fence.pid


@dataclass(frozen=True, slots=True)
class Owner:
    """Content of OWNER.

    Attributes:
        generation: Number of the log that continues a copy; left out at 0. Versions that do not
            know it refuse such a table.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"generation"})

    ledger: str
    job: str
    route: str
    location: str
    generation: int = 0


def read_owner(storage: Storage, layout: LedgerLayout) -> Owner | None:
    """To whom a table belongs; None when no driver has ever run for it.

    Raises:
        LedgerCorruptError: OWNER is damaged.
        StorageUnavailableError: The store failed.
    """
    raw = storage.read(layout.owner)
    try:
        return None if raw is None else decode(raw, Owner)
    except StrictJsonError as error:
        raise LedgerCorruptError(
            f"OWNER is unreadable: {str(error)[:200]}", where=layout.owner
        ) from error


def ledger_property(owner: Owner) -> str:
    """Value of the table property `sluiceway.ledger`."""
    return f"{owner.ledger}@{owner.location}"


@dataclass(slots=True)
class OwnedLedger:
    """What a driver holds after it has fenced.

    Attributes:
        driver: Its id, as in its fences and its lease.
        tenure: Whether it holds the ledger still.
    """

    driver: str
    storage: Storage
    layout: LedgerLayout
    log: LedgerLog
    owner: Owner
    writer: LedgerWriter
    lease: LeaseKeeper
    tenure: DriverTerm

    @property
    def fold(self) -> Fold:
        """State up to the tail."""
        return self.writer.fold
