"""Tables next to a route's own: one over its late rows, one of copies of its dirty rows."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sluiceway.sinks.contract import DesiredPartition, ParkedPartition
from sluiceway.storage.contract import Storage


class LateRowsTable(ABC):
    """A table over a route's late place; used by one thread. `str` names it."""

    @abstractmethod
    def find(self) -> bool:
        """Look at both tables; whether the late one is there, and then ours. Changes nothing.

        Raises:
            LedgerMismatchError: The table is another ledger's, or no ledger's.
            TableMismatchError: It is none over the late place, or has other columns; or the
                route's own table is gone.
            MetastoreUnavailableError: The catalog does not answer.
        """

    @abstractmethod
    def follow(self) -> None:
        """Give it the columns that the route's own table has got; once it is found.

        They are added in all partitions. Safe to repeat.

        Raises:
            TableMismatchError: The table is gone or the catalog refuses.
            MetastoreUnavailableError: The catalog does not answer.
        """

    @abstractmethod
    def make(self) -> None:
        """Make it, and its database. Called when it was not found; safe to repeat.

        Raises:
            SluicewayError: As `find`.
            UnhealthyEnvironmentError: The catalog cannot make a folder.
        """

    @property
    @abstractmethod
    def created_at_s(self) -> int:
        """When the table was made, once it is found; differs from that of a dropped one."""

    @abstractmethod
    def show(self, partitions: Sequence[DesiredPartition]) -> tuple[ParkedPartition, ...]:
        """Have readers see partitions of the late place; once the table is found.

        Args:
            partitions: Partitions of the late place; one without values stands for a table without
                partition columns, and needs nothing.

        Returns:
            Partitions that were left alone, and why.

        Raises:
            TableMismatchError: The table is gone.
            MetastoreUnavailableError: The catalog does not answer.
        """

    @abstractmethod
    def shown(self) -> dict[tuple[str, ...], str]:
        """All partitions that readers see, as locations by their values; once it is found.

        Raises:
            TableMismatchError: The table is gone.
            MetastoreUnavailableError: The catalog does not answer.
        """

    @abstractmethod
    def close(self) -> None:
        """Drop the connection. Safe to repeat."""


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """A column of a table that is made: its name, and Hive's text of its type."""

    name: str
    type: str


class DayFolders(ABC):
    """A table of files in a folder for each day, which several may fill at the same time.

    Whoever fills it puts files of its own into the folders. Used by one thread.
    """

    @abstractmethod
    def find(self) -> bool:
        """Open the table if it is there; whether it is. Changes nothing.

        Raises:
            TableMismatchError: Another kind of table has the name; says which parts differ.
            MetastoreUnavailableError: The catalog does not answer.
            UnhealthyEnvironmentError: Its location is on a store that is not served here.
        """

    @abstractmethod
    def open(self) -> None:
        """Open the table, made first when it is missing. Safe to repeat.

        Raises:
            SluicewayError: As `find`.
        """

    @property
    @abstractmethod
    def storage(self) -> Storage:
        """Where it lies, once it is open."""

    @property
    @abstractmethod
    def root(self) -> str:
        """Its folder, as the storage names it, once it is open."""

    @abstractmethod
    def folder(self, day: str) -> str:
        """Where the files of a day lie."""

    @abstractmethod
    def show(self, day: str) -> None:
        """Have readers see a day, whose folder is there. Safe to repeat.

        Raises:
            TableMismatchError: The table is gone, or shows the day from another folder.
            MetastoreUnavailableError: The catalog does not answer.
        """

    @abstractmethod
    def days(self, days: Sequence[str]) -> Collection[str]:
        """The days among these that readers see.

        Raises:
            TableMismatchError: The table is gone.
            MetastoreUnavailableError: The catalog does not answer.
        """

    @abstractmethod
    def close(self) -> None:
        """Drop the connection. Safe to repeat."""
