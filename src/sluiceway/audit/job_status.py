"""The state of a job's routes, from outside: leases, ledgers and what drivers wrote."""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING

from sluiceway.audit.format_times import span
from sluiceway.audit.open_table import LedgerPlace, open_place, refuse_foreign_table
from sluiceway.audit.pick_route import FoundRoutes, found_routes, pick_route
from sluiceway.audit.rooms import ObservedRooms, observed_rooms
from sluiceway.audit.upstream import ObservedUpstream, observed_upstream, reads_table
from sluiceway.errors import (
    Fatal,
    LedgerMismatchError,
    OffsetsLostError,
    SluicewayError,
    SourceUnavailableError,
    TableNotFoundError,
)
from sluiceway.host.process import is_alive
from sluiceway.jobfile.blocks.models import JobSpec
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.config import RefusedTopic, RouteConfig
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.lease import DEAD_AFTER_S, Lease, read_lease
from sluiceway.ledger.log import LedgerLog
from sluiceway.observe.log import Log
from sluiceway.route.clients import open_source
from sluiceway.route.halt_report import halt_report
from sluiceway.route.route_meter import committed_ends, lag_records
from sluiceway.route.status import (
    RouteState,
    RouteStatus,
    decode_status,
    last_swap_ms,
    later_ms,
)
from sluiceway.schedule.oldest_waiting import oldest_waiting_ms, waiting_ends
from sluiceway.schedule.source_view import SourceView, is_same_log, read_source_view, view_of_route
from sluiceway.sources.contract import LogBounds, SourceClient, SourcePartition

if TYPE_CHECKING:
    from sluiceway.sources.registry import SourceAccess


MOST_DIRTY = 0.01
"""Greatest share of dirty rows among the newest rows that needs no attention."""

JUDGED_ROWS = 100
"""A share of fewer rows than this is shown, and makes no route unwell; see `dirty.max_rate`."""

_STILL_S = 600
_EPOCHS = 3
_AT_REST = (RouteState.STOPPED, RouteState.NOT_STARTED)


def dirty_share(status: RouteStatus) -> str:
    """A sentence when many rows of the last commits are dirty; else, or if none is open, empty."""
    read, dirty = _newest_rows(status)
    if status.rows_dirty_open == 0 or dirty <= MOST_DIRTY * read:
        return ""
    return f"{dirty:,} of the last {read:,} rows are dirty; `sluiceway dirty list JOB` says why"


def is_too_dirty(status: RouteStatus) -> bool:
    """Whether the share is high over enough rows: then the route is not well."""
    return bool(dirty_share(status)) and _newest_rows(status)[0] >= JUDGED_ROWS


def _newest_rows(status: RouteStatus) -> tuple[int, int]:
    """Of the last commits: rows that were read, and how many of them are dirty."""
    epochs = status.epochs
    return sum(each.rows_read for each in epochs), sum(each.rows_dirty for each in epochs)


def waiting_rows(status: RouteStatus, config: RouteConfig, now_ms: int) -> str:
    """A sentence when records wait and the route reads none of them; else empty.

    Args:
        status: What the route's driver wrote.
        config: The route's config.
        now_ms: The clock.
    """
    if not status.lag_records:
        return ""
    age_ms = status.lag_at_least_ms if status.lag_ms is None else status.lag_ms
    oldest = "" if age_ms is None else f", the oldest for at least {span(1000 * age_ms)}"
    wait = f"{status.lag_records:,} records wait{oldest}"
    if status.state in _AT_REST:
        return f"{wait}, and no driver runs"
    quiet_s = _since_s(now_ms, status.last_commit_ms, status.since_ms)
    if status.state is RouteState.RUNNING and quiet_s > max(_STILL_S, _EPOCHS * config.interval_s):
        return f"{wait}, and nothing was committed for {span(int(1e6 * quiet_s))}"
    return ""


