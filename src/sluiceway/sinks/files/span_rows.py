"""Some rows of a closed file that follow each other, as Arrow batches of the types asked for."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from sluiceway.errors import FileLostError, NotInThisVersionError, StorageUnavailableError
from sluiceway.sinks.files.contract import FileChoice, FileFormat
from sluiceway.sinks.files.merging import open_closed
from sluiceway.sinks.files.reading import avro_records, format_by_name
from sluiceway.storage.contract import Storage

_BATCH_ROWS = 16_384
ROWS_COLUMN = "_sw_rows"
"""Of nulls: a batch without a column would not know how many rows it has."""

_Columns = tuple[int, Mapping[str, pa.Array]]
"""A number of rows, and their columns by name in lower case."""


@dataclass(frozen=True, slots=True)
class RowSpan:
    """Rows `[first_row, first_row + rows)` of a file.

    Attributes:
        path: Path of the file.
        file_rows: Rows that it has in all, by the ledger.
        bounds: Bounds of its columns, as the ledger has them.
    """

    path: str
    first_row: int
    rows: int
    file_rows: int
    bounds: dict[str, tuple[str, ...]] = field(default_factory=dict)


def span_batches(handle: BinaryIO, span: RowSpan, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read rows of a file; columns are found by name, whatever its letter case.

    Args:
        handle: Handle on the file.
        span: Which rows.
        schema: Schema of the batches. A column that the file lacks is null, as for Hive.

    Raises:
        FileLostError: The file has another number of rows than the ledger says.
        NotInThisVersionError: Rows of such files are not read.
        ValueError: It is damaged.
        pa.ArrowException: It is damaged, or a value does not have the type asked for.
        OSError: It cannot be read.
    """
    wanted = {each.name.lower() for each in schema}
    for rows, columns in _pieces(handle, span, wanted, schema):
        arrays = [
            pa.nulls(rows, each.type)
            if (found := columns.get(each.name.lower())) is None
            else found.cast(each.type)
            for each in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def span_columns(
    handle: BinaryIO, span: RowSpan, names: Collection[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Read rows of a file as the types that it has.

    Args:
        handle: On the file.
        span: Which rows.
        names: Column names in lower case; an empty set takes all. What the file does not have is
            left out.

    Returns:
        Batches whose columns have names in lower case.

    Raises:
        FileLostError: The file has another number of rows than the ledger says.
        NotInThisVersionError: Rows of such files are not read.
        ValueError: It is damaged.
        pa.ArrowException: It is damaged.
        OSError: It cannot be read.
    """
    wanted = set(names) or None
    for rows, columns in _pieces(handle, span, wanted):
        kept = {name: each for name, each in columns.items() if not wanted or name in wanted}
        yield pa.RecordBatch.from_arrays(
            [*kept.values(), pa.nulls(rows)], names=[*kept, ROWS_COLUMN]
        )


def read_stored(
    storage: Storage,
    span: RowSpan,
    read: Callable[[BinaryIO, RowSpan], Iterator[pa.RecordBatch]],
    gone: FileLostError,
) -> Iterator[pa.RecordBatch]:
    """Read rows of a file of a store, by `span_batches` or `span_columns`.

    Args:
        storage: The table's storage.
        span: Which rows.
        read: Reads them from the open file.
        gone: The error for a file that does not exist.

    Raises:
        FileLostError: The file is gone or damaged, or was replaced after the commit.
        NotInThisVersionError: Rows of such files are not read.
        StorageUnavailableError: The store failed.
    """
    try:
        if storage.status(span.path) is None:
            raise gone
        with storage.open_read(span.path) as handle:
            yield from read(handle, span)
    except (pa.ArrowException, ValueError) as error:
        raise FileLostError(f"it cannot be read: {error}", where=span.path) from error
    except OSError as error:
        raise StorageUnavailableError(f"cannot be read: {error}", where=span.path) from error


def _pieces(
    handle: BinaryIO, span: RowSpan, wanted: set[str] | None, schema: pa.Schema | None = None
) -> Iterator[_Columns]:
    """All rows of a span; `wanted` are names in lower case, None for all that the file has."""
    kind = format_by_name(span.path)
    if kind is FileFormat.PARQUET:
        pieces = _parquet_pieces(handle, span, wanted)
    elif kind is FileFormat.ORC:
        pieces = _orc_pieces(handle, span)
    elif kind is FileFormat.AVRO and schema is not None:
        pieces = _avro_pieces(handle, span, schema)
    else:
        raise NotInThisVersionError(
            "rows of text, JSON and CSV files are not read here",
            where=span.path,
            hint='option("content", "files") gives the files for a reader of Spark',
        )
    read = 0
    for rows, columns in pieces:
        read += rows
        yield rows, columns
    if read != span.rows:
        raise _other_rows(span, f"{read} of {span.rows} rows are there")


def _parquet_pieces(handle: BinaryIO, span: RowSpan, wanted: set[str] | None) -> Iterator[_Columns]:
    # Into microseconds, which all values were written from: nanoseconds end in 2262.
    file = pq.ParquetFile(handle, coerce_int96_timestamp_unit="us")
    footer = file.metadata
    if footer.num_rows != span.file_rows:
        raise _other_rows(span, f"its footer says {footer.num_rows}")
    held = file.schema_arrow.names
    names = [name for name in held if wanted is None or name.lower() in wanted]
    if not names:
        for at in range(0, span.rows, _BATCH_ROWS):
            yield min(span.rows - at, _BATCH_ROWS), {}
        return
    stop, start, groups, before = span.first_row + span.rows, 0, [], 0
    for at in range(footer.num_row_groups):
        end = start + footer.row_group(at).num_rows
        if end <= span.first_row:
            before = end
        elif start < stop:
            groups.append(at)
        start = end
    batches = file.iter_batches(
        batch_size=_BATCH_ROWS, row_groups=groups, columns=names, use_threads=False
    )
    yield from _cut(batches, before, span)


def _orc_pieces(handle: BinaryIO, span: RowSpan) -> Iterator[_Columns]:
    source = open_closed(span.path, handle, FileChoice(FileFormat.ORC), span.bounds)
    yield from _cut(source.pieces(), 0, span)


def _cut(batches: Iterator[pa.RecordBatch], at: int, span: RowSpan) -> Iterator[_Columns]:
    """The wanted rows of batches that begin at row `at`."""
    stop = span.first_row + span.rows
    for batch in batches:
        skipped = max(span.first_row - at, 0)
        rows = min(stop - at, batch.num_rows) - skipped
        if rows > 0:
            kept = batch.slice(skipped, rows)
            names = (name.lower() for name in kept.schema.names)
            yield rows, dict(zip(names, kept.columns, strict=True))
        at += batch.num_rows
        if at >= stop:
            return


def _avro_pieces(handle: BinaryIO, span: RowSpan, schema: pa.Schema) -> Iterator[_Columns]:
    rows = islice(avro_records(handle), span.first_row, span.first_row + span.rows)
    while piece := list(islice(rows, _BATCH_ROWS)):
        found = {name.lower(): name for name in piece[0]}
        yield (
            len(piece),
            {
                each.name.lower(): pa.array([row[name] for row in piece], each.type)
                for each in schema
                if (name := found.get(each.name.lower())) is not None
            },
        )


def _other_rows(span: RowSpan, found: str) -> FileLostError:
    return FileLostError(
        f"it is not the file of {span.file_rows} rows that was committed: {found}",
        where=span.path,
        hint="`sluiceway verify JOB` says what is wrong",
    )
