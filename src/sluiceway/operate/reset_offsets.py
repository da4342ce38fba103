"""`offsets reset`: an operator moves committed ends of a route that no driver runs."""

from collections.abc import Sequence
from typing import Final

from sluiceway.errors import ResetRefusedError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.room_rule import MirrorRule
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.operator_records import ResetRecord, SourceChangeRecord
from sluiceway.operate.offset_moves import (
    OPTIONS,
    OffsetMove,
    ResetRequest,
    chosen_partitions,
    plan_moves,
    record_of,
    refuse_stale,
    refuse_unaccepted,
)
from sluiceway.operate.operator_record import put_operator_record
from sluiceway.rooms.copy_reader import CopyReader
from sluiceway.rooms.positions import CopiedLog, PositionMethod, resume_positions
from sluiceway.schedule.source_view import SourceView, read_route_view
from sluiceway.sources.contract import SourceClient, SourceIdentity, SourcePartition

_OWN_LOG: Final = MirrorRule(linked=True, exactly_once=True, origin=None, own_writers=True)
"""A log that was truncated or replaced is searched as a copy of itself."""


def accepted_by(wish: ResetRequest) -> frozenset[str]:
    """What the operator accepts: where a tail is found, no row is lost and none comes twice."""
    return frozenset(OPTIONS) if wish.target.kind == "tail" else wish.accepted


def planned_moves(
    config: RouteConfig, fold: Fold, wish: ResetRequest, source: SourceClient
) -> tuple[OffsetMove, ...]:
    """What the wish would change now. Changes nothing.

    Args:
        config: The route.
        fold: State of the ledger.
        wish: What is asked for.
        source: The route's source.

    Raises:
        ResetRefusedError: It cannot be done; says why.
        SourceUnavailableError: The brokers do not answer.
        TopicNotFoundError: The topic is gone.
    """
    chosen = chosen_partitions(fold, wish)
    view = read_route_view(source, {one.topic for one in chosen}, fold)
    there = [one for one in chosen if one in view.bounds]
    found = {}
    if wish.target.kind == "timestamp":
        found = source.offsets_at(there, wish.target.timestamp_ms)
    elif wish.target.kind == "tail":
        found = _by_tail(config, fold, there, view, source)
    return plan_moves(fold, wish, view, found)


def _by_tail(
    config: RouteConfig,
    fold: Fold,
    chosen: Sequence[SourcePartition],
    view: SourceView,
    source: SourceClient,
) -> dict[SourcePartition, int]:
    """Where the last rows that were read are in the logs now.

    Raises:
        ResetRefusedError: They are not there, or not once.
    """
    traits = source.copy_traits(sorted({one.topic for one in chosen}))
    logs = [
        CopiedLog(
            one,
            fold.sources[one.topic, one.partition],
            identity,
            view.bounds[one],
            traits[one.topic].compacted,
        )
        for one in chosen
        for identity in [_identity(one, view)]
    ]
    reader = CopyReader(config.source, source).reader()
    found = {}
    for position in resume_positions(logs, _OWN_LOG, reader, None):
        one = position.log.partition
        # A log that was truncated begins to differ where rows of the tail end.
        if position.offset is None or position.method is PositionMethod.MIRROR_END:
            raise ResetRefusedError(
                f"{one} has not the rows that were read last, or not once",
                where=str(one),
                hint="name an offset with --to; `source.keep_tail` has a route keep such rows",
            )
        found[one] = position.offset
    return found


def _identity(one: SourcePartition, view: SourceView) -> SourceIdentity:
    return next(each.identity for each in view.by_topic[one.topic] if each.partition == one)


def reset_route(
    config: RouteConfig, wish: ResetRequest, moves: tuple[OffsetMove, ...], source: SourceClient
) -> int:
    """Fence the route as a driver would and put the record. Its rows stay as they are.

    Args:
        config: The route.
        wish: What is asked for.
        moves: What `planned_moves` returned; checked once more after the fence.
        source: Asked once more after the fence.

    Returns:
        The slot of the record.

    Raises:
        LeaseHeldError: A driver runs the route.
        ResetRefusedError: A consequence is not accepted, or what was planned is not so any more.
        StorageUnavailableError: The store failed; the ledger says whether the record landed.
        SluicewayError: As at a driver's start.
    """
    refuse_unaccepted(moves, accepted_by(wish))
    topics = {each.partition.topic for each in moves}

    def record(fold: Fold) -> ResetRecord | SourceChangeRecord:
        refuse_stale(fold, moves, read_route_view(source, topics, fold))
        tails = {}
        if config.keeps_tails:
            ends = {move.partition: move.new_end for move in moves}
            tails = CopyReader(config.source, source).before(ends)
        return record_of(fold, wish, moves, tails)

    return put_operator_record(config, record)
