"""A world of one seed, with who looks at it: one file because each part acts on the others."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, cast

from sim.announcing import ready_rule, timed
from sim.background import SimBackground, SimRewriter
from sim.broker import Broker, SimSource, hour
from sim.catalog import SCHEMA, Shown, SimSink, SimTable
from sim.clocks import BELIEVE_AFTER_S, HostClocks
from sim.doubts import Doubts, leave_logs
from sim.folded import Source
from sim.held import Held, Look
from sim.lives import Life, SimLog
from sim.monitor import Monitor
from sim.operators import Command
from sim.outside import READERS_GRACE_S, Outside
from sim.places import ViolationError
from sim.posix import FileSystem, PosixCalls, PosixPath, PosixTrees, mount
from sim.process_parts import part_processes
from sim.readiness import minute_of
from sim.remote import Objects, RemoteStorage
from sim.rooms import RoomSource, SimRooms
from sim.scheduler import Process, Scheduler
from sim.sql import SimSqlWorld, matching
from sim.tasks import RowsFormat, SimRunner, copy_late_files, run_lane_task
from sim.watched import WatchedLocalStorage
from sim.weather import Rates, Weather
from sluiceway.driver import loop, run, status_board
from sluiceway.driver.lag_watch import LagWatch
from sluiceway.driver.run import Observers
from sluiceway.driver.stop import StopSignal
from sluiceway.errors import SluicewayError
from sluiceway.followers import moved_partitions
from sluiceway.followers.runner import FollowerRunner
from sluiceway.formats.registry import FormatChoice
from sluiceway.host.process import ProcessIdentity
from sluiceway.jobfile.blocks.start import EARLIEST, StartAt
from sluiceway.jobfile.compile.config import CompiledJob, RouteConfig
from sluiceway.jobfile.compile.dirty_limits import NO_LIMITS, DirtyLimits
from sluiceway.ledger import (
    driver_term,
    kept_partitions,
    layout,
    lease,
    log,
    packs,
    records,
    sealing,
    upkeep,
    writer,
)
from sluiceway.ledger.file_names import FileRecord
from sluiceway.observe.progress import Progress
from sluiceway.observe.steps import Step
from sluiceway.operate import operator_record, replay, short_driver
from sluiceway.rooms import standby
from sluiceway.route import (
    background,
    committer,
    rooms,
    route_plan,
    sql_columns,
    sql_epoch,
    takeover,
)
from sluiceway.route.route_context import RouteParts
from sluiceway.schedule import pieces, runner, sql_tables, steady_clock
from sluiceway.schedule.sql_engine import JoinedTable
from sluiceway.sinks.change_judge import ChangeJudge
from sluiceway.sinks.registry import CatalogAccess
from sluiceway.sinks.table_options import TableOptions
from sluiceway.sources.contract import LogBounds, SourcePartition, Split
from sluiceway.sources.registry import SourceAccess
from sluiceway.storage import local, probing
from sluiceway.storage.access import NO_STORES, Stores
from sluiceway.storage.contract import Storage
from sluiceway.upkeep import (
    compactor,
    counts_feed,
    dirty_retention,
    housekeeping,
    lanes,
    record_queue,
    replacing,
)
from sluiceway.upkeep.record_queue import RecordQueue
from sluiceway.worker import answers, sql_task, staged_files
from sluiceway.worker.landing import LandedRecords
from sluiceway.worker.plan import LatePolicy, LateRule, PartitionRule, TaskPlan, TaskResult

if TYPE_CHECKING:
    from sluiceway.observe.log import Log

ROUTE, TOPIC, ROOT = "orders", "orders", "/w/db/orders"
STORES = ("local", "local", "hdfs", "s3")
_HALTS_ALLOWED = {"SW103", "SW420", "SW451", "SW452", "SW466"}
_worlds: list["World"] = []


class World:
    """Everything that one seed makes; `Run` lets it live. What happens `often`: see `simulate`."""

    def __init__(  # noqa: PLR0915
        self, seed: int, *, traced: bool, often: frozenset[str] = frozenset()
    ) -> None:
        self.often = often
        self.rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self.trace: list[str] | None = [] if traced else None
        self.scheduler = Scheduler(self.rng)
        rates = Rates.drawn(self.rng)
        self.weather = Weather(self.scheduler, rates, self.note, takes_no_name=self._takes_no_name)
        self.broker = Broker(self.rng, self.weather, lambda: self.scheduler.now)
        self.store = self.rng.choice(STORES)
        self.table = SimTable(ROUTE, ROOT)
        self.broker.create(TOPIC, self.rng.randint(1, 3))
        self.records_per_folder = self.rng.randint(2, 5)
        self.snapshot_every = self.rng.randint(2, 6)
        self.max_unsealed = self.rng.choice((1, 1, 2, 100))
        self.turn_s = self.rng.choice((0.0, 0.3))
        held = Held(f"{ROOT}/_sluiceway/{ROUTE}", self.records_per_folder)
        shown = Shown(self.table, self._by_owner)
        system = held.log.removesuffix("/log/")
        outside = Outside(lambda: self.scheduler.now, system, ROOT)
        self.monitor = Monitor(ROOT, TOPIC, held, self.broker, shown, outside)
        self.table.moved = self.monitor.told_metastore
        self.by_others = False
        # In the others the time of a reading is the true one, and so is what it shows.
        self.has_clocks = seed // 3 % 5 in (1, 3)
        self.clocks = self.monitor.seen.clocks = HostClocks(lambda: self.scheduler.now)
        self.monitor.seen.acting = self._acting
        self.scheduler.wrong_s = self.clocks.wrong_s
        self.lull: list[tuple[float, Callable[[], None]]] = []
        self.monitor.acting = self._acting
        self.timed = self.monitor.seen.timed = timed(seed)
        self.doubts = Doubts.drawn(seed, lambda: self.scheduler.now)
        self.broker.says, self.table.refuses = self._says, self.doubts.refuses
        self.files = FileSystem(self.scheduler, self.monitor, self.weather)
        self.objects = Objects(self.monitor)
        self.lives: list[Life] = []
        self.commands: list[Command] = []
        self.wrong: list[str] = []
        self.in_a_turn: set[int] = set()
        self.rooms = SimRooms(self, seed)
        self.sql = SimSqlWorld(self, seed)
        self.monitor.joined = self.sql.problem
        self.monitor.rows_of_record = self.sql.rows_of_record
        self.hosts = self.rooms.hosts(self.rng.choice((("a",), ("a", "b"))))
        self.start = self.rng.choice((EARLIEST, StartAt("latest")))
        self.slots = self.rng.randint(1, 4)
        self.monitor.max_unpublished = max(1, self.slots - 1)
        self.ever_recreated = self.ever_cut = False
        self.monitor.ever_cut = lambda: self.ever_cut
        self.seen: Counter[str] = Counter()
        leave_logs(self.broker, self.doubts, self.scheduler, self.seen)
        if self.store == "local":
            self._make_disk()
            held.look = Look(self.files.content, self.files.durable_content)
        else:
            held.look = Look(self.objects.held.get, self.objects.held.get)
        self.note(f"seed {seed}: {self.store}, {rates}, start {self.start}, hosts {self.hosts}")
        self.note(f"{self.records_per_folder} a folder, snapshot every {self.snapshot_every}")

    def _make_disk(self) -> None:
        path = ""
        for name in ROOT.split("/")[1:]:
            parent = self.files.find(path)
            path = f"{path}/{name}"
            self.files.mkdir(path, exist_ok=False)
            assert parent is not None
            self.files.fsync(parent)

    def note(self, text: str) -> None:
        """A line of the trace."""
        if self.trace is not None:
            self.trace.append(f"{self.scheduler.steps:6d} {self.scheduler.now:8.2f}s  {text}")

    def storage(self) -> Storage:
        """A storage of its own for each that opens it, as in the product."""
        if self.store == "local":
            return WatchedLocalStorage(self.monitor)
        return RemoteStorage(self.objects, self.weather, renames=self.store == "hdfs")

    @property
    def is_another_log(self) -> bool:
        """Whether the topic is another than the one that the ledger reads."""
        return any(
            known.topic_id != self.broker.ids[TOPIC] for known in self.monitor.fold.sources.values()
        )

    def is_cut(self, known: Source, number: int) -> bool:
        """Whether a log has other rows below a committed end than were read.

        As far as its ledger can know: where it has the end's leader epoch.
        """
        log = self.broker.by_id[known.topic_id][number]
        return known.end_epoch is not None and log.end_of(known.end_epoch) < known.end

    def cut_partitions(self) -> list[int]:
        """Source partitions of which that is so."""
        known = self.monitor.fold.sources.items()
        return [number for number, source in known if self.is_cut(source, number)]

    def has_more(self, number: int) -> bool:
        """Whether something stands behind the committed end, so that it has to be read."""
        known = self.monitor.fold.sources[number]
        return self.broker.by_id[known.topic_id][number].stable_end > known.end

    def check_start(self, split: Split) -> None:
        """A task that reads on at a committed end holds the log against the end's epoch."""
        number = split.partition.number
        known = self.monitor.fold.sources.get(number)
        if known is None or known.end != split.start_offset or split.leader_epoch is not None:
            return
        if known.topic_id == self.broker.ids[TOPIC] and self.is_cut(known, number):
            self.wrong.append(f"command: [{number}] was cut below {known.end} and is read on")

    def spoil(self, path: str, content: bytes | None) -> None:
        """Somebody else removes a file, or puts another in its place."""
        self.note(f"from outside: {path} is {'gone' if content is None else repr(content[:60])}")
        self.seen["spoilt"] += 1
        self.by_others = True
        try:
            self._spoil(path, content)
        finally:
            self.by_others = False

    def _spoil(self, path: str, content: bytes | None) -> None:
        if self.store != "local":
            if content is None:
                self.objects.drop(path)
            else:
                self.objects.overwrite(path, content)
        elif content is None:
            self.files.unlink(path)
        else:
            self.files.put(path, content)

    def spoil_staged(self, results: Sequence[TaskResult]) -> None:
        """The store loses files that a task has named, before anybody has looked."""
        for result in results:
            files = (*result.files, *result.dirty_files, *result.late_files, *result.landed)
            for path in self.doubts.vanished(self.monitor.stage + each.staged for each in files):
                if self.monitor.look.content(path) is None:
                    # Another driver has fenced this one, and collected what it had staged.
                    continue
                # No record ever names it: for the monitor it was never closed.
                self.monitor.writes(path)
                self.spoil(path, None)
                self.seen["staged_files_lost"] += 1

    def _says(self, one: SourcePartition, place: LogBounds) -> LogBounds:
        """What the leader of a source partition answers to a driver."""
        known = self.monitor.fold.sources.get(one.number)
        if known is None or self.is_another_log or self.monitor.reset_into_nothing:
            return place
        if not self.scheduler.alive().process.name.startswith("driver"):
            return place

        def elect() -> int:
            log = self.broker.topics[one.topic][one.number]
            log.elect(self.scheduler.now, 1)
            return log.leader_epoch

        said = self.doubts.seen((one.topic, one.number), place, known.end, elect)
        self.seen["leaders_behind"] += said is not place
        return said

    def _takes_no_name(self, folder: str) -> bool:
        """Whether a folder of the table takes no file now."""
        closed = self.doubts.takes_no_name(folder)
        self.seen["nameless"] += closed
        return closed

    def all_files(self) -> list[str]:
        """Names of all files of the table."""
        return self.files.files(ROOT) if self.store == "local" else list(self.objects.held)

    def _acting(self) -> Process | None:
        """Whose call this is; None when it comes after its sender has died, or from outside."""
        thread = self.scheduler.current
        return None if thread is None or self.by_others else thread.process

    def _has_fenced(self, process: Process, term: int) -> None:
        self.monitor.outside.terms[process] = term
        self.rooms.fenced(process)

    def _by_owner(self) -> bool:
        """Whether the driver acts now that holds the fence."""
        thread = self.scheduler.current
        if thread is None:
            return False
        acting = (life for life in self.lives if life.process is thread.process)
        return any(life.term == self.monitor.fold.term for life in acting)

    def owner_removes(self, name: str) -> None:
        """The owner of the table removes the files of a partition that was let go."""
        values = (name.rpartition("=")[2],)
        self.note(f"the owner drops {values}")
        if self.rng.random() < 0.5 and self.monitor.fold.places.by_name[name].expired:
            self.table.partitions.pop(values, None)
        shown = set(self.table.partitions.values())
        for final, file in list(self.monitor.fold.files.items()):
            here = file.dead == "expired" and self.monitor.look.content(final) is not None
            if here and final.rpartition("/")[0] not in shown:
                self.spoil(final, None)

    # Drivers

    @property
    def is_timed(self) -> bool:
        """Whether rows have event times, and partitions are announced."""
        return self.timed is not None

    def value(self, partition: int, offset: int) -> str:
        """Of the partition column, for a row."""
        return minute_of(partition, offset) if self.is_timed else hour(partition, offset)

    def route(self) -> RouteConfig:
        """The route of every driver."""
        return RouteConfig(
            rooms=self.rooms.rule(),
            ready=ready_rule(self.timed),
            job="job",
            route=ROUTE,
            topics=(TOPIC,),
            pattern="",
            start=self.start,
            source=SourceAccess("kafka", (("bootstrap.servers", "sim:9092"),)),
            format=FormatChoice("json", (("tombstones", "skip"),)),
            catalog=CatalogAccess(),
            table=TableOptions("thrift://sim", "db", ROUTE, SCHEMA, ()),
            columns=SCHEMA,
            sql=self.sql.rule(),
            meta=(),
            event_time=None,
            partitions=(PartitionRule("hr", None, "hr"),),
            interval_s=1.0,
            straggler_timeout_s=3.0,
            max_unpublished=self.monitor.max_unpublished,
            late=LateRule(LatePolicy.SIDE if self.slots % 2 else LatePolicy.REOPEN),
        )

    def start_driver(
        self, *, bounded: bool, replaces: int | None = None, limits: DirtyLimits = NO_LIMITS
    ) -> Life:
        """A new driver process, on one of the hosts; perhaps with `--takeover`."""
        number = len(self.lives)
        process = self.scheduler.process(f"driver{number}", self.rng.choice(self.hosts))
        life = Life(process, StopSignal(), SimRunner(self, self.slots), self.seen)
        self.lives.append(life)
        self.scheduler.spawn(process, lambda: self._drive(life, bounded, replaces, limits), "main")
        if replaces is not None:
            self.rooms.replacing.add(process.name)
        said = "" if replaces is None else f" with --takeover {replaces}"
        self.note(f"{process.name} starts on {process.host}{said}")
        return life

    def _drive(
        self,
        life: Life,
        bounded: bool,  # noqa: FBT001
        replaces: int | None,
        limits: DirtyLimits,
    ) -> None:
        def observe(step: Step) -> None:
            self.note(f"{life.process.name}: -- {step.value}")

        eyes = Observers(self._log_of(life), Progress())
        takeover = {} if replaces is None else {ROUTE: replaces}
        job = CompiledJob((replace(self.route(), dirty=limits),), takeover=takeover)
        try:
            run.run_routes(
                job, life.runner, life.stop, eyes, bounded=bounded, extra=_EXTRA, observe=observe
            )
        except SluicewayError as error:
            self.note(f"{life.process.name} ends with {error.code} {error}")
        life.ended = True
        self.note(f"{life.process.name} has ended")
        self.scheduler.kill_soon(life.process)

    def running(self) -> list[Life]:
        """Drivers that have neither died nor ended."""
        return [life for life in self.lives if not life.process.dead]

    def check_halts(self) -> None:
        """A route may halt only for a reason that the world has given, a command end so."""
        if self.wrong:
            raise ViolationError(self.wrong[0])
        for life in self.lives:
            new, life.halts_seen = life.halts[life.halts_seen :], len(life.halts)
            for code, error in new:
                self.seen[f"halts_{code}"] += 1
                # A zombie may find rows expired that its successor has committed.
                replaced = life.term < self.monitor.greatest_term
                gone = self.ever_recreated or self.monitor.reset_into_nothing or self.ever_cut
                lost = code == "SW455" and (gone or replaced)
                # A run with an end gives way to the other room, and is no standby.
                if code == "SW470" and self.rooms.there:
                    continue
                if lost or (code in _HALTS_ALLOWED and (code != "SW451" or replaced)):
                    continue
                raise ViolationError(f"halt: {life.process.name} {code} {error}")

    def command_log(self) -> "Log":
        """The log of a command that is a driver for a while."""
        process = self.scheduler.alive().process
        life = Life(process, StopSignal(), SimRunner(self, 0), self.seen)
        return self._log_of(life)

    def _log_of(self, life: Life) -> "Log":
        return cast("Log", SimLog(life, self.note, self.monitor.told, self._has_fenced))

    def commanded(self) -> list[Command]:
        """Commands that have neither died nor ended."""
        return [command for command in self.commands if not command.process.dead]

    def kill(self, life: Life) -> None:
        """SIGKILL of a driver; its tasks die with it or go on for a while."""
        self.note(f"{life.process.name} is killed")
        self.scheduler.kill(life.process)
        self.orphan(life)

    def orphan(self, life: Life) -> None:
        """What becomes of the tasks of a dead driver."""
        for process in life.runner.processes:
            if not process.dead and self.rng.random() < 0.5:
                self.scheduler.kill(process)

    def power_cut(self) -> None:
        """All processes die; a local disk keeps what was fsynced."""
        self.note("power cut")
        self.seen["power_cuts"] += 1
        for process in self.scheduler.processes:
            if not process.dead:
                self.scheduler.kill(process)
        self.weather.under_way.clear()
        if self.store == "local":
            self.files.power_cut(self.rng)
        self.monitor.after_power_cut()


