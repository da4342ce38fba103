"""To whom a ledger belongs, and what a driver holds of it after it has fenced."""

from dataclasses import dataclass

from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.lease import LeaseKeeper
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.tenure import DriverTerm
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.storage.contract import Storage


@dataclass(frozen=True, slots=True)
class Owner:
    """Content of OWNER."""

    ledger: str
    job: str
    route: str
    location: str


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
