"""Runs a job: one process, one SparkSession, its routes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sluiceway.errors import WrongUsageError
from sluiceway.host.process_cpu import cpu_below
from sluiceway.job.compile import compile_routes, revealed
from sluiceway.job.config import CompiledJob, RouteConfig
from sluiceway.job.discovery import Discovery
from sluiceway.job.loop import JobLoop, LoopParts
from sluiceway.job.offset_reports import OffsetReports
from sluiceway.job.rate_limit import RateLimit
from sluiceway.job.route_parts import RouteParts
from sluiceway.job.route_session import RouteSession
from sluiceway.job.runner import TaskRunner
from sluiceway.job.status import RunSummary
from sluiceway.job.status_board import StatusBoard
from sluiceway.job.stop import StopSignal
from sluiceway.observe.failpoints import VARIABLE, Role, arm, reach
from sluiceway.observe.log import Log
from sluiceway.observe.profile import ProcessCpu
from sluiceway.observe.progress import Progress
from sluiceway.observe.steps import Observer, Step, ignore_step
from sluiceway.sinks.contract import TableSink
from sluiceway.sinks.registry import open_sink as open_catalog_sink
from sluiceway.sources.contract import SourceClient
from sluiceway.sources.registry import SourceAccess, open_client
from sluiceway.spec.models import JobSpec

_REQUEST_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How long a run goes on, and what it takes of its process.

    Attributes:
        until_caught_up: End at the log ends read at the start.
        for_s: End gracefully after this time; None goes on.
        takeover: Route -> the term that may be replaced without waiting for its lease; the name
            "" stands for the only route.
        borrow_session: Use the SparkSession that the process has, if any, and leave it running.
        profile: Tell at the end where the time went.
    """

    until_caught_up: bool = False
    for_s: float | None = None
    borrow_session: bool = False
    profile: bool = False
    takeover: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Eyes:
    """Who looks on while a job runs.

    Attributes:
        board: Shows the routes to other threads.
    """

    log: Log
    progress: Progress
    board: StatusBoard = field(default_factory=StatusBoard)


def run_job(spec: JobSpec, options: RunOptions, eyes: Eyes, stop: StopSignal) -> RunSummary:
    """Run a job in the foreground until it stops or halts.

    Args:
        spec: The job.
        options: How long, and what of the process.
        eyes: Who looks on.
        stop: Asked whether to go on; it is the caller who makes it listen to signals.

    Returns:
        What was done for each route; some may have halted.

    Raises:
        SluicewayError: Why it could not go on; everything committed is safe.
    """
    job = compile_routes(spec)
    job = replace(job, takeover=_of_routes(job, options.takeover))
    # What a source's client refuses is told now, not after the seconds that Spark takes.
    for access in dict.fromkeys(config.source for config in _all_routes(job)):
        open_client(access, _REQUEST_TIMEOUT_S).close()
    if stop.asked():
        return eyes.board.summary()
    eyes.progress.waiting("starting Spark")
    runner, spark_log = _start_spark(spec, eyes.log, borrow=options.borrow_session)
    stop.listen_again()
    if options.for_s is not None:
        # Counted from here: a short time must not be over before anything was read.
        stop.stop_after(options.for_s)
    try:
        run_routes(job, runner, stop, eyes, bounded=options.until_caught_up)
    finally:
        eyes.progress.clear()
        if options.profile:
            # While the workers live: what they have used is known to the system until they end.
            _tell_profile(eyes)
        runner.close()
    summary = eyes.board.summary()
    if spark_log is not None and all(route.error is None for route in summary.routes):
        # Of a run that ended well nobody asks; every other one leaves it to be read.
        spark_log.unlink(missing_ok=True)
    return summary


def _tell_profile(eyes: Eyes) -> None:
    found = cpu_below()
    cpu = None
    if found is not None:
        driver, jvm = found.pop("", 0.0), found.pop("java", 0.0)
        cpu = ProcessCpu(driver, jvm, workers=sum(found.values()))
    profile = eyes.progress.profile
    eyes.log.info("profile", **profile.fields(cpu))
    eyes.progress.tell(profile.table(cpu))


def _of_routes(job: CompiledJob, takeover: Mapping[str, int]) -> dict[str, int]:
    """By the names of routes, whose terms count for themselves.

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


def run_routes(
    job: CompiledJob,
    runner: TaskRunner,
    stop: StopSignal,
    eyes: Eyes,
    *,
    bounded: bool = False,
    observe: Observer = ignore_step,
) -> None:
    """Run a job's routes on a runner that its caller owns.

    Raises:
        SluicewayError: No route is left; the worst reason.
    """
    log, progress = eyes.log, eyes.progress
    observe_and_reach = reaching(observe, log)
    sources: dict[SourceAccess, SourceClient] = {}
    reports: dict[SourceAccess, OffsetReports] = {}

    def open_session(config: RouteConfig) -> RouteSession:
        source, sink = sources[config.source], open_sink(config)
        replaces = job.takeover.get(config.route)
        told = reports[config.source]
        parts = RouteParts(source, told, sink, log, observe_and_reach, progress, replaces)
        return RouteSession(config, parts)

    try:
        for config in _all_routes(job):
            if config.source not in sources:
                source = sources[config.source] = open_source(config)
                reports[config.source] = OffsetReports(source, log)
        discovery = Discovery(job, sources, log)
        rates = RateLimit(job.max_rate_per_s)
        parts = LoopParts(
            sources, runner, stop, log, discovery, open_session, progress, eyes.board, rates
        )
        JobLoop(job.routes, parts, bounded=bounded).run()
    finally:
        for each in reports.values():
            each.close()
        for source in sources.values():
            source.close()


def reaching(observe: Observer, log: Log) -> Observer:
    """An observer of a driver's steps that reaches their failpoints too.

    Called once in each process that is a driver, before its first step.
    """
    armed = arm(Role.DRIVER)
    if armed is not None:
        log.warning("failpoint_armed", variable=VARIABLE, point=armed.point, action=armed.action)

    def observe_and_reach(step: Step) -> None:
        observe(step)
        reach(f"step.{step}")

    return observe_and_reach


def open_source(config: RouteConfig) -> SourceClient:
    """The driver's view of the route's source."""
    return open_client(config.source, _REQUEST_TIMEOUT_S)


def _all_routes(job: CompiledJob) -> tuple[RouteConfig, ...]:
    return (*job.routes, *(template.route for template in job.templates))


def open_sink(config: RouteConfig) -> TableSink:
    """The driver's view of the route's table."""
    return open_catalog_sink(config.catalog, config.hive)


def _start_spark(spec: JobSpec, log: Log, *, borrow: bool) -> tuple[TaskRunner, Path | None]:
    # Imported here: Spark costs a second to import, and tools never need it.
    from sluiceway.job.session import running_session, start_session  # noqa: PLC0415
    from sluiceway.job.spark_runner import SparkRunner  # noqa: PLC0415

    running = running_session() if borrow else None
    if running is not None:
        log.info("spark_borrowed", master=running.sparkContext.master)
        return SparkRunner(running, log, owned=False), None
    conf = {key: revealed(value) for key, value in spec.run.spark_conf.items()}
    session, log_path = start_session(f"sluiceway-{spec.name}", spec.run.master, conf)
    log.info("spark_started", master=spec.run.master, log=str(log_path))
    return SparkRunner(session, log), log_path
