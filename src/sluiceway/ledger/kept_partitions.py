"""Which partitions the fold keeps: each SNAPSHOT forgets what no later record needs.

Every reader forgets the same ones in the same slot, so that all test later records alike.
"""

from sluiceway.ledger.folding.fold_state import FoldState, PartitionState

MAX_PARTITIONS = 10_000
"""Most recently touched partitions that are kept in any case. When a forgotten partition gets
rows again, the catalog is asked and finds it; it was never moved. The place of a moved partition
stands nowhere else, so it is kept until it is sealed (`ledger.sealing`)."""


def kept_partitions(fold: FoldState) -> list[PartitionState]:
    """Partitions that the fold keeps: touched last, owed to a follower, moved, or worked on."""
    states = sorted(fold.partitions.values(), key=lambda state: (-state.last_seq, state.folder))
    return states[:MAX_PARTITIONS] + [
        each
        for each in states[MAX_PARTITIONS:]
        if each.placed_seq >= fold.effects_through
        or each.version
        or fold.is_worked_on(each.folder)
        # It will be announced, however long its route has no watermark yet: only the fold knows of
        # it. And it is not to be seen before.
        or (fold.watermark.read_at_us is not None and not fold.is_announced(each))
    ]


def forget(fold: FoldState) -> None:
    """Drop the others. Called when a SNAPSHOT is taken in, and on a copy before it is made."""
    kept = {each.folder: each for each in kept_partitions(fold)}
    dropped = {name: each for name, each in fold.partitions.items() if name not in kept}
    fold.forgotten_up_to = max([fold.forgotten_up_to, *dropped])
    if fold.forgotten is not None:
        fold.forgotten.update(dropped)
    for name in dropped:
        del fold.partitions[name]
