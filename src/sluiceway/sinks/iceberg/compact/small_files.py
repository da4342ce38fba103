"""Which files of a lake table are worth being one. Decides only."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from pyiceberg.manifest import FileFormat, ManifestEntry
from pyiceberg.table.metadata import TableMetadata

from sluiceway.ledger.file_names import FileRecord
from sluiceway.sinks.iceberg.column_types import from_iceberg
from sluiceway.sinks.iceberg.compact.merge_files import MergedOne, MergePlan, merge_in_table
from sluiceway.sinks.iceberg.keyed.keyed_upkeep import (
    LIKE_FILES_BESIDE,
    Group,
    group_of,
    like_files,
)
from sluiceway.sinks.iceberg.keyed.table_head import Head
from sluiceway.storage.locations import path_below
from sluiceway.work.process import warm_processes
from sluiceway.work.request import WorkRequest

SMALL_SHARE = 4
"""A file below a quarter of the target is small."""
_WORTH_FILES = 4
_CHEAP_BYTES = 1 << 20
"""Fewer files than that are merged before a snapshot only where they weigh less than this together.
Rewriting megabytes for a file or two less costs a job that catches up a third of its CPU. The
upkeep of the table merges the others with files of their size."""
_TIMEOUT_S = 600.0
_MOST_ROWS_KEPT_WARM = 200_000

SlotFile = tuple[int, FileRecord]


def merge_groups(files: Sequence[SlotFile], target_bytes: int) -> list[list[SlotFile]]:
    """Small files that become one, by partition, in the order of their slots.

    Args:
        files: Files of a batch, in the order of slots.
        target_bytes: What a file should weigh: a group weighs no more.

    Returns:
        Groups that are worth it; all other files are linked as they are.
    """
    open_groups: dict[object, tuple[list[SlotFile], int]] = {}
    groups = []
    for seq, file in files:
        size = int(file.size_bytes)
        if size * SMALL_SHARE >= target_bytes:
            continue
        place = file.final.rpartition("/")[0], file.values
        group, weight = open_groups.get(place, ([], 0))
        if weight + size > target_bytes:
            groups.append(group)
            group, weight = [], 0
        group.append((seq, file))
        open_groups[place] = (group, weight + size)
    groups += [group for group, _ in open_groups.values()]
    return [group for group in groups if len(group) > 1 and _worth_it(group)]


def _worth_it(group: Sequence[SlotFile]) -> bool:
    weight = sum(int(file.size_bytes) for _, file in group)
    return len(group) >= _WORTH_FILES or weight < _CHEAP_BYTES


def merged_name(group: Sequence[SlotFile]) -> str:
    """Name of a group's file, relative to the table's data; no other file ever has it."""
    folder, _, name = group[0][1].final.rpartition("/")
    stem = name.rpartition(".")[0]
    new = f"{stem}-{group[-1][0]}-{uuid4().hex[:8]}.parquet"
    return f"{folder}/{new}" if folder else new


def merge_in_process(plan: MergePlan) -> tuple[MergedOne | None, ...]:
    """Have groups merged by a process of its own, which waits for the next ones afterwards.

    Raises:
        SluicewayError: They were not; what lies in the table's folder is an orphan.
    """
    rows = sum(source.rows for group in plan.groups for source in group.sources)
    keep = rows <= _MOST_ROWS_KEPT_WARM
    request = WorkRequest(f"{merge_in_table.__module__}:{merge_in_table.__name__}", plan)
    merged: tuple[MergedOne | None, ...] = warm_processes().ask(request, _TIMEOUT_S, keep=keep)
    return merged


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