# What the product's modules see of the world


def _world() -> World:
    return _worlds[-1]


def _mounted() -> FileSystem:
    return _worlds[-1].files


def _open_storage(location: str, stores: Stores = NO_STORES) -> tuple[Storage, str]:
    return _world().storage(), location


def _own_identity() -> ProcessIdentity:
    process = _world().scheduler.alive().process
    return ProcessIdentity(process.host, f"boot-{process.host}", process.pid, process.pid)


def _is_alive(identity: ProcessIdentity) -> bool | None:
    here = _world().scheduler.alive().process.host
    if identity.host != here:
        return None
    return any(
        process.pid == identity.pid and not process.dead for process in _world().scheduler.processes
    )


def _open_source(config: RouteConfig) -> SimSource:
    del config
    world = _world()
    return RoomSource(world.rooms, world) if world.rooms.there else SimSource(world.broker)


def _open_sink(config: RouteConfig) -> SimSink:
    del config
    return SimSink(_world().table, _world().weather)


def _read_table(*asked: Any, **named: Any) -> JoinedTable:
    return _world().sql.read_table(*asked, **named)


def _begin_background(record_queue: RecordQueue) -> SimBackground:
    return SimBackground(_world(), record_queue, TOPIC)


_EXTRA = run.RunExtra(background=(_begin_background,))


