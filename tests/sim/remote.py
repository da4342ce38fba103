"""HDFS and an object store, at the storage contract: requests are late, doubled, without reply."""

import io
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO, Protocol, cast
from uuid import uuid4

import google_crc32c

from sim.posix import Watcher
from sluiceway.errors import FileLostError, StorageUnavailableError
from sluiceway.storage.contract import FileSeal, FileStatus, PutResult, StagedWriter, Storage


class Weather(Protocol):
    """How a request ends: its effect now, later, twice or never, its reply perhaps lost."""

    def ask_storage(self, request: str, path: str, effect: Callable[[], Any]) -> Any: ...

    def stale(self) -> bool: ...


def crc32c(content: bytes) -> str:
    """Castagnoli checksum, eight hex digits."""
    checksum = google_crc32c.Checksum()
    checksum.update(content)
    return cast("bytes", checksum.hexdigest()).decode()


class Objects:
    """What the servers hold. Every method is one atomic step of theirs."""

    def __init__(self, watcher: Watcher) -> None:
        self.held: dict[str, bytes] = {}
        self._watcher = watcher

    def create(self, path: str, content: bytes) -> bool:
        if path in self.held:
            return False
        self.held[path] = content
        self._watcher.named(path, content)
        return True

    def overwrite(self, path: str, content: bytes) -> None:
        self.held[path] = content
        self._watcher.named(path, content)

    def copy(self, source: str, target: str) -> bool:
        """Unconditional, as many stores have it."""
        if source not in self.held:
            return False
        self.overwrite(target, self.held[source])
        return True

    def rename(self, source: str, target: str) -> bool:
        """Without overwrite; False also when a first request that got no reply has done it."""
        if source not in self.held or target in self.held:
            return False
        content = self.held.pop(source)
        self.held[target] = content
        self._watcher.named(target, content)
        self._watcher.unnamed(source)
        return True

    def below(self, path: str) -> list[str]:
        return [held for held in self.held if held.startswith(f"{path}/")]

    def drop(self, path: str) -> None:
        if self.held.pop(path, None) is not None:
            self._watcher.unnamed(path)

    def remove(self, path: str) -> None:
        for held in [path, *self.below(path)]:
            self.drop(held)


class _RemoteWriter(StagedWriter):
    def __init__(self, storage: "RemoteStorage", path: str) -> None:
        self.path = path
        self._storage = storage
        self._buffer = io.BytesIO()

    def handle(self) -> BinaryIO:
        return self._buffer

    def seal(self) -> FileSeal:
        content = self._buffer.getvalue()
        self._storage.put_staged(self.path, content)
        return FileSeal(len(content), crc32c(content))

    def abort(self) -> None:
        return


class RemoteStorage(Storage):
    """Client of either store.

    Args:
        renames: As HDFS: rename without overwrite; else conditional puts, and copies.
    """

    def __init__(self, objects: Objects, weather: Weather, *, renames: bool) -> None:
        self._objects = objects
        self._weather = weather
        self._renames = renames

    def volume(self, path: str) -> str:
        """All paths are of one store."""
        del path
        return "remote"

    def probe(self, folder: str) -> None:
        self._ask("probe", folder, lambda: None)

    def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        try:
            if self._renames:
                tmp = f"{tmp_folder}/{uuid4().hex}.tmp"
                self._ask("create", tmp, lambda: self._objects.create(tmp, content))
                self._ask("rename", path, lambda: self._objects.rename(tmp, path))
            else:
                self._ask("put", path, lambda: self._objects.create(path, content))
        except StorageUnavailableError:
            # No error decides; what the slot holds does.
            if self.read(path) is None:
                raise
        found = self.read(path)
        if found is None:
            raise StorageUnavailableError("it cannot be read", where=path)
        return PutResult.CREATED if found == content else PutResult.EXISTS

    def put_staged(self, path: str, content: bytes) -> None:
        self._ask("upload", path, lambda: self._objects.create(path, content))

    def overwrite(self, path: str, content: bytes) -> None:
        self._ask("overwrite", path, lambda: self._objects.overwrite(path, content))

    def read(self, path: str) -> bytes | None:
        found: bytes | None = self._look("get", path, lambda: self._objects.held.get(path))
        return found

    def status(self, path: str) -> FileStatus | None:
        def look() -> FileStatus | None:
            if path in self._objects.held:
                return FileStatus(path, len(self._objects.held[path]), is_dir=False)
            below = any(held.startswith(f"{path}/") for held in self._objects.held)
            return FileStatus(path, 0, is_dir=True) if below else None

        found: FileStatus | None = self._look("head", path, look)
        return found

    def list(self, folder: str) -> list[FileStatus]:
        def look() -> list[FileStatus]:
            found: dict[str, FileStatus] = {}
            for held, content in self._objects.held.items():
                if not held.startswith(f"{folder}/"):
                    continue
                name, _, rest = held[len(folder) + 1 :].partition("/")
                path = f"{folder}/{name}"
                size = 0 if rest else len(content)
                found[path] = FileStatus(path, size, is_dir=bool(rest))
            return [found[path] for path in sorted(found)]

        listed: list[FileStatus] = self._look("list", folder, look)
        # The listing of the log is a hint only, so it may be one of a while ago.
        if "/log" in folder and self._weather.stale():
            return listed[: len(listed) // 2]
        return listed

    def make_folders(self, folder: str) -> None:
        self._ask("mkdirs", folder, lambda: None)

    def create_staged(self, path: str) -> StagedWriter:
        return _RemoteWriter(self, path)

    def sync_folder(self, folder: str) -> None:
        return

    def publish(self, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        move = self._objects.rename if self._renames else self._objects.copy
        if self.status(src) is not None:
            self._ask("publish", dst, lambda: move(src, dst))
        found = self.read(dst)
        if found is None and self.status(src) is not None:
            raise StorageUnavailableError("it is not there yet", where=dst)
        if found is None or len(found) != size_bytes or checksum(found) != crc32c:
            raise FileLostError("neither staged nor published", where=dst)

    def open_read(self, path: str) -> BinaryIO:
        found = self.read(path)
        if found is None:
            raise StorageUnavailableError("no such object", where=path)
        return io.BytesIO(found)

    def remove(self, path: str) -> None:
        if self._renames:
            self._ask("remove", path, lambda: self._objects.remove(path))
            return
        # No store removes many objects at once.
        for held in [path, *self._objects.below(path)]:
            self._ask("remove", held, partial(self._objects.drop, held))

    def _ask(self, request: str, path: str, effect: Callable[[], Any]) -> Any:
        return self._weather.ask_storage(request, path, effect)

    def _look(self, request: str, path: str, effect: Callable[[], Any]) -> Any:
        return self._weather.ask_storage(request, path, effect)


checksum = crc32c
