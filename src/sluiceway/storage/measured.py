"""A store whose calls are timed for metrics; it does what the store inside does."""

import time
from collections.abc import Callable
from typing import BinaryIO, TypeVar

from sluiceway.storage.contract import FileStatus, PutResult, RequestCount, StagedWriter, Storage

T = TypeVar("T")
Measure = Callable[[str, float], None]
"""(operation, seconds); called from any thread, also after a call that failed."""


class MeasuredStorage(Storage):
    """A storage that reports how long each call took.

    Args:
        store: What does the work.
        measure: Called after each call.
    """

    def __init__(self, store: Storage, measure: Measure) -> None:
        self._store = store
        self._measure = measure
        # What the class says of the store inside holds for this object alone.
        self.has_folders = store.has_folders  # type: ignore[misc]
        self.looks_are_cheap = store.looks_are_cheap  # type: ignore[misc]

    def _timed(self, operation: str, call: Callable[[], T]) -> T:
        started = time.monotonic()
        try:
            return call()
        finally:
            self._measure(operation, time.monotonic() - started)

    def volume(self, path: str) -> str:
        """See `Storage`; the kind of store is part of it, as it is no longer that of this class."""
        return f"{type(self._store).__name__} {self._store.volume(path)}"

    def probe(self, folder: str) -> None:
        """See `Storage`."""
        self._timed("probe", lambda: self._store.probe(folder))

    def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        """See `Storage`."""
        put = self._store.put_if_absent
        return self._timed("put", lambda: put(path, content, tmp_folder=tmp_folder))

    def overwrite(self, path: str, content: bytes) -> None:
        """See `Storage`."""
        self._timed("overwrite", lambda: self._store.overwrite(path, content))

    def read(self, path: str) -> bytes | None:
        """See `Storage`."""
        return self._timed("read", lambda: self._store.read(path))

    def status(self, path: str) -> FileStatus | None:
        """See `Storage`."""
        return self._timed("look", lambda: self._store.status(path))

    def admit(self, folder: str) -> None:
        """See `Storage`."""
        self._timed("look", lambda: self._store.admit(folder))

    def denies_copies(self, folder: str) -> bool | None:
        """See `Storage`."""
        return self._timed("look", lambda: self._store.denies_copies(folder))

    def has_file(self, path: str) -> bool:
        """See `Storage`."""
        return self._timed("look", lambda: self._store.has_file(path))

    def list(self, folder: str) -> list[FileStatus]:
        """See `Storage`."""
        return self._timed("list", lambda: self._store.list(folder))

    def missing_parent(self, folder: str) -> str | None:
        """See `Storage`."""
        return self._timed("look", lambda: self._store.missing_parent(folder))

    def make_folders(self, folder: str) -> None:
        """See `Storage`."""
        self._timed("make_folders", lambda: self._store.make_folders(folder))

    def expect_files(self, folder: str) -> None:
        """See `Storage`."""
        self._timed("make_folders", lambda: self._store.expect_files(folder))

    def create_staged(self, path: str) -> StagedWriter:
        """See `Storage`."""
        return self._timed("create", lambda: self._store.create_staged(path))

    def sync_folder(self, folder: str) -> None:
        """See `Storage`."""
        self._timed("sync", lambda: self._store.sync_folder(folder))

    def publish(self, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        """See `Storage`."""
        publish = self._store.publish
        self._timed("publish", lambda: publish(src, dst, size_bytes=size_bytes, crc32c=crc32c))

    def share(self, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        """See `Storage`."""
        share = self._store.share
        self._timed("share", lambda: share(src, dst, size_bytes=size_bytes, crc32c=crc32c))

    def open_read(self, path: str) -> BinaryIO:
        """See `Storage`."""
        return self._timed("open", lambda: self._store.open_read(path))

    def pop_request_count(self) -> RequestCount:
        """See `Storage`."""
        return self._store.pop_request_count()

    def remove(self, path: str) -> None:
        """See `Storage`."""
        self._timed("remove", lambda: self._store.remove(path))
