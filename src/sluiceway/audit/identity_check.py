"""Do OWNER, the table's property, the log and the table itself belong together?"""

from sluiceway.errors import SluicewayError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.owned_ledger import Owner
from sluiceway.route.ownership import check_ledger
from sluiceway.sinks.contract import InspectedTable
from sluiceway.storage.contract import Storage
from sluiceway.types.strict_json import StrictJsonError, decode


def identity_problems(
    storage: Storage, layout: LedgerLayout, fold: Fold, table: InspectedTable, config: RouteConfig
) -> list[tuple[str, str]]:
    """What a driver's start would refuse about the table and its ledger. Changes nothing.

    Called by `verify`, once a route, after its log was folded.

    Returns:
        (where, message) of each problem; empty when all is right.

    Raises:
        StorageUnavailableError: The store failed.
    """
    raw = storage.read(layout.owner)
    if raw is None:
        return [(layout.owner, "OWNER is gone")] if fold.next_seq else []
    try:
        owner = decode(raw, Owner)
    except StrictJsonError as error:
        return [(layout.owner, f"OWNER is unreadable: {error}")]
    problems = []
    if (owner.job, owner.route) != (config.job, config.route):
        text = f"names job {owner.job}, route {owner.route}; this is {config.job}, {config.route}"
        problems.append((layout.owner, text))
    first = fold.first_fence
    if first is not None and (first.job, first.route) != (owner.job, owner.route):
        text = f"the log is of job {first.job}, route {first.route}, OWNER says {owner.route}"
        problems.append((layout.log, text))
    try:
        check_ledger(table.state(), owner, fold)
    except SluicewayError as error:
        problems.append((str(table.identity), str(error)))
    return problems
