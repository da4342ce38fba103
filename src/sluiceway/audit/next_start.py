"""Would the next start of a route halt? What can be told without fencing its ledger."""

from sluiceway.audit.identity_check import identity_problems
from sluiceway.audit.open_table import OpenTable
from sluiceway.config.config import RouteConfig
from sluiceway.errors import Retriable, SluicewayError
from sluiceway.ledger.fold import Fold
from sluiceway.schedule.planner import new_partitions
from sluiceway.schedule.source_view import SourceView
from sluiceway.schedule.start_offsets import resolve_start
from sluiceway.sources.contract import SourceClient


def table_reasons(table: OpenTable, fold: Fold) -> tuple[str, ...]:
    """Why a start would refuse the table or what says whose ledger it is; empty when not.

    Raises:
        StorageUnavailableError: The store failed.
    """
    try:
        table.table.state()
    except SluicewayError as error:
        return (_reason(error),)
    problems = identity_problems(table.storage, table.layout, fold, table.table, table.config)
    return tuple(f"{where}: {message}" for where, message in problems)


def source_reasons(
    config: RouteConfig, fold: Fold, view: SourceView, source: SourceClient
) -> tuple[str, ...]:
    """Why a start would not read the route's topics; empty when it would.

    Source partitions that the ledger knows are left out: each is judged by itself.

    Raises:
        Retriable: The brokers do not answer.
    """
    wanted = config.subscription
    # A topic of a pattern may go; without a start in the job file new ones begin anywhere.
    topics = view.present(wanted.topics)
    gone = (
        []
        if wanted.pattern
        else [view.missing[one] for one in wanted.topics if one in view.missing]
    )
    reasons = [_reason(error) for error in gone]
    new = [one for one in new_partitions(fold, wanted, view.of(topics)) if one in view.bounds]
    try:
        resolve_start(config.start, new, view.bounds, source)
    except Retriable:
        raise
    except SluicewayError as error:
        reasons.append(_reason(error))
    return tuple(reasons)


def _reason(error: SluicewayError) -> str:
    return f"[{error.code}] {error}"
