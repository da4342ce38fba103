"""HDFS as a storage: exclusive by rename without overwrite, durable by hsync."""

import io
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from io import RawIOBase
from typing import BinaryIO, TypeVar, cast
from uuid import uuid4

from hdfs_native import Client, FileWriter, WriteOptions

from sluiceway.errors import (
    FileLostError,
    StorageUnavailableError,
    UnhealthyEnvironmentError,
)
from sluiceway.observe.failpoints import edge
from sluiceway.storage.access import StoreAccess
from sluiceway.storage.checksummed import ChecksummedStream
from sluiceway.storage.contract import (
    SHARED_ANEW_MS,
    FileSeal,
    FileStatus,
    PutResult,
    StagedWriter,
    Storage,
)
from sluiceway.storage.copying import stream_crc32c
from sluiceway.storage.hdfs.client import FOREIGN, failure, hdfs_client
from sluiceway.storage.hdfs.timed_calls import LONGEST_S, begun, in_time, waited_for
from sluiceway.storage.probing import probe_exclusive_put, probe_publish
from sluiceway.storage.windows import WindowReader

T = TypeVar("T")

_LOCATION = re.compile(r"((?:hdfs|viewfs)://[A-Za-z0-9._:-]+)(/.*)?", re.DOTALL)
_DATA = 0o777
_FILE = 0o666
_BUFFER_BYTES = 128 << 10
# A packet of the protocol is 64 KiB.
_WRITTEN_AT_ONCE = 256 << 10
_MOST_MODES = 10_000
_RENAMES = "the name node lets a rename replace a file: is it a real HDFS?"
_FIRST_LOOK_S = 0.004
_LONGEST_PAUSE_S = 0.1
_PAUSE_GROWS = 1.5
# The library's own question goes on meanwhile; these many files may be left to it at one time.
_MOST_WAITING = 64
_waiting = threading.BoundedSemaphore(_MOST_WAITING)


def hdfs_location(location: str) -> tuple[str, str]:
    """The service of a location, and the location as this storage names it.

    Raises:
        UnhealthyEnvironmentError: It names no service.
    """
    match = _LOCATION.fullmatch(location)
    if match is None:
        raise UnhealthyEnvironmentError(
            f"expected hdfs://service/path, got {location}",
            hint="correct the table's location; the service may not be left out",
        )
    path = re.sub("/{2,}", "/", match[2] or "").rstrip("/")
    return match[1], f"{match[1]}{path}"


class RawFile(RawIOBase):
    """A file being written, whose failures are errors of files.

    Args:
        writer: Writer of the library.
        longest_s: How long a write may take.
    """

    def __init__(self, writer: FileWriter, longest_s: float = LONGEST_S) -> None:
        super().__init__()
        self._writer = writer
        self._longest_s = longest_s

    def write(self, data: "bytes | memoryview") -> int:  # type: ignore[override]
        """Write some bytes; called by the buffer above."""
        try:
            return int(in_time(partial(self._writer.write, bytes(data)), self._longest_s))
        except (RuntimeError, ValueError) as error:
            raise OSError(str(error)) from error


class _StagedFile(StagedWriter):
    def __init__(self, storage: "HdfsStorage", path: str) -> None:
        self.path = path
        self._storage = storage
        self._open_path = f"{path}.inprogress"
        self._file = storage.create_file(self._open_path, "storage.hdfs.create")
        self._stream = ChecksummedStream(
            RawFile(self._file), path, written_at_once=_WRITTEN_AT_ONCE
        )
        self._ended = False

    def handle(self) -> BinaryIO:
        return cast("BinaryIO", self._stream)

    def seal(self) -> FileSeal:
        try:
            self._stream.flush()
        except OSError as error:
            raise failure(f"cannot write {self.path}", error) from error
        self._storage.close_file(self._file, self._open_path, self._stream.size_bytes)
        # The attempt's folder is its own, so this rename cannot meet another file.
        self._storage.rename(self._open_path, self.path)
        self._ended = True
        return FileSeal(self._stream.size_bytes, self._stream.crc32c())

    def abort(self) -> None:
        if self._ended:
            # A result that was put may name it; only garbage collection takes it away.
            return
        self._ended = True
        for path in (self._open_path, self.path):
            self._storage.remove_quietly(path)


