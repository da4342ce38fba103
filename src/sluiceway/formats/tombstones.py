"""Records without a payload: skipped and counted, or dirty."""

from collections.abc import Sequence

import numpy as np

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.formats.collected_rows import CollectedRows, Rows
from sluiceway.types.dirty import DirtyReason


def count_tombstones(
    payloads: Sequence[bytes | None],
    collected: CollectedRows,
    *,
    skipped: bool,
    empty_too: bool = True,
) -> Rows:
    """Settle payloads that are none.

    Called once per batch, before anything else.

    Args:
        payloads: As they came.
        collected: Takes them, as skipped or dirty.
        skipped: Which of the two.
        empty_too: Whether a payload without bytes is one.

    Returns:
        Positions of the others, rising.
    """
    there = np.fromiter(
        (one is not None and bool(one or not empty_too) for one in payloads), bool, len(payloads)
    )
    add_tombstones(np.flatnonzero(~there).tolist(), collected, skipped=skipped)
    return np.flatnonzero(there).astype(np.int64)


def add_tombstones(rows: Sequence[int], collected: CollectedRows, *, skipped: bool) -> None:
    """Take records without a payload, by their positions, as skipped or dirty."""
    if skipped:
        collected.skipped += len(rows)
        return
    error = DirtyValueError(DirtyReason.EMPTY, "the payload is empty", stage="decode")
    collected.dirty += [error.row(row) for row in rows]
