"""Times of fetched rows: event time, the record's own, and when they are read."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sluiceway.eventtime.event_time import EventTimeReader, TimeBounds
from sluiceway.eventtime.partition_time import TimeKind, TimePattern
from sluiceway.eventtime.partition_values import (
    ConstantColumn,
    PartitionAssigner,
    PartitionColumn,
    PluginColumn,
    RowTimes,
    TimeColumn,
    TransformColumn,
    ValueColumn,
)
from sluiceway.eventtime.time_text import TimeText
from sluiceway.partitioners.registry import CheckedPartitioner, PartitionerChoice
from sluiceway.sinks.partition_path import partition_value_problem
from sluiceway.sources.contract import SourceBatch
from sluiceway.types.dirty import DirtyReason, DirtyRow
from sluiceway.types.iso_time import MAX_TIME_US, MIN_TIME_US
from sluiceway.worker.plan import PROCESSING_TIME, RECORD_TIME, EventTimeRule, PartitionRule


class RowTimesReader:
    """Reads what a route needs of its rows' times. Created once per task, used by one thread.

    Args:
        rule: Where the event time is; None without one.
        partitions: The partition columns.
        schema: Schema of the decoded rows.

    Raises:
        ValueError: The schema has no such field, or its type does not fit.
    """

    def __init__(
        self, rule: EventTimeRule | None, partitions: Sequence[PartitionRule], schema: pa.Schema
    ) -> None:
        self._own = rule.name if rule is not None and rule.name.startswith("$") else ""
        self._reader = _event_time_reader(rule, schema) if rule is not None else None
        self._bounds: TimeBounds | None = None
        if rule is not None:
            self._bounds = TimeBounds(rule.max_future_us, rule.min_us, rule.name)
        self._needs_record = self._own == RECORD_TIME or any(
            each.kind is TimeKind.RECORD for each in partitions
        )

    def read(
        self,
        rows: pa.RecordBatch,
        indices: pa.Array,
        batches: Sequence[SourceBatch],
        now_us: int,
    ) -> tuple[RowTimes, tuple[DirtyRow, ...]]:
        """Times of decoded rows, and the rows that have none or an impossible one.

        Args:
            rows: Decoded rows.
            indices: Which of the fetched rows each one is.
            batches: The fetched rows.
            now_us: When they are read.

        Returns:
            Times, with nulls where rows are dirty; and the dirty rows, by rising position in
            `rows`, once each.
        """
        found: list[DirtyRow] = []
        record = None
        if self._needs_record:
            record = _record_times(indices, batches)
            found += _without_record_time(record)
        event = None
        if self._reader is not None:
            times = self._reader.read(rows)
            event = times.micros
            found += times.dirty
        elif self._own:
            event = record if self._own == RECORD_TIME else _same(now_us, rows.num_rows)
        if event is not None and self._bounds is not None:
            found += self._bounds.outside(event, now_us)
        return RowTimes(event, record, now_us), _once_each(found)


def record_times_us(batches: Sequence[SourceBatch]) -> pa.Array:
    """Records' own times; null where a record has none within the calendar.

    Producers write them: a count of nanoseconds may be more than microseconds hold.
    """
    millis = pa.concat_arrays([pa.array(each.timestamps_ms(), pa.int64()) for each in batches])
    low, high = -(-MIN_TIME_US // 1000), MAX_TIME_US // 1000
    sane = pc.and_(pc.greater_equal(millis, low), pc.less_equal(millis, high))
    return pc.multiply(pc.if_else(sane, millis, None), 1000)


def times_of(times: RowTimes, rows: NDArray[np.bool_]) -> RowTimes:
    """The times of some rows."""
    if times.event is None and times.record is None:
        return times
    mask = pa.array(rows)
    return RowTimes(
        None if times.event is None else times.event.filter(mask),
        None if times.record is None else times.record.filter(mask),
        times.processing_us,
    )


def partition_assigner(
    partitions: Sequence[PartitionRule], event_time: EventTimeRule | None, schema: pa.Schema
) -> PartitionAssigner:
    """The assigner of a route's partition columns.

    Raises:
        ValueError: A column is missing, or cannot be a folder's text.
        UnhealthyEnvironmentError: A partitioner is not there, or does not work.
    """
    zone = event_time.timezone if event_time is not None else "UTC"
    partitioners = _Partitioners(partitions, schema)
    columns = [_column(rule, zone, partitioners) for rule in partitions]
    if any(rule.in_files for rule in partitions):
        return PartitionAssigner(columns, schema, None)
    for column in columns:
        if isinstance(column, ConstantColumn):
            problem = partition_value_problem(column.name, column.value)
            if problem is not None:
                raise ValueError(f"partition column {column.name}: {problem}")
    return PartitionAssigner(columns, schema, partition_value_problem)


class _Partitioners:
    """One partitioner for all columns that name it with the same options."""

    def __init__(self, partitions: Sequence[PartitionRule], schema: pa.Schema) -> None:
        names: dict[PartitionerChoice, list[str]] = {}
        for rule in partitions:
            if rule.partitioner is not None:
                names.setdefault(rule.partitioner, []).append(rule.name)
        self._names = names
        self._opened = {
            choice: CheckedPartitioner(choice, columns, schema) for choice, columns in names.items()
        }

    def column(self, name: str, choice: PartitionerChoice) -> PluginColumn:
        """The column of this name."""
        return PluginColumn(name, self._opened[choice], self._names[choice].index(name))


def _column(rule: PartitionRule, zone: str, partitioners: _Partitioners) -> PartitionColumn:
    if rule.partitioner is not None:
        return partitioners.column(rule.name, rule.partitioner)
    if rule.constant is not None:
        return ConstantColumn(rule.name, rule.constant)
    if rule.pattern is not None:
        pattern = TimePattern(rule.pattern, rule.timezone or zone)
        return TimeColumn(rule.name, pattern, rule.kind)
    if rule.transform is not None:
        return TransformColumn(rule.name, rule.column or rule.name, rule.transform)
    return ValueColumn(rule.name, rule.column or rule.name)


def _event_time_reader(rule: EventTimeRule, schema: pa.Schema) -> EventTimeReader | None:
    if rule.name in (RECORD_TIME, PROCESSING_TIME):
        return None
    text = None if rule.form is None else TimeText(rule.form, rule.timezone)
    return EventTimeReader(rule.path, rule.unit, schema, text=text)


def _record_times(indices: pa.Array, batches: Sequence[SourceBatch]) -> pa.Array:
    """Records' own times of the rows; null where a record has none within the calendar."""
    micros = record_times_us(batches)
    return micros if len(micros) == len(indices) else micros.take(indices)


def _without_record_time(times: pa.Array) -> list[DirtyRow]:
    if times.null_count == 0:
        return []
    message = "the record has no time of its own between the years 1 and 9999"
    return [
        DirtyRow(row, "event_time", DirtyReason.NULL, RECORD_TIME, message)
        for row in pc.indices_nonzero(pc.is_null(times)).to_pylist()
    ]


def _same(at_us: int, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(at_us, pa.int64()), rows)


def _once_each(found: Sequence[DirtyRow]) -> tuple[DirtyRow, ...]:
    """The first that was found of each row, by rising position."""
    first: dict[int, DirtyRow] = {}
    for row in found:
        first.setdefault(row.index, row)
    return tuple(first[index] for index in sorted(first))
