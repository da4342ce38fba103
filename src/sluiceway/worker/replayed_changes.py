"""Changes of keyed rows that are read once more: what later changes say of them (L24)."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sluiceway.sinks.change_judge import ChangeJudge
from sluiceway.types.dirty import DirtyReason, DirtyRow
from sluiceway.types.row_kinds import KIND_COLUMN, RowKind

SUPERSEDED = "superseded"
"""Note under which changes are counted that a later one of their key has overtaken."""
_STAGE = "write"


def judged(
    judge: ChangeJudge, rows: pa.RecordBatch, sources: Sequence[str]
) -> tuple[pa.RecordBatch, NDArray[np.bool_], list[DirtyRow]]:
    """Rows with their kinds for a replay, and what becomes of each.

    Returns:
        The rows; which of them are superseded; rows that stay dirty, by their place.
    """
    kinds = rows.column(KIND_COLUMN).to_numpy().copy()
    # Where a snapshot begins was seen when the row was read first.
    kinds[kinds == RowKind.FIRST] = RowKind.IMAGE
    kinds[kinds == RowKind.FIRST_GONE] = RowKind.DELETE
    place = rows.schema.get_field_index(KIND_COLUMN)
    rows = rows.set_column(place, rows.schema.field(place), pa.array(kinds, pa.int32()))
    found = judge.judge(rows, sources)
    unknown = dict(found.unknown)
    for row in np.flatnonzero(kinds == RowKind.TRUNCATE).tolist():
        unknown[row] = "a truncate empties the table where it stands in the log, and not later"
    dirty = [
        DirtyRow(row, _STAGE, DirtyReason.ORDER_UNKNOWN, "", why[:300])
        for row, why in sorted(unknown.items())
    ]
    return rows, found.superseded, dirty
