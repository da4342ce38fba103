"""The stages of every route's rows: decode, meta columns, choose, times, places, columns of files.

Those of a table with a key are in `keyed_stages`.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sluiceway.eventtime.partition_values import PartitionAssigner
from sluiceway.formats.registry import open_decoder
from sluiceway.ledger.data_parts import LateRows
from sluiceway.sinks.files.registry import open_format
from sluiceway.sources.contract import SourceBatch, SourcePartition
from sluiceway.types.dirty import DirtyRow
from sluiceway.types.payloads import JoinedPayloads
from sluiceway.types.row_kinds import KIND_COLUMN
from sluiceway.types.schema_header import VALUE_HEADER, with_schema_headers
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.dirty_file import dirty_batch
from sluiceway.worker.field_samples import open_samples
from sluiceway.worker.late_rows import LateJudge
from sluiceway.worker.meta_columns import meta_fields, meta_values
from sluiceway.worker.plan import ObservedField, RoutePlan, TaskPlan, Values
from sluiceway.worker.row_batch import RowBatch
from sluiceway.worker.row_choices import ChosenRows, RowChooser
from sluiceway.worker.row_times import RowTimesReader, partition_assigner
from sluiceway.worker.task_figures import (
    FigureTally,
    SplitTotals,
    TaskCounts,
    TaskUnfilledColumns,
)


class DecodeRows:
    """The stage that all others follow: from payloads to rows, and samples of unread fields.

    Args:
        route: The route.
        counts: Counts of the task.

    Attributes:
        schema: Arrow schema of decoded rows.
    """

    def __init__(self, route: RoutePlan, counts: TaskCounts) -> None:
        self._decoder = open_decoder(route.format, route.schema)
        self._samples = open_samples(route.schema, route.samples, self._decoder.fields_of)
        self._unfilled = TaskUnfilledColumns() if route.samples == "few" else None
        self._counts = counts
        self.schema: pa.Schema = self._decoder.arrow_schema

    def decode(
        self, batches: Sequence[SourceBatch], bounds: Sequence[int], now_us: int
    ) -> RowBatch:
        """Decode what one read returned. Called once a read; arguments as in `RowBatch`."""
        payloads = self._payloads(batches)
        decoded = self._decoder.decode(payloads)
        self._counts.skipped += decoded.skipped
        self._counts.notes.update(decoded.notes)
        if self._samples is not None:
            self._samples.sample(payloads, decoded.dirty)
        if self._unfilled is not None:
            self._unfilled.check(decoded.rows)
        return RowBatch(
            batches,
            bounds,
            now_us,
            decoded.rows,
            decoded.indices,
            list(decoded.dirty),
            kinds=decoded.kinds,
            begins=frozenset(decoded.begins),
        )

    def _payloads(self, batches: Sequence[SourceBatch]) -> Sequence[bytes | None]:
        if self._decoder.reads_schema_header and any(batch.may_have_headers() for batch in batches):
            return [
                value
                for batch in batches
                for value in with_schema_headers(batch.values, batch.headers(), VALUE_HEADER)
            ]
        if self._decoder.takes_any_sequence:
            return JoinedPayloads([batch.values for batch in batches])
        return [value for batch in batches for value in batch.values]

    def unknown_fields(self) -> tuple[ObservedField, ...]:
        """Fields that no column reads, in the rows so far."""
        return () if self._samples is None else self._samples.fields()

    def unfilled(self) -> tuple[str, ...] | None:
        """Columns that no row has filled so far; None when the route does not sample."""
        if self._unfilled is None:
            return None
        return self._unfilled.names(() if self._samples is None else self._samples.named)


class AddMeta:
    """Reads the meta columns of all fetched rows.

    Args:
        route: The route.
        splits: The log of each split, by index.
    """

    def __init__(self, route: RoutePlan, splits: Sequence[SourcePartition]) -> None:
        self._meta = route.meta
        self._splits = splits

    def apply(self, rows: RowBatch) -> None:
        """See `RowStage`."""
        found = meta_values(self._meta, rows.batches, self._splits)
        rows.meta = found.arrays
        rows.drop_fetched(found.dirty)


class ChooseRows:
    """Fills in the columns that the payload does not have; leaves out what `where` does.

    Args:
        route: The route.
        counts: Counts of the task.

    Attributes:
        schema: Arrow schema of chosen rows.
    """

    def __init__(self, route: RoutePlan, counts: TaskCounts) -> None:
        self._chooser = RowChooser(route.schema, route.choices)
        self._counts = counts
        self.schema: pa.Schema = self._chooser.arrow_schema

    def apply(self, rows: RowBatch) -> None:
        """See `RowStage`."""
        chosen = self._chooser.apply(rows.columns)
        rows.columns = chosen.columns
        self._leave_out(rows, chosen)

    def _leave_out(self, rows: RowBatch, chosen: ChosenRows) -> None:
        kept = rows.drop(chosen.dirty)
        if chosen.matching is None:
            return
        matching = chosen.matching if kept is None else chosen.matching[kept]
        self._counts.filtered += int(np.count_nonzero(~matching))
        rows.left_out = RowBatch(rows.batches, rows.bounds, rows.now_us, rows.columns, rows.indices)
        rows.left_out.keep(~matching)
        rows.keep(matching)


class ReadTimes:
    """Reads the times of rows; rows that `where` left out are timed too, and never dirty.

    Args:
        route: The route.
        schema: Schema of the rows.
    """

    def __init__(self, route: RoutePlan, schema: pa.Schema) -> None:
        self._times = RowTimesReader(route.event_time, route.partitions, schema)

    def apply(self, rows: RowBatch) -> None:
        """See `RowStage`."""
        rows.drop(self._read(rows))
        if rows.left_out is not None:
            untimed = self._read(rows.left_out)
            sane = np.ones(len(rows.left_out.indices), dtype=np.bool_)
            sane[[row.index for row in untimed]] = False
            rows.left_out.keep(sane)

    def _read(self, rows: RowBatch) -> tuple[DirtyRow, ...]:
        rows.times, untimed = self._times.read(
            rows.columns, rows.indices, rows.batches, rows.now_us
        )
        return untimed


class AssignAll:
    """Finds the partitions of rows before they are dealt to the tables of a `route_by`.

    Args:
        route: One of the routes; all have its partitions.
        schema: Schema of the rows.
    """

    def __init__(self, route: RoutePlan, schema: pa.Schema) -> None:
        self._assigner = partition_assigner(route.partitions, route.event_time, schema)

    def apply(self, rows: RowBatch) -> None:
        """See `RowStage`; where a row has no partition, each route finds its own and says so."""
        found = self._assigner.assign(rows.columns, rows.times)
        rows.assigned = None if found.dirty else found


class FindPlaces:
    """Finds where each row goes: its partition, or where late rows go.

    Args:
        plan: The task.
        assigner: Assigns rows to the route's partitions.
        counts: Counts of the task.
    """

    def __init__(self, plan: TaskPlan, assigner: PartitionAssigner, counts: TaskCounts) -> None:
        self._assigner = assigner
        self._late = LateJudge(plan, assigner)
        self._counts = counts

    def apply(self, rows: RowBatch) -> None:
        """See `RowStage`."""
        codes, values = self._assign(rows)
        rows.going = self._late.judge(values, codes, rows.times.event, rows.spans())
        late = rows.going.dirty
        rows.drop(late)
        self._counts.late_rows = self._counts.late_rows.plus(LateRows(dirty=BigInt(len(late))))

    def _assign(self, rows: RowBatch) -> tuple[NDArray[np.int32], list[Values]]:
        """Partition of each row, as codes into a list of values."""
        if rows.assigned is not None:
            return rows.assigned.codes, rows.assigned.values
        found = self._assigner.assign(rows.columns, rows.times)
        left = rows.drop(found.dirty)
        return (found.codes if left is None else found.codes[left]), found.values


class FitToFiles:
    """Gives rows the columns of the table's files, and drops rows that these cannot hold.

    Args:
        route: The route.
        before: Schema of the rows before this stage.

    Attributes:
        before: As given.
        kept: Places of the columns in it that files hold.
        schema: Schema of the files.
    """

    def __init__(self, route: RoutePlan, before: pa.Schema) -> None:
        # What a partition column says is said by the folder alone, as Hive has it.
        left_out = {rule.name.lower() for rule in route.partitions if not rule.in_files}
        left_out |= {of.field.name.lower() for of in route.choices.columns if not of.written}
        self.before = before
        self.kept = [i for i, name in enumerate(before.names) if name.lower() not in left_out]
        kinds = [] if route.key is None else [pa.field(KIND_COLUMN, pa.int32())]
        kept = [before.field(i) for i in self.kept]
        self.schema = pa.schema([*kept, *meta_fields(route.meta), *kinds])
        self._format = open_format(self.schema, route.files)

    def apply(self, rows: RowBatch) -> None:
        """See `RowStage`."""
        arrays = [rows.columns.column(i) for i in self.kept]
        everything = rows.bounds[-1] == len(rows.indices) and not rows.expanded
        arrays += [array if everything else array.take(rows.indices) for array in rows.meta]
        if rows.kinds is not None:
            arrays.append(rows.kinds.cast(pa.int32()))
        rows.columns = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        rows.drop(self._format.unfit_rows(rows.columns))


class CountEventTimes:
    """Counts greatest event times by split.

    Args:
        totals: Totals of each split.
        figures: What is counted for metrics alone.
    """

    def __init__(self, totals: Sequence[SplitTotals], figures: FigureTally) -> None:
        self._totals = totals
        self._figures = figures

    def apply(self, rows: RowBatch) -> None:
        """See `RowStage`."""
        times = rows.times.event
        if times is not None and len(times):
            self._figures.happened(times)
        for split, newest in rows.newest_times().items():
            totals = self._totals[split]
            before = totals.max_event_time_us
            totals.max_event_time_us = newest if before is None else max(newest, before)


class RejectDirty:
    """Makes the dirty rows of a read what dirty files hold.

    Args:
        route: The route.
        counts: Counts of the task.
    """

    def __init__(self, route: RoutePlan, counts: TaskCounts) -> None:
        self._route = route
        self._counts = counts

    def apply(self, rows: RowBatch) -> None:
        """See `RowStage`."""
        if not rows.dirty:
            return
        self._counts.dirty += len(rows.dirty)
        rows.dirty.sort(key=lambda row: row.index)
        records = rows.records([row.index for row in rows.dirty])
        self._counts.reasons.add(rows.dirty, records)
        route = self._route
        rows.rejected = dirty_batch(
            rows.dirty, records, route.schema_version, text_keys=route.text_keys
        )
