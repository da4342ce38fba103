"""Reads rows of a table inside a task, from the files that have them now."""

import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from sluiceway.chains.options import HALT, UpstreamOptions
from sluiceway.chains.row_texts import row_texts
from sluiceway.chains.upstream import UpstreamLedger
from sluiceway.convert.column_rows import ColumnRows
from sluiceway.errors import (
    FileLostError,
    NotInThisVersionError,
    OffsetsLostError,
    SourceUnavailableError,
    StorageUnavailableError,
)
from sluiceway.ledger.places import is_below
from sluiceway.ledger.row_places import COUNTED_ONLY, Arrival, FileSpan, LetGo, RowBook
from sluiceway.sinks.files.span_rows import ROWS_COLUMN, RowSpan, read_stored, span_columns
from sluiceway.sinks.partition_path import parse_partition_folder
from sluiceway.sources.contract import (
    Headers,
    RawRecords,
    SourceBatch,
    SourcePartition,
    Split,
    SplitEnd,
    SplitReader,
)

_LOOK_AGAIN_S = 0.5
_MOST_KEPT = 8
_PLANNED_ROWS = 4_000_000


class TableBatch(SourceBatch):
    """Rows of a table that follow each other.

    Args:
        split_index: Which of the reader's splits.
        partition: The log.
        first: Place of the first row.
        columns: Columns to read, with their types.
    """

    def __init__(
        self, split_index: int, partition: SourcePartition, first: int, columns: pa.RecordBatch
    ) -> None:
        self.split_index = split_index
        self.values: ColumnRows = ColumnRows(columns, row_texts)
        self.offsets = np.arange(first, first + columns.num_rows, dtype=np.int64)
        self._partition = partition
        self._first = first

    def timestamps_ms(self) -> Sequence[int | None]:
        """A row of a table has no record time."""
        return [None] * len(self.values)

    def value_bytes(self) -> int:
        """Bytes of the columns."""
        size: int = self.values.columns.nbytes
        return size

    def records(self, rows: Sequence[int]) -> RawRecords:
        """The rows as JSON, without key and headers."""
        count = len(rows)
        return RawRecords(
            topics=[self._partition.topic] * count,
            partitions=[self._partition.partition] * count,
            offsets=[self._first + row for row in rows],
            timestamps_ms=[None] * count,
            keys=[None] * count,
            values=self.values.payloads(rows),
            headers=[()] * count,
        )

    def keys(self) -> Sequence[bytes | None]:
        """A row of a table has no key."""
        return [None] * len(self.values)

    def headers(self) -> Sequence[Headers]:
        """A row of a table has no headers."""
        return [()] * len(self.values)


@dataclass(slots=True)
class _Place:
    """How far a split is read.

    Attributes:
        batches: First places and columns of what was planned; None when it has to be planned.
        planned: Place after all that was planned.
        rows: Number of rows that were returned; those between that are gone are gaps.
    """

    split: Split
    at: int
    batches: Iterator[tuple[int, pa.RecordBatch]] | None = None
    planned: int = 0
    rows: int = 0
    look_s: float = 0.0


