"""Which table each row goes to, where a value of the row names it (`route_by`)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sluiceway.eventtime.partition_values import PartitionAssignment, RowTimes
from sluiceway.types.dirty import DirtyReason, DirtyRow, shown
from sluiceway.worker.plan import RowShare
from sluiceway.worker.row_batch import RowBatch
from sluiceway.worker.row_rules import REST, VALUE_IN_NAME

_PART = re.compile("[a-z0-9_]{1,100}")
_ELSEWHERE, _UNNAMED, _BEYOND = -1, -2, -3


def table_of(pattern: str, value: str) -> str | None:
    """The table that a value names, `-` and `.` as `_`, in lower case; None where it cannot."""
    part = value.replace("-", "_").replace(".", "_").lower()
    if part == REST or _PART.fullmatch(part) is None:
        return None
    return pattern.replace(VALUE_IN_NAME, part).lower()


@dataclass(slots=True)
class RowShares:
    """Deals rows to the routes of one `route_by`.

    A row without a table, and a dirty one, belongs to the rest; each other route leaves it out.

    Attributes:
        shares: Shares of the routes, all of one column and pattern.
    """

    shares: Sequence[RowShare]
    _own: dict[str, int] = field(init=False)
    _rest: int | None = field(init=False)

    def __post_init__(self) -> None:
        tables = [share.table for share in self.shares]
        self._own = {table: number for number, table in enumerate(tables) if table is not None}
        self._rest = tables.index(None) if None in tables else None

    def deal(self, rows: RowBatch) -> list[RowBatch]:
        """The rows of each share, in the order of the shares.

        Args:
            rows: Decoded, chosen and timed; not changed.
        """
        share, rows = self.shares[0], replace(rows, newest=rows.newest_times())
        encoded = rows.columns.column(share.column).dictionary_encode()
        codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()
        found: dict[str, None] = {}
        owners = [self._owner(value, found) for value in encoded.dictionary.to_pylist()]
        dealt = np.array([*owners, _UNNAMED], dtype=np.int64)[codes]
        order = np.argsort(dealt, kind="stable")
        cuts = np.searchsorted(dealt[order], np.arange(len(self.shares) + 1))
        sorted_rows = _taken(rows, order[cuts[0] :])
        base = int(cuts[0])
        parts = [
            _sliced(rows, sorted_rows, int(begin) - base, int(end) - int(begin))
            for begin, end in pairwise(cuts)
        ]
        clean = len(rows.indices)
        for number, part in enumerate(parts):
            part.elsewhere = clean - len(part.indices)
            if number == self._rest:
                part.dirty = [*rows.dirty, *self._dirty(rows, encoded, dealt)]
                part.elsewhere -= len(part.dirty) - len(rows.dirty)
                part.found = tuple(found)
            else:
                part.elsewhere += len(rows.dirty)
        return parts

    def _owner(self, value: str, found: dict[str, None]) -> int:
        """Number of the share that a value's rows go to, or why there is none."""
        table = table_of(self.shares[0].pattern, value)
        if table in self._own:
            return self._own[table]
        if self._rest is None:
            return _ELSEWHERE
        rest = self.shares[self._rest]
        if table is None:
            return _UNNAMED
        if table in rest.known:
            return _ELSEWHERE
        if rest.room > 0:
            # One more than there is room for says that they do not all fit.
            if len(found) <= rest.room:
                found[table] = None
            return _ELSEWHERE
        return _BEYOND

    def _why(self) -> str:
        """Why a value's table takes no row of the rest."""
        if self._rest is not None and not self.shares[self._rest].known:
            # A replay, which knows no tables: in an epoch there is one before there is no room.
            return "names a table that is filled from the topic alone: send the row there again"
        return "would be a table beyond max_tables: raise it, and send the row again"

    def _dirty(
        self, rows: RowBatch, encoded: pa.DictionaryArray, dealt: NDArray[np.int64]
    ) -> list[DirtyRow]:
        share, found = self.shares[0], []
        for row in np.flatnonzero(dealt < _ELSEWHERE).tolist():
            value, index = encoded[row].as_py(), rows.indices[row].as_py()
            if value is None:
                reason, message = DirtyReason.NULL, f"{share.path} is null, and names the table"
            elif dealt[row] == _UNNAMED:
                reason, message = DirtyReason.BAD_PARTITION_VALUE, f"{shown(value)} names no table"
            else:
                reason, message = DirtyReason.BAD_PARTITION_VALUE, f"{shown(value)} {self._why()}"
            found.append(DirtyRow(index, "partition", reason, share.path, message))
        return found


def _taken(rows: RowBatch, rows_in_order: NDArray[np.int64]) -> RowBatch:
    times, order, assigned = rows.times, pa.array(rows_in_order), rows.assigned
    return RowBatch(
        rows.batches,
        rows.bounds,
        rows.now_us,
        rows.columns.take(order),
        rows.indices.take(order),
        times=RowTimes(
            None if times.event is None else times.event.take(order),
            None if times.record is None else times.record.take(order),
            times.processing_us,
        ),
        assigned=None
        if assigned is None
        else PartitionAssignment(assigned.values, assigned.codes[rows_in_order], ()),
    )


def _sliced(rows: RowBatch, ordered: RowBatch, begin: int, count: int) -> RowBatch:
    """Rows of one share; the others count for the times of their logs."""
    times, assigned = ordered.times, ordered.assigned
    return RowBatch(
        rows.batches,
        rows.bounds,
        rows.now_us,
        ordered.columns.slice(begin, count),
        ordered.indices.slice(begin, count),
        times=RowTimes(
            None if times.event is None else times.event.slice(begin, count),
            None if times.record is None else times.record.slice(begin, count),
            times.processing_us,
        ),
        meta=rows.meta,
        assigned=None if assigned is None else _present(assigned, begin, begin + count),
        newest=rows.newest,
    )


def _present(assigned: PartitionAssignment, begin: int, end: int) -> PartitionAssignment:
    """The assignment of some rows, whose values are the ones that they have."""
    found, codes = np.unique(assigned.codes[begin:end], return_inverse=True)
    values = [assigned.values[code] for code in found.tolist()]
    return PartitionAssignment(values, codes.astype(np.int32), ())