def slow_start(status: RouteStatus, now_ms: int) -> str:
    """A sentence when a route has been starting for long; else empty."""
    starting_s = _since_s(now_ms, status.since_ms)
    if status.state is not RouteState.STARTING or starting_s <= _STILL_S:
        return ""
    return f"it has been starting for {span(int(1e6 * starting_s))}"


def _since_s(now_ms: int, *moments: int | None) -> float:
    """Seconds since the latest of these moments; 0 when none is known."""
    last_ms = max((each for each in moments if each is not None), default=now_ms)
    return (now_ms - last_ms) / 1000


_PARALLEL_ROUTES = 8
_MOST_NAMED = 3
_WATCH_INTERVAL_S = 0.5


@dataclass(frozen=True, slots=True)
class ObservedRoute:
    """A route from outside.

    Attributes:
        driver: Process that runs the route now; None when none does.
        fold: Its ledger, when that was read.
        lag_error: Why the brokers did not give the lag of a route that no driver measures.
        upstream: The table that the route reads; None where it reads topics, or that cannot be
            looked at.
        rooms: Rooms of the job; None for a job that has one place only.
    """

    config: RouteConfig
    status: RouteStatus
    driver: str | None = None
    fold: Fold | None = None
    lag_error: str = ""
    upstream: ObservedUpstream | None = None
    rooms: ObservedRooms | None = None

    @property
    def is_well(self) -> bool:
        """Whether it runs and reads all its partitions, or was stopped on request.

        A route with many dirty rows among its new rows is not well either.
        """
        bad = (RouteState.WAITING, RouteState.HALTED, RouteState.UNKNOWN)
        well = self.status.state not in bad and self.status.message is None
        return well and not self.status.left_out_count and not is_too_dirty(self.status)

    @property
    def attention(self) -> tuple[str, ...]:
        """Sentences about what an operator should check although no error was raised."""
        status, now_ms = self.status, time.time_ns() // 1_000_000
        told = (
            dirty_share(status),
            waiting_rows(status, self.config, now_ms),
            slow_start(status, now_ms),
            f"how many records wait is not known: {self.lag_error}" if self.lag_error else "",
        )
        rooms = () if self.rooms is None else self.rooms.attention(now_ms)
        return (*(each for each in told if each), *self._corrections(), *rooms)

    def _corrections(self) -> Iterator[str]:
        above = self.upstream
        if above is not None and above.corrections:
            named = ", ".join(above.corrections[:_MOST_NAMED])
            more = len(above.corrections) - _MOST_NAMED
            yield (
                f"{above.table} has replaced {named}{f' and {more} more' if more > 0 else ''}, and "
                "the route has not followed; a refusal is in its log as `correction_refused`"
            )


