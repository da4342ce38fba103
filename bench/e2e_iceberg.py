"""Kafka into lakes of two catalogs while all dies: one file because the story is one.

The tables are of a REST and a Hive catalog; drivers die and catalogs go away.

Each catalog has its turn: rows come at a steady rate, the driver is killed with all that it
started, the catalog's server is killed and started again, a proxy in front of it loses, delays and
doubles requests, and Spark compacts the table and expires its snapshots all the while. A reader
polls: what it sees has to be the rows of whole slots. At the end the job catches up, `verify
--deep` compares the table with the ledger, and Spark, Trino, DuckDB and pyiceberg read it, each by
its own code: of every source partition all offsets once, each with the number that was written
there.

`python -m bench.e2e_iceberg [--seconds 1200] [--kills 50] [--outages 10] [--rate 5000]` tells what
it does on standard error and ends with one JSON line; 1 is the exit code when anything is wrong.
Seconds, kills and outages are those of both turns together.
"""

import argparse
import json
import random
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.catalog import Catalog, load_catalog

from bench.lake_readers import ReaderFailedError, SparkBeside, ask_duckdb
from bench.lake_trino import LEAST_JAVA, Trino, new_java
from bench.run_failed import RunFailedError
from bench.tidy_end import end_tidily
from sluiceway.audit.open_table import open_ledger
from sluiceway.lab.lab import Lab, LabEndpoints, StoreServer
from sluiceway.ledger.lane_records import LaneDataRecord
from sluiceway.ledger.records import DataRecord
from sluiceway.sinks.iceberg.table_history import read_through

# The driver's handle and the proxies belong to the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from tools.catalog_proxy import CatalogProxy
from tools.driver_process import DriverProcess
from tools.job_files import JobFile
from tools.table_proofs import assert_verified
from tools.thrift_proxy import ThriftProxy

Proxy = CatalogProxy | ThriftProxy
PARTITIONS = 4
BATCH_S = 0.2
START_MS = 1_795_161_600_000
ROWS_AN_HOUR = 400_000
REQUEST_TIMEOUT_S = 60.0
COMMIT_TIMEOUT_S = 300.0
CATCH_UP_TIMEOUT_S = 1_800.0
VERIFY_TIMEOUT_S = 1_800.0
FAULT_EVERY_S = 2.0
POLL_EVERY_S = 2.0
REST, HIVE = "rest", "hive"
READERS = ("spark", "trino", "duckdb", "pyiceberg")
REST_FAULTS = ("hold", "drop", "twice", "409", "500", "502", "503", "504")
HIVE_FAULTS = ("hold", "drop", "lost", "twice")
SERVERS = {REST: "iceberg", HIVE: "metastore"}
_SQL = (
    "SELECT _source_partition, count(*), count(DISTINCT _offset), min(_offset), max(_offset), "
    "sum(id) FROM {table} GROUP BY _source_partition ORDER BY _source_partition"
)
_JOB = """\
version: 1
name: e2e-{kind}
connections:
  main: {{kafka: {{bootstrap_servers: "{servers}"}}}}
  lake: {{iceberg: {{{kind}: {{uri: "{uri}"}}}}}}
source: {{connection: main, topics: [{topic}], start: earliest}}
format: {{json: {{}}}}
table:
  iceberg: {{connection: lake, name: ods.{topic}, publish_interval: 2s{location}}}
  columns:
    - {{name: id, type: bigint, required: true}}
    - {{name: ts, type: timestamp, unit: ms, required: true}}
    - {{name: city, type: string}}
  partition_by: [{{column: ts, transform: hour}}]
  meta: [partition, offset]
run: {{interval: 1s, master: "local[2]"}}
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one catalog's turn is: how long, how many kills and outages, records a second."""

    kind: str
    seconds: float
    kills: int
    outages: int
    rate: int
    seed: int


@dataclass(slots=True)
class Outcome:
    """The closing figures.

    Attributes:
        halves: Looks of the polling reader that saw other rows than those of whole slots.
        faults: Requests that the proxy lost, held, doubled or refused.
        landed_late: Held requests that reached the catalog later.
        compactions: Of Spark, that rewrote files.
        expired: Manifest lists of snapshots that Spark expired.
        readers_agree: Who found every offset once, in all turns.
        readers_not_run: Who was not asked, for want of what it needs here.
    """

    rows: int = 0
    lost: int = 0
    doubled: int = 0
    altered: int = 0
    kills: int = 0
    outages: int = 0
    polls: int = 0
    halves: int = 0
    faults: int = 0
    landed_late: int = 0
    compactions: int = 0
    expired: int = 0
    readers_agree: list[str] = field(default_factory=list)
    readers_not_run: list[str] = field(default_factory=list)
    verified: bool = False

    def add(self, turn: "Outcome") -> None:
        """With another turn's figures; readers have to agree in all turns."""
        is_first = not self.rows
        for each in fields(self):
            mine, other = getattr(self, each.name), getattr(turn, each.name)
            if each.type is int:
                setattr(self, each.name, mine + other)
        both = [name for name in self.readers_agree if name in turn.readers_agree]
        self.readers_agree = turn.readers_agree if is_first else both
        self.readers_not_run = turn.readers_not_run


