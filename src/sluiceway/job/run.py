"""Runs a job: one process, one SparkSession, its routes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sluiceway.job.compile import compile_routes, revealed
from sluiceway.job.config import CompiledJob, RouteConfig
from sluiceway.job.discovery import Discovery
from sluiceway.job.loop import JobLoop, LoopParts
from sluiceway.job.route_session import RouteParts, RouteSession
from sluiceway.job.runner import TaskRunner
from sluiceway.job.status import RunSummary
from sluiceway.job.status_board import StatusBoard
from sluiceway.job.stop import StopSignal
from sluiceway.observe.log import Log
from sluiceway.observe.progress import Progress
from sluiceway.observe.steps import Observer, ignore_step
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
        signals: SIGINT and SIGTERM end the run gracefully; only ever in the main thread.
        borrow_session: Use the SparkSession that the process has, if any, and leave it running.
    """

    until_caught_up: bool = False
    for_s: float | None = None
    signals: bool = True
    borrow_session: bool = False


@dataclass(frozen=True, slots=True)
class Eyes:
    """Who looks on while a job runs.

    Attributes:
        board: Shows the routes to other threads.
    """

    log: Log
    progress: Progress
    board: StatusBoard = field(default_factory=StatusBoard)


def run_job(spec: JobSpec, options: RunOptions, eyes: Eyes) -> RunSummary:
    """Run a job in the foreground until it stops or halts.

    Returns:
        What was done for each route; some may have halted.

    Raises:
        SluicewayError: Why it could not go on; everything committed is safe.
    """
    job = compile_routes(spec)
    stop = StopSignal()
    with _listening(stop, wanted=options.signals):
        eyes.progress.waiting("starting Spark")
        runner = _start_spark(spec, eyes.log, borrow=options.borrow_session)
        stop.listen_again()
        if options.for_s is not None:
            # Counted from here: a short time must not be over before anything was read.
            stop.stop_after(options.for_s)
        try:
            run_routes(job, runner, stop, eyes, bounded=options.until_caught_up)
        finally:
            eyes.progress.clear()
            runner.close()
    return eyes.board.summary()


@contextmanager
def _listening(stop: StopSignal, *, wanted: bool) -> Iterator[None]:
    """Signals ask for a stop inside the block and do what they did before after it."""
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield
        return
    stop.listen()
    try:
        yield
    finally:
        stop.unlisten()


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
    sources: dict[SourceAccess, SourceClient] = {}

    def open_session(config: RouteConfig) -> RouteSession:
        source, sink = sources[config.source], open_sink(config)
        parts = RouteParts(source, sink, log, observe, progress, stop.sleep)
        return RouteSession(config, parts)

    try:
        for config in (*job.routes, *(template.route for template in job.templates)):
            if config.source not in sources:
                sources[config.source] = open_source(config)
        discovery = Discovery(job, sources, log)
        parts = LoopParts(sources, runner, stop, log, discovery, open_session, progress, eyes.board)
        JobLoop(job.routes, parts, bounded=bounded).run()
    finally:
        for source in sources.values():
            source.close()


def open_source(config: RouteConfig) -> SourceClient:
    """The driver's view of the route's source."""
    return open_client(config.source, _REQUEST_TIMEOUT_S)


def open_sink(config: RouteConfig) -> TableSink:
    """The driver's view of the route's table."""
    return open_catalog_sink(config.catalog, config.hive)


def _start_spark(spec: JobSpec, log: Log, *, borrow: bool) -> TaskRunner:
    # Imported here: Spark costs a second to import, and tools never need it.
    from sluiceway.job.session import running_session, start_session  # noqa: PLC0415
    from sluiceway.job.spark_runner import SparkRunner  # noqa: PLC0415

    running = running_session() if borrow else None
    if running is not None:
        log.info("spark_borrowed", master=running.sparkContext.master)
        return SparkRunner(running, log, owned=False)
    conf = {key: revealed(value) for key, value in spec.run.spark_conf.items()}
    session, log_path = start_session(f"sluiceway-{spec.name}", spec.run.master, conf)
    log.info("spark_started", master=spec.run.master, log=str(log_path))
    return SparkRunner(session, log)
