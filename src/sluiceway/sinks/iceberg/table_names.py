"""Names of a table's files in one spelling, and what to do where names cannot be compared surely.

Catalogs, engines and stores spell one file in many ways: `file:/x` and `file:///x`, `s3://` and
`s3a://`, a name node with its port or without, a bare path, a link to another folder.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from posixpath import normpath
from typing import Any
from urllib.parse import unquote

from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table

from sluiceway.errors import StorageUnavailableError
from sluiceway.storage.locations import path_below


class TableNames:
    """What a table names, told apart by where it lies.

    Args:
        location: Of the table, in any spelling.
        named: Files as the table names them.

    Attributes:
        below: Names relative to the location, without a leading slash.
        elsewhere: Last parts of the names of files that lie elsewhere, as they are spelt.
    """

    def __init__(self, location: str, named: Iterable[str]) -> None:
        self._location = location
        self.below: set[str] = set()
        self.elsewhere: dict[str, str] = {}
        for name in named:
            inside = self.inside(name)
            if inside is None:
                self.elsewhere[name.rpartition("/")[2]] = name
            else:
                self.below |= {inside, normpath(inside), unquote(inside)}

    def inside(self, name: str) -> str | None:
        """A file relative to the location; None when it lies elsewhere by its spelling."""
        return path_below(self._location, name)

    def has(self, inside: str) -> bool:
        """Whether a file below the location is named, in any spelling of its name."""
        return inside in self.below or unquote(inside) in self.below

    def alike(self, inside: str) -> str | None:
        """A file that lies elsewhere by its spelling, and may be this one; None without one."""
        last = inside.rpartition("/")[2]
        return self.elsewhere.get(last, self.elsewhere.get(unquote(last)))


class MetadataFiles:
    """All that a table's metadata names. What was read of its files once is not read again."""

    def __init__(self) -> None:
        self._lists: dict[str, list[ManifestFile]] = {}
        self._entries: dict[str, tuple[str, ...]] = {}

    def of(self, table: Table) -> Iterator[str]:
        """Data, delete, metadata and statistics files of every snapshot, live in it or removed.

        Raises:
            StorageUnavailableError: A file of the metadata cannot be read.
        """
        metadata = table.metadata
        yield table.metadata_location
        yield from (entry.metadata_file for entry in metadata.metadata_log)
        told = (*metadata.statistics, *metadata.partition_statistics)
        yield from (each.statistics_path for each in told)
        for snapshot in metadata.snapshots:
            listed = snapshot.manifest_list
            yield listed
            if listed not in self._lists:
                self._lists[listed] = _read(listed, partial(snapshot.manifests, table.io))
            for manifest in self._lists[listed]:
                path = manifest.manifest_path
                yield path
                if path not in self._entries:
                    self._entries[path] = _read(path, partial(_names, manifest, table))
                yield from self._entries[path]

    def live(self, table: Table) -> set[str]:
        """Files that a reader of the newest snapshot opens. Raises as `of`."""
        head = table.current_snapshot()
        if head is None:
            return set()
        return {
            entry.data_file.file_path
            for manifest in _read(head.manifest_list, partial(head.manifests, table.io))
            for entry in _read(
                manifest.manifest_path, partial(manifest.fetch_manifest_entry, table.io)
            )
        }


def _names(manifest: ManifestFile, table: Table) -> tuple[str, ...]:
    entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    return tuple(entry.data_file.file_path for entry in entries)


def _read(path: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        raise StorageUnavailableError(
            f"a file of the table's metadata cannot be read: {type(error).__name__}: {error}",
            where=path,
            hint="nothing was removed; run it again, others may have expired the snapshot",
        ) from error
