"""Records about the log itself: FENCE says who writes, SNAPSHOT where to begin to read."""

from sluiceway.ledger.folding.fold_state import Adoption, FoldState, is_contained, require
from sluiceway.ledger.generations import TERMS
from sluiceway.ledger.kept_partitions import forget
from sluiceway.ledger.record_formats import needed_format
from sluiceway.ledger.records import (
    NEWEST_FORMAT,
    FenceRecord,
    Record,
    SnapshotRecord,
)
from sluiceway.ledger.sealing import check_sealed, seal


def check_fence(fold: FoldState, body: FenceRecord, record: Record) -> None:
    """Refuse a fence of another ledger, of a term that is not the next, or for later readers."""
    adopted = body.adopted
    expected = fold.term + 1 if adopted is None else adopted.generation * TERMS
    require(
        record.term == expected and record.term > fold.term,
        "I3",
        f"slot {record.seq} fences term {record.term} after {fold.term}",
    )
    if adopted is not None:
        number, after = adopted.generation, len(fold.adoptions)
        require(number == after + 1, "rule 21", f"slot {record.seq} begins generation {number}")
        kept, known = (adopted.kept_term, adopted.kept_epoch), (fold.term, fold.last_epoch)
        require(kept == known, "rule 21", f"slot {record.seq} keeps {kept}, expected {known}")
    declared = f"slot {record.seq} of format {record.format} declares {body.format}"
    least = max(fold.format, needed_format(body))
    require(record.format == body.format >= least, "rule 26", f"{declared} for the rest")
    require(
        body.min_reader <= NEWEST_FORMAT,
        "rule 26",
        f"slot {record.seq} is for readers of format {body.min_reader} on; this version reads "
        f"up to {NEWEST_FORMAT}, run the newer version that wrote it",
    )
    if fold.first_fence is not None:
        first = fold.first_fence
        same = (body.ledger, body.job, body.route) == (first.ledger, first.job, first.route)
        require(same, "rule 9", f"slot {record.seq} is a fence of another ledger, job or route")
    else:
        require(record.seq == 0, "I3", "a ledger begins with a fence")


def apply_fence(fold: FoldState, body: FenceRecord, record: Record) -> None:
    """Another driver writes from here on."""
    fold.term = record.term
    fold.format = body.format
    fold.fence = body
    fold.first_fence = fold.first_fence or body
    if body.adopted is not None:
        fold.adoptions = (
            *fold.adoptions,
            Adoption(record.seq, body.site, body.table, body.adopted),
        )
    fold.fence_seq = record.seq
    fold.last_epoch = -1
    fold.data_seq = -1


def check_snapshot(fold: FoldState, body: SnapshotRecord, record: Record) -> None:
    """Refuse a snapshot that goes back, or of files that are not published."""
    slot = f"slot {record.seq}"
    require(
        fold.snapshot_through < body.through <= record.seq,
        "rule 19",
        f"{slot} has a snapshot of slot {body.through} after {fold.snapshot_through}",
    )
    require(
        record.published_through >= body.through,
        "rule 19",
        f"{slot} has a snapshot of unpublished slots, to {body.through}",
    )
    # What is forgotten is forgotten in its own slot, by all who read on from there.
    require(body.through == record.seq, "rule 19", f"{slot} has a snapshot of slot {body.through}")
    require(is_contained(body.side) and "/" not in body.side, "I4", f"{slot} names {body.side}")
    check_sealed(fold, body, record)


def apply_snapshot(fold: FoldState, body: SnapshotRecord, record: Record) -> None:
    """No start reads slots below it again; the fold forgets what no later record needs."""
    fold.snapshot_through = body.through
    fold.bytes_since_snapshot = 0
    seal(fold, body.sealed)
    forget(fold)