class Background:
    """Does something again and again in a thread of its own until it is ended."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._guarded, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """Wait for what is under way.

        Raises:
            RunFailedError: It had ended before, by an error.
        """
        self.ended.set()
        self._thread.join(ANSWER_S)
        if self._failure is not None or self._thread.is_alive():
            raise RunFailedError(f"{type(self).__name__} failed") from self._failure

    def _guarded(self) -> None:
        try:
            self.go()
        except Exception as error:  # noqa: BLE001 - the thread's boundary; `end` raises it
            self._failure = error

    def go(self) -> None:
        """What it does until `ended` is set."""
        raise NotImplementedError


ANSWER_S = 900.0


class Load(Background):
    """Writes rows at a steady rate: the number of each tells its partition and offset."""

    def __init__(self, servers: str, topic: str, rate: int) -> None:
        super().__init__()
        settings = {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20}
        self._producer = Producer({**settings, "compression.type": "lz4", "log_level": 0})
        self._topic = topic
        self._rate = rate

    def go(self) -> None:
        """See `Background.go`."""
        offset, began_s = 0, time.monotonic()
        while not self.ended.wait(BATCH_S):
            due = int((time.monotonic() - began_s) * self._rate) // PARTITIONS
            while offset < due:
                for partition in range(PARTITIONS):
                    number = offset * PARTITIONS + partition
                    ts_ms = START_MS + number * 3_600_000 // ROWS_AN_HOUR
                    body = {"id": number, "ts": ts_ms, "city": f"city {number % 97}"}
                    self._producer.produce(
                        self._topic, json.dumps(body).encode(), partition=partition
                    )
                offset += 1
                self._producer.poll(0)
        if self._producer.flush(REQUEST_TIMEOUT_S):
            raise RunFailedError("the broker has not taken all rows")


class Disturbing(Background):
    """Gives the proxy faults, and lets what it holds reach the catalog late."""

    def __init__(self, proxy: Proxy, kinds: tuple[str, ...], seed: int) -> None:
        super().__init__()
        self._proxy = proxy
        self._kinds = kinds
        self._random = random.Random(seed)  # noqa: S311 - faults
        self.planned = 0
        self.landed = 0

    def go(self) -> None:
        """See `Background.go`."""
        while not self.ended.wait(self._random.uniform(0.5, 2 * FAULT_EVERY_S)):
            if not self._proxy.faults:
                self._proxy.faults.append(self._random.choice(self._kinds))
                self.planned += 1
            if self._proxy.held and self._random.random() < 0.7:  # noqa: PLR2004
                self._land()
        self.planned -= len(self._proxy.faults)
        self._proxy.faults.clear()

    def _land(self) -> None:
        try:
            self._proxy.land()
        except OSError:
            # The catalog is away: it never lands, which is a lost request.
            return
        self.landed += 1


class Outages(Background):
    """Kills the catalog's server again and again, and starts it anew."""

    def __init__(self, lab: Lab, plan: Plan) -> None:
        super().__init__()
        self._lab = lab
        self._plan = plan
        self._random = random.Random(plan.seed + 1)  # noqa: S311 - moments of outages
        self.done = 0

    def go(self) -> None:
        """See `Background.go`: all that are planned, whatever comes."""
        name = SERVERS[self._plan.kind]
        each_s = self._plan.seconds / max(self._plan.outages, 1)
        for _ in range(self._plan.outages):
            time.sleep(self._random.uniform(0.4, 0.7) * each_s)
            killed = self._random.choice([True, False])
            (self._lab.kill_server if killed else self._lab.stop_server)(name)
            time.sleep(self._random.uniform(0.05, 0.15) * each_s)
            self._lab.start_server(name)
            self.done += 1
            _tell(f"{name} was {'killed' if killed else 'ended'} and is back")


