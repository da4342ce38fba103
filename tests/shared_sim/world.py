"""Routes of one topic with one driver or several: the product as it is, on a real disk.

Its threads, pauses and ids are simulated, as in `sim`. A process may die, stand still or meet an
error in each call to the store: at the points that the product names for that.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from shared_sim.hive import SimHive, calls_of
from shared_sim.judge import Judge, ViolationError
from shared_sim.source import OTHER, TOPIC, SharedClient, SharedReader, Topic
from sim.process_parts import part_processes
from sim.scheduler import KilledError, Process, Scheduler, StuckError
from sim.substitutes import running
from sluiceway.catalog import metastore
from sluiceway.driver import run, status_board
from sluiceway.driver.lag_watch import LagWatch
from sluiceway.driver.run import Observers
from sluiceway.driver.stop import StopSignal
from sluiceway.errors import SluicewayError, TaskFailedError
from sluiceway.host.process import ProcessIdentity
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.config import CompiledJob, RouteConfig
from sluiceway.jobfile.loader import parse_job
from sluiceway.ledger import lease
from sluiceway.observe import failpoint_names, failpoints
from sluiceway.observe.progress import Progress
from sluiceway.rooms import adopt_table, cut_files, origin, standby
from sluiceway.route import clients, rooms, takeover
from sluiceway.schedule import pieces
from sluiceway.schedule.runner import Bundle, TaskRunner, finished_results
from sluiceway.sources import topic_sample
from sluiceway.sources.contract import SourceClient, SourcePartition, Split, SplitReader
from sluiceway.sources.missing_rows import MissingRowsReader
from sluiceway.sources.origins import OriginReader
from sluiceway.sources.registry import SourceAccess
from sluiceway.worker import bundle
from sluiceway.worker.bundle import run_bundle
from sluiceway.worker.plan import TaskResult

if TYPE_CHECKING:
    from sluiceway.observe.log import Log

HOSTS = ("a", "b")
KINDS = ("created", "paid", "sent-back", "Paid", "gone.away", "late")
_MOST_STEPS = 400_000
_MOST_DRIVERS = 2
_TIMES = 12
_HEAD = """\
version: 1
name: shared
connections:
  main: {kafka: {bootstrap_servers: "127.0.0.1:1"}}
  lake: CATALOG
format: {json: {}}
run: {interval: INTERVAL, discover_interval: 1s, master: "local[2]"}
"""
_PLAIN = """\
source: {connection: main, start: earliest}
routes:
- topics: [a_other, events]
  table:
    hive: {connection: lake, name: ods.raw}
    columns: [{name: id, type: bigint, required: true}]
    partition_by: []
    meta: [topic, partition, offset]
- topics: [events]
  where: "kind = 'paid'"
  table:
    hive: {connection: lake, name: ods.of_paid}
    columns: [{name: id, type: bigint, required: true}, {name: kind, type: string}]
    partition_by: []
    meta: [topic, partition, offset]
- topics: [events]
  where: "even"
  table:
    hive: {connection: lake, name: ods.of_even}
    columns: [{name: id, type: bigint, required: true}, {name: even, type: boolean}]
    partition_by: []
    meta: [topic, partition, offset]
"""
_VALUES = """\
source: {connection: main, topics: [events], start: earliest}
route_by: $.kind
max_tables: MOST
table:
  hive: {connection: lake, name: "dwd.{value}"}
  columns: [{name: id, type: bigint, required: true}]
  partition_by: []
  meta: [topic, partition, offset]
