"""Rows of one read on their way from the decoder to the files, and the stages that they pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sluiceway.eventtime.partition_values import NO_TIMES, PartitionAssignment, RowTimes
from sluiceway.sources.contract import RawRecords, SourceBatch
from sluiceway.types.dirty import DirtyRow
from sluiceway.worker.late_rows import LateSplit
from sluiceway.worker.row_times import times_of


@dataclass(slots=True)
class RowBatch:
    """What one read returned, as far as the stages have come with it.

    Attributes:
        batches: At most one a split; offsets rise within each.
        bounds: Where each of them begins among the fetched rows; last, how many rows those are.
        now_us: When they are read, in microseconds since 1970.
        columns: Rows that are clean so far: as decoded, as chosen, then as files have them.
        indices: Which fetched row each clean row is, rising.
        dirty: Dirty rows so far; `index` counts the fetched rows.
        times: Times of the clean rows.
        meta: Meta columns of all fetched rows.
        going: Where each clean row goes; None before that is decided.
        rejected: The dirty rows as files have them; None while there are none.
        left_out: Rows that `where` leaves out, for their times alone; None when there are none.
        kinds: `RowKind` of each clean row, in a table with a key; else None.
        begins: In a table with a key: fetched rows with which a source begins to send all its rows.
        expanded: A fetched row may be several clean ones, which stay or go together.
        assigned: Partitions of the clean rows, where one step found those of several routes.
        newest: Greatest event times by split, where they were counted before the rows were dealt.
        elsewhere: Fetched rows that other routes of the same `route_by` have.
        found: Tables that rows name and that are not there yet.
    """

    batches: Sequence[SourceBatch]
    bounds: Sequence[int]
    now_us: int
    columns: pa.RecordBatch
    indices: pa.Array
    dirty: list[DirtyRow] = field(default_factory=list)
    times: RowTimes = NO_TIMES
    meta: Sequence[pa.Array] = ()
    going: LateSplit | None = None
    rejected: pa.RecordBatch | None = None
    left_out: "RowBatch | None" = None
    kinds: pa.Array | None = None
    begins: frozenset[int] = frozenset()
    expanded: bool = False
    assigned: PartitionAssignment | None = None
    newest: Mapping[int, int] | None = None
    elsewhere: int = 0
    found: tuple[str, ...] = ()

    @property
    def places(self) -> LateSplit:
        """Where each clean row goes.

        Raises:
            RuntimeError: No stage has decided that.
        """
        if self.going is None:
            raise RuntimeError("no stage has found places for these rows")
        return self.going

    def spans(self) -> list[tuple[int, int, int]]:
        """(split, first row, row after the last) of the clean rows that each batch has left."""
        cuts = np.searchsorted(self.indices.to_numpy(), self.bounds).tolist()
        splits = (batch.split_index for batch in self.batches)
        return list(zip(splits, cuts[:-1], cuts[1:], strict=True))

    def newest_times(self) -> Mapping[int, int]:
        """Greatest event times by split, of rows that `where` leaves out too.

        Else a log of which few rows are wanted would hold back hours that are long over. No row
        counts for more than the time when it is read.
        """
        if self.newest is not None:
            return self.newest
        found = {} if self.left_out is None else dict(self.left_out.newest_times())
        if self.times.event is None or len(self.times.event) == 0:
            return found
        spans = [(split, begin) for split, begin, end in self.spans() if end > begin]
        times = self.times.event.to_numpy()
        each = np.maximum.reduceat(times, [begin for _, begin in spans]).tolist()
        for (split, _), newest in zip(spans, each, strict=True):
            known = min(newest, self.times.processing_us)
            found[split] = max(found.get(split, known), known)
        return found

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Leave out clean rows."""
        mask = pa.array(kept)
        self.columns = self.columns.filter(mask)
        self.indices = self.indices.filter(mask)
        self.times = times_of(self.times, kept)
        if self.going is not None:
            self.going = self.going.only(kept)
        if self.kinds is not None:
            self.kinds = self.kinds.filter(mask)

    def drop(self, found: Sequence[DirtyRow]) -> NDArray[np.bool_] | None:
        """Move clean rows that turned out dirty to `dirty`, renumbered as fetched rows.

        Args:
            found: `index` counts the clean rows.

        Returns:
            Which rows stayed; None when all did.
        """
        if not found:
            return None
        kept = np.ones(len(self.indices), dtype=np.bool_)
        fetched: dict[int, DirtyRow] = {}
        for row in found:
            kept[row.index] = False
            index = self.indices[row.index].as_py()
            fetched.setdefault(index, replace(row, index=index))
        self.dirty += fetched.values()
        if self.expanded:
            # One bad row makes its record dirty whole.
            kept &= ~np.isin(self.indices.to_numpy(), list(fetched))
        self.keep(kept)
        return kept

    def drop_fetched(self, found: Sequence[DirtyRow]) -> None:
        """As `drop`, for rows by their number among the fetched ones, where they are clean yet."""
        if not found:
            return
        places = {row: place for place, row in enumerate(self.indices.to_pylist())}
        first = {row.index: row for row in reversed(found) if row.index in places}
        self.drop([replace(first[index], index=places[index]) for index in sorted(first)])

    def records(self, rows: Sequence[int]) -> RawRecords:
        """What the queue has of fetched rows, whose numbers rise.

        Raises:
            ValueError: A source does not give one record a row.
        """
        cuts = np.searchsorted(rows, self.bounds).tolist()
        found: dict[str, list[Any]] = {column.name: [] for column in fields(RawRecords)}
        for batch, bound, begin, end in zip(
            self.batches, self.bounds, cuts, cuts[1:], strict=False
        ):
            if begin == end:
                continue
            records = batch.records([row - bound for row in rows[begin:end]])
            for name, column in found.items():
                given = getattr(records, name)
                if len(given) != end - begin:
                    raise ValueError(f"the source gave {len(given)} {name} for {end - begin} rows")
                column.extend(given)
        return RawRecords(**found)


class RowStage(Protocol):
    """One step of a task's pipeline. Created once per task, used by its thread."""

    def apply(self, rows: RowBatch) -> None:
        """Change the rows in place. Called once a read, after the stages before it."""
