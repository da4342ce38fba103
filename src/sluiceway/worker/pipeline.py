"""From fetched batches to staged files: decode, event time, partition, write; every row counted."""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sluiceway.eventtime.partition_values import NO_TIMES, RowTimes
from sluiceway.formats.contract import Decoded, DirtyRow, RowDecoder
from sluiceway.formats.registry import open_decoder
from sluiceway.ledger.data_parts import NO_LATE_ROWS, LateRows
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.offset_sum import ZERO, add_sums, offset_sum
from sluiceway.ledger.records import RowCounts
from sluiceway.sinks.change_judge import ChangeJudge
from sluiceway.sinks.files.registry import open_format
from sluiceway.sources.contract import RawRecords, SourceBatch
from sluiceway.storage.contract import Storage
from sluiceway.types.payloads import JoinedPayloads
from sluiceway.types.row_kinds import KIND_COLUMN, RowKind
from sluiceway.types.schema_header import VALUE_HEADER, with_schema_headers
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.dirty_file import dirty_batch
from sluiceway.worker.field_samples import open_samples
from sluiceway.worker.keyed_rows import KeyedRows, check_one_partition, has_several
from sluiceway.worker.late_rows import LateJudge, LateSplit
from sluiceway.worker.meta_columns import MetaValues, meta_fields, meta_values
from sluiceway.worker.places import Values
from sluiceway.worker.plan import NO_FIGURES, DirtySample, ObservedField, TaskFigures, TaskPlan
from sluiceway.worker.replayed_changes import SUPERSEDED, judged
from sluiceway.worker.row_choices import ChosenRows, RowChooser
from sluiceway.worker.row_files import RowFiles
from sluiceway.worker.row_rules import NO_CHOICES
from sluiceway.worker.row_times import RowTimesReader, partition_assigner, times_of
from sluiceway.worker.row_writer import RowWriter
from sluiceway.worker.staged_files import StagedFiles
from sluiceway.worker.task_figures import DirtyTally, FigureTally, TaskClock, TaskUnfilledColumns
from sluiceway.worker.write_behind import WriteLane