"""
_EXPECTED = ("an earlier attempt at task", "rows name more tables than")
_worlds: list["World"] = []


class SharedLog:
    """Takes log lines into the trace, and what was committed to the judge."""

    def __init__(self, world: "World", life: "Life") -> None:
        self._world = world
        self._process = life.process
        self._halts, self._waits = life.halts, life.waits

    def bind(self, **fields: object) -> "SharedLog":
        del fields
        return self

    def debug(self, event: str, **fields: object) -> None:
        self._world.note(f"{self._process.name}: [{event}] {fields}")
        self._world.seen[event] += 1
        what = str(fields.get("error"))
        if event == "route_waits":
            self._waits.append(what)
        # What the world does to tasks has codes of its own: this one is the product's own doing.
        is_own = (event, fields.get("code")) == ("task_failed", TaskFailedError.code)
        if is_own and not any(what.startswith(each) for each in _EXPECTED):
            self._world.wrong.append(f"{self._process.name}: {event} {what}")

    warning = info = debug

    def error(self, event: str, **fields: object) -> None:
        self.debug(event, **fields)
        if event in ("route_halted", "route_refused"):
            self._halts.append(f"{fields.get('code')} {fields.get('error')}")


@dataclass(eq=False, slots=True)
class Life:
    """A driver from its start to its end."""

    process: Process
    stop: StopSignal
    runner: "SharedRunner"
    halts: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    error: str = ""


class SharedRunner(TaskRunner):
    """Runs each bundle in a process of its own; it may die, and is run again."""

    def __init__(self, world: "World", slots: int, host: str) -> None:
        self._world = world
        self._host = host
        self._slots = slots
        self.processes: list[Process] = []

    def slots(self) -> int:
        return self._slots

    def run(
        self, bundles: Sequence[Bundle], *, wait: Callable[[], None], give_up_after_s: float
    ) -> list[TaskResult]:
        scheduler = self._world.scheduler
        self._world.count_shared(bundles)
        answers: dict[int, tuple[TaskResult, ...]] = {}
        running = [self._launch(n, each, 0, answers) for n, each in enumerate(bundles)]
        give_up_at = scheduler.now + give_up_after_s
        while len(answers) < len(bundles):
            scheduler.wait(None, 0.05 + scheduler.rng.random() * 0.1)
            wait()
            if scheduler.now >= give_up_at:
                return self._salvage(bundles, running)
            for number, each in enumerate(bundles):
                if number not in answers and running[number].dead:
                    running[number] = self._launch(number, each, 1, answers)
        return [result for number in sorted(answers) for result in answers[number]]

    def _launch(
        self, number: int, plans: Bundle, attempt: int, answers: dict[int, tuple[TaskResult, ...]]
    ) -> Process:
        world = self._world
        process = world.scheduler.process(f"task {number}", self._host)
        if attempt == 0 and not world.topic_here().well and world.rng.random() < world.task_dies:
            process.crash_in = world.rng.randrange(150)

        def work() -> None:
            answers[number] = run_bundle(plans, attempt=attempt)

        world.scheduler.spawn(process, work, process.name)
        self.processes.append(process)
        return process

    def _salvage(self, bundles: Sequence[Bundle], running: Sequence[Process]) -> list[TaskResult]:
        for process in running:
            if self._world.rng.random() < 0.5:
                self._world.scheduler.kill_soon(process)
        results = finished_results(bundles)
        if not results:
            raise TaskFailedError("no task finished")
        return results

    def close(self) -> None:
        return


class Points:
    """Takes the place of an armed failpoint: each point is a turn, a death or an error."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def visit(self, point: str, place: str) -> None:
        world = self._world
        if world.scheduler.current is None:
            return
        world.scheduler.call()
        side = failpoint_names.POINTS.get(point)
        if side is not failpoint_names.FailpointSide.POSIX or "unlink" in point:
            return
        if world.is_sick(place):
            world.seen["sick"] += 1
            raise OSError(world.sick_errno, "it is sick", place)


