"""`compact --dry-run`: what would become of partitions."""

from collections.abc import Sequence
from dataclasses import dataclass

from sluiceway.ledger.folding.fold import Fold
from sluiceway.upkeep.compaction_choice import ideal_files, meant, why_left


@dataclass(frozen=True, slots=True)
class PlannedCompaction:
    """What would become of a partition.

    Attributes:
        files_after: At the least.
        left: Why it would be left as it is; empty when it would be compacted.
    """

    partition: str
    files: int
    size_bytes: int
    files_after: int
    left: str


def foresee(fold: Fold, names: Sequence[str], target_bytes: int) -> list[PlannedCompaction]:
    """What would become of partitions, by the ledger alone. Changes nothing.

    Args:
        fold: State of the ledger now.
        names: Partitions or folders above some; none means all that are closed.
        target_bytes: Size that files are to have.
    """
    found = []
    for name in meant(fold, names):
        state = fold.partitions.get(name)
        files, size_bytes = (0, 0) if state is None else (state.files, state.size_bytes)
        left = why_left(fold, name, target_bytes)
        after = files if left else ideal_files(size_bytes, target_bytes)
        found.append(PlannedCompaction(name, files, size_bytes, after, left))
    return found
