"""Reads dirty files: their rows as the queue had them, and why they were dirty."""

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sluiceway.errors import StorageUnavailableError
from sluiceway.sources.contract import Headers, Origins, RawRecords, SourceBatch
from sluiceway.storage.contract import Storage

_ROWS_AT_ONCE = 1000
_BYTES_AT_ONCE = 16 << 20


class DirtyBatch(SourceBatch):
    """Rows of a dirty file that follow each other; their offsets are row numbers of the file.

    Args:
        split_index: Which split they are of.
        first_row: Number of the first one.
        rows: Columns of `DIRTY_SCHEMA`.
    """

    def __init__(self, split_index: int, first_row: int, rows: pa.RecordBatch) -> None:
        self.split_index = split_index
        self.offsets = np.arange(first_row, first_row + rows.num_rows, dtype=np.int64)
        self.values: Sequence[bytes | None] = rows.column("value").to_pylist()
        self._rows = rows

    def timestamps_ms(self) -> Sequence[int | None]:
        """See `SourceBatch`."""
        found: list[int | None] = self._rows.column("timestamp_ms").to_pylist()
        return found

    def origins(self) -> Origins:
        """See `SourceBatch`."""
        names = ("topic", "partition", "offset")
        return Origins(*(self._rows.column(name).to_pylist() for name in names))

    def keys(self) -> Sequence[bytes | None]:
        """See `SourceBatch`."""
        found: list[bytes | None] = self._rows.column("key").to_pylist()
        return found

    def headers(self) -> Sequence[Headers]:
        """See `SourceBatch`."""
        return _headers(self._rows)

    def records(self, rows: Sequence[int]) -> RawRecords:
        """See `SourceBatch`."""
        found = self._rows.take(pa.array(rows, pa.int64()))
        return RawRecords(
            topics=found.column("topic").to_pylist(),
            partitions=found.column("partition").to_pylist(),
            offsets=found.column("offset").to_pylist(),
            timestamps_ms=found.column("timestamp_ms").to_pylist(),
            keys=found.column("key").to_pylist(),
            values=found.column("value").to_pylist(),
            headers=_headers(found),
        )


def _headers(rows: pa.RecordBatch) -> list[Headers]:
    lists = rows.column("headers").to_pylist()
    return [tuple((one["name"], one["value"]) for one in each or ()) for each in lists]


def read_dirty_rows(
    storage: Storage,
    path: str,
    start: int,
    stop: int,
    columns: Sequence[str] | None = None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows `[start, stop)` of a dirty file, a thousand at the most at a time, about 16 MiB.

    Args:
        storage: The table's storage.
        path: Where the file is now.
        start: Number of the first row.
        stop: Number of the first row that is not read any more.
        columns: Chosen columns only; None reads all.

    Yields:
        The number of the first row, and the rows.

    Raises:
        StorageUnavailableError: The store failed, or the file cannot be read.
    """
    with storage.open_read(path) as stream:
        try:
            yield from _read(stream, start, stop, columns)
        except (pa.ArrowException, OSError) as error:
            raise StorageUnavailableError(
                f"the dirty file cannot be read: {error}",
                where=path,
                hint="`sluiceway verify JOB --deep` says whether it is what was committed",
            ) from error


def _read(
    stream: BinaryIO, start: int, stop: int, columns: Sequence[str] | None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    file = pq.ParquetFile(stream)
    begins, groups, first = 0, list[int](), 0
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if begins + rows > start and begins < stop:
            first = begins if not groups else first
            groups.append(group)
        begins += rows
    if not groups:
        return
    wanted = None if columns is None else list(columns)
    at = first
    for batch in file.iter_batches(_rows_at_once(file, groups), row_groups=groups, columns=wanted):
        low, high = max(start, at), min(stop, at + batch.num_rows)
        if low < high:
            yield low, batch.slice(low - at, high - low)
        at += batch.num_rows
        if at >= stop:
            return


def _rows_at_once(file: pq.ParquetFile, groups: Sequence[int]) -> int:
    """How many rows to hold: fewer when they are large, as large payloads are."""
    found = [file.metadata.row_group(group) for group in groups]
    mean_bytes: int = max(group.total_byte_size // max(group.num_rows, 1) for group in found)
    return max(1, min(_ROWS_AT_ONCE, _BYTES_AT_ONCE // max(mean_bytes, 1)))
