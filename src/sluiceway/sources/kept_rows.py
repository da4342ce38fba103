"""Batches without some of their rows: what was put aside before, or is in the table."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sluiceway.sources.contract import Headers, Origins, RawRecords, SourceBatch


class KeptRows(SourceBatch):
    """Some rows of another batch.

    Args:
        batch: The other batch.
        rows: Numbers of the rows that are left, rising; at least one.
    """

    def __init__(self, batch: SourceBatch, rows: NDArray[np.int64]) -> None:
        self.split_index = batch.split_index
        self._batch = batch
        self._rows: list[int] = rows.tolist()
        self.values = [batch.values[row] for row in self._rows]
        self.offsets = np.asarray(batch.offsets, dtype=np.int64)[rows]

    def timestamps_ms(self) -> Sequence[int | None]:
        """See `SourceBatch`."""
        times = self._batch.timestamps_ms()
        return [times[row] for row in self._rows]

    def records(self, rows: Sequence[int]) -> RawRecords:
        """See `SourceBatch`."""
        return self._batch.records([self._rows[row] for row in rows])

    def origins(self) -> Origins | None:
        """See `SourceBatch`."""
        found = self._batch.origins()
        if found is None:
            return None
        return Origins(
            [found.topics[row] for row in self._rows],
            [found.partitions[row] for row in self._rows],
            [found.offsets[row] for row in self._rows],
        )

    def keys(self) -> Sequence[bytes | None]:
        """See `SourceBatch`."""
        keys = self._batch.keys()
        return [keys[row] for row in self._rows]

    def headers(self) -> Sequence[Headers]:
        """See `SourceBatch`."""
        headers = self._batch.headers()
        return [headers[row] for row in self._rows]
