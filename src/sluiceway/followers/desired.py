"""Which partitions the catalog should have, and where, by the ledger."""

from collections.abc import Container

from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import PartitionState
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.places import moved_prefix, prefixes
from sluiceway.sinks.contract import DesiredPartition
from sluiceway.sinks.partition_path import catalog_values

_MOST = 1000


def desired_partitions(
    fold: Fold, layout: LedgerLayout, since: int, *, on_ready: bool = False
) -> list[DesiredPartition]:
    """Partitions that records from slot `since` on have made, moved, announced or dropped.

    Called after each commit, and at START for partitions that were never applied.

    Args:
        fold: State of the ledger.
        layout: Layout of the table.
        since: First slot that matters.
        on_ready: Leave out partitions that were never announced: readers see only complete ones.
    """
    # Few of many have changed: the cheap tests come first.
    announced = {prefix for prefix, closed in fold.closed.items() if closed.ready_seq >= since}
    return [
        desired_partition(fold, layout, state)
        for state in fold.partitions.values()
        if (state.placed_seq >= since or (announced and _is_below(state, announced)))
        and state.values
        and is_to_be_shown(fold, state, on_ready=on_ready)
    ]


def is_to_be_shown(fold: Fold, state: PartitionState, *, on_ready: bool) -> bool:
    """Whether the catalog shows the partition; with `on_ready`, not before its announcement.

    A partition that was announced while it had no row is in the catalog already.
    """
    empty = fold.closed.get(state.folder)
    shown = fold.is_announced(state) or (empty is not None and empty.version > 0)
    return not on_ready or state.expired or shown


def _is_below(state: PartitionState, names: Container[str]) -> bool:
    return any(prefix in names for prefix in prefixes(state.folder))


def empty_partitions(fold: Fold, layout: LedgerLayout, since: int) -> list[DesiredPartition]:
    """Announced prefixes without a row, of a table whose prefixes are its partitions.

    Args:
        fold: State of the ledger.
        layout: Layout of the table.
        since: First slot that matters.
    """
    return [
        DesiredPartition(_values(prefix), layout.final(prefix), announced=True)
        for prefix, closed in fold.closed.items()
        if closed.ready_seq >= since and prefix not in fold.partitions
    ]


def _values(prefix: str) -> tuple[str, ...]:
    """Values of a prefix; they are texts of times, which need no escaping."""
    return tuple(part.partition("=")[2] for part in prefix.split("/"))


def moved_last(
    fold: Fold, layout: LedgerLayout, before: int, *, on_ready: bool = False
) -> list[DesiredPartition]:
    """Partitions that moved last, in slots below `before`; called at START."""
    moved = [
        state
        for state in fold.partitions.values()
        if state.version and is_to_be_shown(fold, state, on_ready=on_ready)
    ]
    moved.sort(key=lambda state: -state.placed_seq)
    return [
        desired_partition(fold, layout, state)
        for state in moved[:_MOST]
        if state.placed_seq < before
    ]


def desired_partition(
    fold: Fold, layout: LedgerLayout, state: PartitionState, *, seen: bool = True
) -> DesiredPartition:
    """How the catalog should show one partition, or that it should not show it yet."""
    moves = layout.final(moved_prefix(state.folder)) if state.version else ""
    return DesiredPartition(
        catalog_values(state.values),
        layout.final(state.location),
        first=layout.final(state.folder) if state.version else "",
        # Slots that an adopted table has cut may have given it any folder below the table.
        moves=layout.final("") if fold.adoptions else moves,
        exists=seen and not state.expired,
        announced=fold.is_announced(state),
        swapped=_swapped(fold, state),
    )


def _swapped(fold: Fold, state: PartitionState) -> int:
    """Slot of the SWAP that has placed a partition last; -1 without one."""
    slots = (fold.swaps.get(prefix) for prefix in prefixes(state.folder))
    return state.placed_seq if state.placed_seq in slots else -1
