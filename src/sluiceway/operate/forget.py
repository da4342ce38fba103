"""`partitions forget`: have a route's driver let go of partitions, or be it for a short while."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sluiceway.errors import LeaseHeldError, RequestRefusedError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.folding.fold_state import FoldState
from sluiceway.ledger.lease import read_lease
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import ExpireRecord
from sluiceway.ledger.places import is_below
from sluiceway.ledger.records import Record
from sluiceway.observe.log import Log
from sluiceway.operate.short_driver import Heartbeat, short_driver
from sluiceway.upkeep.partition_requests import FORGET, MOST_FORGOTTEN, ForgetRequest, Forgotten
from sluiceway.upkeep.requests import REQUEST_VERSION, pop_refusal, put_request

_POLL_S = 0.3
_HERE_POLL_S = 0.05

Watch = Callable[[bool], None]
"""Called again and again with whether another driver does it."""


@dataclass(frozen=True, slots=True)
class PlannedForget:
    """What would become of a partition.

    Attributes:
        open: Rows that still come for it would start it again in a new folder.
        problem: Why it cannot be let go of now; empty when it can.
    """

    partition: str
    version: int
    rows: int
    files: int
    size_bytes: int
    location: str
    open: bool
    problem: str


def foresee(fold: FoldState, names: Sequence[str], *, drop: bool) -> list[PlannedForget]:
    """What letting go of these would do, by the ledger alone. Changes nothing.

    Args:
        fold: State of the ledger now.
        names: Partitions, or folders above some.
        drop: Whether their files are to be removed.

    Raises:
        RequestRefusedError: A name stands for nothing, or all together for too many.
    """
    found: dict[str, PlannedForget] = {}
    for name in names:
        below = fold.below(name)
        if not below:
            gone = any(is_below(each, name) for each in fold.partitions)
            text = "its partitions are let go of already" if gone else "the ledger has no such one"
            raise RequestRefusedError(
                text, where=name, hint="`sluiceway partitions list JOB` shows which there are"
            )
        for state in below:
            problem = ""
            if not state.values:
                problem = "a table without partitions is not let go of"
            elif fold.is_worked_on(state.folder):
                problem = "its files are being merged; repeat it when that is done"
            elif drop and not state.whole:
                problem = "the ledger does not know all of its files; repeat it without --drop"
            found[state.folder] = PlannedForget(
                partition=state.folder,
                version=state.version,
                rows=state.rows,
                files=state.files,
                size_bytes=state.size_bytes,
                location=state.location,
                open=fold.closed_above(state.folder) is None,
                problem=problem,
            )
    if len(found) > MOST_FORGOTTEN:
        raise RequestRefusedError(
            f"{len(found):,} partitions are meant, {MOST_FORGOTTEN:,} at once are the most",
            hint="name fewer, or let the block `retention` of the job file do it",
        )
    return [found[name] for name in sorted(found)]


def request_of(
    fold: FoldState, foreseen: Sequence[PlannedForget], operator: str, reason: str, *, drop: bool
) -> ForgetRequest:
    """What to ask the driver for.

    Raises:
        RequestRefusedError: No driver has ever run.
    """
    if fold.first_fence is None:
        raise RequestRefusedError("no driver has ever run for this table")
    return ForgetRequest(
        version=REQUEST_VERSION,
        ledger=fold.first_fence.ledger,
        kind=FORGET,
        operator=operator,
        reason=f"{operator}: {reason}",
        drop=drop,
        partitions=tuple(
            Forgotten(each.partition, each.version) for each in foreseen if not each.problem
        ),
    )


def carry_out(
    config: RouteConfig, ledger: LedgerLog, request: ForgetRequest, watch: Watch, log: Log
) -> dict[str, int]:
    """Have a request carried out, by the live driver if there is one, else here.

    Safe to end anywhere and to repeat: partitions are named as they were, so that rows that have
    come since are never let go of.

    Args:
        config: The route.
        ledger: Its log.
        request: What is asked for.
        watch: Called with the progress.
        log: Log of this process, when it is the driver.

    Returns:
        Slot of the EXPIRE record by partition; partitions that moved or went before have none.

    Raises:
        RequestRefusedError: It cannot be done; says why.
        SluicewayError: As at a driver's start.
    """
    fold = ledger.fold()
    done: dict[str, int] = {}
    pop_refusal(ledger.storage, ledger.layout, request.id)
    put_request(ledger.storage, ledger.layout, request)
    beats = Heartbeat()
    while True:
        # Asked first: a driver takes a request away only when the ledger or an answer says why.
        asked = ledger.storage.status(ledger.layout.request(request.id)) is not None
        done |= _expired(ledger.advance(fold), request)
        refused = pop_refusal(ledger.storage, ledger.layout, request.id)
        if refused is not None:
            hint = f"{len(done)} of {len(request.partitions)} partitions were let go of"
            raise RequestRefusedError(refused, hint=hint)
        if not asked:
            return done
        lives = beats.heard(read_lease(ledger.storage, ledger.layout.lease))
        watch(lives)
        if lives:
            time.sleep(_POLL_S)
            continue
        try:
            _carry_out_here(config, ledger, request, log)
        except LeaseHeldError:
            # One was started meanwhile: it carries the request out.
            beats = Heartbeat()


def _expired(records: Sequence[Record], request: ForgetRequest) -> dict[str, int]:
    meant = {each.partition for each in request.partitions}
    return {
        each.partition: record.seq
        for record in records
        if isinstance(record.body, ExpireRecord)
        for each in record.body.partitions
        if each.partition in meant
    }


def _carry_out_here(
    config: RouteConfig, ledger: LedgerLog, request: ForgetRequest, log: Log
) -> None:
    """Fence as a driver would, and put what is asked for until it is done."""
    with short_driver(config, log) as session:
        while ledger.storage.status(ledger.layout.request(request.id)) is not None:
            session.lanes.read_requests()
            if session.committer.is_record_due():
                session.committer.pin(None)
            else:
                time.sleep(_HERE_POLL_S)