class TableReader(SplitReader):
    """Reads the one log of a table. Used by one thread.

    Args:
        splits: Ranges of row places to read.
        options: How the upstream table is reached.
    """

    def __init__(self, splits: Sequence[Split], options: UpstreamOptions) -> None:
        self._options = options
        self._places = [_Place(split, split.start_offset) for split in splits]
        self._upstream: UpstreamLedger | None = None

    def read(self, timeout_s: float) -> list[SourceBatch]:
        """See `SplitReader.read`: what is published when it is asked for."""
        found: list[SourceBatch] = []
        for index, place in enumerate(self._places):
            batch = self._next(index, place)
            if batch is not None:
                found.append(batch)
        if not found and not self.finished():
            time.sleep(min(timeout_s, _LOOK_AGAIN_S))
        return found

    def finished(self) -> bool:
        """See `SplitReader.finished`."""
        return all(
            place.split.stop_offset is not None and place.at >= place.split.stop_offset
            for place in self._places
        )

    def ends(self) -> tuple[SplitEnd, ...]:
        """See `SplitReader.ends`: a gap is a row that was let go of, or replaced, before."""
        return tuple(
            SplitEnd(place.at, place.rows, place.at - place.split.start_offset - place.rows, None)
            for place in self._places
        )

    def close(self, *, reusable: bool) -> None:
        """Keep what was read of the ledger for the next task of this process."""
        if self._upstream is not None and reusable:
            _keep(self._options, self._upstream)
        self._upstream = None

    def _next(self, index: int, place: _Place) -> SourceBatch | None:
        try:
            return self._batch(index, place)
        except (FileLostError, StorageUnavailableError) as error:
            # Perhaps it was merged with others: where the rows are now says the ledger.
            place.batches = None
            return self._after_loss(index, place, error)

    def _after_loss(
        self, index: int, place: _Place, error: FileLostError | StorageUnavailableError
    ) -> SourceBatch | None:
        before = self._spans(place)
        place.look_s = 0.0
        self._read_ledger(place)
        after = self._spans(place)
        if _paths(before) == _paths(after):
            if isinstance(error, StorageUnavailableError):
                raise SourceUnavailableError(
                    error.message, where=str(place.split.partition), hint=error.where
                ) from error
            raise error
        return None

    def _batch(self, index: int, place: _Place) -> SourceBatch | None:
        if place.batches is None and not self._plan(place):
            return None
        assert place.batches is not None  # noqa: S101 - planned just now
        found = next(place.batches, None)
        if found is None:
            place.at, place.batches = place.planned, None
            return self._batch(index, place)
        first, columns = found
        place.at = first + columns.num_rows
        place.rows += columns.num_rows
        return TableBatch(index, place.split.partition, first, columns)

    def _plan(self, place: _Place) -> bool:
        """Map the next rows to files; whether there are any."""
        if self._stop(place) <= place.at:
            self._read_ledger(place)
        end = self._ledger().end
        if place.at > end:
            raise OffsetsLostError(
                f"offset {place.at} is not there: the table has rows from "
                f"{self._ledger().book.first} to {end}",
                where=str(place.split.partition),
                hint="was the table put back from a backup? Rows that were read are safe; this "
                "route goes on when the table has come so far, or after `offsets reset`",
            )
        spans = self._spans(place)
        place.planned = max(min(self._stop(place), place.at + _PLANNED_ROWS), place.at)
        if place.planned > place.at:
            place.batches = self._batches(spans)
        return place.batches is not None

    def _stop(self, place: _Place) -> int:
        end = self._ledger().end
        stop = place.split.stop_offset
        return end if stop is None else min(end, stop)

    def _read_ledger(self, place: _Place) -> None:
        """Read the ledger on, now and then."""
        if time.monotonic() < place.look_s:
            return
        place.look_s = time.monotonic() + _LOOK_AGAIN_S
        try:
            self._ledger().read_on()
        except StorageUnavailableError as error:
            raise SourceUnavailableError(
                error.message, where=str(place.split.partition), hint=error.where
            ) from error

    def _ledger(self) -> UpstreamLedger:
        if self._upstream is None:
            start = min(place.at for place in self._places)
            kept = _KEPT.pop(self._options, None)
            if kept is None or kept.book.after > kept.slot_before(start) or not kept.is_same():
                kept = UpstreamLedger(self._options.found_root(), self._options.stores, RowBook())
            self._upstream = kept
            kept.read_on()
            kept.book.forget_up_to(kept.slot_before(start))
        return self._upstream

    def _spans(self, place: _Place) -> list[FileSpan]:
        book, stop = self._ledger().book, self._stop(place)
        if stop <= place.at:
            return []
        left = []
        for each in book.between(place.at, min(stop, place.at + _PLANNED_ROWS)):
            let_go = book.let_go(each.partition, each.life)
            if let_go is None:
                left.append(each)
            elif let_go.slot > place.split.newest_slot:
                self._refuse(each, let_go, place.split)
        return book.spans(left)

    def _refuse(self, row: Arrival, let_go: LetGo, split: Split) -> None:
        """Refuse to leave rows out, unless they were replaced and that is followed or ignored."""
        partition = split.partition
        if not let_go.corrected:
            raise OffsetsLostError(
                f"row {row.place} of {row.partition} was let go of in slot {let_go.slot} "
                f"before it was read ({let_go.reason})",
                where=str(partition),
                hint="rows that were read are safe; `sluiceway offsets reset JOB --partition "
                f"{partition.topic}:0 --to {self._ledger().book.whole_from} --accept-gap --reason "
                "TEXT` goes on after the gap",
            )
        if self._options.on_correction == HALT:
            raise OffsetsLostError(
                f"row {row.place} of {row.partition} was replaced in slot {let_go.slot} before it "
                "was read, and source.on_correction is `halt`",
                where=str(partition),
                hint="rows that were read are safe; with on_correction: follow the partition is "
                "rebuilt, with ignore these rows are left out",
            )

    def _batches(self, spans: Sequence[FileSpan]) -> Iterator[tuple[int, pa.RecordBatch]]:
        upstream = self._ledger()
        for span in spans:
            first = span.place
            for batch in file_batches(upstream, span, self._options.columns):
                yield first, batch
                first += batch.num_rows


