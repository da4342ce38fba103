"""What every custom partitioner provides. Built and called inside a task, once per batch."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class PartitionTexts:
    """Values of the partition columns for a batch.

    Attributes:
        values: An array of text for each column that was asked for, in that order, each as long as
            the batch. Null is Hive's default partition. A text that cannot be a folder of a Hive
            table (empty, too long), or has a NUL, makes its row dirty. Any other text is allowed.
        refused: Position of a row in the batch -> why it has no partition, in words for the user.
            Such rows are dirty, and what `values` says of them is ignored.
    """

    values: "Sequence[pa.Array]"
    refused: Mapping[int, str] = field(default_factory=dict)


class Partitioner(ABC):
    """Gives rows their values of one or several partition columns.

    An entry point of `sluiceway.partitioners` names a callable: columns (names of the partition
    columns, in path order), schema (Arrow, of the rows), options (texts) -> `Partitioner`. It is
    called once per task and route, and by `validate`. It raises `ValueError`, in words for the
    user, for options or columns that it cannot serve.
    """

    @abstractmethod
    def assign(self, rows: "pa.RecordBatch") -> PartitionTexts:
        """Partition values of a batch. Called once per fetched batch, by one thread.

        The outcome of a row depends on that row alone, never on its neighbours, on time or on
        chance: a row that is read again after a crash has to reach the same partition.

        Args:
            rows: Decoded rows with all their columns, transient and computed ones too; no meta
                columns. At least one row. Not to be changed.

        Raises:
            Retriable: Something outside that it needs does not answer; the rows are read again.
            Fatal: It refuses to; the route halts. So does every other exception: it is taken as
                a fault of the plug-in.
        """
