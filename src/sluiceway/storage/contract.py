"""What every file system provides to the protocol.

Paths are absolute and name one object. The contract is probed for real at start (`probe`); a
store that cannot do it is refused. An error code never decides what happened: implementations
read (stat or content) before they answer.
"""

import shutil
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, ClassVar
from uuid import uuid4

from sluiceway.errors import FileLostError

_COPIED_BYTES = 4 << 20
SHARED_ANEW_MS = 600_000
"""A second name that is older gets a new time when it is asked for again."""


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
        unfit: In a listing: why the file could not be published by this process; empty when
            nothing speaks against it.
        changed_ms: When a file was last written, or given its name by `share`: milliseconds since
            1970 by the store's own clock; None where the store has none.
    """

    path: str
    size_bytes: int
    is_dir: bool
    is_link: bool = False
    unfit: str = ""
    changed_ms: int | None = None


@dataclass(frozen=True, slots=True)
class FileSeal:
    """What a writer knows of the file it closed.

    Attributes:
        size_bytes: Whole file.
        crc32c: Castagnoli checksum of the whole file, eight hex digits.
        attested: The store has compared what it keeps with the checksum (commit rule 28).
    """

    size_bytes: int
    crc32c: str
    attested: bool = False


@dataclass(frozen=True, slots=True)
class RequestCount:
    """Requests to a store that is paid for by them.

    Attributes:
        reads: Requests that only read.
        writes: Requests that change something, copies too.
    """

    reads: int = 0
    writes: int = 0

    def __add__(self, other: "RequestCount") -> "RequestCount":
        return RequestCount(self.reads + other.reads, self.writes + other.writes)


NO_REQUESTS = RequestCount()
"""Nothing is paid by the request."""


class StagedWriter(ABC):
    """A file being written. Used by one thread."""

    path: str

    @abstractmethod
    def handle(self) -> BinaryIO:
        """The object to write to; position rises only."""

    @property
    def held_bytes(self) -> int:
        """Memory that only the end of the file frees, a flush does not."""
        return 0

    @abstractmethod
    def seal(self) -> FileSeal:
        """Close, make durable, take off the `.inprogress` ending. Called once.

        Raises:
            StorageUnavailableError: Not durable; the attempt is discarded.
        """

    @abstractmethod
    def abort(self) -> None:
        """Drop what was written. Safe to repeat and after a failed `seal`."""


class Storage(ABC):
    """A file system that can hold a ledger and a table.

    Attributes:
        has_folders: A folder is a thing of its own, which can be gone, and a publish moves a file.
            Else folders are parts of names. A put needs none, and a staged file stays where it is
            after its publish, until garbage collection takes it.
        looks_are_cheap: Asking for a file again and again costs next to nothing; else each time
            is a request that is paid for.
    """

    has_folders: ClassVar[bool] = True
    looks_are_cheap: ClassVar[bool] = True

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

    def admit(self, folder: str) -> None:
        """Refuse a folder whose files the store itself would remove. Called at each route's start.

        Args:
            folder: Folder of a table, or of its ledger.

        Raises:
            UnhealthyEnvironmentError: Says by which rule.
        """
        del folder

    def denies_copies(self, folder: str) -> bool | None:
        """Whether the store keeps the copiers of other rooms from writing below a folder.

        Called by `adopt`, before it claims a copied table.

        Returns:
            None where the store has no rules for copiers, or does not show them to this login.
        """
        del folder
        return None

    @abstractmethod
    def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        """Create `path` with exactly `content`, or not at all; exclusive and durable.

        The bytes are made once by the caller. After any doubtful answer the slot is read: `CREATED`
        when it holds `content`, `EXISTS` when it holds something else. Creates the parent folder of
        `path` (that one only) when its own parent exists. Without folders the writer of the log
        refuses to go on after a record that is gone.

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

    def has_file(self, path: str) -> bool:
        """Whether a file is there: as `status` says, for less where folders cost a request too.

        Raises:
            StorageUnavailableError: The store failed.
        """
        found = self.status(path)
        return found is not None and not found.is_dir

    @abstractmethod
    def list(self, folder: str) -> list[FileStatus]:
        """Direct children in name order; empty when the folder does not exist.

        Raises:
            StorageUnavailableError: The store failed.
        """

    def missing_parent(self, folder: str) -> str | None:
        """The folder above, when it does not exist: its disk may not be mounted.

        Called before a table or its folder is made, so that a store that refuses is heard before a
        catalog that asks it. Without an implementation nothing is missing.

        Raises:
            StorageUnavailableError: The store failed.
        """
        del folder
        return None

    @abstractmethod
    def make_folders(self, folder: str) -> None:
        """Create the folder and its missing parents, durably. Safe to repeat.

        Raises:
            StorageUnavailableError: The store failed.
        """

    def expect_files(self, folder: str) -> None:
        """Make a folder that files are put into next; nothing where their names make it.

        Raises:
            StorageUnavailableError: The store failed.
        """
        self.make_folders(folder)

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
        `src` is gone afterwards, where there are folders.

        Raises:
            FileLostError: Neither `src` nor a right `dst` exists, or `dst` is another file.
            UnhealthyEnvironmentError: It can never work: another file system, a file in the way.
            StorageUnavailableError: The store failed; repeat the same call.
        """

    def share(self, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        """Put a committed file under a second name, with a new time of change; `src` stays.

        Creates missing folders of `dst`. Idempotent and durable; `dst` is a name that only this
        file ever has. Where it has that name already its time is set again too, as far as the store
        can: clean-ups that remove unnamed files go by it. Here the bytes are copied; stores do it
        for less.

        Raises:
            FileLostError: `src` is not there, and neither is a right `dst`; or `dst` is another.
            StorageUnavailableError: The store failed; repeat the same call.
        """
        found = self.status(dst)
        if found is not None and found.size_bytes == size_bytes:
            return
        if self.status(src) is None:
            raise FileLostError(
                "a committed file is neither where it was published nor in the table",
                where=src,
                hint="run `sluiceway verify JOB` and restore the file from a backup",
            )
        self.expect_files(dst.rpartition("/")[0])
        # A copy of its own: two publishers may write at one time, and one of them gives the name.
        copied = f"{dst}.{uuid4().hex}.copying"
        writer = self.create_staged(copied)
        try:
            with self.open_read(src) as source:
                shutil.copyfileobj(source, writer.handle(), _COPIED_BYTES)
            seal = writer.seal()
        except BaseException:
            writer.abort()
            raise
        if (seal.size_bytes, seal.crc32c) != (size_bytes, crc32c):
            self.remove(copied)
            raise FileLostError("a committed file is not as it was written", where=src)
        self.publish(copied, dst, size_bytes=size_bytes, crc32c=crc32c)
        self.sync_folder(dst.rpartition("/")[0])

    @abstractmethod
    def open_read(self, path: str) -> BinaryIO:
        """A fresh handle on an existing file.

        Raises:
            StorageUnavailableError: The store failed or the file is gone.
        """

    def pop_request_count(self) -> RequestCount:
        """Requests that this process has sent since the last call; each counts once."""
        return NO_REQUESTS

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file or a folder tree. Only garbage collection and `abort` call it.

        Raises:
            StorageUnavailableError: The store failed.
        """
