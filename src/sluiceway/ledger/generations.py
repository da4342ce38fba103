"""Generations of a log: each begins where a table was adopted from a copy that another room left.

A claim `generations/<n>.json` is put if it is absent, and found by probing upwards: no listing
decides which generation is the newest one.
"""

from dataclasses import dataclass

from sluiceway.errors import LedgerCorruptError
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.storage.contract import Storage
from sluiceway.types.strict_json import StrictJsonError, decode, encode

TERMS = 1_000_000
"""Terms of generation n begin at n times this number: so the lost room never had any of them."""


@dataclass(frozen=True, slots=True)
class Generation:
    """Content of a claim.

    Attributes:
        number: Its number, from 1 on.
        kept_slot: Last slot that it keeps of the generations before.
        kept_hash: SHA-256 of the stored bytes of that slot, 64 hex digits.
        room: Room that has adopted the table.
        operator: `user@host`.
        reason: In the operator's words.
        confirmed: What the operator has confirmed.
    """

    number: int
    kept_slot: int
    kept_hash: str
    room: str
    operator: str
    reason: str
    confirmed: tuple[str, ...]


def read_generation(storage: Storage, layout: LedgerLayout, number: int) -> Generation | None:
    """The claim of one generation; None when it was not put.

    Raises:
        LedgerCorruptError: The claim is damaged.
        StorageUnavailableError: The store failed.
    """
    path = layout.generation(number)
    raw = storage.read(path)
    try:
        found = None if raw is None else decode(raw, Generation)
    except StrictJsonError as error:
        raise LedgerCorruptError(f"no claim of a generation: {error}", where=path) from error
    if found is not None and (found.number != number or found.kept_slot < 0):
        raise LedgerCorruptError(f"the claim is of generation {found.number}", where=path)
    return found


def read_generations(storage: Storage, layout: LedgerLayout) -> tuple[Generation, ...]:
    """All generations that were claimed, in order; none for a table that was never adopted.

    Raises:
        LedgerCorruptError: A claim is damaged.
        StorageUnavailableError: The store failed.
    """
    found: list[Generation] = []
    while (claim := read_generation(storage, layout, len(found) + 1)) is not None:
        found.append(claim)
    return tuple(found)


def claim_generation(storage: Storage, layout: LedgerLayout, claim: Generation) -> Generation:
    """Claim a generation; the claim that stands there afterwards, which may be another's.

    Raises:
        LedgerCorruptError: What stands there is damaged.
        StorageUnavailableError: The store failed; the claim may have landed.
    """
    path = layout.generation(claim.number)
    storage.make_folders(path.rpartition("/")[0])
    storage.put_if_absent(path, encode(claim), tmp_folder=layout.stage)
    found = read_generation(storage, layout, claim.number)
    if found is None:
        raise LedgerCorruptError("the claim was written and is gone", where=path)
    storage.sync_folder(path.rpartition("/")[0])
    return found
