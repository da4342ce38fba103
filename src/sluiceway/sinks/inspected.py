"""A table as its catalog has it, for commands that compare it with a ledger and change nothing."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from sluiceway.sinks.contract import TableIdentity, TableState
from sluiceway.sinks.files.contract import PARQUET_FILES, FileChoice

Values = tuple[str, ...]
"""Of a partition, as the catalog writes them."""


@dataclass(frozen=True, slots=True)
class ShownPartition:
    """A partition as readers find it.

    Attributes:
        location: Folder, as the catalog writes it.
        differences: From how the table says that rows are read, in words.
    """

    location: str
    differences: tuple[str, ...] = ()


class InspectedTable(ABC):
    """A table that exists, as it was when it was asked for. Used until its sink is closed.

    Attributes:
        identity: Which table, and where its ledger lies.
        ledger: Value of its property `sluiceway.ledger`; None when absent.
    """

    identity: TableIdentity
    ledger: str | None

    @abstractmethod
    def state(self) -> TableState:
        """The table as a driver's start would take it.

        Raises:
            TableMismatchError: It would not: the table is not what the job file says.
        """

    def files(self) -> FileChoice:
        """How its files are written; also of a table that a start would refuse."""
        return PARQUET_FILES

    @abstractmethod
    def partitions(self, wanted: Sequence[Values]) -> dict[Values, ShownPartition]:
        """Those of the wanted partitions that the catalog has; it is asked at each call.

        Raises:
            MetastoreUnavailableError: The catalog does not answer.
        """

    @abstractmethod
    def other_partitions(self, wanted: Sequence[Values]) -> dict[Values, ShownPartition]:
        """All partitions that the catalog has beside these; as `partitions`."""
