"""The contract of a fast path: it vouches for rows, which equal the slow path's, or doubts them."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FastRows:
    """The result of a fast path for a block of payloads.

    Attributes:
        batches: Columns of the rows that it vouches for.
        rows: Positions of these rows among the payloads, batch after batch.
        suspects: All other positions of the block, ascending.
        doubts: A row of three for each suspect: the only column that does not vouch for it, and
            where its value begins and ends in the payload; column -1 is a doubt of another kind.
            None where the path does not say.
    """

    batches: list[pa.RecordBatch]
    rows: list[Rows]
    suspects: Rows
    doubts: Rows | None = None


class FastPath(ABC):
    """Reads payloads in blocks. Created once a task, used by one thread."""

    @abstractmethod
    def read(self, payloads: list[bytes]) -> Iterator[FastRows]:
        """Read payloads, block by block.

        Called once per batch.

        Args:
            payloads: None of them empty.

        Yields:
            For each block its vouched rows and its suspects; together all payloads.
        """
