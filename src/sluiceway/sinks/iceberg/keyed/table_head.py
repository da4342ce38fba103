"""Live files at the head of a keyed table: data files, delete files, rows that are dead.

All of it comes from the manifests and delete files of the very head that was loaded. What is kept
between two looks never changes in the table: the entries of a manifest, the rows of a delete file.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.manifest import DataFileContent, ManifestEntry
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH

Positions = NDArray[np.int64]
ReadDeletes = Callable[[str], pa.Table]
"""Columns `file_path` and `pos` of a delete file."""

_NONE = np.empty(0, np.int64)


@dataclass(slots=True)
class Head:
    """One head.

    Attributes:
        entries: Live ones, by their manifest's path.
        data: Data files by path.
        deletes: Files of position deletes by path.
        equality: How many files of equality deletes there are; others wrote them.
    """

    entries: dict[str, list[ManifestEntry]] = field(default_factory=dict)
    data: dict[str, ManifestEntry] = field(default_factory=dict)
    deletes: dict[str, ManifestEntry] = field(default_factory=dict)
    equality: int = 0


class HeadReader:
    """Looks at heads of one table, one after the other. Used by one thread.

    Args:
        read_deletes: Reads a delete file that was not read before.
    """

    def __init__(self, read_deletes: ReadDeletes) -> None:
        self._read_deletes = read_deletes
        self._manifests: dict[str, list[ManifestEntry]] = {}
        self._dead: dict[str, list[Positions]] = {}
        # Delete files that were read, each with the data files that it names.
        self._applied: dict[str, frozenset[str]] = {}

    def read(self, table: Table) -> Head:
        """The live files at the head of `main`. Reads manifests and deletes that are new."""
        head = Head()
        snapshot = table.metadata.snapshot_by_name(MAIN_BRANCH)
        for manifest in [] if snapshot is None else snapshot.manifests(table.io):
            path = manifest.manifest_path
            found = self._manifests.get(path)
            if found is None:
                found = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            head.entries[path] = found
            for entry in found:
                self._sort_in(head, entry)
        self._manifests = dict(head.entries)
        self._apply(head)
        return head

    @staticmethod
    def _sort_in(head: Head, entry: ManifestEntry) -> None:
        match entry.data_file.content:
            case DataFileContent.DATA:
                head.data[entry.data_file.file_path] = entry
            case DataFileContent.POSITION_DELETES:
                head.deletes[entry.data_file.file_path] = entry
            case _:
                head.equality += 1

    def _apply(self, head: Head) -> None:
        if self._applied.keys() - head.deletes.keys():
            # Rows may live again whose deletes went: all of it is read again.
            self._dead, self._applied = {}, {}
        for path in head.deletes:
            if path in self._applied:
                continue
            found = grouped(self._read_deletes(path))
            for data, positions in found.items():
                self._dead.setdefault(data, []).append(positions)
            self._applied[path] = frozenset(found)
        # Rows of a file that is gone stay known: an older head may bring the file back.

    def dead(self, path: str) -> Positions:
        """Rows of a data file that are deleted at the head that was read last, rising."""
        parts = self._dead.get(path)
        if not parts:
            return _NONE
        if len(parts) > 1:
            self._dead[path] = parts = [np.unique(np.concatenate(parts))]
        return parts[0]

    def named_by(self, delete_file: str) -> frozenset[str]:
        """Data files of which a delete file has rows; of one of the head that was read last."""
        return self._applied[delete_file]


def living(rows: Positions, dead: Positions) -> Positions:
    """The living ones of some rows of a data file; both rising, each position once."""
    if not len(dead):
        return rows
    places = np.minimum(np.searchsorted(dead, rows), len(dead) - 1)
    kept: Positions = rows[dead[places] != rows]
    return kept


def grouped(deletes: pa.Table) -> dict[str, Positions]:
    """Positions by data file, rising."""
    paths = deletes["file_path"].combine_chunks()
    if not pa.types.is_dictionary(paths.type):
        paths = pc.dictionary_encode(paths)
    if isinstance(paths, pa.ChunkedArray):
        paths = paths.combine_chunks()
    codes = paths.indices.to_numpy(zero_copy_only=False)
    positions = deletes["pos"].to_numpy()
    order = np.argsort(codes, kind="stable")
    cuts = np.flatnonzero(np.diff(codes[order])) + 1
    return {
        paths.dictionary[int(codes[part[0]])].as_py(): np.unique(positions[part])
        for part in np.split(order, cuts)
        if len(part)
    }
