"""The table whose units a route computes: by its ledger, or by listing where it has none."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sluiceway.chains.options import UpstreamOptions
from sluiceway.chains.units import UnitBook, UnitRule, UnitState, UnitWhen, unit_of
from sluiceway.chains.upstream import UpstreamLedger
from sluiceway.errors import SourceUnavailableError
from sluiceway.ledger.reader_leases import ReaderLeaseKeeper, lease_name
from sluiceway.ledger.row_places import COUNTED_ONLY, RowBook
from sluiceway.sinks.partition_path import DEFAULT_PARTITION, parse_partition_folder
from sluiceway.sinks.registry import partition_places
from sluiceway.sinks.table_options import ReadableTable
from sluiceway.sources.contract import LEDGER_CLUSTER, LISTED_CLUSTER, SourceIdentity
from sluiceway.storage.access import Stores
from sluiceway.storage.contract import FileStatus
from sluiceway.storage.locations import normalise_location
from sluiceway.storage.registry import open_storage

if TYPE_CHECKING:
    from sluiceway.ledger.file_names import FileRecord

SUCCESS_FILE = "_SUCCESS"
_SLOT_BITS = 53


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """Files of one partition, which are read whole.

    Attributes:
        values: Values of the partition columns, null for the default partition.
        paths: Absolute paths, in the order of their rows.
    """

    values: tuple[str | None, ...]
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnitFiles:
    """Exactly the files that were live in a unit at one slot.

    Attributes:
        rows: Rows in them by the ledger; None where only the files know.
    """

    partitions: tuple[PartitionFiles, ...]
    rows: int | None


class UnitTable(Protocol):
    """A table whose units are read. Used by one thread at a time.

    Attributes:
        identity: Which table it is; another one is not read on.
        table: The table as its catalog had it.
    """

    identity: SourceIdentity
    table: ReadableTable

    def read_on(self) -> None:
        """Take in what was published since.

        Raises:
            SourceUnavailableError: The table, or its ledger, cannot be read now.
            StorageUnavailableError: The store failed.
            TableMismatchError: It has no such units.
        """

    def states(self) -> list[UnitState]:
        """All units, as `read_on` has found them."""

    def files(self, prefix: str) -> UnitFiles:
        """The files of a unit, as `read_on` has found them."""

    def keep(self, reader: str) -> None:
        """Have all files of now kept until the next call, or until `close`.

        Args:
            reader: Name of the route among readers of the table.

        Raises:
            ReaderNameTakenError: Another driver has the name.
            StorageUnavailableError: The store failed.
        """

    def close(self) -> None:
        """Let go of what is kept for this reader. Safe to repeat."""


class LedgerUnits:
    """Units of a Hive table that a route of ours fills; see `UnitTable`.

    Args:
        root: Where its ledger lies.
        stores: How its store is reached.
        rule: What the route computes of it.
        table: The table as its catalog has it.
        where: The table, for errors.

    Raises:
        SourceUnavailableError: No driver has ever run for it.
    """

    def __init__(
        self, root: str, stores: Stores, rule: UnitRule, table: ReadableTable, where: str
    ) -> None:
        self._units = UnitBook(rule.columns, rule.when is UnitWhen.READY)
        self._upstream = UpstreamLedger(root, stores, RowBook(COUNTED_ONLY), self._units.apply)
        self.identity = SourceIdentity(LEDGER_CLUSTER, self._upstream.ledger)
        self.table = table
        self._columns = rule.columns
        self._live: dict[str, list[tuple[str, Sequence[FileRecord]]]] | None = None
        self._lease: ReaderLeaseKeeper | None = None
        self._where = where

    def read_on(self) -> None:
        """See `UnitTable.read_on`."""
        upstream = self._upstream
        if not upstream.is_same():
            raise SourceUnavailableError(
                "the table that is read has another ledger now", where=self._where
            )
        upstream.read_on()
        self._live = None

    def states(self) -> list[UnitState]:
        """See `UnitTable.states`."""
        return list(self._units.states())

    def files(self, prefix: str) -> UnitFiles:
        """See `UnitTable.files`."""
        final = self._upstream.layout.final
        if self._live is None:
            # One walk for all units of a round.
            self._live = {}
            for name, files in self._upstream.book.live():
                unit = unit_of(name, self._columns)
                if unit is not None and files:
                    self._live.setdefault(unit, []).append((name, files))
        live = self._live.get(prefix, [])
        return UnitFiles(
            tuple(
                PartitionFiles(partition_values(name), tuple(final(file.final) for file in files))
                for name, files in live
            ),
            sum(int(file.rows) for _, files in live for file in files),
        )

    def keep(self, reader: str) -> None:
        """See `UnitTable.keep`: by a lease, which is renewed meanwhile."""
        upstream = self._upstream
        slot = upstream.book.slot
        if self._lease is None:
            lease = ReaderLeaseKeeper(
                upstream.storage, upstream.layout, lease_name(reader), upstream.ledger
            )
            lease.start(slot)
            self._lease = lease
        self._lease.advance(slot)

    def close(self) -> None:
        """See `UnitTable.close`."""
        if self._lease is not None:
            self._lease.release()


class ListedUnits:
    """Units of a Hive table without a ledger, by its catalog's partitions; see `UnitTable`.

    Args:
        options: How it is reached.
        rule: What the route computes of it.
        table: The table as its catalog has it.
    """

    def __init__(self, options: UpstreamOptions, rule: UnitRule, table: ReadableTable) -> None:
        self._options = options
        self._rule = rule
        self.identity = SourceIdentity(LISTED_CLUSTER, f"{table.created_at_s}@{table.location}")
        self.table = table
        self._files: dict[str, list[PartitionFiles]] = {}
        self._states: list[UnitState] = []

    def read_on(self) -> None:
        """See `UnitTable.read_on`."""
        listed: dict[str, list[tuple[str, list[FileStatus], bool]]] = {}
        for name, location in sorted(partition_places(self._options.table()).items()):
            unit = unit_of(name, self._rule.columns)
            if unit is None:
                continue
            storage, place = open_storage(normalise_location(location), self._options.stores)
            found = [each for each in storage.list(place) if not each.is_dir]
            done = any(each.path.endswith(f"/{SUCCESS_FILE}") for each in found)
            data = [each for each in found if not _is_hidden(each.path)]
            listed.setdefault(unit, []).append((name, data, done))
        self._files = {
            unit: [
                PartitionFiles(partition_values(name), tuple(each.path for each in data))
                for name, data, _ in parts
                if data
            ]
            for unit, parts in listed.items()
        }
        self._states = [
            UnitState(
                unit,
                slot=_listing_number(each for _, data, _ in parts for each in data),
                changed_ms=max(
                    (each.changed_ms or 0 for _, data, _ in parts for each in data), default=0
                ),
                success=all(done for _, _, done in parts),
            )
            for unit, parts in listed.items()
        ]

    def states(self) -> list[UnitState]:
        """See `UnitTable.states`."""
        return self._states

    def files(self, prefix: str) -> UnitFiles:
        """See `UnitTable.files`."""
        return UnitFiles(tuple(self._files.get(prefix, ())), None)

    def keep(self, reader: str) -> None:
        """See `UnitTable.keep`: nothing keeps files of others."""
        del reader

    def close(self) -> None:
        """See `UnitTable.close`."""


def partition_values(name: str) -> tuple[str | None, ...]:
    """Values of a partition by its name, null for the default partition."""
    values = (value for _, value in parse_partition_folder(name))
    return tuple(None if value == DEFAULT_PARTITION else value for value in values)


def _is_hidden(path: str) -> bool:
    return path.rpartition("/")[2].startswith(("_", "."))


def _listing_number(files: Iterable[FileStatus]) -> int:
    """A number that differs when any file does; below 2^53."""
    lines = sorted(f"{each.path}\0{each.size_bytes}\0{each.changed_ms}" for each in files)
    digest = hashlib.sha256("\n".join(lines).encode()).digest()
    return int.from_bytes(digest[:8]) % (1 << _SLOT_BITS)
