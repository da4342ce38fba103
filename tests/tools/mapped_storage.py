"""A storage of another scheme: `mapped:/path` is a local path. Names stay URIs throughout."""

from collections.abc import Mapping
from dataclasses import replace
from typing import BinaryIO

from sluiceway.storage.contract import FileSeal, FileStatus, PutResult, StagedWriter, Storage
from sluiceway.storage.local import LocalStorage, local_path

SCHEME = "mapped"


def open_mapped(location: str, options: Mapping[str, str]) -> tuple[Storage, str]:
    """What an entry point would name."""
    del options
    return MappedStorage(), f"{SCHEME}:{local_path(_local(location))}"


def _local(path: str) -> str:
    assert path.startswith(f"{SCHEME}:/"), f"{path} is none of ours"
    return path.removeprefix(f"{SCHEME}:").removeprefix("//")


def _named(status: FileStatus) -> FileStatus:
    return replace(status, path=f"{SCHEME}:{status.path}")


class _MappedWriter(StagedWriter):
    def __init__(self, path: str, file: StagedWriter) -> None:
        self.path = path
        self._file = file

    def handle(self) -> BinaryIO:
        return self._file.handle()

    def seal(self) -> FileSeal:
        return self._file.seal()

    def abort(self) -> None:
        self._file.abort()


class MappedStorage(Storage):
    def __init__(self) -> None:
        self._files = LocalStorage()

    def volume(self, path: str) -> str:
        return self._files.volume(_local(path))

    def probe(self, folder: str) -> None:
        self._files.probe(_local(folder))

    def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        return self._files.put_if_absent(_local(path), content, tmp_folder=_local(tmp_folder))

    def overwrite(self, path: str, content: bytes) -> None:
        self._files.overwrite(_local(path), content)

    def read(self, path: str) -> bytes | None:
        return self._files.read(_local(path))

    def status(self, path: str) -> FileStatus | None:
        found = self._files.status(_local(path))
        return None if found is None else _named(found)

    def list(self, folder: str) -> list[FileStatus]:
        return [_named(status) for status in self._files.list(_local(folder))]

    def make_folders(self, folder: str) -> None:
        self._files.make_folders(_local(folder))

    def create_staged(self, path: str) -> StagedWriter:
        return _MappedWriter(path, self._files.create_staged(_local(path)))

    def sync_folder(self, folder: str) -> None:
        self._files.sync_folder(_local(folder))

    def publish(self, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        self._files.publish(_local(src), _local(dst), size_bytes=size_bytes, crc32c=crc32c)

    def open_read(self, path: str) -> BinaryIO:
        return self._files.open_read(_local(path))

    def remove(self, path: str) -> None:
        self._files.remove(_local(path))