@dataclass(frozen=True, slots=True)
class ObservedJob:
    """A job from outside.

    Attributes:
        problem: Why routes may be missing; None when none are.
        refused: Topics that match a pattern and get no table.
        shared: Topics that fill a table together with one whose name differs in case only.
    """

    routes: tuple[ObservedRoute, ...]
    problem: SluicewayError | None = None
    refused: tuple[RefusedTopic, ...] = ()
    shared: tuple[RefusedTopic, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether all routes are known and well, and every topic has a table of its own."""
        topics = not self.refused and not self.shared
        return topics and self.problem is None and all(route.is_well for route in self.routes)


@dataclass(frozen=True, slots=True)
class _Found:
    """A route's table, its lease and what its last driver wrote."""

    table: LedgerPlace
    lease: Lease | None
    status: RouteStatus | None


def job_status(spec: JobSpec, log: Log, route: str | None = None) -> ObservedJob:
    """Read the state of a job's routes. Changes nothing; drivers go on.

    A driver on another host is watched until its lease moves, at most ten seconds in all.

    Args:
        spec: The job.
        log: Gets a warning for brokers that do not answer.
        route: Only this route; None for all.

    Raises:
        JobFileError: A column type or a client property is not valid.
        WrongUsageError: The job has no such route.
    """
    problem: SluicewayError | None = None
    try:
        job = found_routes(spec, log)
    except SourceUnavailableError as error:
        problem, job = error, FoundRoutes(compile_routes(spec).routes)
    routes = job.routes if route is None else (pick_route(job.routes, route),)
    with ThreadPoolExecutor(_PARALLEL_ROUTES) as pool:
        found = list(pool.map(_find, routes))
        alive = _alive([one for one in found if isinstance(one, _Found)])
        seen = list(pool.map(_see, found, routes, repeat(alive)))
    found_lags = map(_with_upstream, _with_lags(seen, log))
    return ObservedJob(tuple(found_lags), problem, job.refused, job.shared)


def _with_upstream(route: ObservedRoute) -> ObservedRoute:
    if not reads_table(route.config):
        return route
    try:
        return replace(route, upstream=observed_upstream(route.config))
    except SluicewayError as error:
        if route.driver is not None:
            # It looks at the table itself, and says what is wrong with it.
            return route
        # A route that never ran may wait for the job that fills that table first.
        ran = route.status.state is RouteState.STOPPED
        if isinstance(error, Fatal) or (ran and isinstance(error, SourceUnavailableError)):
            return replace(_with_error(route, error), lag_error="")
        return replace(route, lag_error=route.lag_error or str(error))


def _with_error(route: ObservedRoute, error: SluicewayError) -> ObservedRoute:
    """The route with why a run would not read on; why it stopped is kept, unless it is that."""
    status = replace(route.status, lag_records=None)
    if status.message is None or status.code == error.code:
        report = halt_report(error, status.route) if isinstance(error, Fatal) else None
        status = replace(status, code=error.code, message=str(error), report=report)
    return replace(route, status=status)


def _find(config: RouteConfig) -> _Found | SluicewayError:
    """The route's table; the error when it cannot be found."""
    try:
        table = open_place(config)
        # Lease and status of another job's route say nothing of this route.
        refuse_foreign_table(table)
        lease = read_lease(table.storage, table.layout.lease)
        raw = table.storage.read(table.layout.status)
    except SluicewayError as error:
        return error
    return _Found(table, lease, None if raw is None else parse_status(config.route, raw))


def parse_status(route: str, raw: bytes) -> RouteStatus | None:
    """What `status.json` says of a route; None when it is unreadable or another route's.

    A copied table folder brings its `status.json` along.
    """
    status = decode_status(raw)
    return status if status is not None and status.route == route else None


def _alive(found: Sequence[_Found]) -> set[str]:
    """Drivers that are alive: by process on this host, by a moving lease on other hosts."""
    alive = set[str]()
    unsure: list[_Found] = []
    for one in found:
        if one.lease is None or one.lease.released:
            continue
        lives = is_alive(one.lease.process())
        if lives is None:
            unsure.append(one)
        elif lives:
            alive.add(one.lease.driver)
    give_up_at = time.monotonic() + DEAD_AFTER_S
    while unsure and time.monotonic() < give_up_at:
        time.sleep(_WATCH_INTERVAL_S)
        alive |= {one.lease.driver for one in unsure if one.lease is not None and _moves(one)}
        unsure = [one for one in unsure if one.lease and one.lease.driver not in alive]
    return alive


def _moves(one: _Found) -> bool:
    try:
        now = read_lease(one.table.storage, one.table.layout.lease)
    except SluicewayError:
        return False
    return now is not None and now != one.lease and not now.released


def _see(one: _Found | SluicewayError, config: RouteConfig, alive: set[str]) -> ObservedRoute:
    seen = _see_route(one, config, alive)
    if config.rooms is None or isinstance(one, SluicewayError):
        return seen
    place = one.table
    return replace(seen, rooms=observed_rooms(place.storage, place.layout, config.rooms, one.lease))


def _see_route(one: _Found | SluicewayError, config: RouteConfig, alive: set[str]) -> ObservedRoute:
    blank = RouteStatus(
        route=config.route,
        table=f"{config.table.database}.{config.table.table}",
        as_of_ms=time.time_ns() // 1_000_000,
    )
    if isinstance(one, TableNotFoundError | LedgerMismatchError):
        # A table of another job: this route has never had a ledger in it.
        no_table = isinstance(one, TableNotFoundError)
        state = RouteState.NO_TABLE if no_table else RouteState.NOT_STARTED
        return ObservedRoute(config, replace(blank, state=state, code=one.code, message=str(one)))
    if isinstance(one, SluicewayError):
        return ObservedRoute(config, _unknown(blank, one, "where its ledger is, is not known: "))
    lease = one.lease
    runs = lease is not None and not lease.released and lease.driver in alive
    if lease is not None and one.status is not None and _is_told_by(one.status, lease, runs=runs):
        # The driver of a halted route may have ended since, on another host.
        lives = runs or is_alive(lease.process()) is True
        status = one.status if lives else replace(one.status, spark_ui=None)
        return ObservedRoute(config, status, _driver(lease))
    try:
        fold = LedgerLog(one.table.storage, one.table.layout).fold()
    except SluicewayError as error:
        return ObservedRoute(config, _unknown(blank, error, ""))
    status, config = _of_ledger(blank, fold), config.at(fold)
    if runs and lease is not None:
        starting = replace(status, state=RouteState.STARTING)
        return ObservedRoute(config, starting, _driver(lease), fold)
    return ObservedRoute(config, _stopped(status, one), None, fold)


def _driver(lease: Lease) -> str:
    return f"{lease.host} pid {lease.pid}"


def _is_told_by(status: RouteStatus, lease: Lease, *, runs: bool) -> bool:
    """Whether a live driver wrote this status of a route that it runs or keeps halted.

    A driver releases the lease of a halted route, and writes `stopped` when it ends.
    """
    halted = status.state is RouteState.HALTED and is_alive(lease.process()) is not False
    return status.term == lease.term and (runs or halted)


def _unknown(blank: RouteStatus, error: SluicewayError, why: str) -> RouteStatus:
    report = halt_report(error, blank.route) if isinstance(error, Fatal) else None
    return replace(
        blank,
        state=RouteState.UNKNOWN,
        code=error.code,
        message=f"{why}{error}",
        report=report,
    )


def _of_ledger(blank: RouteStatus, fold: Fold) -> RouteStatus:
    if fold.next_seq == 0:
        return blank
    return replace(
        blank,
        term=fold.term,
        last_seq=fold.next_seq - 1,
        rows_read=int(fold.counts.read),
        rows_written=int(fold.counts.written),
        rows_dirty=int(fold.counts.dirty),
        rows_dirty_open=fold.dirty_rows_open,
        rows_late=fold.late_rows.total,
        late_rows=fold.late_rows.as_counts(),
        last_commit_ms=last_swap_ms(fold),
    )


def _stopped(status: RouteStatus, one: _Found) -> RouteStatus:
    """A stopped route, and why it stopped if that was not by request."""
    if status.term is None:
        return replace(status, state=RouteState.NOT_STARTED)
    status = replace(status, state=RouteState.STOPPED)
    last = one.status
    if last is not None and last.rows_read == status.rows_read:
        # True also when only fences and moved offsets followed: no rows were committed since.
        # A misspelt column stays misspelt when its driver has ended.
        status = replace(
            status,
            last_commit_ms=later_ms(last.last_commit_ms, status.last_commit_ms),
            epochs=last.epochs,
            ignored_fields=last.ignored_fields,
            unfilled_columns=last.unfilled_columns,
        )
    if last is not None and last.term == status.term:
        commit_ms = later_ms(last.last_commit_ms, status.last_commit_ms)
        status = replace(status, since_ms=last.as_of_ms, last_commit_ms=commit_ms)
        if last.state in (RouteState.HALTED, RouteState.STOPPED):
            return replace(status, code=last.code, message=last.message, report=last.report)
    if one.lease is not None and not one.lease.released:
        gone = f"its driver ended without a stop: {one.lease.host} pid {one.lease.pid}"
        return replace(status, message=f"{gone}; the next start goes on from the ledger")
    return status


def _with_lags(seen: Sequence[ObservedRoute], log: Log) -> list[ObservedRoute]:
    """Ask the brokers for the lag of routes that no driver measures."""
    by_access: dict[SourceAccess, list[ObservedRoute]] = {}
    for route in seen:
        if route.fold is not None and route.fold.sources:
            by_access.setdefault(route.config.source, []).append(route)
    found: dict[str, ObservedRoute] = {}
    for routes in by_access.values():
        source = open_source(routes[0].config)
        folds = [route.fold for route in routes if route.fold is not None]
        topics = {
            topic
            for fold in folds
            for (topic, _), known in fold.sources.items()
            if not known.retired
        }
        try:
            view = read_source_view(source, topics)
            measured = [_with_lag(each, view, source) for each in routes]
            oldest = oldest_waiting_ms(
                source, {each.status.route: _waiting(each, view) for each in measured}
            )
        except SluicewayError as error:
            log.warning("lag_not_known", code=error.code, error=str(error))
            found |= {each.status.route: replace(each, lag_error=str(error)) for each in routes}
            continue
        finally:
            source.close()
        for each in measured:
            age_ms = oldest.get(each.status.route)
            found[each.status.route] = replace(
                each, status=replace(each.status, lag_at_least_ms=age_ms)
            )
    return [found.get(each.status.route, each) for each in seen]


def _with_lag(route: ObservedRoute, view: SourceView, source: SourceClient) -> ObservedRoute:
    error = _table_error(route, view, source)
    if error is not None:
        return _with_error(route, error)
    return replace(route, status=_measured(route.status, route.fold, view))


def _table_error(
    route: ObservedRoute, view: SourceView, source: SourceClient
) -> SluicewayError | None:
    """Why a table is not read on; None where it is, and for topics."""
    if route.fold is None or not reads_table(route.config):
        return None
    # Only routes that read tables load what plans.
    from sluiceway.audit.planned_route import lost_offsets  # noqa: PLC0415

    refused = (view.missing[each] for each in route.config.topics if each in view.missing)
    lost = lost_offsets(route.fold, view_of_route(view, route.fold), source)
    return next(refused, None) or next(lost, None)


def _waiting(route: ObservedRoute, view: SourceView) -> dict[SourcePartition, int]:
    """Source partitions with records that wait; empty when the lag is not known."""
    if route.fold is None or not route.status.lag_records:
        return {}
    return waiting_ends(committed_ends(route.fold), view_of_route(view, route.fold).bounds)


def _measured(status: RouteStatus, fold: Fold | None, view: SourceView) -> RouteStatus:
    """The status with its lag, or with why there is none: offsets of another log do not count."""
    if fold is None:
        return status
    view = view_of_route(view, fold)
    live = {key: known for key, known in fold.sources.items() if not known.retired}
    # A partition that is gone has no lag: the others are read without it.
    there = {one: known for key, known in live.items() if view.has(one := SourcePartition(*key))}
    others = sorted(one.topic for one, known in there.items() if not is_same_log(one, known, view))
    if not others:
        known_all = _all_answered(fold, view.bounds)
        return replace(status, lag_records=lag_records(fold, view.bounds)) if known_all else status
    if status.message is not None:
        return status
    error = OffsetsLostError(
        "another log of this name: the topic was created again, or it is another cluster",
        where=others[0],
        hint="nothing of it is read until an operator accepts it",
    )
    report = halt_report(error, status.route)
    return replace(status, code=error.code, message=str(error), report=report)


def _all_answered(fold: Fold, bounds: Mapping[SourcePartition, LogBounds]) -> bool:
    """Whether all logs answered; a log without a leader would make the lag too small."""
    live = (key for key, known in fold.sources.items() if not known.retired)
    return all(SourcePartition(*key) in bounds for key in live)
