"""Which partitions the fold keeps: it forgets, at each SNAPSHOT, what nobody needs to know again.

Every reader forgets the same ones in the same slot, so that all test later records alike.
"""

from sluiceway.ledger.folding.fold_state import FoldState, PartitionState

MAX_PARTITIONS = 10_000
"""Table partitions that are kept in any case: those touched last. One that is forgotten and comes
again is asked of the catalog again, which finds it there; it is never moved. Nobody could tell
where one that has moved is: such a one is kept until it is sealed (`ledger.sealing`)."""


def kept_partitions(fold: FoldState) -> list[PartitionState]:
    """Those that the fold goes on with: touched last, owed to somebody, moved, or worked on."""
    states = sorted(fold.partitions.values(), key=lambda state: (-state.last_seq, state.folder))
    busy = {intent.partition for intent in fold.intents.values()}
    return states[:MAX_PARTITIONS] + [
        each
        for each in states[MAX_PARTITIONS:]
        if each.placed_seq >= fold.effects_through
        or each.version
        or each.folder in busy
        # It will be announced, however long its route has no watermark yet: nobody else knows of
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
