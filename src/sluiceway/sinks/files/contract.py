"""What every file format of a table provides to the tasks that write it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, BinaryIO

from sluiceway.errors import StorageUnavailableError, TaskFailedError
from sluiceway.storage.contract import FileSeal, StagedWriter, Storage
from sluiceway.types.dirty import DirtyRow
from sluiceway.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa


class FileFormat(StrEnum):
    """Formats of data files, named as in the job file."""

    PARQUET = "parquet"
    ORC = "orc"
    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    AVRO = "avro"


@dataclass(frozen=True, slots=True)
class FileChoice:
    """How a table's new files are written. A value that reaches the workers.

    Attributes:
        format: Which format.
        compression: Compression that the format allows.
        columns: The table's, in its order, under its names; None where files say by themselves
            which column is which.
        settings: What the table's own properties say of the format, names and values in order.
    """

    format: FileFormat = FileFormat.PARQUET
    compression: str = "zstd"
    columns: Schema | None = None
    settings: tuple[tuple[str, str], ...] = ()

    def setting(self, name: str) -> str | None:
        """A setting by its name."""
        return dict(self.settings).get(name)


PARQUET_FILES = FileChoice()
"""Parquet as it is written where nothing else is said: dirty rows, tables of plug-ins."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A staged file that was closed and made durable.

    Attributes:
        path: Where it is staged.
        rows: Rows in it.
        seal: Size and checksum.
        column_bounds: Least and greatest value, as text, of top-level columns of integer,
            float, decimal, date or timestamp type; columns of nulls only are left out.
            Timestamps and dates in ISO 8601; NaN is outside of bounds.
    """

    path: str
    rows: int
    seal: FileSeal
    column_bounds: dict[str, tuple[str, str]]


class TableFile(ABC):
    """One file being written inside a task, by one thread.

    Args:
        writer: Where it goes; owned from here on.

    Attributes:
        keeps_batches: Whether `flush` frees batches as they were handed over, which keep all that
            lies in their memory; else it frees a copy of the file's own.
    """

    keeps_batches: bool = False

    def __init__(self, writer: StagedWriter) -> None:
        self._writer = writer
        self._rows = 0

    @property
    def path(self) -> str:
        """Where the file is staged."""
        return self._writer.path

    @property
    def rows(self) -> int:
        """Rows taken so far."""
        return self._rows

    @property
    @abstractmethod
    def buffered_bytes(self) -> int:
        """Bytes in memory that `close` frees, as far as they can be known."""

    @property
    def flushable_bytes(self) -> int:
        """The part of `buffered_bytes` that `flush` frees."""
        return self.buffered_bytes

    @property
    def written_bytes(self) -> int:
        """Bytes handed to the storage so far, without what is buffered."""
        return self._writer.handle().tell()

    @abstractmethod
    def write(self, batch: "pa.RecordBatch") -> None:
        """Take a batch, in which `TableFormat.unfit_rows` found nothing.

        Raises:
            TaskFailedError: The batch cannot be written; discard the file.
            StorageUnavailableError: The store failed; discard the file.
        """

    @abstractmethod
    def flush(self) -> None:
        """Write what is buffered, to free memory.

        Raises:
            TaskFailedError: The rows cannot be written; discard the file.
            StorageUnavailableError: The store failed; discard the file.
        """

    @abstractmethod
    def close(self) -> WrittenFile:
        """Write the rest, end the file and make it durable. Called once.

        Raises:
            TaskFailedError: The rows cannot be written; discard the file.
            StorageUnavailableError: The store failed; discard the file.
        """

    @abstractmethod
    def abort(self) -> None:
        """Drop the file and what is buffered. Safe to repeat."""


class TableFormat(ABC):
    """A format as one table wants it. Made once a task; used by one thread at a time.

    Attributes:
        extension: How names of files end, with the dot: readers know the compression by it.
    """

    extension: str

    @abstractmethod
    def new_file(self, writer: StagedWriter) -> TableFile:
        """Begin a file.

        Args:
            writer: Where it goes; owned by the file from here on.
        """

    def unfit_rows(self, rows: "pa.RecordBatch") -> list[DirtyRow]:
        """Rows that the format cannot hold so that readers find the same values again.

        Called for every batch before it is written. Most formats hold all there is.

        Args:
            rows: Columns of the rows, perhaps with others that are not written.

        Returns:
            One a row, in rising order; the first column that is to blame is named.
        """
        del rows
        return []

    @abstractmethod
    def footer_rows(self, handle: BinaryIO) -> int | None:
        """Number of rows by the footer or block heads of a closed file.

        Returns:
            None for a format without any: its rows are counted while they are written.

        Raises:
            pa.ArrowException: It is no such file.
            ValueError: It is no such file.
            OSError: It cannot be read.
        """

    def check(self, storage: Storage, path: str, *, size_bytes: int, rows: int) -> None:
        """Read a closed file through a fresh handle. Called by the task that wrote it.

        Raises:
            TaskFailedError: The file is not as it was written; discard the attempt.
            StorageUnavailableError: The store failed.
        """
        import pyarrow as pa  # noqa: PLC0415 - slow, and others want the names alone

        status = storage.status(path)
        found_bytes = status.size_bytes if status else None
        if found_bytes != size_bytes:
            raise TaskFailedError(f"{path}: expected {size_bytes} bytes, found {found_bytes}")
        try:
            with storage.open_read(path) as handle:
                found_rows = self.footer_rows(handle)
        except (pa.ArrowException, ValueError) as error:
            raise TaskFailedError(f"{path}: its footer cannot be read: {error}") from error
        except OSError as error:
            raise StorageUnavailableError(f"cannot read {path}: {error}") from error
        if found_rows not in (None, rows):
            raise TaskFailedError(f"{path}: expected {rows} rows, its footer says {found_rows}")


TIMESTAMPS = "timestamps"
INT96 = "int96"
MICROS = "micros"
