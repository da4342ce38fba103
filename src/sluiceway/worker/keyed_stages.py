"""The stages that only rows of a table with a key pass: whole keys, kinds of changes, replays."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.eventtime.partition_values import NO_TIMES, PartitionAssigner
from sluiceway.sinks.change_judge import ChangeJudge
from sluiceway.sources.contract import SourcePartition
from sluiceway.types.row_kinds import RowKind
from sluiceway.types.schema import Schema
from sluiceway.worker.keyed_rows import KeyedRows, check_one_partition, has_several
from sluiceway.worker.late_rows import LateSplit
from sluiceway.worker.plan import KeyRule
from sluiceway.worker.replayed_changes import SUPERSEDED, judged
from sluiceway.worker.row_batch import RowBatch
from sluiceway.worker.row_choices import ChosenRows
from sluiceway.worker.row_stages import ChooseRows, FitToFiles
from sluiceway.worker.task_figures import TaskCounts


class CompleteKeys:
    """Gives changes the whole keys of their rows; of a record the last change of each key counts.

    Args:
        rule: Which columns, and the form of the records' keys.
        schema: Columns that are decoded from the payload.
        splits: The log of each split.

    Raises:
        SourceOrderError: A topic has more partitions than its order allows.
    """

    def __init__(self, rule: KeyRule, schema: Schema, splits: Sequence[SourcePartition]) -> None:
        self._keyed = KeyedRows(rule, schema)
        check_one_partition(rule, splits)

    def apply(self, rows: RowBatch) -> None:
        """See `RowStage`."""
        kinds: pa.Array = rows.kinds
        firsts = pc.equal(kinds, pa.scalar(int(RowKind.FIRST), kinds.type))
        rows.begins |= frozenset(rows.indices.filter(firsts).to_pylist())
        rows.columns, dirty = self._keyed.complete_keys(
            rows.columns, kinds, rows.batches, rows.indices
        )
        rows.expanded = has_several(rows.indices)
        rows.drop(dirty)
        if rows.expanded:
            rows.keep(self._keyed.last_of_records(rows.columns, rows.indices))


class ChooseChanges(ChooseRows):
    """As `ChooseRows`; a row that `where` does not let through any more leaves the table."""

    def _leave_out(self, rows: RowBatch, chosen: ChosenRows) -> None:
        kinds = np.asarray(rows.kinds)
        # No delete is dirty.
        deletes = (kinds == RowKind.DELETE) | (kinds == RowKind.TRUNCATE)
        if chosen.matching is not None:
            leaving = ~chosen.matching & ~deletes
            leaving[[row.index for row in chosen.dirty]] = False
            deletes |= leaving
            # That a snapshot begins has to be seen whatever becomes of the row.
            gone = np.where(kinds == RowKind.FIRST, RowKind.FIRST_GONE, RowKind.DELETE)
            rows.kinds = pa.array(np.where(leaving, gone, kinds).astype(np.int8))
        rows.drop([row for row in chosen.dirty if not deletes[row.index]])


class NewChanges:
    """Reports snapshots that begin with dirty records: rows with a place and a kind alone.

    Args:
        assigner: Assigns rows to the route's partitions.
        files: Made the columns of the rows before this stage.
        counts: Counts of the task.
    """

    def __init__(self, assigner: PartitionAssigner, files: FitToFiles, counts: TaskCounts) -> None:
        self._assigner = assigner
        self._files = files
        self._counts = counts

    def apply(self, rows: RowBatch) -> None:
        """See `RowStage`."""
        _count_expanded(rows, self._counts)
        lost = sorted(rows.begins - set(rows.indices.to_pylist())) if rows.begins else []
        if not lost:
            return
        at = pa.array(lost)
        before = self._files.before
        none = [pa.nulls(len(lost), field.type) for field in before]
        nothing = pa.RecordBatch.from_arrays(none, schema=before)
        found = self._assigner.assign(nothing, NO_TIMES)
        arrays = [none[i] for i in self._files.kept] + [array.take(at) for array in rows.meta]
        arrays.append(pa.array([int(RowKind.FIRST_LOST)] * len(lost), pa.int32()))
        further = pa.RecordBatch.from_arrays(arrays, schema=self._files.schema)
        # Each is a row in addition to the dirty one of its record.
        self._counts.expanded += len(lost)
        rows.columns = pa.concat_batches([rows.columns, further])
        going = rows.places
        codes = np.concatenate([going.codes, found.codes + len(going.places)])
        rows.going = LateSplit([*going.places, *found.values], codes)


class ReplayedChanges:
    """Leaves out changes that a later one of their key has overtaken, and counts them.

    Args:
        judge: Knows later changes.
        splits: The dirty file of each split.
        counts: Counts of the task.
    """

    def __init__(
        self, judge: ChangeJudge, splits: Sequence[SourcePartition], counts: TaskCounts
    ) -> None:
        self._judge = judge
        self._splits = splits
        self._counts = counts

    def apply(self, rows: RowBatch) -> None:
        """See `RowStage`."""
        sources = [
            self._splits[split].topic
            for split, begin, end in rows.spans()
            for _ in range(begin, end)
        ]
        rows.columns, overtaken, unknown = judged(self._judge, rows.columns, sources)
        kept = rows.drop(unknown)
        if kept is not None:
            overtaken = overtaken[kept]
        _count_expanded(rows, self._counts)
        count = int(np.count_nonzero(overtaken))
        if count:
            self._counts.skipped += count
            self._counts.notes[SUPERSEDED] += count
            rows.keep(~overtaken)


def _count_expanded(rows: RowBatch, counts: TaskCounts) -> None:
    """Count rows in addition to the first one of their record."""
    if rows.expanded:
        counts.expanded += len(rows.indices) - len(rows.indices.unique())
