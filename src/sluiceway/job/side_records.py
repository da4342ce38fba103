"""Records beside the epochs of a route: what its background work asks for, put by its one writer.

Called by the driver's thread between two epochs; an epoch that is in flight meanwhile gets its
final names at its own slot, behind these.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sluiceway.job.desk import Build
from sluiceway.job.held_route import HeldRoute
from sluiceway.job.prepare import placed
from sluiceway.ledger.fold import Fold
from sluiceway.ledger.partition_records import AbandonRecord, ReplaceRecord
from sluiceway.ledger.records import NO_ROWS, DataRecord, EpochRecord

Publish = Callable[[EpochRecord | ReplaceRecord], None]

_NOTHING_READ = DataRecord(0, (), (), (), NO_ROWS, "", {}, {})


def put_asked(held: HeldRoute, publish: Publish) -> None:
    """Put all that background work asks for.

    Args:
        held: The route.
        publish: Gives the files of a record their final names, however long it takes.

    Raises:
        FencedError: Another driver has taken over.
    """
    held.desk.serve(partial(_put, held, publish))


def put_closing(held: HeldRoute, publish: Publish, epoch: int) -> None:
    """Close in the ledger what no epoch closes, as nothing is read now.

    Called when no epoch is in flight. Puts nothing when all is closed there already.

    Args:
        held: The route.
        publish: As in `put_asked`.
        epoch: Number of an epoch that was never planned.

    Raises:
        FencedError: Another driver has taken over.
    """
    closing = replace(_NOTHING_READ, epoch=epoch, closed=held.desk.closed())

    def build(fold: Fold) -> DataRecord | None:
        made = placed(closing, fold)
        return made if made.closed else None

    _put(held, publish, build)


def abandon_left(held: HeldRoute) -> None:
    """End the work of drivers that were fenced: nobody else ever will. Called once, at START.

    Raises:
        FencedError: Another driver has taken over.
    """
    writer = held.owned.writer
    for seq in sorted(held.owned.fold.intents):
        writer.commit(AbandonRecord(seq, "its driver has ended"))
        writer.note_published()


def _put(held: HeldRoute, publish: Publish, build: Build) -> int | None:
    """Land a record, publish its files, have the catalog follow; None with nothing to put."""
    fold, writer = held.owned.fold, held.owned.writer
    before = fold.next_seq
    committed = writer.commit_made(build)
    if committed is None:
        return None
    body = fold.unpublished.get(committed.seq)
    if body is not None:
        publish(body)
    writer.note_published()
    held.want_partitions(before)
    return committed.seq