@dataclass(slots=True)
class SplitTotals:
    """What the pipeline saw of one split."""

    rows: int = 0
    offset_sum: str = ZERO
    max_event_time_us: int | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What one attempt wrote."""

    attempt: str
    files: tuple[FileRecord, ...]
    dirty_files: tuple[FileRecord, ...]
    counts: RowCounts
    dirty_reasons: dict[str, int]
    notes: dict[str, int]
    totals: tuple[SplitTotals, ...]
    timings_ms: dict[str, int]
    dirty_samples: tuple[DirtySample, ...]
    unknown_fields: tuple[ObservedField, ...]
    late_files: tuple[FileRecord, ...] = ()
    late_rows: LateRows = NO_LATE_ROWS
    unfilled: tuple[str, ...] | None = None
    figures: TaskFigures = NO_FIGURES


@dataclass(slots=True)
class _Rows:
    """Clean rows on their way: columns, and which fetched row each one is.

    Attributes:
        expanded: A fetched row may be several of them, which stay or go together.
    """

    columns: pa.RecordBatch
    indices: pa.Array
    times: RowTimes = NO_TIMES
    kinds: pa.Array | None = None
    expanded: bool = False


@dataclass(slots=True)
class _Counted:
    read: int = 0
    dirty: int = 0
    filtered: int = 0
    skipped: int = 0
    expanded: int = 0
    late_rows: LateRows = NO_LATE_ROWS
    reasons: DirtyTally = field(default_factory=DirtyTally)
    notes: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))


class RowPipeline:
    """Takes fetched batches until it is closed or aborted. One task; used by its thread.

    Args:
        plan: The task.
        storage: The table's storage.
        lane: Writes its files while the caller's thread goes on. What touches files or counts
            what was written runs there, until `close` or `abort` has waited for it.
        files: Takes the rows; None stages files.
        started: When the task was, on the monotonic clock; None is now.
        judge: Judges changes that are read once more; None for changes of the queue.

    Attributes:
        figures: What is counted for metrics alone.
    """

    def __init__(
        self,
        plan: TaskPlan,
        storage: Storage,
        lane: WriteLane,
        files: RowFiles | None = None,
        *,
        started: float | None = None,
        judge: ChangeJudge | None = None,
    ) -> None:
        route = plan.route
        self._judge = judge
        self._route = route
        self._splits = [split.partition for split in plan.splits]
        self._decoder: RowDecoder = open_decoder(route.format, route.schema)
        self._samples = open_samples(route.schema, route.samples, self._decoder.fields_of)
        self._unfilled = TaskUnfilledColumns() if route.samples == "few" else None
        self._chooser: RowChooser | None = None
        row_schema = self._decoder.arrow_schema
        if route.choices != NO_CHOICES:
            self._chooser = RowChooser(route.schema, route.choices)
            row_schema = self._chooser.arrow_schema
        self._clock = TaskClock(
            plan.times.clock_us, time.monotonic() if started is None else started
        )
        self._times = RowTimesReader(route.event_time, route.partitions, row_schema)
        self._assigner = partition_assigner(route.partitions, route.event_time, row_schema)
        # What a partition column says is said by the folder alone, as Hive has it.
        left_out = {rule.name.lower() for rule in route.partitions if not rule.in_files}
        left_out |= {of.field.name.lower() for of in route.choices.columns if not of.written}
        names = row_schema.names
        self._kept = [i for i, name in enumerate(names) if name.lower() not in left_out]
        kept_fields = [row_schema.field(i) for i in self._kept]
        self._keyed: KeyedRows | None = None
        kind_fields: list[pa.Field] = []
        if route.key is not None:
            self._keyed = KeyedRows(route.key, route.schema)
            check_one_partition(route.key, self._splits)
            kind_fields.append(pa.field(KIND_COLUMN, pa.int32()))
        self._file_schema = pa.schema([*kept_fields, *meta_fields(route.meta), *kind_fields])
        self._format = open_format(self._file_schema, route.files)
        self._files = files or StagedFiles(storage, plan, self._file_schema)
        self._late = LateJudge(plan, self._assigner)
        self._writer = RowWriter(self._files, lane.memory)
        self._lane = lane
        rules = route.rolling
        due_s = min(rules.roll_interval_s, rules.idle_close_s)
        # In a shorter epoch no file grows that old.
        self._tend_every_s = due_s / 4 if due_s < plan.deadline_s else math.inf
        self._next_tend_s = time.monotonic() + self._tend_every_s
        self._counted = _Counted()
        self._totals = [SplitTotals() for _ in plan.splits]
        self.figures = FigureTally(self._splits)

    @property
    def rows_read(self) -> int:
        """Rows that were handed over so far."""
        return self._counted.read

    def write(self, batches: Sequence[SourceBatch]) -> None:
        """Decode, convert and route what one read returned, and have it written.

        Returns before it is written, unless too much waits for that.

        Args:
            batches: At most one a split; offsets rising within each.

        Raises:
            StorageUnavailableError: The store failed, perhaps at what came before; the attempt is
                discarded.
            TaskFailedError: Rows cannot be written.
        """
        started, now_us = time.monotonic(), self._clock.now_us()
        bounds = self._count_rows(batches)
        self._counted.read += bounds[-1]
        self.figures.count(batches)
        payloads = self._payloads(batches)
        decoded = self._decoder.decode(payloads)
        self._counted.skipped += decoded.skipped
        self._counted.notes.update(decoded.notes)
        if self._samples is not None:
            self._samples.sample(payloads, decoded.dirty)
        if self._unfilled is not None:
            self._unfilled.check(decoded.rows)
        dirty = list(decoded.dirty)
        rows = _Rows(decoded.rows, decoded.indices, kinds=decoded.kinds)
        begun = _begun(decoded)
        self._settle_keys(rows, batches, dirty)
        meta = meta_values(self._route.meta, batches, self._splits)
        _drop_fetched(rows, meta.dirty, dirty)
        decoded_at = time.monotonic()
        left_out = self._choose(rows, dirty)
        rows.times, timeless = self._times.read(rows.columns, rows.indices, batches, now_us)
        _drop(rows, timeless, dirty)
        converted_at = time.monotonic()
        going = self._find_places(rows, dirty, bounds, batches)
        clean = self._with_meta(rows, meta, bounds[-1])
        clean, going = self._fit_for_files(rows, clean, going, dirty)
        overtaken: NDArray[np.bool_] | None = None
        if self._judge is not None:
            clean, going, overtaken = self._judged(rows, clean, going, dirty, (bounds, batches))
        if rows.expanded:
            self._counted.expanded += len(rows.indices) - len(rows.indices.unique())
        if overtaken is not None:
            clean, going = self._without(rows, clean, going, overtaken)
        if begun and self._judge is None:
            lost = sorted(begun - set(rows.indices.to_pylist()))
            clean, going = self._with_lost_firsts(rows, clean, going, meta, lost)
        self._note_event_times(rows, bounds, batches)
        if left_out is not None:
            self._note_left_out(left_out, bounds, batches, now_us)
        rejected = self._dirty_batch(dirty, bounds, batches)
        routed_at = time.monotonic()
        size_bytes = clean.nbytes + (0 if rejected is None else rejected.nbytes)
        self._lane.submit(size_bytes, partial(self._writer.write, clean, going, rejected))
        self._counted.seconds["decode"] += decoded_at - started
        self._counted.seconds["convert"] += converted_at - decoded_at
        self._counted.seconds["route"] += routed_at - converted_at
        self._counted.seconds["write_wait"] += time.monotonic() - routed_at

    def _settle_keys(
        self, rows: _Rows, batches: Sequence[SourceBatch], dirty: list[DirtyRow]
    ) -> None:
        """Give changes the whole keys of their rows; of a record the last change of each counts."""
        if self._keyed is None or rows.kinds is None:
            return
        settled = self._keyed.complete_keys(rows.columns, rows.kinds, batches, rows.indices)
        rows.columns = settled[0]
        rows.expanded = has_several(rows.indices)
        _drop(rows, settled[1], dirty)
        if rows.expanded:
            _keep(rows, self._keyed.last_of_records(rows.columns, rows.indices))

    def poll(self) -> None:
        """Have files closed that are open, or had no row, for too long. Called now and then.

        Raises:
            StorageUnavailableError: The store failed, perhaps at what came before; the attempt is
                discarded.
            TaskFailedError: A file is not what was written.
        """
        if time.monotonic() < self._next_tend_s:
            return
        self._next_tend_s = time.monotonic() + self._tend_every_s
        self._lane.submit(0, self._writer.poll)

    def _payloads(self, batches: Sequence[SourceBatch]) -> Sequence[bytes | None]:
        if self._decoder.reads_schema_header:
            return [
                value
                for batch in batches
                for value in with_schema_headers(batch.values, batch.headers(), VALUE_HEADER)
            ]
        if self._decoder.takes_any_sequence:
            return JoinedPayloads([batch.values for batch in batches])
        return [value for batch in batches for value in batch.values]

    def _count_rows(self, batches: Sequence[SourceBatch]) -> list[int]:
        """Add the batches to their splits' totals; where each batch begins among all rows."""
        bounds = [0]
        for batch in batches:
            bounds.append(bounds[-1] + len(batch.values))
            totals = self._totals[batch.split_index]
            totals.rows += len(batch.values)
            number = self._splits[batch.split_index].partition
            part = offset_sum(number, np.asarray(batch.offsets, dtype=np.int64))
            totals.offset_sum = add_sums(totals.offset_sum, part)
        return bounds

    def close(self) -> Written:
        """Close and check the files. Called once, after the last batch.

        Raises:
            StorageUnavailableError: The store failed; the attempt is discarded.
            TaskFailedError: A file is not what was written.
        """
        started = time.monotonic()
        self._lane.finish()
        files, dirty_files, late_files = self._writer.close()
        counted = self._counted
        late = counted.late_rows.plus(self._writer.late_rows)
        counted.seconds["write"] += self._writer.seconds
        counted.seconds["close"] += time.monotonic() - started
        return Written(
            attempt=self._files.attempt,
            files=files,
            dirty_files=dirty_files,
            counts=RowCounts(
                BigInt(counted.read),
                BigInt(self._writer.rows),
                BigInt(counted.dirty),
                late.side,
                BigInt(counted.filtered),
                BigInt(counted.skipped),
                BigInt(counted.expanded),
            ),
            dirty_reasons=counted.reasons.counts(),
            notes=dict(counted.notes),
            totals=tuple(self._totals),
            timings_ms={name: int(spent * 1000) for name, spent in counted.seconds.items()},
            dirty_samples=tuple(counted.reasons.samples),
            unknown_fields=() if self._samples is None else self._samples.fields(),
            late_files=late_files,
            late_rows=late,
            unfilled=self._unfilled_names(),
            figures=self.figures.finished(self._files.most_open),
        )

    def _unfilled_names(self) -> tuple[str, ...] | None:
        if self._unfilled is None:
            return None
        return self._unfilled.names(() if self._samples is None else self._samples.named)

    def abort(self) -> None:
        """Drop what is open. Safe to repeat."""
        self._lane.drop()
        self._writer.abort()

    def _choose(self, rows: _Rows, dirty: list[DirtyRow]) -> _Rows | None:
        """Fill in the columns that the payload does not have; leave out what `where` does.

        Returns:
            What is left out; None when nothing is.
        """
        if self._chooser is None:
            return None
        chosen = self._chooser.apply(rows.columns)
        rows.columns = chosen.columns
        if rows.kinds is not None:
            self._choose_changes(rows, chosen, dirty)
            return None
        kept = _drop(rows, chosen.dirty, dirty)
        if chosen.matching is None:
            return None
        matching = chosen.matching if kept is None else chosen.matching[kept]
        self._counted.filtered += int(np.count_nonzero(~matching))
        left_out = _Rows(rows.columns, rows.indices)
        _keep(left_out, ~matching)
        _keep(rows, matching)
        return left_out

    def _choose_changes(self, rows: _Rows, chosen: ChosenRows, dirty: list[DirtyRow]) -> None:
        """A row that `where` does not let through any more leaves the table; no delete is dirty."""
        kinds = np.asarray(rows.kinds)
        deletes = (kinds == RowKind.DELETE) | (kinds == RowKind.TRUNCATE)
        if chosen.matching is not None:
            leaving = ~chosen.matching & ~deletes
            leaving[[row.index for row in chosen.dirty]] = False
            deletes |= leaving
            # That a snapshot begins has to be seen whatever becomes of the row.
            gone = np.where(kinds == RowKind.FIRST, RowKind.FIRST_GONE, RowKind.DELETE)
            rows.kinds = pa.array(np.where(leaving, gone, kinds).astype(np.int8))
        _drop(rows, [row for row in chosen.dirty if not deletes[row.index]], dirty)

    def _find_places(
        self,
        rows: _Rows,
        dirty: list[DirtyRow],
        bounds: list[int],
        batches: Sequence[SourceBatch],
    ) -> LateSplit:
        """Where each row goes: its partition, or where late rows go."""
        codes, values = self._assign(rows, dirty)
        going = self._late.judge(values, codes, rows.times.event, _spans(rows, bounds, batches))
        left = _drop(rows, going.dirty, dirty)
        late_dirty = LateRows(dirty=BigInt(len(going.dirty)))
        self._counted.late_rows = self._counted.late_rows.plus(late_dirty)
        return going if left is None else going.only(left)

    def _assign(self, rows: _Rows, dirty: list[DirtyRow]) -> tuple[NDArray[np.int32], list[Values]]:
        """Partition of each row, as codes into a list of values."""
        found = self._assigner.assign(rows.columns, rows.times)
        left = _drop(rows, found.dirty, dirty)
        return (found.codes if left is None else found.codes[left]), found.values

    def _note_event_times(
        self, rows: _Rows, bounds: list[int], batches: Sequence[SourceBatch]
    ) -> None:
        """Greatest event times by split; no row counts for more than the time when it is read."""
        times = rows.times.event
        if times is not None and len(times):
            self.figures.happened(times)
            self._raise_newest(rows, bounds, batches)

    def _note_left_out(
        self, rows: _Rows, bounds: list[int], batches: Sequence[SourceBatch], now_us: int
    ) -> None:
        """Rows that `where` leaves out say how far time is, like others; no time of them is dirty.

        Else a log of which few rows are wanted would hold back hours that are long over.
        """
        rows.times, timeless = self._times.read(rows.columns, rows.indices, batches, now_us)
        sane = np.ones(len(rows.indices), dtype=np.bool_)
        sane[[row.index for row in timeless]] = False
        _keep(rows, sane)
        if rows.times.event is not None:
            self._raise_newest(rows, bounds, batches)

    def _raise_newest(self, rows: _Rows, bounds: list[int], batches: Sequence[SourceBatch]) -> None:
        times = rows.times.event
        assert times is not None  # noqa: S101 - asked by the caller
        for split, begin, end in _spans(rows, bounds, batches):
            if end > begin:
                newest = pc.max(times.slice(begin, end - begin)).as_py()
                newest = min(newest, rows.times.processing_us)
                totals = self._totals[split]
                before = totals.max_event_time_us
                totals.max_event_time_us = newest if before is None else max(newest, before)

    def _with_meta(self, rows: _Rows, meta: MetaValues, fetched: int) -> pa.RecordBatch:
        columns = [rows.columns.column(i) for i in self._kept]
        everything = fetched == len(rows.indices) and not rows.expanded
        columns += [array if everything else array.take(rows.indices) for array in meta.arrays]
        if rows.kinds is not None:
            columns.append(rows.kinds.cast(pa.int32()))
        return pa.RecordBatch.from_arrays(columns, schema=self._file_schema)

    def _fit_for_files(
        self,
        rows: _Rows,
        clean: pa.RecordBatch,
        going: LateSplit,
        dirty: list[DirtyRow],
    ) -> tuple[pa.RecordBatch, LateSplit]:
        """What is written of the rows: rows that files of the table's format can hold."""
        kept = _drop(rows, self._format.unfit_rows(clean), dirty)
        return (clean, going) if kept is None else (clean.filter(pa.array(kept)), going.only(kept))

    def _judged(
        self,
        rows: _Rows,
        clean: pa.RecordBatch,
        going: LateSplit,
        dirty: list[DirtyRow],
        read: tuple[list[int], Sequence[SourceBatch]],
    ) -> tuple[pa.RecordBatch, LateSplit, NDArray[np.bool_]]:
        """What a replay may write, and which of it a later change has overtaken."""
        assert self._judge is not None  # noqa: S101 - the caller's judge
        sources = [
            self._splits[split].topic
            for split, begin, end in _spans(rows, *read)
            for _ in range(begin, end)
        ]
        clean, overtaken, unknown = judged(self._judge, clean, sources)
        kept = _drop(rows, unknown, dirty)
        if kept is None:
            return clean, going, overtaken
        return clean.filter(pa.array(kept)), going.only(kept), overtaken[kept]

    def _without(
        self, rows: _Rows, clean: pa.RecordBatch, going: LateSplit, overtaken: NDArray[np.bool_]
    ) -> tuple[pa.RecordBatch, LateSplit]:
        """The changes that no later one has overtaken; the others are counted."""
        count = int(np.count_nonzero(overtaken))
        if not count:
            return clean, going
        self._counted.skipped += count
        self._counted.notes[SUPERSEDED] += count
        _keep(rows, ~overtaken)
        return clean.filter(pa.array(~overtaken)), going.only(~overtaken)

    def _with_lost_firsts(
        self,
        rows: _Rows,
        clean: pa.RecordBatch,
        going: LateSplit,
        meta: MetaValues,
        lost: list[int],
    ) -> tuple[pa.RecordBatch, LateSplit]:
        """Report snapshots that begin with dirty records: rows with a place and a kind alone."""
        if not lost:
            return clean, going
        at = pa.array(lost)
        none = [pa.nulls(len(lost), field.type) for field in rows.columns.schema]
        nothing = pa.RecordBatch.from_arrays(none, schema=rows.columns.schema)
        found = self._assigner.assign(nothing, NO_TIMES)
        arrays = [none[i] for i in self._kept] + [array.take(at) for array in meta.arrays]
        arrays.append(pa.array([int(RowKind.FIRST_LOST)] * len(lost), pa.int32()))
        told = pa.RecordBatch.from_arrays(arrays, schema=clean.schema)
        codes = np.concatenate([going.codes, found.codes + len(going.places)])
        # Each is a row in addition to the dirty one of its record.
        self._counted.expanded += len(lost)
        whole = pa.Table.from_batches([clean, told]).combine_chunks().to_batches()
        return whole[0], LateSplit([*going.places, *found.values], codes)

    def _dirty_batch(
        self, dirty: list[DirtyRow], bounds: list[int], batches: Sequence[SourceBatch]
    ) -> pa.RecordBatch | None:
        if not dirty:
            return None
        self._counted.dirty += len(dirty)
        dirty.sort(key=lambda row: row.index)
        records = _records([row.index for row in dirty], bounds, batches)
        self._counted.reasons.add(dirty, records)
        route = self._route
        return dirty_batch(dirty, records, route.schema_version, text_keys=route.text_keys)


