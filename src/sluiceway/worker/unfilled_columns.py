"""Which columns no row of a task has filled from its payload: a misspelt name is not silent."""

from collections.abc import Collection

import pyarrow as pa

MOST_COLUMNS = 100
"""Columns that a task names; those beyond count as filled."""


class TaskUnfilledColumns:
    """One task's, in batches as they were decoded. Used by its thread."""

    def __init__(self) -> None:
        self._names: list[str] | None = None

    def check(self, rows: pa.RecordBatch) -> None:
        """Take in decoded rows. Called once a batch; looks at columns that were empty so far."""
        if rows.num_rows == 0:
            return
        names = rows.schema.names if self._names is None else self._names
        if names:
            self._names = [name for name in names if _is_empty(rows.column(name))]

    def names(self, named: Collection[str] = ()) -> tuple[str, ...] | None:
        """In the order of the columns; None when there was no row.

        Args:
            named: Columns whose key payloads have: their names are right, though all is null.
        """
        if self._names is None:
            return None
        return tuple([name for name in self._names if name not in named][:MOST_COLUMNS])


def _is_empty(values: pa.Array) -> bool:
    return int(values.null_count) == len(values)
