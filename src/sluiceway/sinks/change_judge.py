"""Contract of what knows whether a change of a keyed row is still the last one (L24)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of changes, by their place in the batch.

    Attributes:
        superseded: A later change of the key is committed.
        unknown: Why it cannot be known whether one is.
    """

    superseded: NDArray[np.bool_]
    unknown: dict[int, str]


class ChangeJudge(Protocol):
    """Knows all changes that are committed. Used by one thread."""

    def judge(self, rows: pa.RecordBatch, sources: Sequence[str]) -> Verdict:
        """Look for later changes of the rows' keys.

        Args:
            rows: Rows as change files have them.
            sources: For each the dirty file that it is read from, as a `DirtySource`.

        Raises:
            StorageUnavailableError: The store failed.
            FileLostError: A file of changes is not the one that was committed.
        """
