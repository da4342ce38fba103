"""A log file of bounded size: when it is full, a new part begins.

Older parts are `NAME.1` (the last one) to `NAME.4`. Parts end at the end of a line. A reader must
open the parts from the newest on: they only ever move to higher numbers.
"""

import os
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

PART_BYTES = 32 << 20
KEPT_PARTS = 4


class BoundedLog:
    """Writes the log.

    Args:
        path: Path of the newest part. It may exist, be removed or be moved meanwhile.
        part_bytes: From about this size on a new part begins.
        kept: How many older parts are kept.
    """

    def __init__(self, path: Path, *, part_bytes: int = PART_BYTES, kept: int = KEPT_PARTS) -> None:
        self._path = path
        self._part_bytes = part_bytes
        self._kept = kept
        self._file: int | None = None
        self._size = 0

    def write(self, block: bytes) -> None:
        """Add bytes to the end.

        Raises:
            OSError: It cannot be written; what could be written is in the file.
        """
        file = self._opened()
        while block:
            cut = self._cut(block)
            self._put(file, block[:cut])
            ends_a_line = block[cut - 1 : cut] == b"\n"
            block = block[cut:]
            full = self._size >= self._part_bytes or bool(block)
            if full and (ends_a_line or self._size >= 2 * self._part_bytes):
                file = self._begin_anew()

    def close(self) -> None:
        """Close the file. Safe to repeat."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _cut(self, block: bytes) -> int:
        """How much of a block goes into this part: what has room, to the end of its last line."""
        room = self._part_bytes - self._size
        if len(block) <= room:
            return len(block)
        last_that_fits = block.rfind(b"\n", 0, max(room, 0))
        return (last_that_fits if last_that_fits >= 0 else block.find(b"\n")) + 1 or len(block)

    def _put(self, file: int, block: bytes) -> None:
        while block:
            written = os.write(file, block)
            self._size += written
            block = block[written:]

    def _opened(self) -> int:
        """The open file, where it still has its name; else a newly opened one."""
        if self._file is not None:
            mine = os.fstat(self._file)
            with suppress(FileNotFoundError):
                there = self._path.stat()
                if (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino):
                    self._size = mine.st_size
                    return self._file
        return self._open()

    def _open(self) -> int:
        self.close()
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        self._file, self._size = file, os.fstat(file).st_size
        return file

    def _begin_anew(self) -> int:
        for newer, older in reversed(list(pairwise(part_names(self._path, self._kept)))):
            with suppress(FileNotFoundError):
                newer.replace(older)
        return self._open()


def part_names(path: Path, kept: int = KEPT_PARTS) -> list[Path]:
    """Paths of possible parts, the newest first."""
    return [path, *(path.with_name(f"{path.name}.{number}") for number in range(1, kept + 1))]


def opened_parts(path: Path, opened: ExitStack, kept: int = KEPT_PARTS) -> dict[int, BinaryIO]:
    """The existing parts, the newest first, each once, while the writer may go on.

    Args:
        path: Path of the newest part.
        opened: Closes them.
        kept: How many older parts the writer keeps.

    Returns:
        Inode -> file.

    Raises:
        FileNotFoundError: There is no part.
        OSError: One cannot be opened.
    """
    found: dict[int, BinaryIO] = {}
    missing: FileNotFoundError | None = None
    for name in part_names(path, kept):
        try:
            part = opened.enter_context(name.open("rb"))
        except FileNotFoundError as error:
            missing = missing or error
            continue
        # A part that was renamed meanwhile is found twice.
        found.setdefault(os.fstat(part.fileno()).st_ino, part)
    if not found and missing is not None:
        raise missing
    return found
