"""How far a lake table has the ledger, by a property and by its history of snapshots.

`sluiceway.<ledger>.through` is `slot:snapshot id:sequence number:16 digits of the record's hash`.
It is read from the very metadata whose head the next request asserts, never from memory.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH

from sluiceway.errors import LedgerMismatchError

_FORM = re.compile(r"([0-9]{1,19}):(-?[0-9]{1,19}):([0-9]{1,19}):([0-9a-f]{16})")
_HASH_DIGITS = 16

SUMMARY_LEDGER = "sluiceway.ledger"
SUMMARY_FROM = "sluiceway.from"
SUMMARY_THROUGH = "sluiceway.through"
SUMMARY_COMPACTION = "sluiceway.compaction"


@dataclass(frozen=True, slots=True)
class LastSnapshot:
    """Our last snapshot.

    Attributes:
        slot: All records up to this one, with it, are in the table.
        snapshot_id: Id of the snapshot that brought it.
        sequence_number: Sequence number of that snapshot.
        record_hash: First digits of the hash of the slot's record.
    """

    slot: int
    snapshot_id: int
    sequence_number: int
    record_hash: str

    def __str__(self) -> str:
        return f"{self.slot}:{self.snapshot_id}:{self.sequence_number}:{self.record_hash}"


def property_name(ledger: str) -> str:
    """Name of the property of a ledger, by its uuid."""
    return f"sluiceway.{ledger}.through"


def record_hash(raw: bytes) -> str:
    """What `LastSnapshot.record_hash` holds for a record's stored bytes."""
    return sha256(raw).hexdigest()[:_HASH_DIGITS]


def read_through(properties: Mapping[str, str], ledger: str, *, where: str) -> LastSnapshot | None:
    """What a table's properties say; None before the first publish.

    Raises:
        LedgerMismatchError: The property is none of ours.
    """
    text = properties.get(property_name(ledger))
    if text is None:
        return None
    found = _FORM.fullmatch(text)
    if found is None:
        raise LedgerMismatchError(
            f"the table's property {property_name(ledger)} is {text!r}, which no publish wrote",
            where=where,
            hint="put back what it was: `sluiceway verify JOB` shows our snapshots",
        )
    return LastSnapshot(int(found[1]), int(found[2]), int(found[3]), found[4])


class Lineage(StrEnum):
    """What the walk from the head of main met."""

    GOOD = "good"
    UNPROVEN = "unproven"
    LOST = "lost"


def lineage(metadata: TableMetadata, through: LastSnapshot) -> Lineage:
    """Walk back from the head of main.

    Args:
        metadata: Metadata as it was loaded.
        through: Our last snapshot, as the same metadata names it.

    Returns:
        `good` when the walk meets our snapshot. `lost` when it meets the table's first snapshot, or
        another as old as ours: the table was rolled back or replaced. `unproven` when a snapshot on
        the way was expired.
    """
    snapshot = metadata.snapshot_by_name(MAIN_BRANCH)
    if snapshot is None:
        return Lineage.LOST
    while True:
        if snapshot.snapshot_id == through.snapshot_id:
            return Lineage.GOOD
        if (snapshot.sequence_number or 0) <= through.sequence_number:
            return Lineage.LOST
        parent_id = snapshot.parent_snapshot_id
        if parent_id is None:
            return Lineage.LOST
        parent = metadata.snapshot_by_id(parent_id)
        if parent is None:
            return Lineage.UNPROVEN
        snapshot = parent
