"""Runs a job: one process, one Spark application, its routes."""

import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sluiceway.driver.discovery import Discovery
from sluiceway.driver.lag_watch import LagWatch
from sluiceway.driver.loop import JobLoop, LoopParts
from sluiceway.driver.status_board import StatusBoard
from sluiceway.driver.stop import StopSignal
from sluiceway.errors import AllRowsDirtyError, SluicewayError, WrongUsageError
from sluiceway.host.kerberos import NOT_RENEWED, log_in, observe_tickets
from sluiceway.host.machine import cpu_below
from sluiceway.host.native_module import SWITCH, native_module
from sluiceway.jobfile.blocks.models import JobSpec
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.config import CompiledJob, RouteConfig
from sluiceway.jobfile.compile.stores import job_login
from sluiceway.observe.failpoints import reaching
from sluiceway.observe.log import Log
from sluiceway.observe.profile import ProcessCpu
from sluiceway.observe.progress import Progress
from sluiceway.observe.steps import Observer, ignore_step
from sluiceway.route.clients import open_sink, open_source
from sluiceway.route.route_context import RouteParts
from sluiceway.route.route_session import RouteSession
from sluiceway.route.status import RouteState, RouteSummary, RunSummary
from sluiceway.schedule.rate_limit import RateLimit
from sluiceway.schedule.runner import Bundle, TaskRunner
from sluiceway.schedule.slot_target import SlotTarget, slot_bounds
from sluiceway.schedule.sql_engine import SqlEngine
from sluiceway.schedule.unit_sql import UnitSql
from sluiceway.upkeep.record_queue import BeginWork
from sluiceway.work.request import ClusterWork
from sluiceway.worker.plan import TaskResult
from sluiceway.worker.task_memory import read_tally

if TYPE_CHECKING:
    from sluiceway.driver.spark.early_start import Starting
    from sluiceway.sources.contract import SourceClient
    from sluiceway.sources.registry import SourceAccess

_LOOK_EVERY_S = 0.25

Reading = Callable[[Mapping[str, int]], None]
"""(route -> records that tasks have read since the run began, discarded ones too)."""


