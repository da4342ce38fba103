"""What an epoch costs the driver, by the number of mostly idle routes of its job.

Runs the real `JobLoop` with its sessions and ledgers (local files) on a simulated source, table
and runner. The cost of an epoch is the time from the answers of its tasks to the tasks of the
next one: finish, look, plan, spread. One route in a hundred has new rows in each epoch, and a
real file for them. Left out, because they are simulated: requests to brokers and the metastore,
starting tasks.

`python -m bench.driver_cost [--routes 1,80,1000] [--epochs 15]` tells what it measures on
standard error and ends with one JSON line. `--profile` shows where the main thread's time goes.
"""

import argparse
import cProfile
import json
import math
import os
import pstats
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

from sluiceway.driver.discovery import Discovery
from sluiceway.driver.loop import JobLoop, LoopParts
from sluiceway.driver.spark.spark_task import packed
from sluiceway.driver.stop import StopSignal
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.config import CompiledJob, RouteConfig
from sluiceway.jobfile.loader import parse_job
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.records import NO_ROWS, RowCounts
from sluiceway.observe.log import stderr_log
from sluiceway.observe.progress import Progress
from sluiceway.observe.steps import ignore_step
from sluiceway.route.route_context import RouteParts
from sluiceway.route.route_session import RouteSession
from sluiceway.schedule.runner import Bundle, TaskRunner
from sluiceway.sinks.contract import (
    DesiredPartition,
    ParkedPartition,
    TableIdentity,
    TableSink,
    TableState,
)
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    SourceClient,
    SourceIdentity,
    SourcePartition,
)
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt, decode, encode
from sluiceway.worker.plan import SplitResult, TaskPlan, TaskResult

LOG_PARTITIONS = 3
SLOTS = 2
TASK_S = 0.5
WARM_UP = 3
ACTIVE_SHARE = 100
ROWS_OF_ACTIVE = 30
# Of the growth's exponent: what a route costs may differ by a quarter over ten times the routes.
NOISE = 0.1
PROFILE_LINES = 30
NO_SUM = "0" * 32


class MemorySource(SourceClient):
    """Topics of a few partitions whose ends a test moves."""

    def __init__(self, topics: Sequence[str], log_partitions: int = LOG_PARTITIONS) -> None:
        self._topics = tuple(topics)
        self._log_partitions = log_partitions
        self.ends: dict[SourcePartition, int] = {}

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        """See `SourceClient.discover`."""
        return tuple(
            DiscoveredPartition(
                SourcePartition(topic, number), SourceIdentity("cluster", f"id-{topic}"), 0
            )
            for topic in topics
            for number in range(self._log_partitions)
        )

    def list_topics(self) -> tuple[str, ...]:
        """See `SourceClient.list_topics`."""
        return self._topics

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        """See `SourceClient.bounds`."""
        ends = self.ends
        return {one: LogBounds(0, ends.get(one, 0), ends.get(one, 0)) for one in partitions}

    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        """See `SourceClient.offsets_at`."""
        del timestamp_ms
        return {one: self.ends.get(one, 0) for one in partitions}

    def committed(
        self, group: str, partitions: Sequence[SourcePartition]
    ) -> dict[SourcePartition, int]:
        """See `SourceClient.committed`."""
        del group, partitions
        return {}

    def report(self, group: str, ends: Mapping[SourcePartition, int]) -> None:
        """See `SourceClient.report`."""

    def close(self) -> None:
        """See `SourceClient.close`."""


@dataclass(slots=True)
class CatalogCalls:
    """How often all sinks were asked; as long as a metastore takes to answer."""

    answer_s: float
    applied: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def one(self) -> None:
        """A call that looks at the table."""
        with self.lock:
            self.applied += 1
        time.sleep(self.answer_s)


class MemorySink(TableSink):
    """A table that is always as it should be."""

    def __init__(self, config: RouteConfig, root: Path, calls: CatalogCalls) -> None:
        self._config = config
        self._location = str(root / config.table.table)
        # The property that names the ledger, for another call with the same folder.
        self._mark = root / f"{config.table.table}.ledger"
        self._calls = calls

    def open(self) -> TableState:
        """See `TableSink.open`."""
        hive = self._config.table
        assert hive.schema is not None  # noqa: S101 - the job file lists the columns
        return TableState(
            TableIdentity(hive.metastore, hive.database, hive.table, 1, self._location),
            hive.schema,
            tuple(column.name for column in hive.partition_columns),
            self._mark.read_text() if self._mark.exists() else None,
        )

    def mark_ledger(self, state: TableState, ledger: str) -> None:
        """See `TableSink.mark_ledger`."""
        del state
        self._mark.write_text(ledger)

    def apply(self, partitions: Sequence[DesiredPartition]) -> tuple[ParkedPartition, ...]:
        """See `TableSink.apply`."""
        del partitions
        self._calls.one()
        return ()

    def close(self) -> None:
        """See `TableSink.close`."""


