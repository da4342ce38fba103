"""Which ledger a table belongs to (commit rules 9 and 10).

Three places say it: the file OWNER next to the log, the table's property `sluiceway.ledger`, and
the log's first fence. A new ledger is made in the order OWNER, fence in slot 0, property; SOURCES
and DATA come after the property. So a crash between any two steps differs from a loss.
"""

from uuid import uuid4

from sluiceway.errors import LedgerCorruptError, LedgerMismatchError
from sluiceway.ledger.driver_term import Owner, ledger_property, read_owner
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import SYSTEM_FOLDER, LedgerLayout
from sluiceway.ledger.records import TableIdentityRecord
from sluiceway.sinks.contract import TableState
from sluiceway.storage.contract import Storage
from sluiceway.storage.locations import same_location
from sluiceway.types.strict_json import BigInt, encode


def table_identity(state: TableState) -> TableIdentityRecord:
    """The table as a fence names it."""
    identity = state.identity
    return TableIdentityRecord(
        identity.catalog,
        identity.database,
        identity.name,
        BigInt(identity.created_at_s),
        identity.location,
        identity.uuid,
    )


def claim_table(storage: Storage, layout: LedgerLayout, state: TableState, job: str) -> Owner:
    """Put OWNER, or find that it is ours. Called at each start, before the log is read.

    Raises:
        LedgerMismatchError: The table belongs to another ledger, job or route.
        LedgerCorruptError: OWNER is unreadable.
    """
    for folder in (layout.root, layout.stage, layout.log):
        storage.make_folders(folder)
    wanted = Owner(uuid4().hex, job, layout.route, state.identity.location)
    storage.put_if_absent(layout.owner, encode(wanted), tmp_folder=layout.stage)
    found = read_owner(storage, layout)
    if found is None:
        raise LedgerCorruptError("OWNER was written and is gone", where=layout.owner)
    # Another may have put it and died before its sync; the fence must not outlast it.
    storage.sync_folder(layout.owner.rpartition("/")[0])
    if (found.job, found.route) != (job, layout.route):
        raise LedgerMismatchError(
            f"{state.identity} is filled by job {found.job}, route {found.route}",
            where=layout.owner,
            hint="one table has one ledger; give this job another table or the old job's name",
        )
    return found


def check_ledger(state: TableState, owner: Owner, fold: Fold) -> None:
    """Compare property, OWNER and log. Called after the log was folded, before fencing.

    Raises:
        LedgerMismatchError: They do not belong together; says what was found.
    """
    where = str(state.identity)
    if state.ledger is not None and not _names(state.ledger, owner):
        raise LedgerMismatchError(
            f"the table's property sluiceway.ledger is {state.ledger}, "
            f"OWNER says {ledger_property(owner)}",
            where=where,
            hint=f"was {SYSTEM_FOLDER} replaced by another table's?",
        )
    if fold.first_fence is None:
        if state.ledger is not None:
            raise LedgerMismatchError(
                "the table names a ledger whose log is gone; a new ledger would double rows",
                where=where,
                hint=f"restore {SYSTEM_FOLDER} from a backup",
            )
        return
    first, made_for = fold.first_fence, fold.made_for
    if first.ledger != owner.ledger:
        raise LedgerMismatchError(
            f"the log is of ledger {first.ledger}, OWNER says {owner.ledger}", where=where
        )
    if made_for is not None and not _same_table(made_for, table_identity(state)):
        raise LedgerMismatchError(
            f"the ledger was made for {_describe(made_for)}, "
            f"this table is {_describe(table_identity(state))}",
            where=where,
            hint="a table that was dropped and created again needs an empty location",
        )
    if state.ledger is None and fold.subscription is not None:
        raise LedgerMismatchError(
            "the location holds a ledger with rows, but the table does not name it",
            where=where,
            hint="was the property sluiceway.ledger removed? Set it to "
            f"'{ledger_property(owner)}' if this is the same table",
        )


def _same_table(left: TableIdentityRecord, right: TableIdentityRecord) -> bool:
    """The metastore's address is left out: it has several names, and moves."""
    return (
        (left.database, left.name, left.created_at_s, left.uuid)
        == (right.database, right.name, right.created_at_s, right.uuid)
    ) and same_location(left.location, right.location)


def _names(value: str, owner: Owner) -> bool:
    ledger, _, location = value.partition("@")
    return ledger == owner.ledger and same_location(location, owner.location)


def _describe(table: TableIdentityRecord) -> str:
    born = f"uuid {table.uuid}" if table.uuid else f"created {table.created_at_s}"
    return f"{table.database}.{table.name} at {table.location}, {born}"
