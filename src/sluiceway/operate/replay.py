"""`dirty replay`, `dirty purge`, `late replay`: ask the driver, or be it for a short while (P8)."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sluiceway.errors import LeaseHeldError, RequestRefusedError, StateConflictError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.dirty_files import find_lane_files
from sluiceway.ledger.dirty_sources import DirtySource
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.lane_records import LaneRange
from sluiceway.ledger.lane_state import LaneState
from sluiceway.ledger.lease import read_lease
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import NO_ROWS, RowCounts
from sluiceway.observe.log import Log
from sluiceway.operate.short_driver import Heartbeat, short_driver
from sluiceway.route.clients import open_sink
from sluiceway.route.registry_columns import registry_columns
from sluiceway.route.route_plan import LedgerTerm, table_plan
from sluiceway.upkeep.lanes import judging, lane_plan
from sluiceway.upkeep.requests import LaneRequest, pop_refusal, put_request
from sluiceway.worker.lane_task import run_lane_task
from sluiceway.worker.replayed_changes import SUPERSEDED
from sluiceway.worker.row_files import NoFiles

_POLL_S = 0.3
_TRIES = 4

Watch = Callable[[LaneState | None, bool], None]
"""Called with a lane, None while it is not opened, and whether another driver runs it."""


@dataclass(frozen=True, slots=True)
class ReplayAttempt:
    """What would become of rows if they were replayed now.

    Attributes:
        superseded: Skipped rows that a later change of their key has overtaken.
    """

    counts: RowCounts
    dirty_reasons: dict[str, int]
    superseded: int = 0


def try_rows(
    config: RouteConfig, log: LedgerLog, fold: Fold, ranges: Sequence[LaneRange]
) -> ReplayAttempt:
    """Decode dirty rows with the job file as it is now. Writes nothing.

    Raises:
        TableMismatchError: The table's columns cannot be filled as the job file says.
        JobFileError: The declared columns cannot.
        SchemaRegistryUnavailableError: The columns are a registry's, which does not answer.
        StorageUnavailableError: The store failed, or a dirty file is gone.
    """
    config = registry_columns(config)
    sink = open_sink(config)
    try:
        state = sink.open()
    finally:
        sink.close()
    if config.sql is not None:
        # Without Spark it is known what is decoded, and not what the SQL makes of it.
        timed = tuple(each for each in config.partitions if each.pattern is not None)
        config = replace(config, sql=None, partitions=timed)
    ledger = fold.first_fence.ledger if fold.first_fence is not None else ""
    plan = table_plan(config, state, LedgerTerm(ledger, fold.term, log.layout))
    sources = [DirtySource.parse(each.source) for each in ranges]
    files = find_lane_files(log, sources)
    counts, reasons, superseded = NO_ROWS, dict[str, int](), 0
    for each, source in zip(ranges, sources, strict=True):
        left = each
        while left.start < left.stop:
            task = lane_plan(plan, 0, [left])
            paths = [files[source].path]
            with judging(plan, log) as judge:
                result = run_lane_task(task, log.storage, paths, NoFiles(), judge=judge)
            end = result.splits[0].end
            if end == left.start:
                break
            left = LaneRange(left.source, end, left.stop)
            counts = counts.plus(result.counts)
            superseded += result.notes.get(SUPERSEDED, 0)
            for reason, rows in result.dirty_reasons.items():
                reasons[reason] = reasons.get(reason, 0) + rows
    return ReplayAttempt(counts, reasons, superseded)


def carry_out(
    config: RouteConfig, ledger: LedgerLog, request: LaneRequest, watch: Watch, log: Log
) -> LaneState:
    """Have a request carried out, by the live driver if there is one, else here.

    Safe to end anywhere and to repeat: the lane goes on at its committed end.

    Args:
        config: The route.
        ledger: Its log.
        request: What is asked for.
        watch: Called with the progress.
        log: Log of this process, when it is the driver.

    Returns:
        The lane, all of its rows consumed.

    Raises:
        RequestRefusedError: It cannot be done; says why.
        SluicewayError: As at a driver's start, or as a commit.
    """
    fold = ledger.fold()
    if request.id not in fold.lanes.lanes:
        # What an earlier try was answered may hold no more.
        pop_refusal(ledger.storage, ledger.layout, request.id)
        put_request(ledger.storage, ledger.layout, request)
    return follow(config, ledger, request.id, watch, log)


def follow(config: RouteConfig, ledger: LedgerLog, lane: str, watch: Watch, log: Log) -> LaneState:
    """Wait for a lane that is asked for or open, or run it here when no driver lives.

    Raises:
        RequestRefusedError: As in `carry_out`.
        SluicewayError: As in `carry_out`.
    """
    fold, beats = ledger.fold(), Heartbeat()
    while True:
        # Asked first: a driver takes a request away only when the ledger or an answer says why.
        asked = ledger.storage.status(ledger.layout.request(lane)) is not None
        ledger.advance(fold)
        found = fold.lanes.lanes.get(lane)
        if found is not None and found.finished:
            return found
        # Once the ledger has the lane, an answer is one of a driver that has been replaced.
        refused = None if found is not None else pop_refusal(ledger.storage, ledger.layout, lane)
        if refused is not None:
            raise RequestRefusedError(
                refused, hint="nothing was changed; look again with --dry-run"
            )
        if found is None and not asked:
            raise RequestRefusedError(
                "the request is gone, and neither the ledger nor an answer names it",
                where=ledger.layout.request(lane),
                hint="it was removed, or its driver was replaced when it had refused it; "
                "nothing was changed. Ask again",
            )
        lives = beats.heard(read_lease(ledger.storage, ledger.layout.lease))
        watch(found, lives)
        if lives:
            time.sleep(_POLL_S)
            continue
        try:
            _run_here(config, lane, watch, log)
        except LeaseHeldError:
            # One was started meanwhile: it carries the request out.
            beats = Heartbeat()


def _run_here(config: RouteConfig, lane: str, watch: Watch, log: Log) -> None:
    """Fence as a driver would, and turn the lanes until this one is done or refused."""
    with short_driver(config, log) as session:
        tries = 0
        while True:
            session.lanes.turn()
            found = session.lanes.state(lane)
            if found is not None and found.finished:
                break
            trouble = session.lanes.trouble
            tries = tries + 1 if trouble is not None else 0
            hopeless = isinstance(trouble, StateConflictError) or tries >= _TRIES
            if trouble is not None and hopeless:
                raise trouble
            if trouble is None and found is None:
                break
            watch(found, False)  # noqa: FBT003 - no other driver
            if trouble is not None:
                time.sleep(session.lanes.pause_s())
            elif session.lanes.held_up:
                time.sleep(_POLL_S)