def file_batches(
    upstream: UpstreamLedger, span: FileSpan, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Rows of a live file, with what only their folders say.

    Args:
        upstream: The table.
        span: Which rows.
        columns: Names of columns, in lower case; none reads all.

    Raises:
        FileLostError: The file is gone, or is not what was committed.
        NotInThisVersionError: Files of this format are not read.
        StorageUnavailableError: The store failed.
    """
    path = upstream.layout.final(span.file.final)
    rows = RowSpan(path, span.first_row, span.rows, int(span.file.rows), span.file.bounds)
    gone = FileLostError("a file of the table that is read is gone", where=path)
    try:
        read = partial(span_columns, names=columns)
        for batch in read_stored(upstream.storage, rows, read, gone):
            yield _with_folders(batch, span)
    except NotInThisVersionError as error:
        raise NotInThisVersionError(
            "a table whose files are text, JSON, CSV or Avro is no source in this version",
            where=path,
            hint="read the topic that fills it",
        ) from error


class PrefixReader(SplitReader):
    """Reads the rows that a prefix had at a slot, as one split. Used by one thread.

    Args:
        splits: One, from 0 on; its offsets number the rows and mean nothing else.
        options: How the upstream table is reached, with `as_of`.
    """

    def __init__(self, splits: Sequence[Split], options: UpstreamOptions) -> None:
        (self._split,) = splits
        self._options = options
        self._rows = 0
        self._batches = self._read()
        self._over = False

    def read(self, timeout_s: float) -> list[SourceBatch]:
        """See `SplitReader.read`."""
        del timeout_s
        columns = next(self._batches, None)
        if columns is None:
            self._over = True
            return []
        first, self._rows = self._rows, self._rows + columns.num_rows
        return [TableBatch(0, self._split.partition, first, columns)]

    def finished(self) -> bool:
        """See `SplitReader.finished`."""
        return self._over

    def ends(self) -> tuple[SplitEnd, ...]:
        """See `SplitReader.ends`."""
        return (SplitEnd(self._rows, self._rows, 0, None),)

    def close(self, *, reusable: bool) -> None:
        """Nothing is held."""

    def _read(self) -> Iterator[pa.RecordBatch]:
        slot, _, prefix = self._options.as_of.partition(":")
        upstream = UpstreamLedger(
            self._options.found_root(), self._options.stores, RowBook(COUNTED_ONLY)
        )
        upstream.read_on(int(slot))
        counts = upstream.book.counts()
        upstream.read_on()
        for name, then in sorted(counts.items()):
            if not is_below(name, prefix):
                continue
            let_go = upstream.book.let_go(name, then.life)
            if let_go is not None:
                raise SourceUnavailableError(
                    f"{name} was replaced again, in slot {let_go.slot}; its rows at slot {slot} "
                    "are gone",
                    where=str(self._split.partition),
                    hint="it is read as it is then once the route has got there",
                )
            for span in upstream.book.first_rows(name, then.rows, int(slot)):
                yield from file_batches(upstream, span, self._options.columns)


_KEPT: OrderedDict[UpstreamOptions, UpstreamLedger] = OrderedDict()
"""What the tasks of this process have read of ledgers, for the next ones."""


def _keep(key: UpstreamOptions, upstream: UpstreamLedger) -> None:
    _KEPT[key] = upstream
    while len(_KEPT) > _MOST_KEPT:
        _KEPT.popitem(last=False)


def _paths(spans: Sequence[FileSpan]) -> list[tuple[str, int]]:
    return [(span.file.final, span.first_row) for span in spans]


def _with_folders(batch: pa.RecordBatch, span: FileSpan) -> pa.RecordBatch:
    """With what only the folders of the rows say, as texts; without what is no column."""
    names = [name for name in batch.schema.names if name != ROWS_COLUMN]
    columns = [batch.column(name) for name in names]
    folders = parse_partition_folder(span.partition)
    for (name, _), value in zip(folders, span.file.values, strict=True):
        if name.lower() not in names:
            names.append(name.lower())
            columns.append(pa.repeat(pa.scalar(value, pa.string()), batch.num_rows))
    return pa.RecordBatch.from_arrays(columns, names=names) if columns else batch
