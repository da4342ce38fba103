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
    """Handle payloads that are none.

    Called once per batch, before anything else.

    Args:
        payloads: Payloads of the batch.
        collected: Gets them, as skipped or dirty.
        skipped: Whether they are skipped; else they are dirty.
        empty_too: Whether a payload without bytes counts as none.

    Returns:
        Positions of the others, ascending.
    """
    there = np.fromiter(
        (one is not None and bool(one or not empty_too) for one in payloads), bool, len(payloads)
    )
    add_tombstones(np.flatnonzero(~there).tolist(), collected, skipped=skipped)
    return np.flatnonzero(there).astype(np.int64)


def add_tombstones(rows: Sequence[int], collected: CollectedRows, *, skipped: bool) -> None:
    """Add records without a payload, by their positions, as skipped or dirty."""
    if skipped:
        collected.skipped += len(rows)
        return
    error = DirtyValueError(DirtyReason.EMPTY, "the payload is empty", stage="decode")
    collected.dirty += [error.row(row) for row in rows]
