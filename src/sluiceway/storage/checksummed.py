"""A binary stream that sums what passes: what writers of formats write to."""

import errno
from io import RawIOBase
from typing import cast

import google_crc32c

from sluiceway.observe.failpoints import edge

WRITTEN_AT_ONCE = 32 << 10
"""Formats write small pieces, a Parquet file of a few rows sixty of them."""


class ChecksummedStream:
    """Binary stream that counts, gathers and sums what passes; what pyarrow needs of a file object.

    Args:
        stream: Without a buffer of its own.
        path: Where the file will be.
        written_at_once: Pieces are gathered until they are so many bytes.
    """

    def __init__(
        self, stream: RawIOBase, path: str, *, written_at_once: int = WRITTEN_AT_ONCE
    ) -> None:
        self._stream = stream
        self._path = path
        self._written_at_once = written_at_once
        self._checksum = google_crc32c.Checksum()
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._failed = False
        self.size_bytes = 0
        self.closed = False

    def write(self, data: bytes | memoryview) -> int:
        """Take a piece; this or a later call raises what cannot be written."""
        # What a memoryview shows is the writer's again once this returns.
        chunk = bytes(data)
        self._gathered.append(chunk)
        self._gathered_bytes += len(chunk)
        self.size_bytes += len(chunk)
        if self._gathered_bytes >= self._written_at_once:
            self.flush()
        return len(chunk)

    def tell(self) -> int:
        """Bytes taken so far."""
        return self.size_bytes

    def flush(self) -> None:
        """Hand on what was gathered."""
        if self._failed:
            raise OSError(errno.EIO, "an earlier write has failed", self._path)
        if not self._gathered:
            return
        content = b"".join(self._gathered)
        self._gathered, self._gathered_bytes = [], 0
        self._failed = True
        with edge("storage.staged.write", self._path):
            written = 0
            while written < len(content):
                # A disk that is nearly full takes a part, and refuses the next.
                taken = self._stream.write(memoryview(content)[written:])
                if not taken:
                    raise OSError(errno.EIO, "the system takes nothing more", self._path)
                written += taken
        self._failed = False
        self._checksum.update(content)

    def close(self) -> None:
        """Nothing: the file's owner ends it."""
        # The writer of a format closes its stream; the staged writer still has to fsync it.
        self.closed = True

    def readable(self) -> bool:
        """It is not."""
        return False

    def writable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is not."""
        return False

    def crc32c(self) -> str:
        """Castagnoli checksum of all that was handed on, eight hex digits."""
        return cast("bytes", self._checksum.hexdigest()).decode()
