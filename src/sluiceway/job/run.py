"""Runs a job: one process, one SparkSession, its route."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluiceway.job.compile import compile_route, revealed
from sluiceway.job.config import RouteConfig
from sluiceway.job.loop import JobLoop, LoopParts
from sluiceway.job.route_session import RouteParts, RouteSession
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

if TYPE_CHECKING:
    from sluiceway.worker.plan import KafkaAccess

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
        run_routes([config], runner, stop, (log, progress), bounded=options.until_caught_up)
    finally:
        progress.clear()
        runner.close()


def run_routes(
    configs: Sequence[RouteConfig],
    runner: TaskRunner,
    stop: StopSignal,
    eyes: tuple[Log, Progress],
    *,
    bounded: bool = False,
    observe: Observer = ignore_step,
) -> None:
    """Run routes on a runner that its caller owns.

    Raises:
        SluicewayError: No route is left; the worst reason.
    """
    log, progress = eyes
    sources: dict[KafkaAccess, SourceClient] = {}
    for config in configs:
        if config.kafka not in sources:
            sources[config.kafka] = open_source(config)
    sessions = [
        RouteSession(
            config,
            RouteParts(
                sources[config.kafka], open_sink(config), log, observe, progress, stop.sleep
            ),
        )
        for config in configs
    ]
    try:
        parts = LoopParts(sources, runner, stop, log, progress)
        JobLoop(sessions, parts, bounded=bounded).run()
    finally:
        for source in sources.values():
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
