"""Reads files of rows, as the reader of a table does: by the names of their columns."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from sluiceway.chains.reader import TableBatch
from sluiceway.errors import FileLostError, NotInThisVersionError, StorageUnavailableError
from sluiceway.sinks.files.reading import count_rows
from sluiceway.sinks.files.span_rows import RowSpan, span_columns
from sluiceway.sources.contract import SourceBatch, SourcePartition
from sluiceway.storage.contract import Storage


def read_files(
    storage: Storage, paths: Sequence[str], split_index: int, partition: SourcePartition
) -> Iterator[SourceBatch]:
    """All rows of some files, numbered from 0 on.

    Args:
        storage: Storage that they lie on.
        paths: Files of Parquet or ORC.
        split_index: Which split the rows are of.
        partition: What stands for their log.

    Raises:
        FileLostError: A file is gone, or cannot be read.
        NotInThisVersionError: Files of this format are not read.
        StorageUnavailableError: The store failed.
    """
    first = 0
    for path in paths:
        for columns in _columns(storage, path):
            yield TableBatch(split_index, partition, first, columns)
            first += columns.num_rows


def _columns(storage: Storage, path: str) -> Iterator[pa.RecordBatch]:
    try:
        if storage.status(path) is None:
            raise FileLostError("there is no such file", where=path)
        with storage.open_read(path) as handle:
            rows = count_rows(path, handle)
        with storage.open_read(path) as handle:
            yield from span_columns(handle, RowSpan(path, 0, rows, rows))
    except (pa.ArrowException, ValueError) as error:
        raise FileLostError(f"it cannot be read: {error}", where=path) from error
    except OSError as error:
        raise StorageUnavailableError(f"cannot be read: {error}", where=path) from error
    except NotInThisVersionError as error:
        raise NotInThisVersionError(
            "files of text, JSON, CSV or Avro are not read in this version",
            where=path,
            hint="give files of Parquet or ORC",
        ) from error
