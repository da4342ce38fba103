"""SQL of a route in some worlds: Spark's jobs over landed files, and a small table that they join.

The route's own decisions, its tasks and their files are the product's. What Spark does with a job
is simulated: tasks that die half-way or answer late and twice, rows that are counted twice, values
that fail, plans that cannot be guarded. A landed line says what the SQL has to make of its row.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sim.broker import CLEAN, DIRTY, FILTERED
from sim.scheduler import Process
from sluiceway.errors import SluicewayError, SourceUnavailableError, TaskFailedError
from sluiceway.jobfile.blocks.transform import SqlPlaces
from sluiceway.jobfile.compile.sql_rule import DimensionRule, SqlRule
from sluiceway.schedule.sql_engine import (
    JoinedTable,
    NotGuardedError,
    SqlAnswer,
    SqlDataError,
    SqlEngine,
    SqlJob,
)
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.schema import Schema
from sluiceway.worker.landing import AT, CARRIED_FIELDS, SPLIT, LandedRecords, carried_fields
from sluiceway.worker.plan import TaskResult
from sluiceway.worker.sql_task import CARRIED, FAILED, SqlProblem, run_sql_task

if TYPE_CHECKING:
    from sim.world import World

SQL = "sql"
"""What is in each world that is asked to have it often."""
_EVERY, _THIS = 10, 7
_DIMS = "dims"
_LONGEST_AWAY_S = 20.0
_REFRESH_S = 4.0
_MOST_ATTEMPTS = 4
_COLUMNS = (("id", "bigint"), ("hr", "string"))
_OFFSET_BITS = 32
_SEVERAL_ROWS = 4
SEVERAL = "several"
"""What the SQL makes of a record: more than one row."""
_GUARDS = ("whole", "whole", "partly", "none")

Landed = tuple[int, int, str, int, int]
"""(partition, offset, what the SQL makes of the row, number of the record, split)."""


def lines_of(rows: "list[tuple[Any, ...]] | pa.RecordBatch") -> list[tuple[Any, ...]]:
    """What lines of a simulated file say: of rows, or of a batch of clean or of dirty rows."""
    if isinstance(rows, list):
        return rows
    if "id" in rows.schema.names:
        last = (1 << _OFFSET_BITS) - 1
        return [(each >> _OFFSET_BITS, each & last) for each in rows.column("id").to_pylist()]
    both = (rows.column(name).to_pylist() for name in ("partition", "offset"))
    return list(zip(*both, strict=True))


def landed_rows(content: bytes) -> list[Landed]:
    """Rows of a simulated landed file."""
    lines = (line.split(":") for line in content.decode().split())
    return [(int(p), int(o), kind, int(at), int(split)) for p, o, kind, at, split in lines]


def fails_in_sql(partition: int, offset: int) -> bool:
    """Whether what is wrong with a row, or leaves it out, is in the SQL and not before it."""
    return (partition + offset // 3) % 2 == 0


def matching(records: LandedRecords, path: str, wanted: pa.Array) -> list[dict[str, Any]]:
    """As `LandedRecords._matching`, of a simulated landed file."""
    numbers = set(wanted.to_pylist())
    with records._storage.open_read(path) as stream:
        rows = landed_rows(stream.read())
    raw = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers")
    return [
        {AT: at}
        | {f"__sw_raw_{name}": None for name in raw}
        | {"__sw_raw_topic": "orders", "__sw_raw_partition": p, "__sw_raw_offset": o}
        for p, o, _, at, _ in rows
        if at in numbers
    ]


@dataclass(slots=True)
class Dimension:
    """A small table: states that come, go, and are created again.

    Attributes:
        away_until: When it is there again.
        states: States whose rows are all in the table; the newest comes last.
    """

    away_until: float = 0.0
    ledgers: int = 1
    slot: int = 1
    states: list[str] = field(default_factory=lambda: ["u1@1"])

    def change(self, rng: random.Random, now: float) -> str:
        """Rows are added or replaced, the table is created again or goes away; in words."""
        act = rng.choice(("added", "added", "replaced", "created", "away"))
        if act == "away":
            self.away_until = now + rng.random() * _LONGEST_AWAY_S
            return act
        self.ledgers, self.slot = self.ledgers + (act == "created"), self.slot + 1
        kept = self.states if act == "added" else []
        self.states = [*kept, f"u{self.ledgers}@{self.slot}"]
        return act


class SimSqlWorld:
    """The SQL of a world; in most worlds there is none.

    Attributes:
        well: Whether the world has healed.
        overlooks: Whether a landed file that is gone has no rows for Spark.
        joined: Staged file -> state of the small table that its rows were joined with.
    """

    def __init__(self, world: "World", seed: int) -> None:
        self.there = seed % _EVERY == _THIS or SQL in world.often
        rng = random.Random(f"{seed} sql")  # noqa: S311 - repeatable, not secret
        self.guards = rng.choice(_GUARDS)
        self.overlooks = rng.random() < 0.5
        self.dies, self.again, self.counted_twice, self.slow = (
            rng.random() * most for most in (0.3, 0.4, 0.15, 0.3)
        )
        self.well = False
        self.dimension = Dimension()
        self.joined: dict[str, str] = {}
        self._dirty: dict[str, str] = {}
        self._world = world

    def heal(self) -> None:
        """From now on Spark's jobs end, and the small table is there."""
        self.well = True
        self.dies = self.again = self.counted_twice = self.slow = 0.0
        self.dimension.away_until = 0.0

    def rule(self) -> SqlRule | None:
        """What the job file says."""
        if not self.there:
            return None
        table = DimensionRule(_DIMS, "db.dims", _REFRESH_S)
        return SqlRule("SELECT 1", "UTC", (table,), (), of_table=True, places=SqlPlaces())

    def rows_of_record(self, row: tuple[int, int]) -> int:
        """How many rows a clean record of the topic becomes; a replay makes one of each."""
        return _SEVERAL_ROWS if self.there and (row[0] + row[1] // 2) % 4 == 0 else 1

    def engine(self) -> "SimSql":
        """Spark, as a driver has it."""
        return SimSql(self._world, self)

    def read_table(
        self, rule: DimensionRule, sql: SqlRule, before: JoinedTable | None = None, pin: str = ""
    ) -> JoinedTable:
        """As `read_table` of the product: the one row says which state it is of."""
        del sql
        scheduler, dimension = self._world.scheduler, self.dimension
        scheduler.call()
        if scheduler.now < dimension.away_until:
            raise SourceUnavailableError("it is not there", where=rule.name)
        pin = pin if pin in dimension.states else dimension.states[-1]
        if before is not None and before.pin == pin:
            return before
        scheduler.wait(None, scheduler.rng.random())
        return JoinedTable(rule.name, pin, pa.table({"state": [pin]}))

    def problem(self, body: dict[str, Any]) -> str:
        """What is wrong with the states that a record has joined; empty when nothing is."""
        if not self.there:
            return ""
        pins = {each["name"]: each["state"] for each in body.get("pins", ())}
        files = [*body["files"], *body.get("late_files", ()), *body["dirty_files"]]
        found = {self.joined[each["staged"]] for each in files if each["staged"] in self.joined}
        state = pins.get(_DIMS, "")
        if found - {state}:
            return f"rows were joined with {sorted(found)}, it pins {pins}"
        self._dirty.update(
            (each["staged"].rpartition("/")[2], state) for each in body["dirty_files"]
        )
        self._world.seen["sql_replays"] += bool(state and "lane" in body)
        read = {each.get("source", "").rpartition("/")[2] for each in body["ranges"]}
        before = {self._dirty.get(name, "") for name in read} & {*self.dimension.states}
        # What is there now was there when the replay began.
        return f"a replay of {before} pins {pins}" if state and before - {state} else ""


@dataclass(slots=True)
class _SqlAttempt:
    """One attempt at a task of a job, on an executor.

    Attributes:
        rows: Rows that it has read.
        error: What Spark says of it.
    """

    process: Process
    rows: int = 0
    result: TaskResult | None = None
    error: Exception | None = None

    @property
    def over(self) -> bool:
        return self.result is not None or self.error is not None


class SimSql(SqlEngine):
    """Runs jobs as Spark does: retries, second attempts, executors that are lost.

    Args:
        world: The world.
        sql: Its SQL.
    """

    def __init__(self, world: "World", sql: SimSqlWorld) -> None:
        self._world = world
        self._sql = sql

    def columns(
        self, rule: SqlRule, decoded: Schema, tables: tuple[JoinedTable, ...] = ()
    ) -> tuple[tuple[str, str], ...]:
        del rule, decoded, tables
        return _COLUMNS

    def run(self, job: SqlJob, check: Callable[[], None]) -> SqlAnswer:
        scheduler, sql = self._world.scheduler, self._sql
        self._world.seen["sql_guarded" if job.guarded else "sql_jobs"] += 1
        if job.guarded and sql.guards == "none":
            raise NotGuardedError("no plan")
        tasks = [[self._launch(job, number)] for number in range(len(job.task.landed))]
        for number, task in enumerate(tasks):
            if scheduler.rng.random() < sql.again:
                task.append(self._launch(job, number))
        lost = scheduler.rng.random() < sql.dies
        while not all(any(each.result is not None for each in task) for task in tasks):
            scheduler.wait(None, 0.05 + scheduler.rng.random() * 0.3)
            check()
            for number, task in enumerate(tasks):
                self._go_on(job, number, task)
            if lost and any(each.over for task in tasks for each in task):
                self._world.seen["sql_jobs_lost"] += 1
                raise TaskFailedError("the executors are gone")
        firsts = [next(each for each in task if each.result is not None) for task in tasks]
        results = tuple(each.result for each in firsts if each.result is not None)
        self._world.spoil_staged(results)
        again = sum(each.rows for task in tasks for each in task) - sum(e.rows for e in firsts)
        twice = scheduler.rng.random() < sql.counted_twice
        return SqlAnswer(results, sum(each.rows for each in firsts) + (again if twice else 0))

    def _go_on(self, job: SqlJob, number: int, task: list[_SqlAttempt]) -> None:
        """Try a task again whose attempts have all failed, or fail with it."""
        if any(each.result is not None for each in task):
            return
        errors = [each.error for each in task if each.error is not None]
        dead = sum(each.process.dead for each in task if not each.over)
        if len(errors) + dead < len(task):
            return
        if len(task) < _MOST_ATTEMPTS and (not errors or self._world.rng.random() < 0.5):
            task.append(self._launch(job, number))
            return
        raise errors[-1] if errors else TaskFailedError("all attempts at a task died")

    def _launch(self, job: SqlJob, number: int) -> _SqlAttempt:
        scheduler, rng = self._world.scheduler, self._world.scheduler.rng
        process = scheduler.process(f"sql {job.task.plan.epoch}-{number}", "worker")
        attempt = _SqlAttempt(process)
        slow = rng.random() < self._sql.slow
        if rng.random() < self._sql.dies:
            process.crash_in = rng.randrange(40)

        def run() -> None:
            if slow:
                scheduler.wait(None, rng.random() * 20)
            try:
                attempt.result = self._written(job, number, attempt)
            except SqlDataError as error:
                attempt.error = error
            except (SluicewayError, OSError) as error:
                attempt.error = TaskFailedError(f"the job of the SQL died: {error}")

        scheduler.spawn(process, run, process.name)
        return attempt

    def _written(self, job: SqlJob, number: int, attempt: _SqlAttempt) -> TaskResult:
        _, path = job.task.landed[number]
        storage = self._world.storage()
        # As Spark does with `ignoreMissingFiles`.
        gone = self._sql.overlooks and storage.status(path) is None
        rows = []
        if not gone:
            with storage.open_read(path) as stream:
                rows = landed_rows(stream.read())
        last = 1 << 62 if job.last is None else job.last
        rows = [row for row in rows if job.first <= row[3] <= last]
        attempt.rows = len(rows)
        task = job.task
        if job.guarded:
            task = replace(task, problems=(SqlProblem("job.yaml:1:1", "`x` cannot be computed"),))
        result = run_sql_task(task, number, self._batches(job, rows))
        files = (*result.files, *result.dirty_files, *result.late_files)
        (state,) = job.tables[0].rows["state"].to_pylist()
        self._sql.joined.update((each.staged, state) for each in files)
        return result

    def _batches(self, job: SqlJob, rows: list[Landed]) -> Iterator[pa.RecordBatch]:
        route = job.task.plan.route
        kinds = [*arrow_schema(route.sql or Schema(()))]
        kinds.append(pa.field(CARRIED, pa.struct(carried_fields(route))))
        if job.guarded:
            kinds.append(pa.field(FAILED, pa.int32()))
        found = [made for row in rows for made in self._made(job, row)]
        for row in pa.Table.from_pylist(found, schema=pa.schema(kinds)).to_batches(3):
            self._world.scheduler.call()
            yield row

    def _made(self, job: SqlJob, row: Landed) -> Iterator[dict[str, Any]]:
        partition, offset, kind, at, split = row
        hidden = dict.fromkeys((each.name for each in CARRIED_FIELDS), None)
        hidden |= {AT: at, SPLIT: split, "__sw_now": 0}
        if kind == DIRTY:
            partly = self._sql.guards == "partly" and offset % 3 == 0
            if not job.guarded or partly:
                raise SqlDataError(f"[CAST_INVALID_INPUT] {partition}:{offset}")
            yield {CARRIED: hidden, FAILED: 1}
        elif kind in (CLEAN, SEVERAL):
            value = self._world.value(partition, offset)
            number = partition << _OFFSET_BITS | offset
            for _ in range(_SEVERAL_ROWS if kind == SEVERAL else 1):
                yield {"id": number, "hr": value, CARRIED: hidden, FAILED: 0}
        else:
            assert kind == FILTERED, kind
