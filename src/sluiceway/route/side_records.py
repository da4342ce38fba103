"""Records between the epochs of a route: what its background work asks for, by its one writer.

The driver's thread calls these between two epochs. An epoch that is in flight meanwhile gets its
final names at its own slot, after these.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sluiceway.ledger.data_parts import WatermarkRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.partition_records import AbandonRecord, SwapRecord
from sluiceway.ledger.placing import placed
from sluiceway.ledger.records import NO_ROWS, DataRecord, FilesRecord
from sluiceway.route.owned_route import OwnedRoute
from sluiceway.schedule.planner import PlannedEpoch
from sluiceway.schedule.source_view import SourceView
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.partition_bodies import ready_body
from sluiceway.upkeep.record_queue import Build

Publish = Callable[[FilesRecord], object]

_NOTHING_READ = DataRecord(0, (), (), (), NO_ROWS, "", {}, {})
_ANNOUNCE_S = 1.0


def is_due(held: OwnedRoute, view: SourceView | None) -> bool:
    """Whether `put_due` has anything to put. Called between two epochs; cheap when nothing is."""
    fold, readiness = held.owned.fold, held.readiness
    # A turn may have failed after records of it had landed, and no epoch comes to report them.
    if held.record_queue.is_waited_for(fold) or held.unshown is not None:
        return True
    if readiness is None or view is None:
        return False
    if readiness.inherits_due(fold):
        return True
    return readiness.to_announce(fold) is not None or readiness.idle_mark(fold, view) is not None


def put_due(
    held: OwnedRoute, publish: Publish, view: SourceView | None, epochs: Callable[[], int]
) -> None:
    """Put what is asked for, what closes prefixes although nothing is read, and what is announced.

    Called when no epoch is in flight.

    Args:
        held: The route.
        publish: As in `put_requested`.
        view: Log ends, read since the last epoch was committed; without them nothing is announced.
        epochs: Numbers of epochs that were never planned.

    Raises:
        FencedError: Another driver has taken over.
    """
    put_requested(held, publish)
    readiness, fold = held.readiness, held.owned.fold
    if readiness is not None and view is not None and not held.is_full():
        mark = readiness.idle_mark(fold, view)
        if mark is not None:
            idle = replace(_NOTHING_READ, epoch=epochs(), watermark=mark)
            _put(held, publish, lambda _: idle)
        readiness.close_due(fold)
    if held.record_queue.is_waited_for(fold) and not held.is_full():
        put_closing(held, publish, epochs())
    if view is not None:
        put_announcements(held)


def closing_marked(
    held: OwnedRoute, record: DataRecord, planned: PlannedEpoch, view: SourceView
) -> DataRecord:
    """An epoch's record with what was closed when it was planned, and the route's watermark.

    Args:
        held: The route.
        record: Record of the epoch.
        planned: What was asked for.
        view: Log ends, read after its tasks had answered.
    """
    answered = planned.answered or time.monotonic()
    record = replace(record, closed=planned.closed, counted=held.record_queue.counted)
    record = planned.dates.dated(record, planned.route, answered)
    if held.readiness is None:
        return record
    mark = held.readiness.mark(held.owned.fold, view, record.ranges)
    bound_us = None if planned.bound_us is None else BigInt(planned.bound_us)
    return replace(record, watermark=replace(mark, bound_us=bound_us))


def put_announcements(held: OwnedRoute) -> None:
    """Put READY of all that may be announced, in order, for a short while.

    The driver's thread calls it between two epochs. A prefix that is closed in the ledger has no
    epoch in flight that was planned before (commit rule 6).

    Raises:
        FencedError: Another driver has taken over.
    """
    readiness, fold, writer = held.readiness, held.owned.fold, held.owned.writer
    if readiness is None:
        return
    slots, until = list[int](), time.monotonic() + _ANNOUNCE_S
    while (prefix := readiness.to_announce(fold)) is not None:
        because = readiness.cause(fold, prefix)
        made = partial(ready_body, prefix=prefix, at_us=time.time_ns() // 1000, because=because)
        committed = writer.commit_made(made)
        if committed is not None:
            held.update_followers()
            slots.append(committed.seq)
        readiness.add_announced(prefix)
        if time.monotonic() >= until:
            break
    if slots:
        held.want_partitions(slots[0])


def put_requested(held: OwnedRoute, publish: Publish) -> None:
    """Put what background work asks for, for a short while; then have the catalog follow.

    Args:
        held: The route.
        publish: Gives the files of a record their final names, however long it takes.

    Raises:
        FencedError: Another driver has taken over.
    """
    if _is_free(held):
        held.record_queue.serve(partial(_land, held, publish))
    if held.unshown is not None:
        held.want_partitions(held.unshown)


def _is_free(held: OwnedRoute) -> bool:
    """Whether records may be put that speak of files: all of the table's have their names.

    A table that follows the log by itself is asked for none.
    """
    return held.read_published() or held.catalog is None


def put_closing(held: OwnedRoute, publish: Publish, epoch: int) -> None:
    """Close in the ledger what no epoch closes, as nothing is read now.

    Called when no epoch is in flight. Puts nothing when all is closed there already.

    Args:
        held: The route.
        publish: As in `put_requested`.
        epoch: Number of an epoch that was never planned.

    Raises:
        FencedError: Another driver has taken over.
    """
    record_queue = held.record_queue
    closing = replace(
        _NOTHING_READ, epoch=epoch, closed=record_queue.closed(), counted=record_queue.counted
    )
    bound_us = record_queue.bound_us

    def build(fold: Fold) -> DataRecord | None:
        read_at_us, mark = fold.watermark.read_at_us, None
        if read_at_us is not None:
            bound = None if bound_us is None else BigInt(bound_us)
            mark = WatermarkRecord(BigInt(read_at_us), bound_us=bound)
        made = placed(replace(closing, watermark=mark), fold)
        return made if made.closed else None

    _put(held, publish, build)


def abandon_left(held: OwnedRoute) -> None:
    """End the work of drivers that were fenced: they cannot. Called once, at START.

    Raises:
        FencedError: Another driver has taken over.
    """
    writer = held.owned.writer
    for seq in sorted(held.owned.fold.intents):
        writer.commit(AbandonRecord(seq, "its driver has ended"))
        held.update_followers()


def _put(held: OwnedRoute, publish: Publish, build: Build) -> None:
    """Land a record, publish its files, have the catalog follow; nothing with nothing to put."""
    slot = _land(held, publish, build)
    if slot is not None:
        held.want_partitions(slot)


def _land(held: OwnedRoute, publish: Publish, build: Build) -> int | None:
    """Land a record and publish its files; None with nothing to put.

    The catalog follows later, for many records at once: finding what it has to show takes
    as long for one as for all.
    """
    fold, writer = held.owned.fold, held.owned.writer
    before = fold.next_seq
    committed = writer.commit_made(build)
    if committed is None:
        return None
    body = fold.unpublished.get(committed.seq)
    if body is not None:
        publish(body)
    if isinstance(body, SwapRecord) and held.readiness is not None:
        held.readiness.add_swapped(fold, body.prefix)
    held.update_followers()
    held.unshown = before if held.unshown is None else held.unshown
    return committed.seq