class World:
    """Everything of one seed.

    Args:
        seed: Of all choices.
        folder: Empty; the tables' place.
        traced: Keep what happens.
    """

    def __init__(self, seed: int, folder: Path, *, traced: bool = False) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self.scheduler = Scheduler(self.rng)
        self.folder = folder
        self.trace: list[str] | None = [] if traced else None
        self.seen: Counter[str] = Counter()
        logs = [SourcePartition(TOPIC, n) for n in range(self.rng.randint(1, 2))]
        self.topic = Topic({one: [] for one in (SourcePartition(OTHER, 0), *logs)})
        self.wrong: list[str] = []
        self.sick: set[str] = set()
        self.sick_errno = 5
        self.task_dies = self.rng.choice((0.0, 0.0, 0.1))
        self._slots = self.rng.randint(1, 3)
        self._most = self.rng.choice((3, 10))
        self._kinds = self.rng.randint(1, 4)
        self._written = 0
        lake = folder / "lake"
        self.hive = SimHive(lake)
        in_folder = f'{{folder: {{path: "{lake}"}}}}'
        self._catalog = in_folder if seed % 2 else '{metastore: {uri: "thrift://127.0.0.1:1"}}'
        self._interval = self.rng.choice(("0.5s", "2s"))
        self._plain, (self._rest,) = self._compiled(_PLAIN), self._compiled(_VALUES)
        self.judge = Judge(lake, self.topic, self._most)
        self.lives: list[Life] = []

    def _compiled(self, text: str) -> tuple[RouteConfig, ...]:
        made = (_HEAD + text).replace("CATALOG", self._catalog)
        made = made.replace("INTERVAL", self._interval).replace("MOST", str(self._most))
        return compile_routes(parse_job(made.encode(), Path("job.yaml"), {}).spec).routes

    def note(self, text: str) -> None:
        """A line of the trace."""
        if self.trace is not None:
            self.trace.append(f"{self.scheduler.steps:6d} {self.scheduler.now:8.2f}s  {text}")

    def is_sick(self, place: str) -> bool:
        """Whether the store fails at a path, for the acting process."""
        return any(place.startswith(folder) for folder in self.sick)

    def topic_here(self) -> Topic:
        """The topics, as the acting process sees them."""
        return self.topic

    def client(self) -> SourceClient:
        """A driver's view of them."""
        return SharedClient(self)

    def reader(self, splits: list[Split]) -> SplitReader:
        """A task's reader."""
        return SharedReader(self, splits)

    def routes_of(self, room: str, *, bounded: bool) -> list[RouteConfig]:
        """Routes of a driver: all, or in times of trouble perhaps without some."""
        del room, bounded
        routes = [*self._plain, self._rest]
        if not self.topic.well and self.rng.random() < 0.4:
            # Somebody has taken routes out of the file: they come again later.
            routes = [each for each in routes if self.rng.random() < 0.6] or routes
        return routes

    def count_shared(self, bundles: Sequence[Bundle]) -> None:
        """Count tasks in which several routes read one split, and several that read apart."""
        for plans in bundles:
            counted = Counter(split for plan in plans for split in plan.splits)
            self.seen["shared"] += any(count > 1 for count in counted.values())
            logs = Counter(split.partition for split in counted)
            self.seen["apart"] += any(count > 1 for count in logs.values())

    # What happens

    def append(self) -> None:
        """Producers write; now and then a value that no row had."""
        if self._kinds < len(KINDS) and self.rng.random() < 0.2:
            self._kinds += 1
        for _ in range(self.rng.randint(1, 12)):
            self.rng.choice(list(self.topic.logs.values())).append(self._row())

    def _row(self) -> bytes:
        number, self._written = self._written, self._written + 1
        even = "true" if number % 2 == 0 else "false"
        luck = self.rng.random()
        if luck < 0.04:
            return b"{broken"
        if luck < 0.1:
            kind = self.rng.choice(("null", '"no/name"', "7"))
        else:
            kind = f'"{self.rng.choice(KINDS[: self._kinds])}"'
        return f'{{"id": {number}, "kind": {kind}, "even": {even}}}'.encode()

    def start_driver(self, *, bounded: bool = False, host: str = "") -> Life:
        """A driver on a host; on any when none is named."""
        host = host or self.rng.choice(HOSTS)
        routes = self.routes_of(host, bounded=bounded)
        process = self.scheduler.process(f"driver{len(self.lives)}", host)
        life = Life(process, StopSignal(), SharedRunner(self, self._slots, host))
        self.lives.append(life)
        job = CompiledJob(tuple(routes), discover_interval_s=1.0)
        self.scheduler.spawn(process, lambda: self._drive(life, job, bounded=bounded), "main")
        self.note(f"{process.name} starts on {process.host} with {[r.route for r in routes]}")
        return life

    def _drive(self, life: Life, job: CompiledJob, *, bounded: bool) -> None:
        log = cast("Log", SharedLog(self, life))
        try:
            run.run_routes(job, life.runner, life.stop, Observers(log, Progress()), bounded=bounded)
        except SluicewayError as error:
            life.error = f"{error.code} {error}"
        self.note(f"{life.process.name} has ended {life.error}")
        self.scheduler.kill_soon(life.process)

    def running(self) -> list[Life]:
        """Drivers that have neither died nor ended."""
        return [life for life in self.lives if not life.process.dead]

    def _start(self) -> None:
        if len(self.running()) < _MOST_DRIVERS:
            life = self.start_driver(bounded=self.rng.random() < 0.15)
            if self.rng.random() < 0.4:
                life.process.crash_in = self.rng.randrange(1, 2500)

    def _crash(self) -> None:
        for life in self.running():
            life.process.crash_in = self.rng.randrange(0, 600)

    def _kill(self) -> None:
        if self.running():
            life = self.rng.choice(self.running())
            self.note(f"{life.process.name} is killed")
            self.scheduler.kill(life.process)
            for process in life.runner.processes:
                if not process.dead and self.rng.random() < 0.5:
                    self.scheduler.kill(process)

    def _pause(self) -> None:
        if self.running():
            life = self.rng.choice(self.running())
            self.scheduler.pause(life.process, paused=not life.process.paused)
            self.note(f"{life.process.name} is paused or not")

    def _stop(self) -> None:
        if self.running():
            self.rng.choice(self.running()).stop.ask()

    def _sicken(self) -> None:
        """The store of one route's table refuses or fails: that route waits, halts, or lags."""
        if self.sick:
            self.sick.clear()
            self.note("all is well")
            return
        found = sorted(self.folder.glob("lake/*.db/*"))
        if found:
            self.sick = {str(self.rng.choice(found))}
            self.sick_errno = self.rng.choice((5, 13, 28))
            self.note(f"{self.sick} is sick: {self.sick_errno}")

    # A life

    def trouble(self) -> None:
        """Actions until their number is up."""
        self.append()
        # Two may start a new job at once, on two machines.
        for _ in range(self.rng.randint(1, _MOST_DRIVERS)):
            self.start_driver()
        actions = (
            (8, self.append),
            (3, self._start),
            (2, self._crash),
            (1, self._kill),
            (2, self._pause),
            (1, self._stop),
            (4, self._sicken),
        )
        weights, calls = zip(*actions, strict=True)
        for _ in range(self.rng.randint(4, _TIMES)):
            self._go_on(int(3000 ** self.rng.random()))
            (call,) = self.rng.choices(calls, weights)
            call()
            if not self.running() and self.rng.random() < 0.7:
                self.start_driver()
            self.judge.check()

    def heal(self) -> None:
        """All is well: those that stood still end, a driver reads the rest."""
        self.note("the world is well from here on")
        self.sick.clear()
        self.topic.well = self.hive.well = True
        for life in self.running():
            life.stop.ask()
            life.process.crash_in = None
            self.scheduler.pause(life.process, paused=False)
        self._until_ended([life.process for life in self.running()])
        for _ in range(3):
            last = self.start_driver(bounded=True)
            self._until_ended([last.process])
            self.judge.check()
            if not last.error and not last.halts:
                break
        if last.error or last.halts:
            raise ViolationError(f"halt in a well world: {last.error} {last.halts[:2]}")
        self.judge.check_end()

    def _go_on(self, steps: int) -> None:
        until = self.scheduler.next_event = self.scheduler.steps + steps
        while self.scheduler.steps < until and self.scheduler.turn():
            self._check()

    def _go_on_for(self, seconds: float) -> None:
        until = self.scheduler.now + seconds
        self.scheduler.next_event = self.scheduler.steps + 100_000
        end = self.scheduler.next_event
        while self.scheduler.now < until and self.scheduler.steps < end and self.scheduler.turn():
            self._check()

    def _until_ended(self, processes: list[Process]) -> None:
        end = self.scheduler.next_event = self.scheduler.steps + _MOST_STEPS
        while not all(process.dead for process in processes):
            if self.scheduler.steps >= end or not self.scheduler.turn():
                names = [process.name for process in processes if not process.dead]
                raise ViolationError(f"liveness: {names} do not come to an end")
            self._check()

    def _check(self) -> None:
        if self.scheduler.escaped:
            raise ViolationError(f"escaped: {self.scheduler.escaped}")
        if self.wrong:
            raise ViolationError(self.wrong[0])


