"""Staged files of lines: Hive text, JSON lines and CSV, with what they are compressed by."""

import struct
import zlib
from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa

from sluiceway.errors import StorageUnavailableError, TaskFailedError
from sluiceway.sinks.files.arrangement import Arrangement
from sluiceway.sinks.files.column_bounds import ColumnBounds
from sluiceway.sinks.files.contract import TableFile, WrittenFile
from sluiceway.sinks.files.plain_text import content_of
from sluiceway.storage.contract import StagedWriter

# How readers of Hadoop's family know what a file is compressed by.
CODEC_ENDINGS = {"none": "", "gzip": ".gz", "snappy": ".snappy", "lz4": ".lz4"}
_GZIP_LEVEL = 4
_GZIP_WINDOW = 31
_BLOCK_BYTES = 64 << 10
_HADOOP_CODECS = {"snappy": "snappy", "lz4": "lz4_raw"}

Lines = Callable[[pa.RecordBatch], Any]
"""Rows of a file -> an array of their lines, ends included."""


class LineStagedFile(TableFile):
    """One file of lines being written inside a task, by one thread.

    Each batch is encoded and handed to the storage at once. There is no footer to look at later,
    so rows are counted as lines while they are written.

    Args:
        writer: Where it goes; owned from here on.
        arrangement: The file's columns.
        lines: Encodes rows.
        compression: `none`, `gzip`, or Hadoop's framing of `snappy` or `lz4`.
    """

    def __init__(
        self, writer: StagedWriter, arrangement: Arrangement, lines: Lines, compression: str
    ) -> None:
        super().__init__(writer)
        self._arrangement = arrangement
        self._lines = lines
        self._packer = line_packer(compression)
        self._bounds = ColumnBounds(arrangement.schema)

    @property
    def buffered_bytes(self) -> int:
        """See `TableFile.buffered_bytes`; the codec's window is not counted."""
        return 0

    def write(self, batch: pa.RecordBatch) -> None:
        """See `TableFile.write`."""
        if batch.num_rows == 0:
            return
        try:
            rows = self._arrangement.apply(batch)
            lines = self._lines(rows)
            self._bounds.widen(rows)
        except pa.ArrowException as error:
            raise TaskFailedError(f"{self.path}: rows cannot be written: {error}") from error
        if len(lines) != batch.num_rows or lines.null_count:
            raise TaskFailedError(f"{self.path}: {batch.num_rows} rows, {len(lines)} lines")
        content = content_of(lines)
        ends = bytes(content).count(b"\n")
        if ends != batch.num_rows:
            raise TaskFailedError(f"{self.path}: {batch.num_rows} rows make {ends} lines")
        self._put(self._packer.pack(content))
        self._rows += batch.num_rows

    def flush(self) -> None:
        """See `TableFile.flush`; nothing waits here."""

    def close(self) -> WrittenFile:
        """See `TableFile.close`."""
        self._put(self._packer.finish())
        seal = self._writer.seal()
        return WrittenFile(self.path, self._rows, seal, self._bounds.texts())

    def abort(self) -> None:
        """See `TableFile.abort`."""
        self._writer.abort()

    def _put(self, content: bytes | memoryview) -> None:
        try:
            self._writer.handle().write(content)
        except OSError as error:
            raise StorageUnavailableError(f"cannot write {self.path}: {error}") from error


class LinePacker(Protocol):
    """Compresses one file's content, piece by piece."""

    def pack(self, content: memoryview) -> bytes | memoryview:
        """Take content; what can be written by now."""

    def finish(self) -> bytes:
        """What is still to be written. Called once, after all content."""


class _PlainPacker:
    """No compression."""

    def pack(self, content: memoryview) -> bytes | memoryview:
        return content

    def finish(self) -> bytes:
        return b""


class _GzipPacker:
    """One gzip member, without a name and a time."""

    def __init__(self) -> None:
        self._codec = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)

    def pack(self, content: memoryview) -> bytes:
        return self._codec.compress(content)

    def finish(self) -> bytes:
        return self._codec.flush()


class _HadoopPacker:
    """Blocks as Hadoop's BlockCompressorStream writes them: raw length, length, content."""

    def __init__(self, codec: str) -> None:
        self._codec = pa.Codec(codec)
        self._waiting = bytearray()

    def pack(self, content: memoryview) -> bytes:
        self._waiting += content
        whole = len(self._waiting) // _BLOCK_BYTES * _BLOCK_BYTES
        blocks = [self._block(at) for at in range(0, whole, _BLOCK_BYTES)]
        del self._waiting[:whole]
        return b"".join(blocks)

    def finish(self) -> bytes:
        return self._block(0) if self._waiting else b""

    def _block(self, at: int) -> bytes:
        raw = bytes(self._waiting[at : at + _BLOCK_BYTES])
        packed: bytes = self._codec.compress(raw, asbytes=True)
        return struct.pack(">II", len(raw), len(packed)) + packed


def line_packer(compression: str) -> LinePacker:
    """What compresses the content of a file of lines.

    Args:
        compression: `none`, `gzip`, or Hadoop's framing of `snappy` or `lz4`.
    """
    if compression == "gzip":
        return _GzipPacker()
    if compression in _HADOOP_CODECS:
        return _HadoopPacker(_HADOOP_CODECS[compression])
    return _PlainPacker()
