"""`offsets reset`: an operator moves committed ends of a route that no driver runs."""

from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.operator_records import ResetRecord, SourceChangeRecord
from sluiceway.operate.offset_moves import (
    OffsetMove,
    ResetRequest,
    chosen_partitions,
    plan_moves,
    record_of,
    refuse_stale,
    refuse_unaccepted,
)
from sluiceway.operate.operator_record import put_operator_record
from sluiceway.schedule.source_view import read_source_view
from sluiceway.sources.contract import SourceClient


def planned_moves(fold: Fold, wish: ResetRequest, source: SourceClient) -> tuple[OffsetMove, ...]:
    """What the wish would change now. Changes nothing.

    Raises:
        ResetRefusedError: It cannot be done; says why.
        SourceUnavailableError: The brokers do not answer.
        TopicNotFoundError: The topic is gone.
    """
    chosen = chosen_partitions(fold, wish)
    view = read_source_view(source, {one.topic for one in chosen})
    at_time = {}
    if wish.target.kind == "timestamp":
        there = [one for one in chosen if one in view.bounds]
        at_time = source.offsets_at(there, wish.target.timestamp_ms)
    return plan_moves(fold, wish, view, at_time)


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
    refuse_unaccepted(moves, wish.accepted)
    topics = {each.partition.topic for each in moves}

    def record(fold: Fold) -> ResetRecord | SourceChangeRecord:
        refuse_stale(fold, moves, read_source_view(source, topics))
        return record_of(fold, wish, moves)

    return put_operator_record(config, record)
