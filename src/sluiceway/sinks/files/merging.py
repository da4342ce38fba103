"""Closed files of a table whose rows go on in others: few files made of many small ones.

Parquet and ORC are read as rows and written as by any task, since small row groups and stripes
are what has to go. In all other formats the encoded rows are what is copied, unchanged.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from sluiceway.errors import StorageUnavailableError
from sluiceway.sinks.files.arrangement import ColumnMapping
from sluiceway.sinks.files.avro_file import BLOCK_BYTES, CODECS, AvroContainer, avro_blocks
from sluiceway.sinks.files.contract import FileChoice, FileFormat, WrittenFile
from sluiceway.sinks.files.line_file import line_packer
from sluiceway.sinks.files.orc_file import ORC_CODECS, OrcStagedFile
from sluiceway.sinks.files.parquet_file import ParquetStagedFile
from sluiceway.sinks.files.reading import format_by_name, line_chunks, unpacked_block
from sluiceway.storage.contract import StagedWriter

_BATCH_BYTES = 8 << 20
_MOST_ROWS = 1 << 16
_FEWEST_ROWS = 1 << 8
_INT96 = "INT96"
# What 64 bits of nanoseconds, which Arrow reads ORC's timestamps into, can hold.
_ORC_TIMES = ("1677-09-22T00:00:00Z", "2262-04-11T00:00:00Z")


class MergedFile(Protocol):
    """A file that takes the rows of others. Used by one thread."""

    @property
    def rows(self) -> int:
        """Taken so far."""

    @property
    def written_bytes(self) -> int:
        """Handed to the storage so far."""

    @property
    def buffered_bytes(self) -> int:
        """In memory, that `flush` would write."""

    def flush(self) -> None:
        """Write what is buffered.

        Raises:
            TaskFailedError: The rows cannot be written; discard the file.
            StorageUnavailableError: The store failed; discard the file.
        """

    def write(self, piece: Any, /) -> None:
        """Take a piece of a closed file of the kind that this one was made for.

        Raises:
            TaskFailedError: The rows cannot be written; discard the file.
            StorageUnavailableError: The store failed; discard the file.
        """

    def close(self) -> WrittenFile:
        """End the file and make it durable. Called once.

        Raises:
            TaskFailedError: The rows cannot be written; discard the file.
            StorageUnavailableError: The store failed; discard the file.
        """

    def abort(self) -> None:
        """Drop it. Safe to repeat."""


class ClosedFile(ABC):
    """A closed file of a table, to be read once, from its begin to its end.

    Attributes:
        kind: Files of one kind may follow each other in one merged file.
        encoded: Whether its rows are copied as they are encoded. Bounds of columns then come from
            its record, so that a merged file holds whole files.
    """

    kind: object
    encoded: bool

    @abstractmethod
    def new_file(self, writer: StagedWriter) -> MergedFile:
        """Begin a file for the rows of this one and of others of its kind.

        Args:
            writer: Where it goes; owned by the file from here on.
        """

    @abstractmethod
    def pieces(self) -> Iterator[Any]:
        """The rows, in their order, in pieces that a merged file takes; each a few MiB.

        Raises:
            ValueError: It is damaged.
            pa.ArrowException: The same.
            OSError: It cannot be read.
        """


def open_closed(
    path: str, handle: BinaryIO, choice: FileChoice, bounds: dict[str, tuple[str, ...]]
) -> ClosedFile:
    """A closed file, to be merged with others.

    Args:
        path: Its ending says how it is written.
        handle: Handle on it.
        choice: The table's choice: how merged files are written.
        bounds: Bounds of its columns, as its record has them.

    Raises:
        ValueError: It is not of the table's format, is damaged, or cannot be read exactly.
        pa.ArrowException: It is damaged.
        OSError: It cannot be read.
    """
    found = format_by_name(path)
    if found is not choice.format:
        raise ValueError(f"it is not of the table's format, {choice.format}")
    match choice.format:
        case FileFormat.PARQUET:
            return _ParquetRows(handle, choice)
        case FileFormat.ORC:
            return _OrcRows(handle, choice, bounds)
        case FileFormat.AVRO:
            return _AvroBlocks(handle, choice)
        case _:
            return _Lines(path, handle, choice)


class _ParquetRows(ClosedFile):
    encoded = False

    def __init__(self, handle: BinaryIO, choice: FileChoice) -> None:
        # Into microseconds, which all values were written from: nanoseconds end in 2262.
        self._file = pq.ParquetFile(handle, coerce_int96_timestamp_unit="us")
        self._choice = choice
        self._schema = self._file.schema_arrow.remove_metadata()
        columns = self._file.schema
        kinds = {columns.column(at).physical_type for at in range(len(columns))}
        self._int96 = _INT96 in kinds
        self.kind = (self._schema.to_string(show_field_metadata=True), self._int96)

    def new_file(self, writer: StagedWriter) -> MergedFile:
        return ParquetStagedFile(
            writer, self._schema, compression=self._choice.compression, int96=self._int96
        )

    def pieces(self) -> Iterator[pa.RecordBatch]:
        footer = self._file.metadata
        groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
        row_bytes = sum(group.total_byte_size for group in groups) // max(footer.num_rows, 1)
        rows = min(max(_BATCH_BYTES // max(row_bytes, 1), _FEWEST_ROWS), _MOST_ROWS)
        yield from self._file.iter_batches(batch_size=rows, use_threads=False)


class _OrcRows(ClosedFile):
    encoded = False

    def __init__(
        self, handle: BinaryIO, choice: FileChoice, bounds: dict[str, tuple[str, ...]]
    ) -> None:
        self._file = orc.ORCFile(handle)
        self._codec = ORC_CODECS[choice.compression]
        schema = self._file.schema.remove_metadata()
        _refuse_unreadable_times(schema, bounds)
        self._schema = pa.schema([_in_micros(field) for field in schema])
        self.kind = self._schema.to_string()

    def new_file(self, writer: StagedWriter) -> MergedFile:
        return OrcStagedFile(writer, ColumnMapping(self._schema, None), self._codec)

    def pieces(self) -> Iterator[pa.RecordBatch]:
        for at in range(self._file.nstripes):
            yield self._file.read_stripe(at).cast(self._schema)


def _in_micros(field: pa.Field) -> pa.Field:
    """As a task has written it."""
    if not pa.types.is_timestamp(field.type):
        return field
    return pa.field(field.name, pa.timestamp("us", tz=field.type.tz), field.nullable)


def _refuse_unreadable_times(schema: pa.Schema, bounds: dict[str, tuple[str, ...]]) -> None:
    """Refuse a file whose timestamps may be read as others, going by its bounds if it has any."""
    least, greatest = _ORC_TIMES
    for field in schema:
        if pa.types.is_timestamp(field.type):
            low, high = bounds.get(field.name, (least, least))
            if low < least or high >= greatest or "us" in low + high:
                raise ValueError(
                    f"column {field.name} has moments before 1677-09-22 or after 2262-04-10, "
                    "which cannot be read back from ORC here"
                )
        elif _has_times(field.type):
            raise ValueError(
                f"column {field.name} has timestamps inside, and it is unknown whether all of "
                "them can be read back from ORC here"
            )


def _has_times(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or any(
        _has_times(kind.field(at).type) for at in range(kind.num_fields)
    )


class _Lines(ClosedFile):
    encoded = True
    kind = "lines"

    def __init__(self, path: str, handle: BinaryIO, choice: FileChoice) -> None:
        self._path = path
        self._handle = handle
        self._compression = choice.compression

    def new_file(self, writer: StagedWriter) -> MergedFile:
        return _MergedLines(writer, self._compression)

    def pieces(self) -> Iterator[bytes]:
        last = b"\n"
        for content in line_chunks(self._path, self._handle):
            yield content
            last = content[-1:] or last
        if last != b"\n":
            raise ValueError("its last line does not end")


class _AvroBlocks(ClosedFile):
    encoded = True

    def __init__(self, handle: BinaryIO, choice: FileChoice) -> None:
        heads, self._blocks = avro_blocks(handle)
        self._schema = heads["avro.schema"]
        self._packed_by = heads.get("avro.codec", b"null").decode()
        self._codec = CODECS[choice.compression]
        self.kind = self._schema

    def new_file(self, writer: StagedWriter) -> MergedFile:
        return _MergedAvro(writer, self._schema, self._codec)

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        for rows, packed in self._blocks:
            yield rows, unpacked_block(self._packed_by, packed)


class _Encoded:
    """A merged file of rows that are copied as they are; little of them waits."""

    buffered_bytes = 0

    def __init__(self, writer: StagedWriter) -> None:
        self._writer = writer
        self.rows = 0

    @property
    def written_bytes(self) -> int:
        """See `MergedFile.written_bytes`."""
        return self._writer.handle().tell()

    def flush(self) -> None:
        """See `MergedFile.flush`: blocks go out when they are full."""

    def abort(self) -> None:
        """See `MergedFile.abort`."""
        with suppress(StorageUnavailableError):
            self._writer.abort()

    def _sealed(self) -> WrittenFile:
        return WrittenFile(self._writer.path, self.rows, self._writer.seal(), {})


class _MergedLines(_Encoded):
    def __init__(self, writer: StagedWriter, compression: str) -> None:
        super().__init__(writer)
        self._packer = line_packer(compression)

    def write(self, piece: bytes, /) -> None:
        """See `MergedFile.write`."""
        self.rows += piece.count(b"\n")
        self._put(self._packer.pack(memoryview(piece)))

    def close(self) -> WrittenFile:
        """See `MergedFile.close`."""
        self._put(self._packer.finish())
        return self._sealed()

    def _put(self, content: bytes | memoryview) -> None:
        try:
            self._writer.handle().write(content)
        except OSError as error:
            path = self._writer.path
            raise StorageUnavailableError(f"cannot write {path}: {error}") from error


class _MergedAvro(_Encoded):
    def __init__(self, writer: StagedWriter, schema: bytes, codec: str) -> None:
        super().__init__(writer)
        self._container = AvroContainer(writer, schema, codec)
        self._block: list[bytes] = []
        self._block_rows = self._block_bytes = 0

    def write(self, piece: tuple[int, bytes], /) -> None:
        """See `MergedFile.write`."""
        rows, raw = piece
        self._block.append(raw)
        self._block_rows += rows
        self._block_bytes += len(raw)
        self.rows += rows
        if self._block_bytes >= BLOCK_BYTES:
            self._flush()

    def close(self) -> WrittenFile:
        """See `MergedFile.close`."""
        self._flush()
        return self._sealed()

    def _flush(self) -> None:
        self._container.put_block(self._block_rows, b"".join(self._block))
        self._block = []
        self._block_rows = self._block_bytes = 0
