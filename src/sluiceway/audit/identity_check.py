"""Do OWNER, the table's property, the log and the table itself belong together?"""

from sluiceway.catalog.hive_table import HiveTable
from sluiceway.config.config import RouteConfig
from sluiceway.errors import SluicewayError
from sluiceway.ledger.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.owned_ledger import Owner
from sluiceway.route.ownership import check_ledger
from sluiceway.sinks.contract import TableIdentity, TableState
from sluiceway.sinks.hive.table import LEDGER_PROPERTY
from sluiceway.sinks.hive.table_check import (
    check_definition,
    check_writable,
    file_choice,
    filled_columns,
)
from sluiceway.storage.contract import Storage
from sluiceway.types.strict_json import StrictJsonError, decode


def identity_problems(
    storage: Storage, layout: LedgerLayout, fold: Fold, table: HiveTable, config: RouteConfig
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
        check_ledger(table_state(table, config), owner, fold)
    except SluicewayError as error:
        problems.append((str(table), str(error)))
    return problems


def table_state(table: HiveTable, config: RouteConfig) -> TableState:
    """The table as a driver's start would take it.

    Raises:
        TableMismatchError: It would not: the table is not what the job file says.
    """
    check_writable(table)
    check_definition(table, config.hive)
    columns = filled_columns(table, config.hive)
    files = file_choice(table, config.hive, columns.written)
    return TableState(
        identity=TableIdentity(
            config.hive.metastore,
            table.database,
            table.name,
            table.created_at_s,
            table.layout.location,
        ),
        schema=columns.schema,
        partition_columns=tuple(column.name for column in table.partition_columns),
        ledger=table.parameters.get(LEDGER_PROPERTY),
        files=files,
        further=columns.further,
    )
