"""Collects a decoder's results for one batch, and puts them into payload order."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.formats.contract import Decoded, DirtyRow
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.schema import Schema

Rows = npt.NDArray[np.int64]


class CollectedRows:
    """Clean and dirty rows of a batch, collected block by block.

    Args:
        schema: Schema of the clean rows.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.dirty: list[DirtyRow] = []
        self.skipped = 0
        self.notes: Counter[str] = Counter()
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._rows: list[Rows] = []

    def add(self, batch: pa.RecordBatch, rows: Rows) -> None:
        """Add clean rows and their positions in the batch."""
        self._batches.append(batch)
        self._rows.append(rows)

    def add_values(self, values: Sequence[Sequence[object]], rows: Sequence[int]) -> None:
        """Add clean rows one by one, as lists of values for `pa.array`, and their positions."""
        if not values:
            return
        arrays = [
            pa.array(column, field.type)
            for column, field in zip(zip(*values, strict=True), self._schema, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self.add(batch, np.array(rows, np.int64))

    def decoded(self) -> Decoded:
        """Put everything into payload order."""
        dirty = tuple(sorted(self.dirty, key=lambda row: row.index))
        if not self._batches:
            arrays = [pa.array([], field.type) for field in self._schema]
            batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
            return Decoded(batch, pa.array([], pa.int64()), dirty, self.skipped, dict(self.notes))
        rows = np.concatenate(self._rows)
        batch = pa.concat_batches(self._batches) if len(self._batches) > 1 else self._batches[0]
        if not np.all(rows[:-1] <= rows[1:]):
            # Rows of one payload stay in the order in which they came.
            order = np.argsort(rows, kind="stable")
            batch, rows = batch.take(pa.array(order)), rows[order]
        return Decoded(batch, pa.array(rows), dirty, self.skipped, dict(self.notes))


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


def check_columns(schema: Schema) -> None:
    """Refuse columns that no format can fill. Called when a decoder is made.

    Raises:
        ValueError: There is no column, or two have the same name.
    """
    names = [field.name for field in schema.fields]
    if not names:
        raise ValueError("the table has no column to read")
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"columns have the same name: {', '.join(twice)}")
