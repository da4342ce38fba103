"""Runs a job: one process, one SparkSession, its route."""

from dataclasses import dataclass

from sluiceway.job.compile import compile_route, revealed
from sluiceway.job.config import RouteConfig
from sluiceway.job.route import RouteDriver, RouteParts
from sluiceway.job.runner import TaskRunner
from sluiceway.job.stop import StopSignal
from sluiceway.observe.log import Log
from sluiceway.observe.progress import Progress
from sluiceway.observe.steps import Observer, ignore_step
from sluiceway.sinks.contract import TableSink
from sluiceway.sinks.hive.table import HiveTableSink
from sluiceway.sources.contract import SourceClient
from sluiceway.sources.kafka.client import KafkaSourceClient
from sluiceway.spec.models import JobSpec

_REQUEST_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How long a run goes on.

    Attributes:
        until_caught_up: End at the log ends read at the start.
        for_s: End gracefully after this time; None goes on.
    """

    until_caught_up: bool = False
    for_s: float | None = None


def run_job(spec: JobSpec, options: RunOptions, log: Log, progress: Progress) -> None:
    """Run a job in the foreground until it stops or halts. Called once per process.

    Raises:
        SluicewayError: Why it could not go on; everything committed is safe.
    """
    config = compile_route(spec)
    stop = StopSignal()
    stop.listen()
    if options.for_s is not None:
        stop.stop_after(options.for_s)
    progress.waiting("starting Spark")
    runner = _start_spark(spec, log)
    try:
        run_route(config, runner, stop, (log, progress), until_caught_up=options.until_caught_up)
    finally:
        progress.clear()
        runner.close()


def run_route(
    config: RouteConfig,
    runner: TaskRunner,
    stop: StopSignal,
    eyes: tuple[Log, Progress],
    *,
    until_caught_up: bool = False,
    observe: Observer = ignore_step,
) -> None:
    """Run one route on a runner that its caller owns."""
    log, progress = eyes
    source, sink = open_source(config), open_sink(config)
    try:
        parts = RouteParts(source, sink, runner, stop, log, observe, progress)
        RouteDriver(config, parts).run(until_caught_up=until_caught_up)
    finally:
        sink.close()
        source.close()


def open_source(config: RouteConfig) -> SourceClient:
    """The driver's view of the route's source."""
    return KafkaSourceClient(
        config.kafka.bootstrap_servers, dict(config.kafka.properties), _REQUEST_TIMEOUT_S
    )


def open_sink(config: RouteConfig) -> TableSink:
    """The driver's view of the route's table."""
    return HiveTableSink(config.hive)


def _start_spark(spec: JobSpec, log: Log) -> TaskRunner:
    # Imported here: Spark costs a second to import, and tools never need it.
    from sluiceway.job.session import start_session  # noqa: PLC0415
    from sluiceway.job.spark_runner import SparkRunner  # noqa: PLC0415

    conf = {key: revealed(value) for key, value in spec.run.spark_conf.items()}
    session, log_path = start_session(f"sluiceway-{spec.name}", spec.run.master, conf)
    log.info("spark_started", master=spec.run.master, log=str(log_path))
    return SparkRunner(session)
