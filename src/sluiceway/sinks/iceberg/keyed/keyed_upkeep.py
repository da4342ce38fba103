"""Which files of a keyed table a publish rewrites, so that reading stays cheap. Decides only.

A publish adds a data file and a delete file a partition. A scan pays for each file that it opens,
and for each dead row. So four files of like size become one, and a file of which a third is dead is
written again. A partition's delete files become one at eight. It is done within the publish and its
snapshot. The positions are resolved at that head, so nothing can land in between that would have to
be carried over. What one publish rewrites is bounded, so it is never much slower than the
others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyiceberg.manifest import ManifestEntry

from sluiceway.sinks.iceberg.keyed.table_head import Head

LIKE_FILES = 4
"""Files of like size that become one in a publish."""
LIKE_FILES_BESIDE = 8
"""The same in a table without a key: large tables are the rule there, and rows are written once."""
MOST_DELETE_FILES = 8
"""Delete files of a partition before they become one: the bound that readers can count on."""
_MOST_BYTES = 32 << 20
_MOST_ROWS = 2_000_000
_TIER = 8
_DEAD_SHARE = 3

Group = tuple[int, tuple[object, ...]]
"""Spec and partition of a file."""


@dataclass(frozen=True, slots=True)
class MakeAnew:
    """What a publish rewrites in addition to what it brings.

    Attributes:
        rows: Data files that become one, or a file that is written without its dead rows.
        deletes: Partitions whose delete files become one.
    """

    rows: tuple[tuple[str, ...], ...] = ()
    deletes: frozenset[Group] = frozenset()


def group_of(entry: ManifestEntry) -> Group:
    """Spec and partition of a file."""
    return entry.data_file.spec_id, tuple(entry.data_file.partition)


def due_work(head: Head, dead_rows: Callable[[str], int], target_bytes: int) -> MakeAnew:
    """What a publish at this head rewrites.

    Args:
        head: The head as it was loaded.
        dead_rows: Dead rows of a data file, rows that this publish deletes included.
        target_bytes: What a file should weigh.
    """
    counts: dict[Group, int] = {}
    for entry in head.deletes.values():
        counts[group_of(entry)] = counts.get(group_of(entry), 0) + 1
    # This publish adds one more.
    full = frozenset(group for group, count in counts.items() if count + 1 >= MOST_DELETE_FILES)
    if head.equality:
        # A new file would be younger than the equality deletes of others, and undo them.
        return MakeAnew(deletes=full)
    below_bytes = min(target_bytes, _MOST_BYTES) // 2
    rows = (
        *like_files(head, below_bytes, LIKE_FILES),
        *_much_dead(head.data, dead_rows, target_bytes),
    )
    return MakeAnew(_bounded(rows, head.data), full)


def like_files(head: Head, below_bytes: int, least: int) -> list[tuple[str, ...]]:
    """Files of one partition and of like size, `least` at least; none of `below_bytes`.

    Each row is rewritten as often as its file moves up a tier, a handful of times at most.
    """
    tiers: dict[tuple[Group, int], list[str]] = {}
    for path, entry in head.data.items():
        size = int(entry.data_file.file_size_in_bytes)
        if size < below_bytes:
            tiers.setdefault((group_of(entry), _tier(size)), []).append(path)
    return [tuple(paths) for paths in tiers.values() if len(paths) >= least]


def _tier(size_bytes: int) -> int:
    tier, bound = 0, 64 << 10
    while size_bytes >= bound:
        tier, bound = tier + 1, bound * _TIER
    return tier


def _much_dead(
    data: Mapping[str, ManifestEntry], dead_rows: Callable[[str], int], target_bytes: int
) -> list[tuple[str, ...]]:
    return [
        (path,)
        for path, entry in data.items()
        if dead_rows(path) * _DEAD_SHARE >= int(entry.data_file.record_count)
        and int(entry.data_file.file_size_in_bytes) <= 2 * target_bytes
    ]


def _bounded(
    wanted: tuple[tuple[str, ...], ...], data: Mapping[str, ManifestEntry]
) -> tuple[tuple[str, ...], ...]:
    """As many as one publish does, each file once; one is always done, whatever its size."""
    chosen: list[tuple[str, ...]] = []
    taken: set[str] = set()
    size_bytes = rows = 0
    for paths in wanted:
        fitting: list[str] = []
        for path in paths:
            of = data[path].data_file
            size_bytes += int(of.file_size_in_bytes)
            rows += int(of.record_count)
            if path in taken or (
                (chosen or fitting) and (size_bytes > _MOST_BYTES or rows > _MOST_ROWS)
            ):
                break
            fitting.append(path)
        if fitting and len(fitting) >= min(len(paths), 2):
            chosen.append(tuple(fitting))
            taken.update(fitting)
    return tuple(chosen)
