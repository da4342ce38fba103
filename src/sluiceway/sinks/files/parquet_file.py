"""Staged Parquet files: written by a task, then checked by it through a fresh handle."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal
from math import isfinite
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluiceway.errors import StorageUnavailableError, TaskFailedError
from sluiceway.sinks.files.column_bounds import bound_text, has_bounds, instant_text
from sluiceway.sinks.files.contract import (
    MICROS,
    TIMESTAMPS,
    FileChoice,
    TableFile,
    TableFormat,
    WrittenFile,
)
from sluiceway.sinks.files.field_ids import FIELD_IDS, INSTANTS, with_field_ids
from sluiceway.sinks.files.small_parquet import SmallParquetFiles, bound_texts
from sluiceway.storage.contract import StagedWriter

ROW_GROUP_BYTES = 64 << 20
_GATHERED_BYTES = 32 << 10
_ZSTD_LEVEL = 1
_SAMPLE_ROWS = 2_000
# Fewer rows say too little for later files.
_FEW_ROWS = 50
# To compress a column of a small file costs more than so few bytes are worth.
_LEAST_SAVED_BYTES = 256
# Above this share of distinct values a dictionary is built only to be given up.
_DICTIONARY_SHARE = 0.5


class ParquetFormat(TableFormat):
    """Parquet.

    Args:
        schema: Schema of every batch.
        choice: Compression, and with the setting `timestamps` as `micros` INT64 timestamps.
    """

    extension = ".parquet"

    def __init__(self, schema: pa.Schema, choice: FileChoice) -> None:
        self._schema = schema
        self._choice = choice
        self._columns = FileColumns(schema)
        ids = choice.setting(FIELD_IDS)
        self._stored: pa.Schema | None = None
        if ids is not None:
            self._stored = with_field_ids(schema, ids, choice.setting(INSTANTS) or "[]")

    def new_file(self, writer: StagedWriter) -> "ParquetStagedFile":
        """See `TableFormat.new_file`."""
        return ParquetStagedFile(
            writer,
            self._schema,
            compression=self._choice.compression,
            int96=self._choice.setting(TIMESTAMPS) != MICROS,
            columns=self._columns,
            stored=self._stored,
        )

    def footer_rows(self, handle: BinaryIO) -> int:
        """See `TableFormat.footer_rows`."""
        rows: int = pq.ParquetFile(handle).metadata.num_rows
        return rows


class ParquetStagedFile(TableFile):
    """One Parquet file being written inside a task, by one thread.

    Batches are kept until a row group is full, so memory is `buffered_bytes`; `flush` frees it.

    Args:
        writer: Where it goes; owned from here on.
        schema: Schema of every batch.
        compression: `zstd`, `snappy` or `gzip`.
        row_group_bytes: Arrow bytes of a row group, before encoding.
        int96: Whether timestamps are INT96, which Hive, Spark and Presto of all ages read alike;
            else INT64 of microseconds in UTC, which Hive reads from version 4 on.
        columns: Columns of the files of one task; may be shared by its threads.
        stored: Schema of the file where its columns have ids, which lake tables go by. Decimals are
            stored as integers then, and timestamps never as INT96.
    """

    def __init__(  # noqa: PLR0913 - a file says all of itself
        self,
        writer: StagedWriter,
        schema: pa.Schema,
        *,
        compression: str = "zstd",
        row_group_bytes: int = ROW_GROUP_BYTES,
        int96: bool = True,
        columns: "FileColumns | None" = None,
        stored: pa.Schema | None = None,
    ) -> None:
        super().__init__(writer)
        int96 = int96 and stored is None
        self._columns = columns or FileColumns(schema)
        self._schema = schema
        self._int96 = int96
        self._by_id = stored is not None
        self._file_schema = stored or (schema if int96 else _instants(schema))
        self._compression = compression
        self._level = _ZSTD_LEVEL if compression == "zstd" else None
        self._row_group_bytes = row_group_bytes
        self._batches: list[pa.RecordBatch] = []
        self._buffered_bytes = 0
        self._parquet: Any = None
        self._sink: Any = None
        self._footers: list[Any] = []
        self._time_bounds: dict[str, tuple[int, int]] = {}

    keeps_batches = True

    @property
    def buffered_bytes(self) -> int:
        """Arrow bytes that wait for their row group."""
        return self._buffered_bytes

    def write(self, batch: pa.RecordBatch) -> None:
        """Take a batch; writes a row group when enough has come.

        Raises:
            TaskFailedError: The batch cannot be written; discard the file.
            StorageUnavailableError: The store failed; discard the file.
        """
        if batch.num_rows == 0:
            return
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._buffered_bytes += batch.nbytes
        if self._buffered_bytes >= self._row_group_bytes:
            self.flush()

    def flush(self) -> None:
        """Write what is buffered as a row group, to free memory.

        Raises:
            TaskFailedError: The rows cannot be written; discard the file.
            StorageUnavailableError: The store failed; discard the file.
        """
        self._flush(is_whole=False)

    def _flush(self, *, is_whole: bool) -> None:
        """As `flush`; `is_whole` where no row comes after these."""
        if not self._batches:
            return
        try:
            table = pa.Table.from_batches(self._batches, schema=self._schema)
            stored = table if self._int96 else _cast(table, self._file_schema)
            self._opened(table, is_whole=is_whole).write_table(
                stored, row_group_size=max(table.num_rows, 1)
            )
            self._sink.flush()
            self._widen_time_bounds(table)
        except pa.ArrowException as error:
            raise self._failure(error) from error
        except OSError as error:
            raise self._storage_failure(error) from error
        self._batches = []
        self._buffered_bytes = 0

    def close(self) -> WrittenFile:
        """Write the rest and the footer, make the file durable. Called once.

        Raises:
            TaskFailedError: The rows cannot be written; discard the file.
            StorageUnavailableError: The store failed; discard the file.
        """
        bounds = self._small_file()
        if bounds is None:
            bounds = self._library_file()
        return WrittenFile(
            path=self.path, rows=self._rows, seal=self._writer.seal(), column_bounds=bounds
        )

    def _library_file(self) -> dict[str, tuple[str, str]]:
        """Write the rest and the footer by the library.

        Returns:
            Bounds of the columns.
        """
        self._flush(is_whole=True)
        try:
            (self._parquet or self._opened(self._schema.empty_table(), is_whole=True)).close()
            self._sink.close()
        except pa.ArrowException as error:
            raise self._failure(error) from error
        except OSError as error:
            raise self._storage_failure(error) from error
        footer = self._footers[0]
        if footer.num_rows != self._rows:
            raise TaskFailedError(f"{self.path}: footer has {footer.num_rows}, took {self._rows}")
        self._columns.learn(footer)
        bounds = {
            name: (bound_text(low), bound_text(high))
            for name, (low, high) in _footer_bounds(footer, self._columns.bounded).items()
        }
        for name, (low, high) in self._time_bounds.items():
            bounds[name] = (instant_text(low), instant_text(high))
        return bounds

    def _small_file(self) -> dict[str, tuple[str, str]] | None:
        """Write a file of few rows in one piece.

        Returns:
            Bounds of the columns; None where the library is to write the file.
        """
        fits = SmallParquetFiles.fits(self._rows, self._buffered_bytes)
        small = self._columns.small_files(self._small_files) if fits else None
        if small is None or self._parquet is not None:
            return None
        try:
            table = pa.Table.from_batches(self._batches, schema=self._schema)
            stored = table if self._int96 else _cast(table, self._file_schema)
            content, found = small.file(stored)
            self._writer.handle().write(content)
        except (pa.ArrowException, ValueError) as error:
            raise self._failure(error) from error
        except OSError as error:
            raise self._storage_failure(error) from error
        self._batches = []
        self._buffered_bytes = 0
        return self._columns.bounds_of(found, stored.schema)

    def _small_files(self) -> SmallParquetFiles | None:
        sink = pa.BufferOutputStream()
        self._library_writer(
            sink, compression=self._compression, level=self._level, footers=[]
        ).close()
        return SmallParquetFiles.like(
            sink.getvalue().to_pybytes(),
            self._file_schema,
            compression=self._compression,
            level=self._level,
        )

    def abort(self) -> None:
        """Drop the file and what is buffered. Safe to repeat."""
        self._batches = []
        self._buffered_bytes = 0
        if self._parquet is not None:
            # Else its finaliser would write the footer later, into a handle that is gone.
            with suppress(pa.ArrowException, OSError, ValueError, StorageUnavailableError):
                self._parquet.close()
                self._sink.close()
        self._writer.abort()

    def _opened(self, sample: pa.Table, *, is_whole: bool) -> Any:
        if self._parquet is None:
            # A file of a few rows has sixty pieces; each call of Python would cost as much as one.
            handle = pa.PythonFile(self._writer.handle(), mode="w")
            self._sink = pa.BufferedOutputStream(handle, _GATHERED_BYTES)
            codec, level = self._compression, self._level
            # In a file of several row groups these rows say nothing about the others.
            pays = self._columns.is_compressed(sample.num_rows) if is_whole else {}
            levels = {path: level for path, wanted in pays.items() if wanted}
            self._parquet = self._library_writer(
                self._sink,
                compression={path: codec if of else "none" for path, of in pays.items()} or codec,
                level=level if level is None or not pays else levels,
                dictionary=self._columns.with_dictionary(sample),
                footers=self._footers,
            )
        return self._parquet

    def _library_writer(
        self,
        sink: Any,
        *,
        compression: Any,
        level: Any,
        footers: list[Any],
        dictionary: Sequence[str] = (),
    ) -> Any:
        return pq.ParquetWriter(
            sink,
            self._file_schema,
            compression=compression,
            compression_level=level,
            use_dictionary=list(dictionary) or False,
            write_statistics=True,
            use_deprecated_int96_timestamps=self._int96,
            store_schema=False,
            store_decimal_as_integer=self._by_id,
            metadata_collector=footers,
        )

    def _widen_time_bounds(self, table: pa.Table) -> None:
        # INT96 has no order in Parquet, so footers hold no bounds for it.
        for field in self._columns.times:
            column = table[field.name]
            if field.type.unit != "us":
                column = column.cast(pa.timestamp("us", tz=field.type.tz), safe=False)
            found = pc.min_max(column)
            low, high = found["min"].value, found["max"].value
            if low is not None:
                before = self._time_bounds.get(field.name, (low, high))
                self._time_bounds[field.name] = (min(low, before[0]), max(high, before[1]))

    def _failure(self, error: Exception) -> TaskFailedError:
        return TaskFailedError(f"{self.path}: rows cannot be written as Parquet: {error}")

    def _storage_failure(self, error: OSError) -> StorageUnavailableError:
        return StorageUnavailableError(f"cannot write {self.path}: {error}")


class FileColumns:
    """What is learned of the columns once, for many small files.

    Which get a dictionary: finding out costs a quarter of the writing of a few hundred rows. Two
    threads that find out at the same time come to a choice each; either is good.

    Args:
        schema: Schema of the rows.

    Attributes:
        bounded: Column chunks of a footer that hold bounds of a simple top-level column, and its
            name. What Parquet knows of timestamps depends on how they are stored: none of them.
        times: Fields of timestamps at the top level.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.times = [field for field in schema if pa.types.is_timestamp(field.type)]
        bounded, chunks, chunk = [], [], 0
        for number, field in enumerate(schema):
            if has_bounds(field.type):
                bounded.append((chunk, field.name))
            if has_bounds(field.type) or field in self.times:
                chunks.append((chunk, number))
            chunk += _chunk_count(field.type)
        self.bounded = tuple(bounded)
        self._chunks = tuple(chunks)
        self._chosen: list[str] | None = None
        self._saved: dict[str, float] | None = None
        self._small: SmallParquetFiles | None = None
        self._small_known = False

    def small_files(self, make: Callable[[], SmallParquetFiles | None]) -> SmallParquetFiles | None:
        """What makes small files, made with the first of them; None where nothing does."""
        if not self._small_known:
            self._small, self._small_known = make(), True
        return self._small

    def bounds_of(
        self, found: Sequence[tuple[Any, Any] | None], stored: pa.Schema
    ) -> dict[str, tuple[str, str]]:
        """Bounds of simple top-level columns, as a record of the ledger holds them.

        Args:
            found: Of each column chunk, as `SmallParquetFiles.file` returns them.
            stored: Schema of the rows in that file.
        """
        bounds = {}
        for chunk, number in self._chunks:
            pair, field = found[chunk], stored.field(number)
            texts = None if pair is None else bound_texts(field.type, *pair)
            if texts is not None:
                bounds[field.name] = texts
        return bounds

    def with_dictionary(self, sample: pa.Table) -> list[str]:
        """Parquet paths of these columns, for a file that begins with these rows."""
        if self._chosen is None or sample.num_rows >= _SAMPLE_ROWS:
            chosen = dictionary_columns(sample)
            if sample.num_rows >= _FEW_ROWS:
                self._chosen = chosen
            return chosen
        return self._chosen

    def learn(self, footer: Any) -> None:
        """Learn from the footer of a file what compression saves in each column.

        Called for every closed file; the first one of some rows counts.
        """
        if self._saved is not None or footer.num_rows < _FEW_ROWS:
            return
        group = footer.row_group(0)
        chunks = [group.column(number) for number in range(group.num_columns)]
        self._saved = {
            of.path_in_schema: (of.total_uncompressed_size - of.total_compressed_size)
            / group.num_rows
            for of in chunks
        }

    def is_compressed(self, rows: int) -> dict[str, bool]:
        """Whether to compress each column of a file of so many rows, by its Parquet path.

        Returns:
            Empty where all of them are.
        """
        if self._saved is None or rows >= _SAMPLE_ROWS:
            return {}
        return {path: saved * rows >= _LEAST_SAVED_BYTES for path, saved in self._saved.items()}


