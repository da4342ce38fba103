"""What is closed for ever: a SNAPSHOT seals it, and the fold forgets all but its name.

A partition that has moved must not be forgotten like others: rows that come for it would go to the
folder that it has left. A sealed partition takes no row any more. What still comes for it goes to
the late place, so its own place matters no more (commit rules 4, 17). Its driver chooses what
is sealed, each SNAPSHOT names it, and whoever reads the log tests it and forgets the same.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from sluiceway.ledger.folding.fold_state import FoldState, PartitionState, is_contained, require
from sluiceway.ledger.places import is_below, prefixes
from sluiceway.ledger.records import Record, SnapshotRecord

MAX_UNSEALED = 20_000
"""Partitions that are kept in any case, and so still take rows: the ones touched last."""

MOST_AT_ONCE = 10_000
"""Names in one SNAPSHOT: a ledger that has grown for years is sealed bit by bit."""

NEVER_CLOSED = -1
"""Stands for the slot of a READY where there was none."""

MaySeal = Callable[[str], bool]
"""Whether a closed prefix, or a partition of a table without any, needs to take no row any more."""

SealChoice = Callable[[FoldState], MaySeal]
"""Says what a route no longer needs by its job file, for a given fold.

The driver's thread calls it before a SNAPSHOT, for what the fold itself lets go.
"""


def seal_everything(fold: FoldState) -> MaySeal:
    """What the fold lets go, the route lets go too."""
    del fold
    return bool


def to_seal(fold: FoldState, choice: SealChoice = seal_everything) -> tuple[str, ...]:
    """What the next SNAPSHOT seals, the oldest first.

    Args:
        fold: Fold up to its slot, all published.
        choice: What the route does not need any more.
    """
    groups = _groups(fold)
    touched = {name: _last_touched(fold, name, states) for name, states in groups.items()}
    kept = 0
    old = []
    for name in sorted(groups, key=lambda name: (-touched[name], name)):
        if kept >= MAX_UNSEALED:
            old.append(name)
        kept += max(1, len(groups[name]))
    if not old:
        return ()
    may_seal = choice(fold)
    left = {folder.partition for folder in fold.left.values()}
    nested = _nested(fold)
    chosen = (
        name
        for name in reversed(old)
        if name not in nested
        and not _why_kept(fold, name, groups[name])
        # Whoever removes an old folder has to know how the partition is shown now.
        and not any(state.folder in left for state in groups[name])
        and may_seal(name)
    )
    return tuple(name for name, _ in zip(chosen, range(MOST_AT_ONCE), strict=False))


def check_sealed(fold: FoldState, body: SnapshotRecord, record: Record) -> None:
    """Refuse to seal what is open, not announced, owed to a follower or being worked on."""
    names = set(body.sealed)
    require(len(names) == len(body.sealed), "rule 4", f"slot {record.seq} seals a name twice")
    if not names:
        return
    groups = _groups(fold)
    nested = _nested(fold)
    for name in body.sealed:
        where = f"slot {record.seq} seals {name}, "
        require(is_contained(name) and name in groups, "rule 4", f"{where}which is not there")
        require(name not in nested, "rule 4", f"{where}which is closed in parts")
        why = _why_kept(fold, name, groups[name])
        require(not why, "rule 4", where + why)


def seal(fold: FoldState, names: Iterable[str]) -> None:
    """No row goes there any more. Called when a SNAPSHOT is taken in, and on a copy before."""
    groups = _groups(fold) if names else {}
    for name in names:
        closed = fold.closed.pop(name, None)
        fold.sealed[name] = NEVER_CLOSED if closed is None else closed.ready_seq
        fold.counted.rows.pop(name, None)
        for prefix in [each for each in fold.swaps if is_below(each, name)]:
            del fold.swaps[prefix]
        for state in groups[name]:
            del fold.partitions[state.folder]
            fold.moved.pop(state.location, None)
            if fold.forgotten is not None:
                fold.forgotten[state.folder] = state
            if closed is None:
                # A time that is closed later may stand above it.
                fold.forgotten_up_to = max(fold.forgotten_up_to, state.folder)
    gone = [folder for folder, each in fold.left.items() if fold.sealed_above(each.partition)]
    for folder in gone:
        del fold.left[folder]


def after_sealing(fold: FoldState, names: Iterable[str]) -> FoldState:
    """A copy of the fold as it is after a SNAPSHOT that seals these."""
    after = replace(
        fold,
        partitions=dict(fold.partitions),
        closed=dict(fold.closed),
        sealed=dict(fold.sealed),
        moved=dict(fold.moved),
        swaps=dict(fold.swaps),
        left=dict(fold.left),
        counted=replace(fold.counted, rows=dict(fold.counted.rows)),
        forgotten=None,
    )
    seal(after, names)
    return after


def _groups(fold: FoldState) -> dict[str, list[PartitionState]]:
    """What may be sealed as one: closed prefixes, and partitions that moved and are not closed."""
    groups: dict[str, list[PartitionState]] = {prefix: [] for prefix in fold.closed}
    for state in fold.partitions.values():
        prefix = fold.closed_above(state.folder)
        if prefix is not None:
            groups[prefix].append(state)
        elif state.version and state.values:
            groups[state.folder] = [state]
    return groups


def _nested(fold: FoldState) -> set[str]:
    """Closed prefixes that stand above or below another one, which no table has for long."""
    found = set[str]()
    for name in fold.closed:
        above = [each for each in prefixes(name) if each != name and fold.is_closed(each)]
        found.update((name, *above) if above else ())
    return found


def _last_touched(fold: FoldState, name: str, states: Iterable[PartitionState]) -> int:
    closed = fold.closed.get(name)
    own = -1 if closed is None else max(closed.closed_seq, closed.ready_seq)
    return max([own, *(state.last_seq for state in states)])


def _why_kept(fold: FoldState, name: str, states: Iterable[PartitionState]) -> str:
    """Why something cannot be sealed; empty when it can."""
    closed = fold.closed.get(name)
    waits = closed is None and fold.watermark.read_at_us is not None
    if waits and not all(state.expired for state in states):
        return "which is still to be closed"
    if closed is not None and closed.version == 0:
        return "which was never announced"
    if closed is not None and closed.ready_seq >= fold.effects_through:
        return "whose announcement is not shown yet"
    for state in states:
        if state.placed_seq >= fold.effects_through:
            return "which the catalog does not show yet"
        since = -1 if closed is None else max(closed.ready_seq, state.moved_seq)
        if closed is not None and not state.expired and state.last_seq > since:
            return "which has rows that were not announced"
    if fold.is_worked_on(name):
        return "which is being worked on"
    return ""
