"""Wrong variants of rooms: a standby that does not ask, a catalog that is believed."""

from sluiceway.ledger.driver_term import OwnedLedger
from sluiceway.ledger.log import LedgerLog
from sluiceway.rooms.standby import StandbyRoom
from sluiceway.route.rooms import RouteRooms


def never_asked(
    room: StandbyRoom, ledger: LedgerLog, *, fresh: bool = False
) -> tuple[tuple[str, ...], int]:
    """A standby takes over whatever answers it."""
    del fresh
    room._advanced(ledger)
    return (), 0


def catalog_believed(rooms: RouteRooms, owned: OwnedLedger) -> bool:
    """After a change of room the catalog gets only what records above `effects_through` ask for."""
    del rooms, owned
    return False


NOT_ASKED = ((StandbyRoom, "_reasons", never_asked),)
CATALOG_BELIEVED = ((RouteRooms, "owes_comparison", catalog_believed),)
OFTEN = frozenset({"lose_room"})
"""What happens often in the worlds in which these are looked for: all of them have rooms."""
