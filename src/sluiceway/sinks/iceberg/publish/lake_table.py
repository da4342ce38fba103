"""One lake table as its catalog has it: found, kept apart from others of its name, read."""

from collections.abc import Callable
from dataclasses import dataclass

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from sluiceway.errors import (
    LedgerMismatchError,
    TableHistoryError,
    TableMismatchError,
)
from sluiceway.ledger.log import LedgerLog
from sluiceway.observe.failpoints import edge
from sluiceway.sinks.iceberg.catalog.catalogs import Identifier, LakeCatalog
from sluiceway.sinks.iceberg.commit_request import CommitRequest
from sluiceway.sinks.iceberg.table_history import (
    LastSnapshot,
    Lineage,
    lineage,
    property_name,
    read_through,
    record_hash,
)

LEDGER_PROPERTY = "sluiceway.ledger"
_WAYS_OUT = (
    "make our last snapshot current again (`CALL catalog.system.set_current_snapshot`), or fill "
    "a new table: docs/guides/iceberg-tables.md, A table that was rolled back"
)

HashOf = Callable[[int], str | None]
"""First digits of the hash of a slot's record; None after the log's end."""


def hashes_of(ledger: LedgerLog) -> HashOf:
    """Hashes of a log's records."""

    def hash_of(slot: int) -> str | None:
        raw = ledger.read_bytes(slot)
        return None if raw is None else record_hash(raw)

    return hash_of


@dataclass(frozen=True, slots=True)
class TableLook:
    """What a look found, all of it from one metadata file.

    Attributes:
        through: Our last snapshot; None before the first.
        proven: Whether the table's history was followed back to it.
    """

    table: Table
    through: LastSnapshot | None
    proven: bool

    @property
    def next_slot(self) -> int:
        """First slot that the table does not have."""
        return 0 if self.through is None else self.through.slot + 1


class LakeTable:
    """A table that was opened once, and is asked for again and again. One thread at a time.

    Args:
        catalog: Used by the route alone.
        name: Namespace and name.
        uuid: UUID of the table when it was opened.
        ledger: Uuid of its ledger.
        ledger_property: What the table's property has to say.
        on_look: Called with the metadata that each look has found.
    """

    def __init__(
        self,
        catalog: LakeCatalog,
        name: Identifier,
        uuid: str,
        *,
        ledger: str,
        ledger_property: str,
        on_look: Callable[[TableMetadata], None] | None = None,
    ) -> None:
        self.catalog = catalog
        self._name = name
        self._uuid = uuid
        self._ledger = ledger
        self._ledger_property = ledger_property
        self._on_look = on_look
        self._greatest = -1
        self._checked: LastSnapshot | None = None

    @property
    def where(self) -> str:
        """The table's name, for a person."""
        return ".".join(self._name)

    def expect(self, slot: int) -> None:
        """The table is known to have had this slot."""
        self._greatest = max(self._greatest, slot)

    def load(self) -> Table:
        """The table now, when it is still the one that was opened.

        Raises:
            TableMismatchError: It was dropped, or dropped and created again.
            LedgerMismatchError: Another ledger feeds it, or none.
            MetastoreUnavailableError: The catalog does not answer.
        """
        with edge("lake.load", self.where):
            table = self.catalog.load(self._name)
        if table is None:
            raise TableMismatchError(
                "the table was dropped",
                where=self.where,
                hint="bring it back; a new start of the job makes one with create: if_missing",
            )
        if str(table.metadata.table_uuid) != self._uuid:
            raise TableMismatchError(
                f"the table was dropped and created again: its uuid is "
                f"{table.metadata.table_uuid}, the ledger was made for {self._uuid}",
                where=self.where,
                hint="fill it under another route name, or bring the old one back",
            )
        held = table.metadata.properties.get(LEDGER_PROPERTY)
        if held != self._ledger_property:
            raise LedgerMismatchError(
                f"the table's property {LEDGER_PROPERTY} is {held}, expected "
                f"{self._ledger_property}",
                where=self.where,
                hint="another ledger feeds this table; a table has one",
            )
        return table

    @property
    def has_slots(self) -> bool:
        """Whether the table is known to have had any slot of ours."""
        return self._greatest >= 0

    def read(self, hash_of: HashOf) -> TableLook:
        """Where the table stands, and that it still has what it had.

        Args:
            hash_of: Returns the hash of a ledger's record.

        Raises:
            TableHistoryError: Rolled back, replaced, or ahead of the ledger.
            TableMismatchError: It was dropped, or dropped and created again.
            LedgerMismatchError: Another ledger feeds it.
            MetastoreUnavailableError: The catalog does not answer.
        """
        table = self.load()
        if self._on_look is not None:
            self._on_look(table.metadata)
        through = read_through(table.metadata.properties, self._ledger, where=self.where)
        if through is None:
            if self._greatest >= 0:
                raise TableHistoryError(
                    f"the table's property {property_name(self._ledger)} is gone; it stood at "
                    f"slot {self._greatest}",
                    where=self.where,
                    hint=_WAYS_OUT,
                )
            return TableLook(table, None, proven=True)
        self._check_ledger(through, hash_of)
        found = lineage(table.metadata, through)
        if found is Lineage.LOST:
            head = table.current_snapshot()
            raise TableHistoryError(
                f"our snapshot {through.snapshot_id} with slots up to {through.slot} is not in "
                "the history of main any more: the table was rolled back or replaced",
                where=self.where,
                hint=_WAYS_OUT,
            ).with_report(
                {
                    "our_snapshot": through.snapshot_id,
                    "our_sequence_number": through.sequence_number,
                    "main": "none" if head is None else head.snapshot_id,
                    "main_sequence_number": "none" if head is None else head.sequence_number,
                }
            )
        self.expect(through.slot)
        return TableLook(table, through, proven=found is Lineage.GOOD)

    def _check_ledger(self, through: LastSnapshot, hash_of: HashOf) -> None:
        if through == self._checked:
            return
        held = hash_of(through.slot)
        if held != through.record_hash:
            why = "the ledger ends before it" if held is None else "the ledger has another record"
            raise TableHistoryError(
                f"the table has slots up to {through.slot}, and {why}: the ledger is older than "
                "the table",
                where=self.where,
                hint="restore the whole ledger from a backup of the same time or later",
            )
        self._checked = through

    def send(self, table: Table, request: CommitRequest) -> str:
        """Send a request once; the catalog's words. Only the table shows what became of it."""
        try:
            with edge("lake.send", self.where):
                return self.catalog.send(table, request)
        except Exception as error:  # noqa: BLE001 - planted faults too: the table is loaded
            return f"{type(error).__name__}: {error}"
