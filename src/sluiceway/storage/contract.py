"""What every file system provides to the protocol.

Paths are absolute and name one object. The contract is probed for real at start (`probe`); a
store that cannot do it is refused. An error code never decides what happened: implementations
look (stat or read) before they answer.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO


class PutResult(StrEnum):
    """What `put_if_absent` found to be so afterwards, by reading."""

    CREATED = "created"
    EXISTS = "exists"


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A file or folder as the store describes it.

    Attributes:
        path: Absolute.
        size_bytes: 0 for a folder.
        is_dir: True for a folder.
        is_link: In a listing: it only leads there, perhaps to another place.
    """

    path: str
    size_bytes: int
    is_dir: bool
    is_link: bool = False


@dataclass(frozen=True, slots=True)
class FileSeal:
    """What a writer knows of the file it closed.

    Attributes:
        size_bytes: Whole file.
        crc32c: Castagnoli checksum of the whole file, eight hex digits.
    """

    size_bytes: int
    crc32c: str


class StagedWriter(ABC):
    """A file being written. Used by one thread."""

    path: str

    @abstractmethod
    def handle(self) -> BinaryIO:
        """The object to write to; position rises only."""

    @abstractmethod
    def seal(self) -> FileSeal:
        """Close, make durable, take off the `.inprogress` ending. Called once.

        Raises:
            StorageUnavailableError: Not durable; the attempt is thrown away.
        """

    @abstractmethod
    def abort(self) -> None:
        """Drop what was written. Safe to repeat and after a failed `seal`."""


class Storage(ABC):
    """A file system that can hold a ledger and a table."""

    def volume(self, path: str) -> str:
        """Name the part of the store that answers, fails and hangs as one, and that holds `path`.

        What `probe` finds in one folder holds in all folders of a volume. Called at a route's
        start. Without an implementation each path is a volume of its own: nothing is shared.

        Args:
            path: Need not exist.

        Raises:
            StorageUnavailableError: The store failed.
        """
        return path

    @abstractmethod
    def probe(self, folder: str) -> None:
        """Try the contract below `folder` for real: one winner in a race, publish idempotent.

        Raises:
            UnhealthyEnvironmentError: The store cannot do it; says what failed.
            StorageUnavailableError: It did not answer.
        """

    @abstractmethod
    def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        """Create `path` with exactly `content`, or not at all; exclusive and durable.

        The bytes are made once by the caller. After any doubtful answer the slot is read:
        `CREATED` when it holds `content`, `EXISTS` when it holds something else. Creates the
        parent folder of `path` (that one only) when its own parent exists.

        Args:
            path: Final name.
            content: Whole content.
            tmp_folder: Existing folder on the same file system for the temporary file.

        Raises:
            StorageUnavailableError: Nothing is known; repeat the same call.
        """

    @abstractmethod
    def overwrite(self, path: str, content: bytes) -> None:
        """Replace advice (lease, hint) atomically. Never used for truth.

        Raises:
            StorageUnavailableError: The store failed.
        """

    @abstractmethod
    def read(self, path: str) -> bytes | None:
        """Whole content, or None when the file does not exist.

        Raises:
            StorageUnavailableError: The store failed.
        """

    @abstractmethod
    def status(self, path: str) -> FileStatus | None:
        """Status, or None when it does not exist.

        Raises:
            StorageUnavailableError: The store failed.
        """

    @abstractmethod
    def list(self, folder: str) -> list[FileStatus]:
        """Direct children in name order; empty when the folder does not exist.

        Raises:
            StorageUnavailableError: The store failed.
        """

    @abstractmethod
    def make_folders(self, folder: str) -> None:
        """Create the folder and its missing parents, durably. Safe to repeat.

        Raises:
            StorageUnavailableError: The store failed.
        """

    @abstractmethod
    def create_staged(self, path: str) -> StagedWriter:
        """Begin a staged file in an existing folder; exclusive.

        Raises:
            StorageUnavailableError: The store failed.
        """

    @abstractmethod
    def sync_folder(self, folder: str) -> None:
        """Make the folder's entries durable (nothing to do on stores without folders).

        Raises:
            StorageUnavailableError: The store failed.
        """

    @abstractmethod
    def publish(self, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        """Give a staged file its final name: exclusive, idempotent, durable.

        Creates missing folders of `dst`. Done already (`src` gone, `dst` of that size) is done.

        Raises:
            FileLostError: Neither `src` nor a right `dst` exists, or `dst` is another file.
            UnhealthyEnvironmentError: It can never work: another file system, a file in the way.
            StorageUnavailableError: The store failed; repeat the same call.
        """

    @abstractmethod
    def open_read(self, path: str) -> BinaryIO:
        """A fresh handle on an existing file.

        Raises:
            StorageUnavailableError: The store failed or the file is gone.
        """

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file or a folder tree. Only garbage collection and `abort` call it.

        Raises:
            StorageUnavailableError: The store failed.
        """