class CountedRunner(TaskRunner):
    """Runs tasks through another runner, and counts what they read.

    The tasks write their counts into a folder of this machine. Tasks of other machines report
    nothing before they answer.

    Args:
        runner: Does the work; closed with this one.
        reading: Called a few times a second while tasks run.
    """

    def __init__(self, runner: TaskRunner, reading: Reading) -> None:
        self._runner = runner
        self._reading = reading
        self._folder = Path(tempfile.mkdtemp(prefix="sluiceway-reading-"))
        self._before: Counter[str] = Counter()
        self._runs = 0

    def slots(self) -> int:
        """See `TaskRunner`."""
        return self._runner.slots()

    def keep_warm(self) -> None:
        """See `TaskRunner`."""
        self._runner.keep_warm()

    def ui_address(self) -> str | None:
        """See `TaskRunner`."""
        return self._runner.ui_address()

    def ask_for(self, slots: int) -> None:
        """See `TaskRunner`."""
        self._runner.ask_for(slots)

    def work(self) -> ClusterWork | None:
        """See `TaskRunner`."""
        return self._runner.work()

    def sql(self) -> SqlEngine | None:
        """See `TaskRunner`."""
        return self._runner.sql()

    def unit_sql(self) -> UnitSql | None:
        """See `TaskRunner`."""
        return self._runner.unit_sql()

    def run(
        self, bundles: Sequence[Bundle], *, wait: Callable[[], None], give_up_after_s: float
    ) -> list[TaskResult]:
        """See `TaskRunner`."""
        self._runs += 1
        paths = [str(self._folder / f"{self._runs}-{number}") for number in range(len(bundles))]
        told: list[Bundle] = [
            tuple(replace(plan, tally=path) for plan in bundle)
            for path, bundle in zip(paths, bundles, strict=True)
        ]
        due = 0.0

        def look() -> None:
            nonlocal due
            wait()
            if time.monotonic() >= due:
                due = time.monotonic() + _LOOK_EVERY_S
                self._reading(self._before + self._counts(paths))

        try:
            answers = self._runner.run(told, wait=look, give_up_after_s=give_up_after_s)
        finally:
            so_far = self._counts(paths)
            for path in paths:
                Path(path).unlink(missing_ok=True)
        # Only the answers have the last counts, and they lack what failed tasks have read.
        exact: Counter[str] = Counter()
        for answer in answers:
            exact[self._route_of(answer, bundles)] += int(answer.counts.read)
        self._before += so_far | exact
        self._reading(self._before)
        return answers

    def close(self) -> None:
        """See `TaskRunner`."""
        self._runner.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _counts(self, paths: Sequence[str]) -> Counter[str]:
        found: Counter[str] = Counter()
        for path in paths:
            found.update(read_tally(path))
        return found

    def _route_of(self, answer: TaskResult, bundles: Sequence[Bundle]) -> str:
        plans = (plan for bundle in bundles for plan in bundle)
        found = (p.route.layout.route for p in plans if p.route.ledger == answer.ledger)
        return next(found, "")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How long a run goes on, and how it uses its process.

    Attributes:
        until_caught_up: End at the log ends read at the start.
        for_s: End gracefully after so many seconds; None goes on.
        takeover: Route -> the term that may be replaced without waiting for its lease; the name ""
            stands for the only route.
        borrow_session: Use the SparkSession that the process has, if any, and leave it running.
        profile: Log at the end where the time went.
        standby: Wait for each route that another driver runs, and take over when that driver dies.
        starting: A start of Spark that the caller has begun; None begins one where it is needed.
    """

    until_caught_up: bool = False
    for_s: float | None = None
    borrow_session: bool = False
    profile: bool = False
    standby: bool = False
    takeover: Mapping[str, int] = field(default_factory=dict)
    starting: "Starting | None" = None


@dataclass(frozen=True, slots=True)
class Observers:
    """Observers of a running job.

    Attributes:
        board: Shows the routes to other threads.
    """

    log: Log
    progress: Progress
    board: StatusBoard = field(default_factory=StatusBoard)


@dataclass(frozen=True, slots=True)
class RunExtra:
    """Options of a run beyond its routes.

    Attributes:
        standby: Wait for routes that another driver runs.
        slot_target: Decides how many slots to request; None uses the present ones.
        background: See `RouteParts`.
    """

    standby: bool = False
    slot_target: SlotTarget | None = None
    background: tuple[BeginWork, ...] = ()


NO_EXTRA = RunExtra()


def run_job(
    spec: JobSpec, options: RunOptions, observers: Observers, stop: StopSignal
) -> RunSummary:
    """Run a job in the foreground until it stops or halts.

    Args:
        spec: The job.
        options: How long the run goes on, and how it uses its process.
        observers: Observers of the run.
        stop: Says whether to go on; the caller makes it listen to signals.

    Returns:
        Totals for each route; some may have halted.

    Raises:
        SluicewayError: Why it could not go on; everything committed is safe.
    """
    if spec.routes[0].rooms is not None:
        observers = replace(observers, log=observers.log.bind(room=spec.routes[0].room))
    _log_in(spec, observers.log)
    job = compile_routes(spec)
    job = replace(job, takeover=_of_routes(job, options.takeover))
    # An error of a source's client comes now, not after the seconds of Spark's start.
    for config in {config.source: config for config in _all_routes(job)}.values():
        open_source(config).close()
    if stop.requested():
        return observers.board.summary()
    _log_engine(observers.log)
    observers.progress.waiting("starting Spark")
    runner, spark_log = _start_spark(
        spec, observers.log, borrow=options.borrow_session, starting=options.starting
    )
    observers.board.spark_ui = runner.ui_address()
    if options.standby or spec.routes[0].rooms or not spec.run.master.startswith("local"):
        # A standby that has yet to start its workers would be late when it is needed.
        observers.progress.waiting("waiting for executors")
        try:
            runner.warm_up(stop.requested)
        except SluicewayError:
            runner.close()
            raise
    if observers.progress.watched:
        runner = CountedRunner(runner, observers.progress.reading)
    stop.listen_again()
    if options.for_s is not None:
        # Counted from here: a short time must not be over before anything was read.
        stop.stop_after(options.for_s)
    try:
        bounds = slot_bounds(spec)
        target = None if bounds is None else SlotTarget(bounds, log=observers.log)
        extra = RunExtra(options.standby, target)
        run_routes(job, runner, stop, observers, bounded=options.until_caught_up, extra=extra)
    finally:
        observers.progress.clear()
        if options.profile:
            # While the workers live: the system knows what they used only until they end.
            _log_profile(observers)
        runner.close()
    summary = observers.board.summary()
    if spark_log is not None and all(route.error is None for route in summary.routes):
        # After a good end the log is deleted; after any other it stays to be read.
        spark_log.unlink(missing_ok=True)
    return summary


def _log_in(spec: JobSpec, log: Log) -> None:
    """Get a ticket before the first request, and log its renewals from here on."""
    login = job_login(spec.routes[0])
    if login is None:
        return

    def tell(event: str, fields: Mapping[str, object]) -> None:
        if event == NOT_RENEWED:
            log.warning(event, **fields)
        else:
            log.info(event, **fields)

    observe_tickets(tell)
    log_in(login)


def _log_engine(log: Log) -> None:
    """Log once what it costs to run without the native module, unless that was requested."""
    if native_module() is None and os.environ.get(SWITCH) != "0":
        log.info(
            "native_module_absent",
            price="reading JSON takes about three times the CPU a record",
            hint="install sluiceway-native, or `make native` in a checkout with Rust",
        )


def _log_profile(observers: Observers) -> None:
    found = cpu_below()
    cpu = None
    if found is not None:
        driver, jvm = found.pop("", 0.0), found.pop("java", 0.0)
        cpu = ProcessCpu(driver, jvm, workers=sum(found.values()))
    profile = observers.progress.profile
    observers.log.info("profile", **profile.fields(cpu))
    observers.progress.print_lines(profile.table(cpu))


def _of_routes(job: CompiledJob, takeover: Mapping[str, int]) -> dict[str, int]:
    """Terms by route name.

    Raises:
        WrongUsageError: A name that the job does not have, or none although it has several routes.
    """
    names = [config.route for config in job.routes]
    if "" in takeover and (len(names) != 1 or job.templates):
        raise WrongUsageError(
            f"the job has {len(names)} routes or more, and each has terms of its own",
            hint="write --takeover ROUTE=TERM",
        )
    named = {name or names[0]: term for name, term in takeover.items()}
    unknown = [name for name in named if name not in names and not job.templates]
    if unknown:
        raise WrongUsageError(
            f"the job has no route `{unknown[0]}`", hint=f"its routes: {', '.join(names[:20])}"
        )
    return named


def run_routes(  # noqa: PLR0913 - what tests change of a run
    job: CompiledJob,
    runner: TaskRunner,
    stop: StopSignal,
    observers: Observers,
    *,
    bounded: bool = False,
    extra: RunExtra = NO_EXTRA,
    observe: Observer = ignore_step,
) -> None:
    """Run a job's routes on a runner that the caller owns.

    Raises:
        SluicewayError: No route is left; the worst reason. Or a run with an end has read nothing,
            because its pattern is a shell pattern.
    """
    log, progress = observers.log, observers.progress
    observe_and_reach = reaching(observe, log)
    sources: dict[SourceAccess, SourceClient] = {}
    lag_watch = LagWatch(observers.board, log, open_source)

    def open_session(config: RouteConfig) -> RouteSession:
        source, sink = sources[config.source], open_sink(config)
        replaces = job.takeover.get(config.route)
        parts = RouteParts(
            source,
            sink,
            log,
            observe_and_reach,
            progress,
            replaces,
            background=extra.background,
            work=runner.work(),
            sql=None if config.sql is None or config.units is not None else runner.sql(),
            upstream=None if config.followed is None else sources[config.followed.source],
            slots=runner.slots,
            unit_sql=None if config.units is None else runner.unit_sql(),
        )
        return RouteSession(config, parts)

    try:
        for config in _all_routes(job):
            if config.source not in sources:
                sources[config.source] = open_source(config)
        discovery = Discovery(job, sources, log)
        rates = RateLimit(job.max_rate_per_s)
        parts = LoopParts(
            sources,
            runner,
            stop,
            log,
            discovery,
            open_session,
            progress,
            observers.board,
            rates,
            standby=extra.standby or (_has_rooms(job) and not bounded),
            slot_target=extra.slot_target,
        )
        lag_watch.start()
        JobLoop(job.routes, parts, bounded=bounded).run()
        if bounded and discovery.misread is not None and not stop.by_request():
            raise discovery.misread
    finally:
        lag_watch.close()
        for source in sources.values():
            source.close()


def _all_routes(job: CompiledJob) -> tuple[RouteConfig, ...]:
    routes = (*job.routes, *(template.route for template in job.templates))
    return (*routes, *(each.followed for each in routes if each.followed is not None))


def _has_rooms(job: CompiledJob) -> bool:
    """Whether drivers of several rooms share the job: each of them is a standby at first."""
    return any(config.rooms is not None for config in _all_routes(job))


def _start_spark(
    spec: JobSpec, log: Log, *, borrow: bool, starting: "Starting | None" = None
) -> tuple[TaskRunner, Path | None]:
    # Imported here: Spark costs a second to import, and tools never need it.
    from sluiceway.driver.spark.early_start import SparkStart  # noqa: PLC0415
    from sluiceway.driver.spark.elastic_slots import ElasticSlots  # noqa: PLC0415
    from sluiceway.driver.spark.session import running_session  # noqa: PLC0415
    from sluiceway.driver.spark.spark_runner import SparkRunner  # noqa: PLC0415

    name = f"sluiceway-{spec.name}"
    sql_slots = int(any(route.transform is not None for route in spec.routes))
    running = running_session() if borrow else None
    if running is not None:
        runner = SparkRunner(running.sparkContext, log, owned=False, name=name, sql_slots=sql_slots)
        log.info(
            "spark_borrowed", master=running.sparkContext.master, ui=runner.ui_address() or "off"
        )
        return runner, None
    start = SparkStart.of(name, spec)
    java = start.java
    if java.passed_over:
        log.warning("java_home_not_used", problem=java.passed_over, used=str(java))
    log.info("spark_starting", master=spec.run.master)
    context, log_path = start.context() if starting is None else starting.result()
    bounds = slot_bounds(spec)
    elastic = None if bounds is None else ElasticSlots(context, bounds, log)
    runner = SparkRunner(context, log, elastic=elastic, name=name, sql_slots=sql_slots)
    log.info(
        "spark_started",
        master=spec.run.master,
        java=str(java),
        log=str(log_path),
        ui=runner.ui_address() or "off",
    )
    return runner, log_path


def check_outcome(options: RunOptions, board: StatusBoard, stop: StopSignal) -> None:
    """Raise the error that `outcome_problem` returns, if any.

    Raises:
        SluicewayError: The run has not done what it was started for.
    """
    problem = outcome_problem(options, board, stop)
    if problem is not None:
        raise problem


def outcome_problem(
    options: RunOptions, board: StatusBoard, stop: StopSignal
) -> SluicewayError | None:
    """Why a run did not end well; None when it did, or was stopped on request.

    Called once, after the run. A scheduler goes by it. A run that never reached its broker, or
    wrote none of the rows that it read, must not look like one without work.

    Args:
        options: Options of the run; one without a limit ends by request only.
        board: The board after the run.
        stop: Stop signal of the run.
    """
    if stop.by_request() or not (options.until_caught_up or options.for_s is not None):
        return None
    if halted := board.halted():
        # The other routes went on, and each has its own line in the log.
        route, worst = max(halted, key=lambda each: each[1].exit_code)
        return _ended(worst, f"route {route} has halted", worst.hint)
    for status, error, was_reached in board.unfinished():
        # For a run with a time limit, an outage at its end is no failure.
        waits = options.until_caught_up and status.state is RouteState.WAITING
        if error is not None and (waits or not was_reached):
            hint = error.hint or "nothing is lost; start it again when that is mended"
            return _ended(error, f"route {status.route} still waits", hint)
    dirty = next((each for each in board.summary().routes if _is_all_dirty(each)), None)
    return None if dirty is None else _all_dirty(dirty)


def _ended(error: SluicewayError, how: str, hint: str) -> SluicewayError:
    told = f"the run is over, and {how}: {error.message}"
    return type(error)(told, where=error.where, hint=hint).with_report(
        error.evidence, error.commands
    )


def _is_all_dirty(route: RouteSummary) -> bool:
    return 0 < route.rows_read == route.rows_dirty


def _all_dirty(route: RouteSummary) -> AllRowsDirtyError:
    error = AllRowsDirtyError(
        f"all {route.rows_dirty:,} rows that this run has read are dirty: none is in the table",
        where=route.table,
        hint="they are kept whole. Correct the job file, or the producer, then have them read "
        f"again with `sluiceway dirty replay JOB --route {route.route}`",
    )
    name = route.route
    return error.with_report(
        {}, (f"sluiceway dirty list JOB --route {name}", f"sluiceway dirty show JOB --route {name}")
    )