def _begun(decoded: Decoded) -> set[int]:
    """Records with which a source begins to send all its rows, whatever becomes of them."""
    if decoded.kinds is None:
        return set()
    firsts = pc.equal(decoded.kinds, pa.scalar(int(RowKind.FIRST), decoded.kinds.type))
    return {*decoded.indices.filter(firsts).to_pylist(), *decoded.begins}


def _spans(
    rows: _Rows, bounds: list[int], batches: Sequence[SourceBatch]
) -> list[tuple[int, int, int]]:
    """(split, first row, row after the last) of the rows that each batch has left."""
    cuts = np.searchsorted(rows.indices.to_numpy(), bounds).tolist()
    splits = (batch.split_index for batch in batches)
    return list(zip(splits, cuts[:-1], cuts[1:], strict=True))


def _records(rows: list[int], bounds: list[int], batches: Sequence[SourceBatch]) -> RawRecords:
    """What the queue has of rows whose numbers rise.

    Raises:
        ValueError: A source does not give one record a row.
    """
    cuts = np.searchsorted(rows, bounds).tolist()
    found: dict[str, list[Any]] = {column.name: [] for column in fields(RawRecords)}
    for batch, bound, begin, end in zip(batches, bounds, cuts, cuts[1:], strict=False):
        if begin == end:
            continue
        records = batch.records([row - bound for row in rows[begin:end]])
        for name, column in found.items():
            given = getattr(records, name)
            if len(given) != end - begin:
                raise ValueError(f"the source gave {len(given)} {name} for {end - begin} rows")
            column.extend(given)
    return RawRecords(**found)


