"""A record that an operator puts: right after a fence of its own, while no driver has the route."""

from collections.abc import Callable

from sluiceway.errors import StorageUnavailableError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.records import Body
from sluiceway.observe.steps import ignore_step
from sluiceway.route.clients import open_sink
from sluiceway.route.takeover import TakeoverHooks, take_over

_PUT_TRIES = 8


def put_operator_record(config: RouteConfig, made: Callable[[Fold], Body]) -> int:
    """Fence a route as a driver would, and put one record. Called once a command.

    Args:
        config: The route.
        made: The record, from the ledger after the fence; what it raises leaves a fence only.

    Returns:
        The slot of the record.

    Raises:
        LeaseHeldError: A driver runs the route.
        StorageUnavailableError: The store failed; the ledger says whether the record landed.
        SluicewayError: As at a driver's start, or as `made`.
    """
    sink = open_sink(config)
    try:
        owned = take_over(config, sink, TakeoverHooks(ignore_step, _give_up(config.route)))
        try:
            return owned.writer.commit(made(owned.fold)).seq
        finally:
            owned.lease.release()
    finally:
        sink.close()


def _give_up(route: str) -> Callable[[int, StorageUnavailableError], None]:
    """What a command does about a put that is repeated: it ends some time, and says so."""

    def on_wait(attempts: int, error: StorageUnavailableError) -> None:
        if attempts >= _PUT_TRIES:
            raise StorageUnavailableError(
                f"the record may have landed or not: {error}",
                hint="put the storage right and look with "
                f"`sluiceway ledger show JOB --route {route}`",
            ) from error

    return on_wait
