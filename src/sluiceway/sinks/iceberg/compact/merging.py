"""Which files of a batch are merged before readers see them, and having it done."""

from collections.abc import Sequence
from uuid import uuid4

from sluiceway.ledger.file_records import FileRecord
from sluiceway.sinks.iceberg.compact.merge_files import MergedOne, MergePlan, merge_in_table
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
    """Have groups merged by a process of its own, one that waits for the next ones afterwards.

    Raises:
        SluicewayError: They were not; what lies in the table's folder is an orphan.
    """
    rows = sum(source.rows for group in plan.groups for source in group.sources)
    keep = rows <= _MOST_ROWS_KEPT_WARM
    request = WorkRequest(f"{merge_in_table.__module__}:{merge_in_table.__name__}", plan)
    merged: tuple[MergedOne | None, ...] = warm_processes().ask(request, _TIMEOUT_S, keep=keep)
    return merged