def _drop(
    rows: _Rows, found: Sequence[DirtyRow], dirty: list[DirtyRow]
) -> NDArray[np.bool_] | None:
    """Move rows that turned out dirty from `rows` to `dirty`, renumbered as fetched rows.

    Returns:
        Which rows stayed; None when all did.
    """
    if not found:
        return None
    kept = np.ones(len(rows.indices), dtype=np.bool_)
    fetched: dict[int, DirtyRow] = {}
    for row in found:
        kept[row.index] = False
        index = rows.indices[row.index].as_py()
        fetched.setdefault(index, replace(row, index=index))
    dirty += fetched.values()
    if rows.expanded:
        # One bad row makes its record dirty whole.
        kept &= ~np.isin(rows.indices.to_numpy(), list(fetched))
    _keep(rows, kept)
    return kept


def _drop_fetched(rows: _Rows, found: Sequence[DirtyRow], dirty: list[DirtyRow]) -> None:
    """Move rows to `dirty` by their number among the fetched ones, where they are rows at all."""
    if not found:
        return
    places = {row: place for place, row in enumerate(rows.indices.to_pylist())}
    first = {row.index: row for row in reversed(found) if row.index in places}
    _drop(rows, [replace(first[index], index=places[index]) for index in sorted(first)], dirty)


def _keep(rows: _Rows, kept: NDArray[np.bool_]) -> None:
    mask = pa.array(kept)
    rows.columns = rows.columns.filter(mask)
    rows.indices = rows.indices.filter(mask)
    rows.times = times_of(rows.times, kept)
    if rows.kinds is not None:
        rows.kinds = rows.kinds.filter(mask)
