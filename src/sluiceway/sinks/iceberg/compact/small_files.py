"""Which files of a lake table are worth being one. Decides only."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from pyiceberg.manifest import FileFormat, ManifestEntry
from pyiceberg.table.metadata import TableMetadata

from sluiceway.sinks.iceberg.column_types import from_iceberg
from sluiceway.sinks.iceberg.compact.merging import SMALL_SHARE
from sluiceway.sinks.iceberg.keyed.keyed_upkeep import (
    LIKE_FILES_BESIDE,
    Group,
    group_of,
    like_files,
)
from sluiceway.sinks.iceberg.keyed.table_head import Head
from sluiceway.storage.locations import path_below

MOST_BYTES = 512 << 20
MOST_GROUPS = 64
"""What is rewritten in one go, in bytes and groups: all is done again when the process dies."""
_VERSION = 2


@dataclass(frozen=True, slots=True)
class SmallFiles:
    """Files of one partition that become one.

    Attributes:
        partition: Its name.
        paths: Paths as the table names them, the oldest first.
        size_bytes: Size of all of them.
    """

    partition: str
    paths: tuple[str, ...]
    size_bytes: int


def why_left(metadata: TableMetadata, head: Head) -> str:
    """Why no file of a table is rewritten; empty when they may be."""
    if metadata.format_version != _VERSION:
        return f"it has the format version {metadata.format_version}"
    if head.equality:
        # A new file would be younger than these deletes, and its rows alive again.
        return "another writer has put equality deletes into it"
    for field in metadata.schema().fields:
        try:
            from_iceberg(field.field_type)
        except ValueError as error:
            return f"column {field.name}: {error}"
    return ""


def small_files(
    metadata: TableMetadata, head: Head, location: str, target_bytes: int, *, all_of_them: bool
) -> list[SmallFiles]:
    """Files that are worth rewriting at a head; partitions with most files come first.

    Args:
        metadata: Metadata of the same head.
        head: The head as it was read.
        location: Location of the table; files elsewhere are left alone.
        target_bytes: What a file should weigh; below a quarter of it one is small.
        all_of_them: Whether two small files of a partition are enough. Else it takes eight of like
            size, so that a row is rewritten a handful of times, however often the table is checked.
    """
    below = target_bytes // SMALL_SHARE
    small = {
        path: entry for path, entry in head.data.items() if _is_small(path, entry, location, below)
    }
    chosen: list[tuple[str, ...]]
    if all_of_them:
        groups: dict[Group, list[str]] = {}
        for path, entry in small.items():
            groups.setdefault(group_of(entry), []).append(path)
        chosen = [tuple(paths) for paths in groups.values()]
    else:
        chosen = like_files(replace(head, data=small), below, LIKE_FILES_BESIDE)
    found = [
        each for paths in chosen for each in _of_target_size(paths, small, metadata, target_bytes)
    ]
    return sorted(found, key=lambda each: -len(each.paths))


def _is_small(path: str, entry: ManifestEntry, location: str, below: int) -> bool:
    file = entry.data_file
    return (
        path_below(location, path) is not None
        and file.file_format == FileFormat.PARQUET
        and int(file.file_size_in_bytes) < below
    )


def _of_target_size(
    paths: Collection[str],
    entries: dict[str, ManifestEntry],
    metadata: TableMetadata,
    target_bytes: int,
) -> list[SmallFiles]:
    """Pieces of a partition's files that weigh the target together, each of two files at least."""

    def age(path: str) -> tuple[int, str]:
        return entries[path].sequence_number or 0, path

    pieces: list[list[str]] = [[]]
    weight = 0
    for path in sorted(paths, key=age):
        size = int(entries[path].data_file.file_size_in_bytes)
        if pieces[-1] and weight + size > target_bytes:
            pieces.append([])
            weight = 0
        pieces[-1].append(path)
        weight += size
    return [
        SmallFiles(
            partition_name(entries[piece[0]], metadata), tuple(piece), _weight(piece, entries)
        )
        for piece in pieces
        if len(piece) > 1
    ]


def _weight(paths: Collection[str], entries: dict[str, ManifestEntry]) -> int:
    return sum(int(entries[path].data_file.file_size_in_bytes) for path in paths)


def partition_name(entry: ManifestEntry, metadata: TableMetadata) -> str:
    """A file's partition as engines write it: `dt=20261120/app=a`; empty without partitions."""
    spec = metadata.specs()[entry.data_file.spec_id]
    name: str = spec.partition_to_path(entry.data_file.partition, metadata.schema())
    return name


def in_one_go(groups: list[SmallFiles]) -> list[SmallFiles]:
    """The first of them, as many as one process writes; one at least."""
    chosen: list[SmallFiles] = []
    size_bytes = 0
    for group in groups:
        size_bytes += group.size_bytes
        if chosen and (size_bytes > MOST_BYTES or len(chosen) == MOST_GROUPS):
            break
        chosen.append(group)
    return chosen