class Maintaining(Background):
    """Spark compacts and expires, again and again."""

    def __init__(self, spark: SparkBeside, table: str) -> None:
        super().__init__()
        self._spark = spark
        self._table = table
        self.compactions = 0
        self.expired = 0
        self.errors: list[str] = []

    def go(self) -> None:
        """See `Background.go`."""
        while not self.ended.wait(3.0):
            told = self._spark.maintain(self._table)
            if "error" in told:
                self.errors.append(str(told["error"]))
                continue
            self.compactions += told["rewritten"] > 0
            self.expired += told["deleted_lists"]


class Polling(Background):
    """Reads the table's state again and again: our property, and how many rows there are."""

    def __init__(self, catalog: dict[str, str], table: str) -> None:
        super().__init__()
        self._settings = catalog
        self._table = table
        self.ledger = ""
        self.seen: list[tuple[int, int]] = []
        self.errors: set[str] = set()

    def go(self) -> None:
        """See `Background.go`."""
        catalog: Catalog | None = None
        while not self.ended.wait(POLL_EVERY_S):
            try:
                catalog = catalog or load_catalog("lake", **self._settings)
                self._look(catalog)
            except Exception as error:  # noqa: BLE001 - a catalog away, files expired: look again
                self.errors.add(type(error).__name__)
                catalog = None

    def _look(self, catalog: Catalog) -> None:
        table = catalog.load_table(self._table)
        ledgers = [name for name in table.metadata.properties if name.endswith(".through")]
        if not ledgers:
            return
        self.ledger = ledgers[0].split(".")[1]
        through = read_through(table.metadata.properties, self.ledger, where=self._table)
        rows = sum(task.file.record_count for task in table.scan().plan_files())
        if through is not None:
            self.seen.append((through.slot, rows))

    def halves(self, rows_of_slots: dict[int, int]) -> int:
        """Looks at which other rows were there than those of all slots up to the property's."""
        wrong = 0
        for slot, rows in self.seen:
            wanted = sum(count for each, count in rows_of_slots.items() if each <= slot)
            if rows != wanted:
                _tell(f"at slot {slot} a reader saw {rows} rows, not {wanted}")
                wrong += 1
        return wrong