# What the product's modules see of the world


def _world() -> World:
    return _worlds[-1]


def _own_identity() -> ProcessIdentity:
    process = _world().scheduler.alive().process
    return ProcessIdentity(process.host, f"boot-{process.host}", process.pid, process.pid)


def _is_alive(identity: ProcessIdentity) -> bool | None:
    world = _world()
    if identity.host != world.scheduler.alive().process.host:
        return None
    found = world.scheduler.processes
    return any(each.pid == identity.pid and not each.dead for each in found)


def _open_source(config: RouteConfig) -> SourceClient:
    del config
    return _world().client()


def _open_reader(access: SourceAccess, splits: list[Split], *, owner: str) -> SplitReader:
    del access, owner
    reader = _world().reader(splits)
    if any(split.missing for split in splits):
        reader = MissingRowsReader(reader, splits)
    if all(split.origin is None for split in splits):
        return reader
    return OriginReader(reader, splits)


def _start_no_watch(watch: LagWatch) -> None:
    del watch


_REPLACED: tuple[tuple[Any, str, Any], ...] = (
    (takeover, "own_identity", _own_identity),
    (lease, "is_alive", _is_alive),
    (rooms, "own_identity", _own_identity),
    (rooms, "open_source", _open_source),
    (standby, "own_identity", _own_identity),
    (standby, "AUTO_PAUSE_S", 0.0),
    (run, "open_source", _open_source),
    (bundle, "open_reader", _open_reader),
    (origin, "open_reader", _open_reader),
    (topic_sample, "open_reader", _open_reader),
    (metastore, "MetastoreCalls", calls_of(_world)),
    (LagWatch, "start", _start_no_watch),
    (pieces, "LEAST_PIECE", 1),
    (pieces.SplitPieces, "_piece", lambda *asked: 3),
    (clients, "open_source", _open_source),
    (adopt_table, "own_identity", _own_identity),
    (cut_files, "ALL_EVERY_S", 20.0),
    (status_board, "_WRITE_EVERY_S", 20.0),
    (status_board, "_BETWEEN_PASSES_S", 5.0),
)


def join_product() -> None:
    """Put the world's ends into the product's modules. Called once in a process."""
    for module, name, stand_in in _REPLACED:
        assert hasattr(module, name), f"{module.__name__} has no {name} any more"
        setattr(module, name, stand_in)
    part_processes(lambda: _world().scheduler.alive().process)


def simulate(
    seed: int, folder: Path, kind: type[World] = World, *, traced: bool = False
) -> tuple[str, World]:
    """Live one seed: what was broken, empty for nothing."""
    own = folder / str(seed)
    own.mkdir()
    random.seed(seed)
    world = kind(seed, own, traced=traced)
    violation = ""
    armed: Any = Points(world)
    failpoints._armed = armed
    with running(world.scheduler):
        _worlds.append(world)
        try:
            world.trouble()
            world.heal()
        except (ViolationError, StuckError) as error:
            violation = str(error)
        except SluicewayError as error:
            violation = f"judge: {error}"
        finally:
            with suppress(KilledError):
                world.scheduler.close()
            _worlds.pop()
            world.seen["folders_deleted"] = world.hive.deleted
            failpoints.disarm()
    return violation, world