class HdfsStorage(Storage):
    """Storage contract over HDFS's own protocol; may be used by several threads.

    New folders and files get the mode of the folder that they are put into. With it come group and
    default ACL, which HDFS hands down by itself (commit rule 30b).

    Args:
        access: How the name service is reached.
        service: `hdfs://name`.
    """

    looks_are_cheap = False

    def __init__(self, access: StoreAccess, service: str) -> None:
        self._service = service
        self._client: Client = hdfs_client(access, service)
        self._modes: dict[str, int] = {}

    def volume(self, path: str) -> str:
        """See `Storage.volume`: a name service."""
        del path
        return self._service

    def probe(self, folder: str) -> None:
        """See `Storage.probe`."""
        place = f"{folder}/probe-{uuid4().hex}"
        self.make_folders(place)
        probe_exclusive_put(self, place, hint=_RENAMES)
        probe_publish(self, place)
        self.remove(place)

    def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        """See `Storage.put_if_absent`."""
        tmp = f"{tmp_folder}/{path.rpartition('/')[2]}.{uuid4().hex}.tmp"
        try:
            self._write_file(tmp, content)
            self._rename_into(tmp, path)
        except StorageUnavailableError:
            # No error code decides; what the slot holds does.
            self.remove_quietly(tmp)
            found = self.read(path)
            if found is None:
                raise
            return PutResult.CREATED if found == content else PutResult.EXISTS
        return PutResult.CREATED

    def overwrite(self, path: str, content: bytes) -> None:
        """See `Storage.overwrite`."""
        folder, _, name = path.rpartition("/")
        tmp = f"{folder}/.{name}.{uuid4().hex}.tmp"
        try:
            # No caller waits for advice.
            self._write_file(tmp, content, hurried=False)
            self._ask("storage.hdfs.replace", path, lambda: self._renamed(tmp, path, replace=True))
        except StorageUnavailableError:
            self.remove_quietly(tmp)
            raise

    def read(self, path: str) -> bytes | None:
        """See `Storage.read`."""

        def content() -> bytes | None:
            try:
                return self._client.read(self._path(path)).read()
            except FileNotFoundError:
                return None

        return self._ask("storage.hdfs.read", path, content)

    def status(self, path: str) -> FileStatus | None:
        """See `Storage.status`."""

        def look() -> FileStatus | None:
            try:
                found = self._client.get_file_info(self._path(path))
            except FileNotFoundError:
                return None
            size_bytes = 0 if found.isdir else found.length
            changed_ms = found.modification_time
            return FileStatus(path, size_bytes, found.isdir, changed_ms=changed_ms)

        return self._ask("storage.hdfs.status", path, look)

    def missing_parent(self, folder: str) -> str | None:
        """See `Storage.missing_parent`: all are made, but a name node that refuses is heard."""
        self.status(folder)
        return None

    def list(self, folder: str) -> list[FileStatus]:
        """See `Storage.list`."""

        def look() -> list[FileStatus]:
            try:
                listed = [*self._client.list_status(self._path(folder))]
            except FileNotFoundError:
                return []
            return [
                FileStatus(
                    f"{folder}/{each.path.rpartition('/')[2]}",
                    0 if each.isdir else each.length,
                    each.isdir,
                    changed_ms=each.modification_time,
                )
                for each in listed
            ]

        found = self._ask("storage.hdfs.list", folder, look)
        return sorted(found, key=lambda status: status.path)

    def make_folders(self, folder: str) -> None:
        """See `Storage.make_folders`: they get the mode of the folder above them."""
        # Read again each time: the table may have been removed and created again.
        above = folder
        while (mode := self._read_mode(above)) is None and above != self._service:
            above = above.rpartition("/")[0]
        if above == folder or mode is None:
            return
        self._ask(
            "storage.hdfs.mkdirs",
            folder,
            lambda: self._client.mkdirs(self._path(folder), mode, create_parent=True),
        )

    def create_staged(self, path: str) -> StagedWriter:
        """See `Storage.create_staged`."""
        return _StagedFile(self, path)

    def sync_folder(self, folder: str) -> None:
        """See `Storage.sync_folder`: what the name node has answered is in its log."""

    def publish(self, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        """See `Storage.publish`."""
        try:
            self._rename_into(src, dst, whole=True)
        except StorageUnavailableError:
            # The rename may have been done by a request whose answer was lost, or by another; or
            # it is done between the two requests. Only in this order one of them sees the file.
            staged = self.status(src)
            found = self.status(dst)
            if found is None and staged is not None:
                raise
            self._refuse_other(dst, found, staged, (size_bytes, crc32c))
            if staged is not None:
                self.remove(src)

    def _refuse_other(
        self,
        dst: str,
        found: FileStatus | None,
        staged: FileStatus | None,
        wanted: tuple[int, str],
    ) -> None:
        size_bytes, crc32c = wanted
        if found is None or (staged is None and found.size_bytes != size_bytes):
            raise FileLostError(
                "a committed file is neither staged nor published",
                where=dst,
                hint="run `sluiceway verify JOB` and restore the file from a backup",
            )
        if staged is None:
            return
        if found.is_dir or found.size_bytes != size_bytes or self._crc32c(dst) != crc32c:
            raise FileLostError(
                "another file stands at the final name of a committed file",
                where=dst,
                hint="move it away and start again",
            )

    def _crc32c(self, path: str) -> str:
        try:
            with self.open_read(path) as stream:
                return stream_crc32c(stream)
        except OSError as error:
            raise failure(f"cannot read {path}", error) from error

    def share(self, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        """See `Storage.share`: copied here, for no file has two names there."""
        super().share(src, dst, size_bytes=size_bytes, crc32c=crc32c)
        found, now_ms = self.status(dst), int(time.time() * 1000)
        if found is not None and now_ms - (found.changed_ms or 0) >= SHARED_ANEW_MS:
            path = self._path(dst)
            self._ask(
                "storage.hdfs.replace",
                dst,
                lambda: self._client.set_times(path, now_ms, now_ms),
            )

    def open_read(self, path: str) -> BinaryIO:
        """See `Storage.open_read`."""
        reader = self._ask(
            "storage.hdfs.open_read", path, lambda: self._client.read(self._path(path))
        )

        def fetch(first: int, last: int) -> bytes:
            return self._ask(
                "storage.hdfs.read",
                path,
                lambda: bytes(reader.read_range(first, last - first + 1)),
            )

        window = WindowReader(len(reader), fetch)
        return cast("BinaryIO", io.BufferedReader(window, _BUFFER_BYTES))

    def remove(self, path: str) -> None:
        """See `Storage.remove`."""
        self._modes.pop(path, None)
        self._ask(
            "storage.hdfs.remove",
            path,
            lambda: self._client.delete(self._path(path), recursive=True),
        )

    def remove_quietly(self, path: str) -> None:
        """Remove a file no longer needed; if it stays it is garbage, never an error of the step."""
        try:
            self.remove(path)
        except StorageUnavailableError:
            return

    def create_file(self, path: str, edge_name: str) -> FileWriter:
        """Begin a file in an existing folder; exclusive.

        Raises:
            StorageUnavailableError: It is there, or the store failed.
        """
        mode = self._folder_mode(path.rpartition("/")[0])
        options = WriteOptions(
            overwrite=False,
            create_parent=False,
            permission=(_DATA if mode is None else mode) & _FILE,
        )
        return self._ask(edge_name, path, lambda: self._client.create(self._path(path), options))

    def close_file(self, file: FileWriter, path: str, size_bytes: int) -> None:
        """End a file, whose bytes are on the disks of its data nodes then.

        Raises:
            StorageUnavailableError: They may not be.
        """
        self._ask("storage.hdfs.hsync", path, partial(in_time, file.hsync))
        plain = self._path(path)
        self._ask(
            "storage.hdfs.close", path, lambda: close_file(self._client, file, plain, size_bytes)
        )

    def rename(self, src: str, dst: str) -> None:
        """Give a file another name that nothing has.

        Raises:
            StorageUnavailableError: It has one, or nothing is known.
        """
        self._ask("storage.hdfs.rename", dst, lambda: self._renamed(src, dst, replace=False))

    def _rename_into(self, src: str, dst: str, *, whole: bool = False) -> None:
        """Rename, with a missing folder of the new name made before.

        That one only, unless `whole`: an old driver must not bring a removed ledger back to life.
        """
        try:
            self.rename(src, dst)
        except StorageUnavailableError:
            folder = dst.rpartition("/")[0]
            if self.status(folder) is not None or self.status(src) is None:
                raise
            if not whole and self.status(folder.rpartition("/")[0]) is None:
                raise
            self.make_folders(folder)
            self.rename(src, dst)

    def _renamed(self, src: str, dst: str, *, replace: bool) -> None:
        self._client.rename(self._path(src), self._path(dst), overwrite=replace)

    def _write_file(self, path: str, content: bytes, *, hurried: bool = True) -> None:
        file = self.create_file(path, "storage.hdfs.put")
        self._ask("storage.hdfs.write", path, partial(in_time, partial(file.write, content)))
        if hurried:
            self.close_file(file, path, len(content))
            return
        self._ask("storage.hdfs.hsync", path, partial(in_time, file.hsync))
        self._ask("storage.hdfs.close", path, partial(in_time, file.close))

    def _folder_mode(self, folder: str) -> int | None:
        """Mode of a folder; None when it is not there. Remembered: it hardly ever changes."""
        known = self._modes.get(folder)
        return self._read_mode(folder) if known is None else known

    def _read_mode(self, folder: str) -> int | None:

        def look() -> int | None:
            try:
                return int(self._client.get_file_info(self._path(folder)).permission) & _DATA
            except FileNotFoundError:
                return None

        mode = self._ask("storage.hdfs.status", folder, look)
        if mode is not None:
            if len(self._modes) >= _MOST_MODES:
                self._modes.clear()
            self._modes[folder] = mode
        return mode

    def _path(self, path: str) -> str:
        return path[len(self._service) :] or "/"

    def _ask(self, edge_name: str, path: str, ask: Callable[[], T]) -> T:
        try:
            with edge(edge_name, path):
                return ask()
        except FOREIGN as error:
            what = edge_name.rpartition(".")[2].replace("_", " ")
            raise failure(f"cannot {what} {path}", error) from error


def close_file(
    client: Client, file: FileWriter, path: str, size_bytes: int, longest_s: float = LONGEST_S
) -> None:
    """End a file: the name node has written down that it is whole, and how long it is.

    A name node closes a file once a data node has reported its last block. The writer has heard of
    that block some milliseconds before. The library asks at once, is refused, and asks again half a
    second later: each file would take that long.

    Args:
        client: Client that the file was begun with.
        file: Was written whole, and synced.
        path: Path of the file, without the service.
        size_bytes: Bytes that were written.
        longest_s: How long it may take.

    Raises:
        OSError: And what else the library raises (`FOREIGN`): nothing is known of the file.
    """
    if not _waiting.acquire(blocking=False):
        in_time(file.close, longest_s)
        return
    began_s, ending = time.monotonic(), begun(file.close)
    ending.add_done_callback(lambda _: _waiting.release())
    if not _closed_early(client, ending, (path, size_bytes), began_s + longest_s):
        waited_for(ending, longest_s, over_s=time.monotonic() - began_s)


def _closed_early(
    client: Client, ending: "Future[None]", whole: tuple[str, int], until_s: float
) -> bool:
    """Have the name node close the file once it can; False when the library's own end decides.

    For a reader a file is as long as its blocks that the writer has given back *and* a data node
    has reported. Of such a file nothing is left to recover: the name node closes it at once.
    """
    (path, size_bytes), pause_s = whole, _FIRST_LOOK_S
    while not wait({ending}, pause_s).done and time.monotonic() < until_s:
        with suppress(*FOREIGN):
            if len(client.read(path)) == size_bytes:
                return client.recover_lease(path)
        pause_s = min(pause_s * _PAUSE_GROWS, _LONGEST_PAUSE_S)
    return False
