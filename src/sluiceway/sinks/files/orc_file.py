"""Staged ORC files."""

from contextlib import suppress
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from sluiceway.errors import StorageUnavailableError, TaskFailedError
from sluiceway.sinks.files.arrangement import ColumnMapping, unfit_rows
from sluiceway.sinks.files.column_bounds import ColumnBounds
from sluiceway.sinks.files.contract import FileChoice, TableFile, TableFormat, WrittenFile
from sluiceway.sinks.files.old_times import MICROS, before_gregorian
from sluiceway.sinks.files.row_masks import Mask, either, unfit_mask
from sluiceway.storage.contract import StagedWriter
from sluiceway.types.dirty import DirtyRow

_STRIPE_BYTES = 16 << 20
ORC_CODECS = {
    "zstd": "zstd",
    "snappy": "snappy",
    "gzip": "zlib",
    "lz4": "lz4",
    "none": "uncompressed",
}
_MAGIC = b"ORC"
_TOO_OLD = "ORC files keep no day before 1582-10-15, and no fraction of a second before 1970"


class OrcFormat(TableFormat):
    """ORC. Columns lie in the table's order, since older readers find them by their place.

    Args:
        schema: Schema of every batch.
        choice: Compression, and the table's columns.
    """

    extension = ".orc"

    def __init__(self, schema: pa.Schema, choice: FileChoice) -> None:
        self._arrangement = ColumnMapping(schema, choice.columns, lower=True)
        self._codec = ORC_CODECS[choice.compression]

    def new_file(self, writer: StagedWriter) -> "OrcStagedFile":
        """See `TableFormat.new_file`."""
        return OrcStagedFile(writer, self._arrangement, self._codec)

    def footer_rows(self, handle: BinaryIO) -> int:
        """See `TableFormat.footer_rows`."""
        return orc_rows(handle)

    def unfit_rows(self, rows: pa.RecordBatch) -> list[DirtyRow]:
        """See `TableFormat.unfit_rows`: old days and moments."""
        return unfit_rows(rows, [_old_rows] * rows.num_columns, _TOO_OLD)


def orc_rows(handle: BinaryIO) -> int:
    """Rows of an ORC file by its footer.

    Raises:
        ValueError: It is none.
        OSError: It cannot be read.
    """
    # A store that fails shows here; what Arrow raises below, it raises for a damaged file too.
    handle.seek(0)
    handle.read(len(_MAGIC))
    try:
        rows: int = orc.ORCFile(handle).nrows
    except OSError as error:
        raise ValueError(str(error)) from error
    return rows


def _old_rows(values: Any) -> Mask | None:
    return unfit_mask(values, _too_old)


def _too_old(values: Any) -> Mask | None:
    old = before_gregorian(values)
    if not pa.types.is_timestamp(values.type):
        return old
    micros = values.cast(pa.int64())
    least = pc.min(micros).as_py()
    if least is None or least >= 0:
        return None
    # The library that writes rounds such moments towards 1970 and leaves the rest negative.
    found = np.asarray(pc.fill_null(micros, 0))
    return either([old, np.asarray((found < 0) & (found % MICROS != 0))])


def _whole(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with nested columns copied: of a slice, ORC's writer takes other rows' values."""
    every = pa.array(np.arange(rows.num_rows))
    columns = [
        column.take(every) if pa.types.is_nested(column.type) else column for column in rows.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


class OrcStagedFile(TableFile):
    """One ORC file being written inside a task, by one thread.

    Batches are kept until a stripe's worth has come; ORC's writer then holds at most a stripe.

    Args:
        writer: Where it goes; owned from here on.
        arrangement: The file's columns.
        codec: ORC's name of the compression.
    """

    def __init__(self, writer: StagedWriter, arrangement: ColumnMapping, codec: str) -> None:
        super().__init__(writer)
        self._arrangement = arrangement
        self._codec = codec
        self._batches: list[pa.RecordBatch] = []
        self._buffered_bytes = 0
        self._stripe_bytes = 0
        self._bounds = ColumnBounds(arrangement.schema)
        self._orc: Any = None

    keeps_batches = True

    @property
    def buffered_bytes(self) -> int:
        """See `TableFile.buffered_bytes`; of ORC's writer what may be in its open stripe."""
        return self._buffered_bytes + self._stripe_bytes

    @property
    def flushable_bytes(self) -> int:
        """See `TableFile.flushable_bytes`; the open stripe ends when it is full."""
        return self._buffered_bytes

    def write(self, batch: pa.RecordBatch) -> None:
        """See `TableFile.write`."""
        if batch.num_rows == 0:
            return
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._buffered_bytes += batch.nbytes
        if self._buffered_bytes >= _STRIPE_BYTES:
            self.flush()

    def flush(self) -> None:
        """See `TableFile.flush`."""
        if not self._batches:
            return
        try:
            rows = [_whole(self._arrangement.apply(batch)) for batch in self._batches]
            table = pa.Table.from_batches(rows, schema=self._arrangement.schema)
            self._write_table(table)
            for batch in rows:
                self._bounds.widen(batch)
        except pa.ArrowException as error:
            raise self._failure(error) from error
        except OSError as error:
            raise self._storage_failure(error) from error
        self._batches = []
        self._buffered_bytes = 0

    def close(self) -> WrittenFile:
        """See `TableFile.close`."""
        self.flush()
        try:
            self._opened().close()
        except pa.ArrowException as error:
            raise self._failure(error) from error
        except OSError as error:
            raise self._storage_failure(error) from error
        seal = self._writer.seal()
        return WrittenFile(self.path, self._rows, seal, self._bounds.texts())

    def abort(self) -> None:
        """See `TableFile.abort`."""
        self._batches = []
        self._buffered_bytes = self._stripe_bytes = 0
        if self._orc is not None:
            # Else its finaliser would write the footer later, into a handle that is gone.
            with suppress(pa.ArrowException, OSError, ValueError, StorageUnavailableError):
                self._orc.close()
        self._writer.abort()

    def _write_table(self, table: pa.Table) -> None:
        writer = self._opened()
        before = self.written_bytes
        writer.write(table)
        held_bytes = min(self._stripe_bytes + table.nbytes, _STRIPE_BYTES)
        # A stripe went out: at most the rest of this table is in the next one.
        grown = self.written_bytes > before
        self._stripe_bytes = min(held_bytes, table.nbytes) if grown else held_bytes

    def _opened(self) -> Any:
        if self._orc is None:
            self._orc = orc.ORCWriter(
                self._writer.handle(), compression=self._codec, stripe_size=_STRIPE_BYTES
            )
            self._orc.write(self._arrangement.schema.empty_table())
        return self._orc

    def _failure(self, error: Exception) -> TaskFailedError:
        return TaskFailedError(f"{self.path}: rows cannot be written as ORC: {error}")

    def _storage_failure(self, error: OSError) -> StorageUnavailableError:
        return StorageUnavailableError(f"cannot write {self.path}: {error}")