class Turn:
    """One catalog's turn."""

    def __init__(self, plan: Plan, lab: Lab, endpoints: LabEndpoints, folder: Path) -> None:
        self._plan = plan
        self._lab = lab
        self._endpoints = endpoints
        self._folder = folder
        self._topic = f"e2e_{plan.kind}"
        self._table = f"ods.{self._topic}"
        self._random = random.Random(plan.seed)  # noqa: S311 - moments of kills
        self.outcome = Outcome()

    def go(self) -> None:
        """Write, kill, disturb, catch up, judge.

        Raises:
            RunFailedError: A step did not come about.
        """
        servers = self._endpoints.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        made = NewTopic(self._topic, PARTITIONS, 1)
        admin.create_topics([made])[self._topic].result(REQUEST_TIMEOUT_S)
        with self._proxy() as proxy, SparkBeside(self._spark_catalog()) as spark:
            _tell(f"{self._plan.kind}: Spark {spark.version} beside it")
            job = self._job(proxy)
            polling = self._disturbed(job, proxy, spark)
            self._judge(job, spark, polling)

    @contextmanager
    def _proxy(self) -> Iterator[Proxy]:
        if self._plan.kind == REST:
            with CatalogProxy(self._rest_uri()) as proxy:
                yield proxy
            return
        with ThriftProxy(self._endpoints.metastore_uri) as proxy:
            yield proxy

    def _rest_uri(self) -> str:
        if self._endpoints.iceberg is None:
            raise RunFailedError("the lab has no catalog of Iceberg")
        return self._endpoints.iceberg.uri

    def _spark_catalog(self) -> dict[str, str]:
        if self._plan.kind == REST:
            return {"type": "rest", "uri": self._rest_uri()}
        return {"type": "hive", "uri": self._endpoints.metastore_uri}

    def _reader_catalog(self) -> dict[str, str]:
        return self._spark_catalog()

    def _job(self, proxy: Proxy) -> JobFile:
        location = ""
        if self._plan.kind == HIVE:
            location = f', location: "file://{self._folder}/warehouse/{self._topic}"'
            (self._folder / "warehouse").mkdir()
        path = self._folder / f"{self._topic}.yaml"
        path.write_text(
            _JOB.format(
                kind=self._plan.kind,
                servers=self._endpoints.bootstrap_servers,
                uri=proxy.uri,
                topic=self._topic,
                location=location,
            )
        )
        return JobFile(path, self._table)

    def _disturbed(self, job: JobFile, proxy: Proxy, spark: SparkBeside) -> Polling:
        plan, outcome = self._plan, self.outcome
        load = Load(self._endpoints.bootstrap_servers, self._topic, plan.rate)
        kinds = REST_FAULTS if plan.kind == REST else HIVE_FAULTS
        disturbing = Disturbing(proxy, kinds, plan.seed)
        outages = Outages(self._lab, plan)
        maintaining = Maintaining(spark, self._table)
        polling = Polling(self._reader_catalog(), self._table)
        everything: list[Background] = [load, disturbing, outages, maintaining, polling]
        for each in everything:
            each.start()
        began_s = time.monotonic()
        for number in range(plan.kills):
            left_s = plan.seconds * (number + 1) / plan.kills - (time.monotonic() - began_s)
            self._kill_one(job, left_s)
        time.sleep(max(0.0, plan.seconds - (time.monotonic() - began_s)))
        outages.end()
        load.end()
        _tell("all is written; catching up, with faults still")
        with DriverProcess(job, self._folder, "--until-caught-up") as driver:
            ended = driver.wait(CATCH_UP_TIMEOUT_S)
        if ended.exit_code != 0:
            raise RunFailedError(f"catching up ended so:\n{ended.stderr[-3000:]}")
        for each in (maintaining, polling, disturbing):
            each.end()
        while proxy.held:
            # Whatever lands now is too late, and must change nothing.
            proxy.land()
            disturbing.landed += 1
        _tell(f"the polling reader met {', '.join(sorted(polling.errors)) or 'no error'}")
        for text in sorted(set(maintaining.errors)):
            _tell(f"Spark's maintenance once: {text[:200]}")
        outcome.outages, outcome.faults = outages.done, disturbing.planned
        outcome.landed_late = disturbing.landed
        outcome.compactions, outcome.expired = maintaining.compactions, maintaining.expired
        return polling

    def _kill_one(self, job: JobFile, left_s: float) -> None:
        began_s = time.monotonic()
        with DriverProcess(job, self._folder) as driver:
            while not driver.events("committed"):
                if not driver.lives() or time.monotonic() - began_s > COMMIT_TIMEOUT_S:
                    raise RunFailedError(f"no commit:\n{driver.stderr()[-3000:]}")
                time.sleep(0.2)
            left_s -= time.monotonic() - began_s
            time.sleep(self._random.uniform(0.2, 1.0) * max(left_s, 6.0))
            if driver.events("route_halted") or not driver.lives():
                raise RunFailedError(f"the route halted:\n{driver.stderr()[-3000:]}")
            published = len(driver.events("lake_published"))
            driver.kill_group()
            driver.wait()
        driver.wipe()
        self.outcome.kills += 1
        _tell(f"killed driver {self.outcome.kills} after {published} snapshots")

    def _judge(self, job: JobFile, spark: SparkBeside, polling: Polling) -> None:
        outcome = self.outcome
        ends = self._ends()
        outcome.rows = sum(ends.values())
        catalog = load_catalog("lake", **self._reader_catalog())
        table = catalog.load_table(self._table)
        found = table.scan(selected_fields=("_source_partition", "_offset", "id")).to_arrow()
        self._count(found, ends)
        rows_of_slots = {
            record.seq: sum(int(file.rows) for file in record.body.files)
            for record, _ in open_ledger(job.route).log.records()
            if isinstance(record.body, DataRecord | LaneDataRecord)
        }
        outcome.polls, outcome.halves = len(polling.seen), polling.halves(rows_of_slots)
        wanted = [[p, end, end, 0, end - 1, _sum_of_numbers(p, end)] for p, end in ends.items()]
        answers = {
            "spark": spark.ask(_SQL.format(table=f"lake.{self._table}")),
            "trino": self._ask_trino(),
            "duckdb": ask_duckdb(table.metadata_location, _SQL.format(table="lake")),
            "pyiceberg": _figures(found),
        }
        for name, rows in answers.items():
            if rows is None:
                outcome.readers_not_run.append(name)
            elif rows == wanted:
                outcome.readers_agree.append(name)
            else:
                _tell(f"{name} found {rows}, not {wanted}")
        assert_verified(job, timeout_s=VERIFY_TIMEOUT_S)
        outcome.verified = True

    def _ask_trino(self) -> list[list[int]] | None:
        """Its answer; None where it cannot be run."""
        java = new_java()
        if java is None:
            _tell(f"Trino is not run: it needs Java {LEAST_JAVA}, and there is none")
            return None
        catalog = {
            "iceberg.catalog.type": "hive_metastore",
            "hive.metastore.uri": self._endpoints.metastore_uri,
        }
        if self._plan.kind == REST:
            catalog = {
                "iceberg.catalog.type": "rest",
                "iceberg.rest-catalog.uri": self._rest_uri(),
            }
        folder = self._folder / "trino"
        folder.mkdir()
        with Trino(java, catalog, folder) as trino:
            return trino.ask(_SQL.format(table=f"lake.{self._table}"))

    def _ends(self) -> dict[int, int]:
        settings = {"bootstrap.servers": self._endpoints.bootstrap_servers, "group.id": "judge"}
        consumer = Consumer(settings)
        ends = {}
        for number in range(PARTITIONS):
            partition = TopicPartition(self._topic, number)
            _, ends[number] = consumer.get_watermark_offsets(partition, REQUEST_TIMEOUT_S)
        consumer.close()
        return ends

    def _count(self, found: pa.Table, ends: dict[int, int]) -> None:
        for partition, end in ends.items():
            own = found.filter(pc.equal(found["_source_partition"], partition))
            offsets = pc.unique(own["_offset"])
            self.outcome.doubled += own.num_rows - len(offsets)
            self.outcome.lost += end - len(offsets)
            number = pc.add(pc.multiply(own["_offset"], PARTITIONS), partition)
            self.outcome.altered += pc.sum(pc.not_equal(own["id"], number)).as_py() or 0


