"""START: from a table to a fenced ledger that this driver may write."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from uuid import uuid4

from sluiceway.errors import (
    LeaseHeldError,
    LedgerCorruptError,
    LedgerMismatchError,
    RequestRefusedError,
    SluicewayError,
    StorageRefusedError,
)
from sluiceway.host.process import ProcessIdentity, own_identity
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.driver_term import DriverTerm, OwnedLedger, Owner, ledger_property
from sluiceway.ledger.file_names import file_origin
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import PartitionState
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.lease import Lease, LeaseKeeper, wait_until_free
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import FORMAT, FenceRecord
from sluiceway.ledger.value_tables import ValueTableLog
from sluiceway.ledger.writer import LedgerWriter, OnWait, fenced_by, fenced_by_room
from sluiceway.observe.steps import Observer, Step
from sluiceway.rooms.standby import StandbyRoom
from sluiceway.route.ownership import (
    check_ledger,
    claim_table,
    table_identity,
)
from sluiceway.sinks.contract import TableSink, TableState
from sluiceway.storage.contract import Storage
from sluiceway.storage.locations import refuse_missing_parent
from sluiceway.storage.probing import process_probes
from sluiceway.storage.registry import open_storage
from sluiceway.types.strict_json import BigInt

RECENT_RECORDS = 100
"""Partitions that these last records touched are always listed."""

_MOST_NEW = 200
_MOST_RECENT = 300
_MOST_KNOWN = 500


def refuse_older_ledger(ledger: LedgerLog, fold: Fold) -> None:
    """Look for files that the log does not know. Called at START, before fencing.

    Args:
        ledger: The route's log.
        fold: Fold of the log; brought up to the tail.

    Raises:
        LedgerMismatchError: There is one; names it.
        StorageUnavailableError: The store failed.
    """
    found = [
        (path, (made.term, made.epoch))
        for path in _files(ledger, fold)
        if (made := file_origin(ledger.layout.route, path.rpartition("/")[2]))
    ]
    # Read after the listing: a driver that still runs has put a record before it published.
    ledger.advance(fold)
    for path, (term, epoch) in found:
        if (term, epoch) > (fold.term, fold.last_epoch):
            raise LedgerMismatchError(
                f"the ledger is older than its table: it ends at term {fold.term}, epoch "
                f"{fold.last_epoch}, and there is a file of term {term}, epoch {epoch}",
                where=path,
                hint="going on would write those rows again. Restore all of _sluiceway as it was "
                "when the file was written; a file that was copied from elsewhere, move away",
            ).with_report(
                {"file": path, "ledger": f"{fold.term}-{fold.last_epoch}"},
                (
                    f"sluiceway verify JOB --route {ledger.layout.route}",
                    f"sluiceway ledger show JOB --route {ledger.layout.route}",
                ),
            )


def _files(ledger: LedgerLog, fold: Fold) -> Iterator[str]:
    """What lies where rows of lost records would be, the likeliest places first."""
    yield from _files_in(ledger, f"{ledger.layout.root}/dirty")
    root = ledger.layout.table_root
    known = {_path(root, state.location): state for state in fold.partitions.values()}
    # No row went to what is sealed since, lost records included.
    new = (
        path
        for path in _new_folders(ledger, known)
        if fold.sealed_above(path[len(root) + 1 :]) is None
    )
    for folder in islice(new, _MOST_NEW):
        # Others may have put it there, and it may not be ours to read.
        with suppress(StorageRefusedError):
            yield from _files_in(ledger, folder)
    since = fold.next_seq - RECENT_RECORDS
    latest = sorted(known, key=lambda path: -known[path].last_seq)
    recent = [path for path in latest if known[path].last_seq >= since]
    older = latest[len(recent) :]
    for folder in (*recent[:_MOST_RECENT], *older[:_MOST_KNOWN]):
        yield from _files_in(ledger, folder)


def _files_in(ledger: LedgerLog, folder: str) -> Iterator[str]:
    for status in ledger.storage.list(folder):
        if not status.is_dir:
            yield status.path


def _new_folders(ledger: LedgerLog, known: Mapping[str, PartitionState]) -> Iterator[str]:
    """Folders that the ledger does not know, next to those it knows, the greatest names first.

    In a ledger without partitions it is all there is.
    """
    root = ledger.layout.table_root
    if root not in known:
        yield root
    parents = {path.rpartition("/")[0] for path in known if path != root} | {root}
    above = {parent for parent in parents for parent in _ancestors(parent, root)}
    for parent in sorted(parents, reverse=True):
        for path in _below(ledger, parent):
            if path not in known and path not in above:
                yield from _tree(ledger, path)


def _ancestors(path: str, root: str) -> Iterator[str]:
    while len(path) > len(root):
        yield path
        path = path.rpartition("/")[0]


def _tree(ledger: LedgerLog, folder: str) -> Iterator[str]:
    yield folder
    with suppress(StorageRefusedError):
        for path in _below(ledger, folder):
            yield from _tree(ledger, path)


def _below(ledger: LedgerLog, folder: str) -> list[str]:
    below = [status.path for status in ledger.storage.list(folder) if status.is_dir]
    hidden = ("_", ".")
    return [path for path in reversed(below) if not path.rpartition("/")[2].startswith(hidden)]


def _path(root: str, folder: str) -> str:
    return f"{root}/{folder}" if folder else root


_LOST_FENCE_PAUSE_S = 1.0


@dataclass(slots=True)
class OwnedTable(OwnedLedger):
    """The ledger, and the table as it was read.

    Attributes:
        value_tables: Tables that values of the source have; None but for the rest of a `route_by`.
    """

    state: TableState
    value_tables: ValueTableLog | None = None


@dataclass(frozen=True, slots=True)
class TakeoverHooks:
    """What the owner of the control flow lends to START.

    Attributes:
        observe: Called with each step.
        on_wait: Called before each repeated put.
        sleep: Interruptible pause.
        replaces: The term that an operator allows to be replaced without waiting for its lease
            (commit rule 25); None waits.
        driver: Id of the driver in its fences and its lease. A driver that starts its route again
            keeps it, and no other driver ever has it: by it a driver knows its own records.
        measured: Makes the table's store one whose calls are timed.
        room: Decides when a driver of a job with rooms may fence; None for other jobs, and for
            commands, which are refused where another room has the route.
    """

    observe: Observer
    on_wait: OnWait
    sleep: Callable[[float], None] = time.sleep
    replaces: int | None = None
    driver: str = field(default_factory=lambda: uuid4().hex)
    measured: Callable[[Storage], Storage] = lambda store: store
    room: StandbyRoom | None = None


@dataclass(frozen=True, slots=True)
class ReleasedLedger:
    """How a driver left a ledger that it gave back and may take again.

    Attributes:
        driver: Id of the driver.
        ledger: Its uuid.
        term: The driver's own.
        next_seq: First slot that it had not written.
        head: Hash of the record before that.
    """

    driver: str
    ledger: str
    term: int
    next_seq: int
    head: str

    @classmethod
    def of(cls, owned: OwnedLedger) -> "ReleasedLedger":
        """As it stands now."""
        fold = owned.fold
        return cls(owned.driver, owned.owner.ledger, owned.writer.term, fold.next_seq, fold.head)

    def check(self, ledger: str, fold: Fold) -> None:
        """Refuse to take again what another driver had meanwhile, or what is not all there.

        Raises:
            FencedError: Another driver has fenced; this process never does again (rule 25).
            LedgerCorruptError: The log is shorter than it was, or another one.
        """
        if ledger != self.ledger:
            return
        fence = fold.fence
        if fence is not None and fold.term > self.term and fence.driver != self.driver:
            raise fenced_by(fold.term, fence.host, fence.pid)
        shorter = fold.term < self.term or fold.next_seq < self.next_seq
        if shorter or (fold.next_seq == self.next_seq and fold.head != self.head):
            raise LedgerCorruptError(
                f"the log ends at slot {fold.next_seq - 1} of term {fold.term}; this driver left "
                f"it at slot {self.next_seq - 1} of term {self.term}",
                hint="was it restored in part? Bring the rest back, then start the job again",
            )


def take_over(
    config: RouteConfig, sink: TableSink, hooks: TakeoverHooks, left: ReleasedLedger | None = None
) -> OwnedTable:
    """Open the table, check that the ledger is its own, wait for the lease, fence.

    Called at a driver's start, and when it starts again a route that had halted. After it, no older
    driver can commit any more.

    Args:
        config: The route.
        sink: Its table.
        hooks: What the owner of the control flow lends.
        left: How this process left the route's ledger; None at its first start.

    Raises:
        FencedError: Another driver has had the ledger since this one left it.
        TableMismatchError: The table is not what the job file says.
        LedgerMismatchError: The ledger belongs to another table, job or route.
        LeaseHeldError: Another live driver runs the route, or another term than the one that
            may be replaced is the latest.
        LedgerCorruptError: The log is damaged.
        UnhealthyEnvironmentError: The store cannot hold a ledger.
        MetastoreUnavailableError: The catalog does not answer; nothing was changed.
        StorageUnavailableError: The store failed; nothing was promised.
    """
    state = _open_table(sink, hooks)
    storage, layout = _open_store(config, state, hooks)
    owner = claim_table(storage, layout, state, config.job)
    log = LedgerLog(storage, layout)
    _refuse_other_generation(config, log)
    seen = None if hooks.replaces is not None else _wait(log, hooks)
    fold = log.fold()
    _refuse_other_room(config, log, fold, hooks)
    if state.ledger is None and fold.subscription is not None:
        # Another driver may have made the ledger since the table was read.
        state = sink.open()
    check_ledger(state, owner, fold)
    waited_for = fold.term if hooks.replaces is not None else _term(seen)
    _check_replaced(layout, fold, hooks.replaces)
    refuse_older_ledger(log, fold)
    _probe(log, fold)
    writer = LedgerWriter(log, fold, hooks.on_wait)
    process, driver = own_identity(), hooks.driver
    if left is not None:
        left.check(owner.ledger, fold)

    def on_lost() -> None:
        if left is not None:
            left.check(owner.ledger, fold)
        _mark_change(log, fold, hooks)
        if hooks.replaces is not None:
            # The driver that is replaced may still have committed; another fence ends it here.
            _check_replaced(layout, fold, hooks.replaces)
            return
        hooks.sleep(_LOST_FENCE_PAUSE_S)
        _wait(log, hooks)

    if fold.term != waited_for:
        # Another driver has fenced since the lease was read, as if this one's put had lost;
        # or one has died before it wrote its lease.
        on_lost()
    _mark_change(log, fold, hooks)
    hooks.observe(Step.FENCING)
    writer.fence(_fence(config, state, owner, driver, process), on_lost)
    _move_sources(writer, hooks)
    keeper = LeaseKeeper(storage, layout.lease, _lease(config, driver, writer.term, process))
    _mark_table(sink, state, owner, keeper)
    tenure = DriverTerm(writer, keeper, copied=_is_copied(config))
    log.check_held = tenure.check
    return OwnedTable(driver, storage, layout, log, owner, writer, keeper, tenure, state)


def _open_table(sink: TableSink, hooks: TakeoverHooks) -> TableState:
    try:
        return sink.open()
    except SluicewayError as error:
        if hooks.room is not None:
            hooks.room.report_failure(error)
        raise


def _wait(log: LedgerLog, hooks: TakeoverHooks) -> Lease | None:
    """Return when no live driver holds the lease, and this room may take over."""
    if hooks.room is not None and not hooks.room.rule.copied:
        return hooks.room.wait_until_ours(log, hooks.sleep)
    return wait_until_free(log.storage, log.layout.lease, sleep=hooks.sleep)


def _refuse_other_generation(config: RouteConfig, log: LedgerLog) -> None:
    """Never write a log again that another room has adopted a copy of (rule 21).

    Raises:
        FencedError: One has.
    """
    newest = log.generations()[-1:]
    if newest and config.rooms is not None and newest[0].room != config.rooms.room:
        raise fenced_by_room(newest[0].room, newest[0].number)


def _refuse_unadopted(config: RouteConfig, log: LedgerLog, fold: Fold) -> None:
    """Refuse a copy that was not adopted, or not wholly: its last slots may lack their files.

    Raises:
        LedgerMismatchError: It was not.
    """
    claims, rule = log.generations(), config.rooms
    room = claims[-1].room if claims else rule.room if rule else ""
    hint = f"if the other room is down, run `sluiceway adopt JOB --room {room} --dry-run`"
    if len(fold.adoptions) < len(claims):
        text = f"generation {len(claims)} is claimed by {claims[-1].operator} and not adopted yet"
    elif rule is None or not _is_copied(config):
        return
    elif fold.fence is None:
        if rule.room == rule.home:
            return
        # With a ledger of its own here, the copy that comes later could not be adopted.
        text = f"no copy of the table of room {rule.home} is here yet"
        hint = (
            f"start the job in room {rule.home}, and see that its table is copied; if that room is "
            f"lost with its table, write `home: {rule.room}`: the job begins here"
        )
    elif (holder := fold.fence.site or rule.home) != rule.room:
        text = f"this is a copy of the table of room {holder}, and it was not adopted"
    else:
        return
    raise LedgerMismatchError(text, where=log.layout.root, hint=hint)


def _mark_change(log: LedgerLog, fold: Fold, hooks: TakeoverHooks) -> None:
    if hooks.room is not None:
        hooks.room.check_positions(log, fold)
        hooks.room.mark_change(log, fold)


def _move_sources(writer: LedgerWriter, hooks: TakeoverHooks) -> None:
    """Continue in this room's logs, where the ledger has read another room's.

    Called once, right after the fence.
    """
    hooks.observe(Step.FENCED)
    change = None if hooks.room is None else hooks.room.source_change(writer.fold)
    if change is not None:
        writer.commit(change)
        hooks.observe(Step.PINNED)


def _refuse_other_room(
    config: RouteConfig, log: LedgerLog, fold: Fold, hooks: TakeoverHooks
) -> None:
    """Keep a command from moving the route to its own room, as its fence would."""
    _refuse_unadopted(config, log, fold)
    if config.rooms is None or hooks.room is not None or fold.fence is None:
        return
    holder = fold.fence.site or config.rooms.home
    if holder != config.rooms.room:
        raise RequestRefusedError(
            f"room {holder} has the route, and no driver lives there to carry this out",
            where=config.route,
            hint=f"run the command in room {holder}, or first start the job's driver",
        )


def _open_store(
    config: RouteConfig, state: TableState, hooks: TakeoverHooks
) -> tuple[Storage, LedgerLayout]:
    """The table's store, and where the route's ledger is in it."""
    opened, root = open_storage(state.identity.home, config.stores)
    storage = hooks.measured(opened)
    refuse_missing_parent(storage, root, create=_makes_folders(config))
    return storage, LedgerLayout(root, config.route)


def _makes_folders(config: RouteConfig) -> bool:
    """Whether folders above a table are made: the catalog of a lake table has made its own."""
    return config.table.create_location or config.table.lake is not None


def _mark_table(sink: TableSink, state: TableState, owner: Owner, keeper: LeaseKeeper) -> None:
    """Keep the lease, and let the table name its ledger."""
    keeper.start()
    try:
        sink.mark_ledger(state, ledger_property(owner))
    except SluicewayError:
        # Else the next try of this very process would find a live driver: itself.
        keeper.release()
        raise


def _check_replaced(layout: LedgerLayout, fold: Fold, replaces: int | None) -> None:
    if replaces is None or replaces == fold.term:
        return
    now = fold.fence
    who = f": {now.host} pid {now.pid}" if now is not None else ", no driver has ever fenced"
    raise LeaseHeldError(
        f"term {replaces} was to be replaced, the latest is {fold.term}{who}",
        where=layout.route,
        hint="look again with `sluiceway status JOB`, which shows the term, before you "
        "name another",
    )


def _probe(ledger: LedgerLog, fold: Fold) -> None:
    """Try the store, in a folder whose name shows when it is garbage."""
    ledger.storage.admit(ledger.layout.table_root)
    while True:
        place = ledger.layout.probe(fold.term, uuid4().hex)
        try:
            process_probes().probe(ledger.storage, ledger.layout.stage, within=place)
        except SluicewayError:
            term = fold.term
            ledger.advance(fold)
            if fold.term == term:
                raise
            # Another driver has fenced meanwhile, and may have collected the place.
        else:
            return


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
        site=_room(config),
        started_at_ms=BigInt(time.time_ns() // 1_000_000),
        format=FORMAT,
        min_reader=FORMAT,
    )


def _term(lease: Lease | None) -> int:
    return 0 if lease is None else lease.term


def _room(config: RouteConfig) -> str:
    return "" if config.rooms is None else config.rooms.room


def _is_copied(config: RouteConfig) -> bool:
    return config.rooms is not None and config.rooms.copied


def _lease(config: RouteConfig, driver: str, term: int, process: ProcessIdentity) -> Lease:
    return Lease(
        driver=driver,
        term=term,
        counter=0,
        released=False,
        host=process.host,
        boot_id=process.boot_id,
        pid=process.pid,
        start_ticks=process.start_ticks,
        room=_room(config),
        digest="" if config.rooms is None else config.rooms.digest,
    )
