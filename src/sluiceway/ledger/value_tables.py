"""Which tables the values of a shared source have (`route_by`), in the order of their appearance.

A file for each table, written once, next to the log of the rest. It is there before a record of the
rest goes beyond the first row of the value. So a driver that knows all the files knows where each
table's route begins, and misses no row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sluiceway.ledger.layout import LedgerLayout
from sluiceway.storage.contract import Storage
from sluiceway.types.log_key import LogKey
from sluiceway.types.strict_json import BigInt, decode, encode


@dataclass(frozen=True, slots=True)
class ValueStart:
    """Where the route of a value begins in a source partition."""

    topic: str
    partition: LogKey
    offset: BigInt


@dataclass(frozen=True, slots=True)
class ValueTable:
    """A table that a value has named, and where its rows begin at the earliest."""

    table: str
    starts: tuple[ValueStart, ...]


@dataclass(slots=True)
class ValueTableLog:
    """Reads and extends the list. Used by one thread at a time.

    Attributes:
        storage: Store of the rest's table.
        layout: Names below its folder.
        tables: What was read so far, each table once.
    """

    storage: Storage
    layout: LedgerLayout
    tables: dict[str, ValueTable] = field(default_factory=dict)
    _read: int = 0

    def read_on(self) -> None:
        """Read what was added since.

        Raises:
            StorageUnavailableError: The store failed.
        """
        while (raw := self.storage.read(self.layout.value_table(self._read))) is not None:
            found = decode(raw, ValueTable)
            # A driver that was replaced may have added a table that another one has, later.
            self.tables.setdefault(found.table, found)
            self._read += 1

    def add(
        self, names: Sequence[str], ends: Mapping[tuple[str, LogKey], int], most: int
    ) -> tuple[str, ...]:
        """Add tables that have none yet, as long as there is room.

        Called before the epoch is committed in which their values appeared. Another driver may add
        at the same time: each file has one writer, and both read it.

        Args:
            names: Tables.
            ends: Committed ends of all source partitions: no row below names them.
            most: Most tables in all.

        Returns:
            Tables for which there is no room.

        Raises:
            StorageUnavailableError: The store failed; the epoch is planned again.
        """
        starts = tuple(ValueStart(*key, BigInt(end)) for key, end in ends.items())
        self.read_on()
        for name in names:
            while name not in self.tables and len(self.tables) < most:
                self.storage.make_folders(self.layout.value_tables)
                self.storage.put_if_absent(
                    self.layout.value_table(self._read),
                    encode(ValueTable(name, starts)),
                    tmp_folder=self.layout.stage,
                )
                self.read_on()
        return tuple(name for name in names if name not in self.tables)