def _sum_of_numbers(partition: int, end: int) -> int:
    return PARTITIONS * (end * (end - 1) // 2) + partition * end


def _figures(found: pa.Table) -> list[list[int]]:
    """What `_SQL` asks, of rows in memory."""
    kinds = [("_offset", kind) for kind in ("count", "count_distinct", "min", "max")]
    rows = found.group_by("_source_partition").aggregate([*kinds, ("id", "sum")]).to_pylist()
    names = ["_source_partition", *(f"_offset_{kind}" for _, kind in kinds), "id_sum"]
    return sorted([row[name] for name in names] for row in rows)


def _tell(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _halves(whole: int) -> tuple[int, int]:
    return whole - whole // 2, whole // 2


def run(given: argparse.Namespace) -> tuple[Outcome, bool]:
    """Both turns in a folder that goes away; whether all that was planned came about."""
    outcome, worked = Outcome(verified=True), True
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sluiceway-lake-")))
        lab = Lab(folder / "lab", stores=[StoreServer.ICEBERG])
        stack.callback(lab.down)
        endpoints = lab.up()
        kills, outages = _halves(given.kills), _halves(given.outages)
        for number, kind in enumerate(given.catalogs):
            whole = len(given.catalogs) == 1
            plan = Plan(
                kind=kind,
                seconds=given.seconds / len(given.catalogs),
                kills=given.kills if whole else kills[number],
                outages=given.outages if whole else outages[number],
                rate=given.rate,
                seed=given.seed,
            )
            turn_folder = folder / kind
            turn_folder.mkdir()
            turn = Turn(plan, lab, endpoints, turn_folder)
            turn.go()
            _tell(f"{kind}: {turn.outcome}")
            outcome.add(turn.outcome)
            worked = worked and turn.outcome.verified
    return outcome, worked


def main() -> int:
    """Run once and print the figures."""
    end_tidily()
    parser = argparse.ArgumentParser(prog="python -m bench.e2e_iceberg")
    parser.add_argument("--seconds", type=float, default=1_200.0)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--outages", type=int, default=10)
    parser.add_argument("--rate", type=int, default=5_000, help="rows a second")
    parser.add_argument("--catalogs", nargs="+", choices=[REST, HIVE], default=[REST, HIVE])
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    given = parser.parse_args()
    _tell(str(given))
    try:
        outcome, worked = run(given)
    except (RunFailedError, ReaderFailedError, AssertionError) as error:
        _tell(f"the run failed: {error}")
        return 1
    outcome.verified = worked
    told: dict[str, Any] = {each.name: getattr(outcome, each.name) for each in fields(outcome)}
    print(json.dumps(told))
    readers = [each for each in READERS if each not in outcome.readers_not_run]
    agree = outcome.readers_agree == readers and set(outcome.readers_not_run) <= {"trino"}
    planned = (outcome.kills, outcome.outages) == (given.kills, given.outages)
    wrong = outcome.lost + outcome.doubled + outcome.altered + outcome.halves
    happened = outcome.rows > 0 and outcome.polls > 0 and outcome.compactions > 0
    return int(not (agree and planned and happened and worked) or wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