def _chunk_count(kind: pa.DataType) -> int:
    if pa.types.is_struct(kind):
        return sum(_chunk_count(field.type) for field in kind)
    if pa.types.is_map(kind):
        return _chunk_count(kind.key_type) + _chunk_count(kind.item_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _chunk_count(kind.value_type)
    return 1


def dictionary_columns(sample: pa.Table) -> list[str]:
    """Parquet paths of the columns for which a dictionary pays, by the first rows of a file.

    Args:
        sample: Rows; the first 2,000 are used. Empty: no column.
    """
    rows = sample.slice(0, _SAMPLE_ROWS)
    found = []
    for name in rows.column_names:
        for path, values in _leaves(name, rows[name].combine_chunks()):
            present = len(values) - values.null_count
            if present == 0 or pa.types.is_boolean(values.type):
                continue
            if (
                pa.types.is_dictionary(values.type)
                or pc.count_distinct(values).as_py() <= present * _DICTIONARY_SHARE
            ):
                found.append(path)
    return found


def _leaves(path: str, values: Any) -> Iterator[tuple[str, Any]]:
    """Columns as Parquet names and stores them, of a column with nested values."""
    kind = values.type
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], kind)
    if pa.types.is_struct(kind):
        children = zip(kind, values.flatten(), strict=True)
        for field, child in children:
            yield from _leaves(f"{path}.{field.name}", child)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", values.keys)
        yield from _leaves(f"{path}.key_value.value", values.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(f"{path}.list.element", values.flatten())
    else:
        yield path, values


def _footer_bounds(footer: Any, bounded: Sequence[tuple[int, str]]) -> dict[str, tuple[Any, Any]]:
    """Bounds of simple top-level columns over all row groups, from the statistics."""
    bounds: dict[str, tuple[Any, Any]] = {}
    unknown: set[str] = set()
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for index, name in bounded:
            found = group.column(index).statistics
            if found is None or not found.has_min_max:
                # Nulls only, or NaN only: the others' bounds still hold for numbers.
                continue
            try:
                low, high = found.min, found.max
            except OverflowError:
                # A day outside of the years 1 to 9999, as SQL may make one.
                low = high = None
            if not (_is_simple(low) and _is_simple(high)):
                unknown.add(name)
                continue
            before = bounds.get(name, (low, high))
            bounds[name] = (min(low, before[0]), max(high, before[1]))
    return {name: pair for name, pair in bounds.items() if name not in unknown}


def _is_simple(value: Any) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    return isinstance(value, int | Decimal | date)


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return pa.table([table[field.name].cast(field.type) for field in schema], schema=schema)


def _instants(schema: pa.Schema) -> pa.Schema:
    """The schema with every timestamp as an instant: Parquet's `isAdjustedToUTC`."""
    return pa.schema([pa.field(field.name, _instant_type(field.type)) for field in schema])


def _instant_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit, tz="UTC")
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _instant_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_instant_type(kind.key_type), _instant_type(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_instant_type(kind.value_type))
    return kind
