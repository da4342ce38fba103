"""Wrong variants of replacing the rows of a prefix, of which the fold tests nothing."""

from dataclasses import replace
from typing import Any

from sluiceway.ledger.folding import fold_swaps
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import FileTotals
from sluiceway.ledger.partition_records import SwapRecord
from sluiceway.ledger.places import moved_folder
from sluiceway.upkeep import partition_bodies, swapping
from sluiceway.upkeep.partition_bodies import SwapParts
from tools.mutant_fit import Patch


def _unchecked(fold: Fold, intent: int, parts: SwapParts) -> SwapRecord | None:
    """The SWAP of these parts, whatever has come."""
    opened = fold.intents.get(intent)
    if opened is None:
        return None
    carried = FileTotals(files=sum(map(len, parts.carried.values())))
    known = {**fold.intents, intent: replace(opened, since=carried)}
    return _BODY(replace(fold, intents=known), intent, parts)


_BODY = partition_bodies.swap_body


def without_the_last(fold: Fold, intent: int, parts: SwapParts) -> SwapRecord | None:
    """What has come since the INTENT is left behind with the old folder."""
    return _unchecked(fold, intent, replace(parts, carried={}))


def as_it_is(fold: Fold, intent: int, parts: SwapParts) -> SwapRecord | None:
    """Whether all that has come is carried over is not asked."""
    return _unchecked(fold, intent, parts)


def carry_from_the_start(work: Any, through: int) -> None:
    """Files of before the INTENT are carried over too: their rows are written again as well."""
    if not work._since:
        work._read = -1
    _READ_ON(work, through)


_READ_ON = swapping._Work._read_on


def same_folder(partition: str, intent: int, uuid: str) -> str:
    """Each SWAP moves a partition to one folder."""
    del intent, uuid
    return moved_folder(partition, 0, "0" * 32)


def _nothing(*arguments: object, **named: object) -> None:
    del arguments, named


_UNTESTED: tuple[Patch, ...] = (
    (fold_swaps, "_check_carried", _nothing),
    (fold_swaps, "_check_sums", _nothing),
    (fold_swaps, "check_removed", _nothing),
)

WRONG: dict[str, tuple[str, tuple[Patch, ...]]] = {
    "swap-not-carried": (
        "rows are replaced together with what came since their INTENT",
        ((swapping, "swap_body", without_the_last), *_UNTESTED),
    ),
    "swap-not-carried-checked": (
        "the same, and only the fold looks",
        ((swapping, "swap_body", without_the_last),),
    ),
    "swap-carries-all": (
        "what the new rows stand for is carried over too",
        (
            (swapping, "swap_body", as_it_is),
            (swapping._Work, "_read_on", carry_from_the_start),
            *_UNTESTED,
        ),
    ),
    "swap-folder-used-twice": (
        "each SWAP of a partition moves it to the same folder",
        (
            (partition_bodies, "swap_folder", same_folder),
            (fold_swaps, "swap_folder", same_folder),
        ),
    ),
}
"""What each does wrong, and what it replaces."""