class InstantRunner(TaskRunner):
    """Answers for a few routes, after a while in which the driver is left alone.

    Args:
        source: Whose ends it moves.
        epochs: That are measured.
        stop: Asked for after the last one.
        slots: Tasks at once.
        shipped: Whether plans and answers are made bytes, as on their way to and from executors.

    Attributes:
        gaps_s: Time from the answers of each epoch to the tasks of the next one.
        planned: Routes of each epoch.
        cpu_s: Of the process so far, at the end of each epoch.
        background_s: CPU that the driver's other threads used while the tasks ran.
        simulated_s: CPU that making up the answers took, by epoch.
    """

    active_share = ACTIVE_SHARE

    def __init__(
        self,
        source: MemorySource,
        epochs: int,
        stop: StopSignal,
        *,
        slots: int = SLOTS,
        shipped: bool = False,
    ) -> None:
        self._source = source
        self._epochs = epochs
        self._stop = stop
        self._slots = slots
        self._shipped = shipped
        self.storage = LocalStorage()
        self._turns: list[tuple[float, float]] = []
        self._own_s: list[tuple[float, float]] = []
        self._next = 0
        self.planned: list[int] = []
        self.cpu_s: list[float] = []
        self.background_s: list[float] = []
        self.simulated_s: list[float] = []

    @property
    def gaps_s(self) -> list[float]:
        """Driver time between the epochs, without those that start the routes."""
        gaps = [after[0] - before[1] for before, after in pairwise(self._turns)]
        return gaps[WARM_UP:]

    @property
    def loop_cpu_s(self) -> list[float]:
        """The same of the loop's own thread, as CPU: a busy machine does not change it."""
        return [after[0] - before[1] for before, after in pairwise(self._own_s)][WARM_UP:]

    def first_with(self, routes: int) -> float:
        """When the first epoch with so many routes began; the last one's begin if none had."""
        full = [number for number, count in enumerate(self.planned) if count >= routes]
        return self._turns[full[0] if full else -1][0]

    def slots(self) -> int:
        """See `TaskRunner.slots`."""
        return self._slots

    def run(
        self, bundles: Sequence[Bundle], *, wait: Callable[[], None], give_up_after_s: float
    ) -> list[TaskResult]:
        """See `TaskRunner.run`."""
        began, own_s = time.monotonic(), time.thread_time()
        del give_up_after_s
        if self._shipped:
            packed(bundles)
        simulating_s = time.thread_time()
        plans: dict[str, list[TaskPlan]] = {}
        for bundle in bundles:
            for plan in bundle:
                plans.setdefault(plan.route.ledger, []).append(plan)
        self.planned.append(len(plans))
        ledgers = list(plans)
        active = max(1, len(ledgers) // self.active_share)
        chosen = [ledgers[(self._next + number) % len(ledgers)] for number in range(active)]
        self._next += active
        answers = [self._answer(plan) for ledger in chosen for plan in plans[ledger]]
        sent = [encode(answer) for answer in answers] if self._shipped else []
        self.simulated_s.append(time.thread_time() - simulating_s)
        before_s = time.process_time()
        time.sleep(TASK_S)
        self.background_s.append(time.process_time() - before_s)
        wait()
        if len(self._turns) == self._epochs + WARM_UP:
            self._stop.ask()
        self._turns.append((began, time.monotonic()))
        self._own_s.append((own_s, time.thread_time()))
        self.cpu_s.append(time.process_time())
        return [decode(each, TaskResult) for each in sent] if self._shipped else answers

    def close(self) -> None:
        """See `TaskRunner.close`."""

    def _answer(self, plan: TaskPlan) -> TaskResult:
        route = plan.route
        attempt = f"{route.term}-{plan.epoch}-{os.urandom(16).hex()}"
        name = f"{route.layout.route}-{attempt}-{plan.task}.parquet"
        self.storage.make_folders(route.layout.attempt(attempt))
        rows = ROWS_OF_ACTIVE * len(plan.splits)
        file = self.staged_file(plan, attempt, name, rows)
        counts = RowCounts(BigInt(rows), BigInt(rows), *(BigInt(0),) * 4)
        return TaskResult(
            ledger=route.ledger,
            term=route.term,
            epoch=plan.epoch,
            task=plan.task,
            attempt=attempt,
            splits=tuple(self._moved(split.partition, split.start_offset) for split in plan.splits),
            files=(file,),
            dirty_files=(),
            counts=NO_ROWS.plus(counts),
            dirty_reasons={},
            timings_ms={},
            consumer_reused=True,
            failure=None,
        )

    def staged_file(self, plan: TaskPlan, attempt: str, name: str, rows: int) -> FileRecord:
        """The file of a task, which its attempt's folder has then."""
        writer = self.storage.create_staged(f"{plan.route.layout.attempt(attempt)}/{name}")
        writer.handle().write(b"rows")
        seal = writer.seal()
        return FileRecord(
            staged=f"{attempt}/{name}",
            final=f"dt=20261120/hr=08/{name}",
            values=("20261120", "08"),
            rows=BigInt(rows),
            size_bytes=BigInt(seal.size_bytes),
            crc32c=seal.crc32c,
            bounds={},
        )

    def _moved(self, partition: SourcePartition, start: int) -> SplitResult:
        end = start + ROWS_OF_ACTIVE
        self._source.ends[partition] = end
        return SplitResult(
            topic=partition.topic,
            partition=partition.partition,
            start=BigInt(start),
            end=BigInt(end),
            rows=BigInt(ROWS_OF_ACTIVE),
            gaps=BigInt(0),
            end_epoch=0,
            max_event_time_us=None,
            offset_sum=NO_SUM,
        )


@dataclass(frozen=True, slots=True)
class Cost:
    """What was measured at one number of routes.

    Attributes:
        driver_ms: Median over the epochs.
        quiet_ms: Lower quartile: what other programs of the machine disturb least.
        slowest_ms: The slowest of them.
        loop_cpu_ms: CPU of the loop's own thread in that time; median.
        cpu_ms: Of the whole process from epoch to epoch, with leases and effects; median.
        background: Share of a CPU that leases and effects use while the tasks run; median.
        start_s: From the loop's start to the tasks of the first epoch with all routes.
        load_s: From the text of the job file to its routes.
        absent: Routes that were missing from a measured epoch, at most.
        catalog_calls: From the start to the end.
        threads: The most there were at once.
        driver_cpu_ms: As `cpu_ms`, without what made up the tasks' answers.
    """

    routes: int
    driver_ms: float
    quiet_ms: float
    slowest_ms: float
    loop_cpu_ms: float
    cpu_ms: float
    background: float
    start_s: float
    load_s: float
    absent: int
    catalog_calls: int
    threads: int
    driver_cpu_ms: float


def job_text(routes: int) -> bytes:
    """A job file with so many routes; JSON is YAML."""
    columns = [{"name": name, "type": "bigint"} for name in ("id", "ts")]
    job = {
        "version": 1,
        "name": "driver-cost",
        "connections": {
            "broker": {"kafka": {"bootstrap_servers": "simulated:1"}},
            "hms": {"metastore": {"uri": "thrift://simulated:1"}},
        },
        "source": {"connection": "broker", "start": "earliest"},
        "format": {"json": {"unknown_fields": "ignore"}},
        "table": {
            "hive": {"connection": "hms"},
            "columns": columns,
            "partition_by": [
                {"name": "dt", "event_time": "yyyyMMdd"},
                {"name": "hr", "event_time": "HH"},
            ],
        },
        "event_time": {"field": "ts", "unit": "ms"},
        "routes": [
            {"topics": [f"topic_{number}"], "table": f"ods.t_{number}"} for number in range(routes)
        ],
    }
    return json.dumps(job).encode()


def measure(  # noqa: PLR0913 - what benchmarks change of a run
    routes: int,
    epochs: int,
    folder: Path,
    answer_s: float,
    source: MemorySource | None = None,
    *,
    slots: int = SLOTS,
    shipped: bool = False,
) -> Cost:
    """Run a job of so many routes for so many epochs; its ledgers are in the folder.

    Args:
        routes: Each with a topic of its own.
        epochs: That are measured.
        folder: Ledgers of an earlier call go on.
        answer_s: How long a catalog call takes.
        source: That of the earlier call; a new one when left out.
        slots: Of the simulated cluster.
        shipped: See `InstantRunner`.
    """
    began = time.monotonic()
    job = compile_routes(parse_job(job_text(routes), folder / "job.yaml", {}).spec)
    load_s = time.monotonic() - began
    source = source or MemorySource([topic for one in job.routes for topic in one.topics])
    stop, calls = StopSignal(), CatalogCalls(answer_s)
    runner = InstantRunner(source, epochs, stop, slots=slots, shipped=shipped)
    threads = 0

    def watch() -> None:
        nonlocal threads
        while not stop.requested():
            threads = max(threads, threading.active_count())
            time.sleep(TASK_S)

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.monotonic()
    try:
        run_loop(job, runner, source, stop, lambda config: MemorySink(config, folder, calls))
    finally:
        stop.ask()
        watcher.join()
    cpu = [after - before for before, after in pairwise(runner.cpu_s)]
    driver = [of - made for of, made in zip(cpu, runner.simulated_s[1:], strict=True)]
    return Cost(
        routes=routes,
        driver_ms=round(statistics.median(runner.gaps_s) * 1000, 2),
        quiet_ms=round(statistics.quantiles(runner.gaps_s, n=4)[0] * 1000, 2),
        slowest_ms=round(max(runner.gaps_s) * 1000, 2),
        loop_cpu_ms=round(statistics.median(runner.loop_cpu_s) * 1000, 2),
        cpu_ms=round(statistics.median(cpu[WARM_UP:]) * 1000, 2),
        background=round(statistics.median(runner.background_s[WARM_UP:]) / TASK_S, 3),
        start_s=round(runner.first_with(routes) - began, 2),
        load_s=round(load_s, 2),
        absent=routes - min(runner.planned[WARM_UP:]),
        catalog_calls=calls.applied,
        threads=threads,
        driver_cpu_ms=round(statistics.median(driver[WARM_UP:]) * 1000, 2),
    )


def run_loop(
    job: CompiledJob,
    runner: InstantRunner,
    source: MemorySource,
    stop: StopSignal,
    open_sink: Callable[[RouteConfig], TableSink],
) -> None:
    """Run a job's real loop and sessions until it is told to stop."""
    with Path(os.devnull).open("w") as stream:
        log = stderr_log(stream=stream)
        progress = Progress()

        def open_session(config: RouteConfig) -> RouteSession:
            parts = RouteParts(source, open_sink(config), log, ignore_step, progress)
            return RouteSession(config, parts)

        sources: dict = {job.routes[0].source: source}  # type: ignore[type-arg]
        discovery = Discovery(job, sources, log)
        parts = LoopParts(sources, runner, stop, log, discovery, open_session, progress)
        JobLoop(job.routes, parts).run()


def closing_line(costs: Sequence[Cost]) -> str:
    """The figures as one line of JSON."""
    return json.dumps(
        {
            "routes": [cost.routes for cost in costs],
            "driver_ms": [cost.driver_ms for cost in costs],
            "at_most_linear": is_linear(costs),
            f"idle_{costs[-1].routes}_s": round(costs[-1].driver_ms / 1000, 3),
            "growth": [round(exponent(*pair), 2) for pair in pairwise(costs)],
            "runs": [asdict(cost) for cost in costs],
        }
    )


def is_linear(costs: Sequence[Cost]) -> bool:
    """Whether the cost grows no faster than the number of routes, from each to the next."""
    return all(exponent(*pair) <= 1 + NOISE for pair in pairwise(costs))


def exponent(fewer: Cost, more: Cost) -> float:
    """Of the power of the number of routes with which the cost grows: 1 is linear."""
    return math.log(more.quiet_ms / fewer.quiet_ms) / math.log(more.routes / fewer.routes)


def main() -> int:
    """Measure each number of routes, print the closing line."""
    parser = argparse.ArgumentParser(prog="python -m bench.driver_cost")
    parser.add_argument("--routes", default="1,80,1000", help="numbers of routes, rising")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--catalog-ms", type=float, default=3.0, help="of one catalog call")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    costs = []
    for routes in map(int, given.routes.split(",")):
        with tempfile.TemporaryDirectory(prefix="driver-cost-") as folder:
            profile = cProfile.Profile()
            if given.profile:
                profile.enable()
            cost = measure(routes, given.epochs, Path(folder), given.catalog_ms / 1000)
            profile.disable()
        print(json.dumps(asdict(cost)), file=sys.stderr, flush=True)
        if given.profile:
            pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(
                PROFILE_LINES
            )
        costs.append(cost)
    print(closing_line(costs))
    return 0 if is_linear(costs) else 1


if __name__ == "__main__":
    sys.exit(main())
