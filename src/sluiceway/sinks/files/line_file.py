"""Staged files of lines: Hive text, JSON lines and CSV, with what they are compressed by."""

import struct
import zlib
from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa

from sluiceway.errors import StorageUnavailableError, TaskFailedError
from sluiceway.sinks.files.arrangement import ColumnMapping
from sluiceway.sinks.files.column_bounds import ColumnBounds
from sluiceway.sinks.files.contract import TableFile, WrittenFile
from sluiceway.sinks.files.plain_text import content_of
from sluiceway.storage.contract import StagedWriter

# How readers of Hadoop's family know what a file is compressed by.
CODEC_ENDINGS = {"none": "", "gzip": ".gz", "snappy": ".snappy", "lz4": ".lz4"}
_GZIP_LEVEL = 4
_GZIP_WINDOW = 31
_BLOCK_BYTES = 64 << 10
# Lines are kept until so many can be written at once. Until then a file is not begun and has no
# codec, so partitions may be many.
_PUT_BYTES = 1 << 20
_GZIP_STATE_BYTES = 300 << 10
_HADOOP_CODECS = {"snappy": "snappy", "lz4": "lz4_raw"}

Lines = Callable[[pa.RecordBatch], Any]
"""Rows of a file -> an array of their lines, ends included."""


class LineStagedFile(TableFile):
    """One file of lines being written inside a task, by one thread.

    Each batch is encoded at once, and handed to the storage when enough lines have come. There
    is no footer to read later, so rows are counted as lines while they are written.

    Args:
        writer: Where it goes; owned from here on.
        arrangement: The file's columns.
        lines: Encodes rows.
        compression: `none`, `gzip`, or Hadoop's framing of `snappy` or `lz4`.
    """

    def __init__(
        self, writer: StagedWriter, arrangement: ColumnMapping, lines: Lines, compression: str
    ) -> None:
        super().__init__(writer)
        self._arrangement = arrangement
        self._lines = lines
        self._compression = compression
        self._packer: LinePacker | None = None
        self._lines_bytes = 0
        self._waiting: list[memoryview] = []
        self._bounds = ColumnBounds(arrangement.schema)

    @property
    def buffered_bytes(self) -> int:
        """See `TableFile.buffered_bytes`: lines, and what the codec holds."""
        return self._lines_bytes + (self._packer.held_bytes if self._packer else 0)

    @property
    def flushable_bytes(self) -> int:
        """See `TableFile.flushable_bytes`: the lines."""
        return self._lines_bytes

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
        self._waiting.append(content)
        self._lines_bytes += content.nbytes
        self._rows += batch.num_rows
        if self._lines_bytes >= _PUT_BYTES:
            self.flush()

    def flush(self) -> None:
        """See `TableFile.flush`."""
        waiting, self._waiting, self._lines_bytes = self._waiting, [], 0
        for content in waiting:
            self._put(self._opened().pack(content))

    def close(self) -> WrittenFile:
        """See `TableFile.close`."""
        self.flush()
        self._put(self._opened().finish())
        self._packer = None
        seal = self._writer.seal()
        return WrittenFile(self.path, self._rows, seal, self._bounds.texts())

    def abort(self) -> None:
        """See `TableFile.abort`."""
        self._waiting, self._lines_bytes, self._packer = [], 0, None
        self._writer.abort()

    def _opened(self) -> "LinePacker":
        if self._packer is None:
            self._packer = line_packer(self._compression)
        return self._packer

    def _put(self, content: bytes | memoryview) -> None:
        try:
            self._writer.handle().write(content)
        except OSError as error:
            raise StorageUnavailableError(f"cannot write {self.path}: {error}") from error


class LinePacker(Protocol):
    """What lines go through on their way into a file."""

    @property
    def held_bytes(self) -> int:
        """Memory that it keeps between two packs."""

    def pack(self, content: memoryview) -> bytes | memoryview:
        """Content that can be written now."""

    def finish(self) -> bytes:
        """The rest. Called once."""


class _PlainPacker:
    """No compression."""

    held_bytes = 0

    def pack(self, content: memoryview) -> bytes | memoryview:
        return content

    def finish(self) -> bytes:
        return b""


class _GzipPacker:
    """One gzip member, without a name and a time."""

    held_bytes = _GZIP_STATE_BYTES

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

    @property
    def held_bytes(self) -> int:
        return len(self._waiting)

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
