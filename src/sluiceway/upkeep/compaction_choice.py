"""Which partitions are worth compacting, by the ledger alone. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import FoldState, PartitionState


def ideal_files(size_bytes: int, target_bytes: int) -> int:
    """How many files of the target size hold so many bytes; at least one."""
    return max(1, -(-size_bytes // target_bytes))


def why_left(fold: FoldState, partition: str, target_bytes: int) -> str:
    """Why a partition is not compacted; empty when it is worth it and can be.

    Args:
        fold: State of the ledger now.
        partition: Its name.
        target_bytes: Size that files are to have.
    """
    state = fold.partitions.get(partition)
    if state is None and partition <= fold.forgotten_up_to:
        return "the ledger has forgotten it: it is not among the partitions touched last"
    if state is None:
        return "the ledger has no such partition"
    if not state.values:
        return "a table without partitions stays in its folder"
    if state.expired:
        return "its owner has dropped it"
    if not state.whole:
        return "not all of its files are known: the ledger forgot it before rows came again"
    if fold.is_worked_on(partition):
        return "it is being worked on"
    if state.files <= ideal_files(state.size_bytes, target_bytes) + 1:
        return "its files are few and large enough"
    return ""


def meant(fold: FoldState, names: Iterable[str]) -> list[str]:
    """Partitions that are asked for, in order: named ones and all below a named folder.

    Names of which the ledger knows nothing are in it, so that a reason can be given for them.

    Args:
        fold: State of the ledger now.
        names: Names as asked for; none means all that are closed.
    """
    wanted = set(names)
    known = fold.partitions.values()
    if not wanted:
        return sorted(each.folder for each in _there(known) if fold.closed_above(each.folder))
    found, reached = set[str](), set[str]()
    for each in _there(known):
        named = wanted.intersection(_and_above(each.folder))
        if named:
            found.add(each.folder)
            reached |= named
    return sorted(found | (wanted - reached))


def _and_above(folder: str) -> Iterable[str]:
    """A folder and all above it, except the table's own."""
    parts = folder.split("/")
    return ("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))


def _there(states: Iterable[PartitionState]) -> Iterable[PartitionState]:
    return (each for each in states if not each.expired and each.values)


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
