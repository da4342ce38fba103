"""A remote file that can be read anywhere: windows of it are fetched as they are needed."""

import io
from collections.abc import Callable

from sluiceway.errors import StorageUnavailableError

WINDOW_BYTES = 4 << 20

Fetch = Callable[[int, int], bytes]
"""Bytes from a first to a last position, both included."""


class WindowReader(io.RawIOBase):
    """Reads one file, whose content never changes. One thread.

    Args:
        size_bytes: Size of the whole file.
        fetch: Asks the store for a piece.
    """

    def __init__(self, size_bytes: int, fetch: Fetch) -> None:
        super().__init__()
        self._size_bytes = size_bytes
        self._fetch = fetch
        self._position = 0
        self._window_start = 0
        self._window = b""

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Position of the next byte."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position; nothing is fetched."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        """Read at most as much as the buffer takes; 0 at the end."""
        wanted = min(len(buffer), self._size_bytes - self._position)
        if wanted <= 0:
            return 0
        offset = self._position - self._window_start
        if not 0 <= offset < len(self._window):
            self._move_window(wanted)
            offset = self._position - self._window_start
        piece = self._window[offset : offset + wanted]
        buffer[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)

    def _move_window(self, wanted: int) -> None:
        length = max(wanted, WINDOW_BYTES)
        # A footer is read from its end backwards; so a small file is fetched once.
        start = max(0, min(self._position, self._size_bytes - length))
        end = min(self._size_bytes, start + length)
        try:
            found = self._fetch(start, end - 1)
        except StorageUnavailableError as error:
            # What reads files expects an error of files; the caller makes ours of it again.
            raise OSError(str(error)) from error
        if len(found) != end - start:
            raise OSError(f"expected {end - start} bytes from {start}, got {len(found)}")
        self._window_start, self._window = start, found