def _no_feed(*_: object) -> None:
    """Counts come from the background."""


def _rewriter(of: layout.LedgerLayout, *_given: object, **_named: object) -> SimRewriter:
    storage, _ = _open_storage(of.table_root)
    return SimRewriter(_world(), storage, of)


def _check_staged(
    storage: Storage, layout: layout.LedgerLayout, results: Sequence[TaskResult]
) -> None:
    answers.check_staged_files(storage, layout, results)
    _world().weather.refuse()


def _run_lane_task(
    plan: TaskPlan, storage: Storage, paths: Sequence[str], *, judge: ChangeJudge | None
) -> TaskResult:
    return run_lane_task(_world(), plan, storage, paths, judge)


def _copy_late_files(plan: TaskPlan, storage: Storage, files: Sequence[FileRecord]) -> TaskResult:
    return copy_late_files(_world(), plan, storage, files)


def _no_problem(*arguments: object) -> None:
    """Types of columns are not simulated."""
    del arguments


_turn = FollowerRunner._turn


def _watched_turn(of: FollowerRunner, each: Any) -> float | None:
    """A piece of a follower; a second one at the same time is a violation."""
    world = _world()
    if id(each) in world.in_a_turn:
        world.wrong.append(f"follower: {each.follower.name} is called while it is called")
    world.in_a_turn.add(id(each))
    try:
        return _turn(of, each)
    finally:
        world.in_a_turn.discard(id(each))


