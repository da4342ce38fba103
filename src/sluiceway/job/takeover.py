"""START: from a table to a fenced ledger that this driver may write."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from sluiceway.errors import SluicewayError
from sluiceway.host.process import ProcessIdentity, own_identity
from sluiceway.job.config import RouteConfig
from sluiceway.job.ownership import (
    Owner,
    check_ledger,
    claim_table,
    ledger_property,
    table_identity,
)
from sluiceway.ledger.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.lease import Lease, LeaseKeeper, wait_until_free
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import FORMAT, FenceRecord
from sluiceway.ledger.writer import LedgerWriter, OnWait
from sluiceway.observe.steps import Observer, Step
from sluiceway.sinks.contract import TableSink, TableState
from sluiceway.storage.contract import Storage
from sluiceway.storage.registry import open_storage
from sluiceway.types.strict_json import BigInt

_LOST_FENCE_PAUSE_S = 1.0


@dataclass(slots=True)
class OwnedLedger:
    """What a driver holds after it has fenced."""

    storage: Storage
    layout: LedgerLayout
    owner: Owner
    writer: LedgerWriter
    lease: LeaseKeeper
    state: TableState

    @property
    def fold(self) -> Fold:
        """State up to the tail."""
        return self.writer.fold


@dataclass(frozen=True, slots=True)
class TakeoverHooks:
    """What the owner of the control flow lends to START.

    Attributes:
        observe: Told of each step.
        on_wait: Called before each repeated put.
        sleep: Interruptible pause.
    """

    observe: Observer
    on_wait: OnWait
    sleep: Callable[[float], None] = time.sleep


def take_over(config: RouteConfig, sink: TableSink, hooks: TakeoverHooks) -> OwnedLedger:
    """Open the table, check that the ledger is its own, wait for the lease, fence.

    Called once, at a driver's start. After it, no older driver can commit any more.

    Raises:
        TableMismatchError: The table is not what the job file says.
        LedgerMismatchError: The ledger belongs to another table, job or route.
        LeaseHeldError: Another live driver runs the route.
        LedgerCorruptError: The log is damaged.
        UnhealthyEnvironmentError: The store cannot hold a ledger.
        MetastoreUnavailableError: The catalog does not answer; nothing was changed.
        StorageUnavailableError: The store failed; nothing was promised.
    """
    state = sink.open()
    storage, root = open_storage(state.identity.location)
    layout = LedgerLayout(root, config.route)
    owner = claim_table(storage, layout, state, config.job)
    storage.probe(layout.stage)
    wait_until_free(storage, layout.lease, sleep=hooks.sleep)
    log = LedgerLog(storage, layout)
    fold = log.fold()
    if state.ledger is None and fold.subscription is not None:
        # Another driver may have made the ledger since the table was read.
        state = sink.open()
    check_ledger(state, owner, fold)
    writer = LedgerWriter(log, fold, hooks.on_wait)
    process = own_identity()
    driver = uuid4().hex

    def on_lost() -> None:
        hooks.sleep(_LOST_FENCE_PAUSE_S)
        wait_until_free(storage, layout.lease, sleep=hooks.sleep)

    hooks.observe(Step.FENCING)
    writer.fence(_fence(config, state, owner, driver, process), on_lost)
    hooks.observe(Step.FENCED)
    keeper = LeaseKeeper(storage, layout.lease, _lease(driver, writer.term, process))
    keeper.start()
    try:
        sink.mark_ledger(state, ledger_property(owner))
    except SluicewayError:
        # Else the next try of this very process would find a live driver: itself.
        keeper.release()
        raise
    return OwnedLedger(storage, layout, owner, writer, keeper, state)


def _fence(
    config: RouteConfig,
    state: TableState,
    owner: Owner,
    driver: str,
    process: ProcessIdentity,
) -> FenceRecord:
    return FenceRecord(
        ledger=owner.ledger,
        job=config.job,
        route=config.route,
        table=table_identity(state),
        driver=driver,
        host=process.host,
        boot_id=process.boot_id,
        pid=process.pid,
        site="",
        started_at_ms=BigInt(time.time_ns() // 1_000_000),
        format=FORMAT,
        min_reader=FORMAT,
    )


def _lease(driver: str, term: int, process: ProcessIdentity) -> Lease:
    return Lease(
        driver=driver,
        term=term,
        counter=0,
        released=False,
        host=process.host,
        boot_id=process.boot_id,
        pid=process.pid,
        start_ticks=process.start_ticks,
    )
