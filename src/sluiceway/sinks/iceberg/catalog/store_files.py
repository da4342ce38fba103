"""Metadata files of lake tables by the route's own stores: S3 and HDFS as data files are reached.

The catalog's client opens manifests and metadata by its own file access, which knows neither a
connection's `ca_file` nor HDFS without Java. Named to it as its `py-io-impl`; local files and
stores that are none of ours stay with the client.
"""

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSystem, FileSystemHandler, FileType, PyFileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO

from sluiceway.sinks.lake_options import STORES_PROPERTY, parse_stores
from sluiceway.storage.access import HDFS, S3, store_kind
from sluiceway.storage.contract import Storage
from sluiceway.storage.registry import open_storage

_OURS = (S3, HDFS)


class StoreFileIO(PyArrowFileIO):  # type: ignore[misc]
    """The client's file access with our stores in it; made by the client itself, by its name."""

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> FileSystem:
        if store_kind(scheme) not in _OURS:
            return super()._initialize_fs(scheme, netloc)
        stores = parse_stores(self.properties.get(STORES_PROPERTY))
        prefix = f"{scheme}://{netloc}" if store_kind(scheme) == HDFS else f"{scheme}://"
        storage, _ = open_storage(f"{scheme}://{netloc}", stores)
        return PyFileSystem(_StoreFiles(storage, prefix))


class _StoreFiles(FileSystemHandler):  # type: ignore[misc]
    """A storage as pyarrow asks a file system; what no catalog's client does is refused.

    Args:
        storage: The store.
        prefix: Before a path as the client has it, to be one of the store.
    """

    def __init__(self, storage: Storage, prefix: str) -> None:
        self._storage = storage
        self._prefix = prefix

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _StoreFiles):
            return NotImplemented
        return (self._storage, self._prefix) == (other._storage, other._prefix)

    def __hash__(self) -> int:
        return hash((id(self._storage), self._prefix))

    def get_type_name(self) -> str:
        return "sluiceway"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[FileInfo]:
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> FileInfo:
        found = self._storage.status(f"{self._prefix}{path}")
        if found is None:
            return FileInfo(path, FileType.NotFound)
        if found.is_dir:
            return FileInfo(path, FileType.Directory)
        return FileInfo(path, FileType.File, size=found.size_bytes)

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> pa.PythonFile:
        named = f"{self._prefix}{path}"
        if not self._storage.has_file(named):
            raise FileNotFoundError(named)
        return pa.PythonFile(self._storage.open_read(named), mode="r")

    def open_output_stream(self, path: str, metadata: object) -> pa.PythonFile:
        del metadata
        return pa.PythonFile(_WrittenWhole(self._storage, f"{self._prefix}{path}"), mode="w")

    def delete_file(self, path: str) -> None:
        self._storage.remove(f"{self._prefix}{path}")

    def get_file_info_selector(self, selector: Any) -> list[FileInfo]:
        raise _refused(selector.base_dir)

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: FBT001
        raise _refused(path)

    def delete_dir(self, path: str) -> None:
        raise _refused(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:  # noqa: FBT001, FBT002
        raise _refused(path)

    def delete_root_dir_contents(self) -> None:
        raise _refused("/")

    def move(self, src: str, dest: str) -> None:
        raise _refused(src)

    def copy_file(self, src: str, dest: str) -> None:
        raise _refused(src)

    def open_append_stream(self, path: str, metadata: object) -> pa.PythonFile:
        raise _refused(path)


class _WrittenWhole(io.BytesIO):
    """A metadata file on its way: it has its name when it is whole, or not at all."""

    def __init__(self, storage: Storage, path: str) -> None:
        super().__init__()
        self._storage = storage
        self._path = path

    def close(self) -> None:
        if self.closed:
            return
        content = self.getvalue()
        super().close()
        self._storage.expect_files(self._path.rpartition("/")[0])
        self._storage.overwrite(self._path, content)


def _refused(path: str) -> NotImplementedError:
    return NotImplementedError(f"no catalog's client does this with {path}")