def _start_no_watch(watch: LagWatch) -> None:
    del watch


_decode_once = lru_cache(maxsize=4096)(records.decode_record)
"""Each START reads all records again; they are values, so once is enough."""

_REPLACED: tuple[tuple[Any, str, Any], ...] = (
    (local, "os", PosixCalls()),
    (local, "Path", PosixPath),
    (local, "shutil", PosixTrees()),
    (probing, "_WRITERS", 2),
    (takeover, "open_storage", _open_storage),
    (takeover, "own_identity", _own_identity),
    (lease, "is_alive", _is_alive),
    (standby, "own_identity", _own_identity),
    (standby, "AUTO_PAUSE_S", 0.0),
    (rooms, "own_identity", _own_identity),
    (rooms, "open_source", _open_source),
    (runner, "open_storage", _open_storage),
    (run, "open_source", _open_source),
    # It reads log ends for figures alone, and each of its looks would be a step of every history.
    (LagWatch, "start", _start_no_watch),
    (run, "open_sink", _open_sink),
    (sql_columns, "open_sink", _open_sink),
    (sql_tables, "read_table", _read_table),
    (sql_epoch, "MOST_PIECES", 1000),
    (sql_task, "open_storage", _open_storage),
    (LandedRecords, "_matching", matching),
    (operator_record, "open_sink", _open_sink),
    (replay, "open_sink", _open_sink),
    (short_driver, "open_sink", _open_sink),
    (short_driver, "open_source", _open_source),
    (short_driver, "is_alive", _is_alive),
    (FollowerRunner, "_turn", _watched_turn),
    (lanes, "run_lane_task", _run_lane_task),
    (lanes, "copy_late_files", _copy_late_files),
    (lanes, "check_staged_files", _check_staged),
    (route_plan, "row_problem", _no_problem),
    (committer, "check_staged_files", _check_staged),
    (staged_files, "open_format", RowsFormat),
    (staged_files, "CLOSERS", 1),
    (log, "decode_record", _decode_once),
    (writer, "decode_record", _decode_once),
    (packs, "decode_record", _decode_once),
    (kept_partitions, "MAX_PARTITIONS", 2),
    (pieces, "LEAST_PIECE", 1),
    (pieces.SplitPieces, "_piece", lambda *asked: 3),
    (moved_partitions, "READERS_GRACE_S", READERS_GRACE_S),
    (driver_term, "LOOK_EVERY_S", 1.0),
    (steady_clock, "BELIEVE_AFTER_S", BELIEVE_AFTER_S),
    (moved_partitions, "_LOOK_EVERY_S", 3.0),
    (dirty_retention, "READERS_GRACE_S", 4.0),
    (short_driver, "RouteParts", partial(RouteParts, background=(_begin_background,))),
    (background, "WorkRewriter", _rewriter),
    (compactor, "MOST_IN_A_GROUP", 2),
    (replacing, "_MOST_HELD_FILES", 2),
    (counts_feed, "begin", _no_feed),
    (housekeeping.FileCleaner.__init__, "__kwdefaults__", {"every_s": 3.0}),
    # Idle polls are most of the steps otherwise.
    (loop, "_IDLE_S", 1.0),
    (status_board, "_WRITE_EVERY_S", 20.0),
    (status_board, "_BETWEEN_PASSES_S", 5.0),
)


def join_product() -> None:
    """Put the world's ends into the product's modules. Called once in a process."""
    mount(_mounted)
    for module, name, stand_in in _REPLACED:
        assert hasattr(module, name), f"{module.__name__} has no {name} any more"
        setattr(module, name, stand_in)
    part_processes(lambda: _world().scheduler.alive().process)


def enter(world: World) -> None:
    """The product sees this world from now on."""
    _worlds.append(world)
    for module, name, small in (
        (layout, "RECORDS_PER_FOLDER", world.records_per_folder),
        (upkeep, "SNAPSHOT_EVERY", world.snapshot_every),
        (sealing, "MAX_UNSEALED", world.max_unsealed),
        (record_queue, "TURN_S", world.turn_s),
        # Where no thread waits for them, records are committed after others that are not published.
        (committer, "PUBLISH_MOMENT_S", 2.0 if world.slots % 2 else 0.0),
    ):
        assert hasattr(module, name), f"{module.__name__} has no {name} any more"
        setattr(module, name, small)


def leave() -> None:
    """The last world is over."""
    _worlds.pop()
