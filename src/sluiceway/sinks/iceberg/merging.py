"""Which files of a batch are merged before anybody sees them, and having it done."""

from collections.abc import Sequence
from uuid import uuid4

from sluiceway.ledger.file_records import FileRecord
from sluiceway.sinks.iceberg.file_process import warm_processes
from sluiceway.sinks.iceberg.merge_files import MergedOne, MergePlan

SMALL_SHARE = 4
"""A file below a quarter of the target is small."""
_TIMEOUT_S = 600.0
_MOST_ROWS_KEPT_WARM = 200_000

SlotFile = tuple[int, FileRecord]


def merge_groups(files: Sequence[SlotFile], target_bytes: int) -> list[list[SlotFile]]:
    """Small files that become one, by partition, in the order of their slots.

    Args:
        files: Of a batch, in the order of slots.
        target_bytes: What a file should weigh: a group weighs no more.

    Returns:
        Groups of two files at least; all others are linked as they are.
    """
    open_groups: dict[str, tuple[list[SlotFile], int]] = {}
    groups = []
    for seq, file in files:
        size = int(file.size_bytes)
        if size * SMALL_SHARE >= target_bytes:
            continue
        folder = file.final.rpartition("/")[0]
        group, weight = open_groups.get(folder, ([], 0))
        if weight + size > target_bytes:
            groups.append(group)
            group, weight = [], 0
        group.append((seq, file))
        open_groups[folder] = (group, weight + size)
    groups += [group for group, _ in open_groups.values()]
    return [group for group in groups if len(group) > 1]


def merged_name(group: Sequence[SlotFile]) -> str:
    """Name of a group's file, relative to the table's data; nobody else ever has it."""
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
    answer: tuple[MergedOne | None, ...] = warm_processes().ask(plan, _TIMEOUT_S, keep=keep)
    return answer
