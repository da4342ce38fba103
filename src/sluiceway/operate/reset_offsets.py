"""`offsets reset`: an operator moves committed ends of a route that nobody runs."""

from collections.abc import Callable

from sluiceway.config.config import RouteConfig
from sluiceway.errors import StorageUnavailableError
from sluiceway.ledger.fold import Fold
from sluiceway.observe.steps import ignore_step
from sluiceway.operate.offset_moves import (
    OffsetMove,
    ResetWish,
    chosen_partitions,
    plan_moves,
    record_of,
    refuse_stale,
    refuse_unaccepted,
)
from sluiceway.route.clients import open_sink
from sluiceway.route.takeover import TakeoverHooks, take_over
from sluiceway.schedule.source_view import look
from sluiceway.sources.contract import SourceClient

_PUT_TRIES = 8


def planned_moves(fold: Fold, wish: ResetWish, source: SourceClient) -> tuple[OffsetMove, ...]:
    """What the wish would change now. Changes nothing.

    Raises:
        ResetRefusedError: It cannot be done; says why.
        SourceUnavailableError: The brokers do not answer.
        TopicNotFoundError: The topic is gone.
    """
    chosen = chosen_partitions(fold, wish)
    view = look(source, {one.topic for one in chosen})
    at_time = {}
    if wish.target.kind == "timestamp":
        there = [one for one in chosen if one in view.bounds]
        at_time = source.offsets_at(there, wish.target.timestamp_ms)
    return plan_moves(fold, wish, view, at_time)


def reset_route(
    config: RouteConfig, wish: ResetWish, moves: tuple[OffsetMove, ...], source: SourceClient
) -> int:
    """Fence the route as a driver would and put the record. Its rows stay as they are.

    Args:
        config: The route.
        wish: What is asked for.
        moves: What `planned_moves` said; looked at once more behind the fence.
        source: Asked once more behind the fence.

    Returns:
        The slot of the record.

    Raises:
        LeaseHeldError: A driver runs the route.
        ResetRefusedError: A consequence is not accepted, or what was planned is not so any more.
        StorageUnavailableError: The store failed; whether the record landed the ledger tells.
        SluicewayError: As at a driver's start.
    """
    refuse_unaccepted(moves, wish.accepted)
    sink = open_sink(config)
    try:
        owned = take_over(
            config, sink, TakeoverHooks(ignore_step, give_up_after(_PUT_TRIES, config.route))
        )
        try:
            refuse_stale(owned.fold, moves, look(source, {each.partition.topic for each in moves}))
            return owned.writer.commit(record_of(owned.fold, wish, moves)).seq
        finally:
            owned.lease.release()
    finally:
        sink.close()


def give_up_after(tries: int, route: str) -> Callable[[int, StorageUnavailableError], None]:
    """What a command does about a put that is repeated: it ends some time, and says so."""

    def on_wait(attempts: int, error: StorageUnavailableError) -> None:
        if attempts >= tries:
            raise StorageUnavailableError(
                f"the record may have landed or not: {error}",
                hint="put the storage right and look with "
                f"`sluiceway ledger show JOB --route {route}`",
            ) from error

    return on_wait
