"""MariaDB through Debezium and Kafka into keyed lake tables, while drivers and Connect are killed.

Transactions insert, update, delete and change keys; the database gets a column meanwhile, and the
last table is truncated after each kill. The driver is killed with all that it started again and
again, Connect after every other kill, so that it repeats events, and the broker once. At the end
the job catches up, and each table is compared with the database, column by column, once as Spark
reads it and once as pyiceberg does, and snapshots of the run, read by both, with the topics up to
the offsets that they name.

`python -m bench.e2e_cdc [--seconds 60] [--kills 3] [--tables 3]` tells what it does on standard
error and ends with one JSON line; 1 is the exit code when anything differs.
"""

import argparse
import json
import os
import random
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Self, cast

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.catalog.sql import SqlCatalog

from bench.cdc_moments import compare_moments, pyiceberg_reader
from bench.cdc_servers import DATABASE, PREFIX, Connect, MariaDb, ServerFailedError, fetch
from bench.run_failed import RunFailedError
from bench.tidy_end import end_tidily
from sluiceway.lab.jars import default_cache_folder
from sluiceway.lab.lab import Lab

# The driver's handle belongs to the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from tools.driver_process import DriverProcess
from tools.job_files import JobFile

PATIENCE_S = 300.0
CATCH_UP_S = 1_800.0
IDS = 2_000
DELETED, MOVED, EMPTY = 0.15, 0.1, 0.1
MOST_SHOWN = 5
_TABLE = """\
CREATE TABLE t{n} (id BIGINT PRIMARY KEY, name VARCHAR(100), flag TINYINT(1),
  small SMALLINT UNSIGNED, qty INT UNSIGNED, big BIGINT UNSIGNED, amount DECIMAL(18,2),
  ratio DOUBLE, d DATE,
  at DATETIME(6), ts TIMESTAMP(3) NULL, yes BIT(1), kind ENUM('a','b','c'), doc JSON, note TEXT);
"""
# As the database tells each column as text or number; the table's values are told likewise.
_SELECT = (
    "SELECT JSON_ARRAY(id, name, flag, small, qty, CAST(big AS CHAR), CAST(amount AS CHAR), "
    "CAST(ratio AS CHAR), CAST(NULLIF(d, '0000-00-00') AS CHAR), CAST(at AS CHAR), "
    "CAST(ts AS CHAR), yes + 0, kind, CAST(doc AS CHAR), note) FROM {database}.t{n} ORDER BY id;"
)
NAMES = (
    *("id", "name", "flag", "small", "qty", "big", "amount", "ratio", "d", "at", "ts", "yes"),
    *("kind", "doc", "note"),
)
_JOB = """\
version: 1
name: shop
connections:
  main: {{kafka: {{bootstrap_servers: "{brokers}"}}}}
  lake: {{iceberg: {{sql: {{uri: "sqlite:///{folder}/catalog.db", warehouse: "file://{folder}/lake"}}}}}}
source: {{connection: main, start: earliest}}
format: {{debezium: {{}}}}
table:
  iceberg: {{connection: lake, publish_interval: 2s}}
  key: [id]
  columns:
    - {{name: id, type: bigint}}
    - {{name: name, type: string}}
    - {{name: flag, type: tinyint}}
    - {{name: small, type: int}}
    - {{name: qty, type: bigint}}
    - {{name: big, type: "decimal(20,0)"}}
    - {{name: amount, type: "decimal(18,2)"}}
    - {{name: ratio, type: double}}
    - {{name: d, type: date}}
    - {{name: at, type: timestamp, timezone: UTC}}
    - {{name: ts, type: timestamp}}
    - {{name: "yes", type: boolean}}
    - {{name: kind, type: string}}
    - {{name: doc, type: string}}
    - {{name: note, type: string}}
  partition_by: []
  meta: [partition, offset]
routes:
{routes}
run: {{interval: 1s, master: "local[2]"}}
"""


@dataclass(slots=True)
class Outcome:
    """The closing figures."""

    tables: int = 0
    transactions: int = 0
    transactions_a_second: float = 0.0
    rows_compared: int = 0
    rows_differ: int = 0
    kills: int = 0
    connector_kills: int = 0
    broker_kills: int = 0
    truncates: int = 0
    moments: int = 0
    moments_differ: int = 0
    most_delete_files: int = 0
    verified: bool = False


class Load:
    """Runs transactions from a thread of its own."""

    def __init__(self, database: MariaDb, tables: int, rate: float, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - a load
        self._tables, self._rate = tables, rate
        self.count = 0
        self.rate = 0.0
        """Transactions a second, until the last one was committed."""
        self._over = threading.Event()
        self._began_s = time.monotonic()
        self._client = subprocess.Popen(
            [*database.client(), DATABASE], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        self._thread = threading.Thread(target=self._go, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop, when the last transaction is committed."""
        self._over.set()
        self._thread.join(60)
        if self._client.wait(120) != 0:
            raise RunFailedError("the database's client failed")
        self.rate = round(self.count / (time.monotonic() - self._began_s), 1)

    def _go(self) -> None:
        with cast("IO[bytes]", self._client.stdin) as told:
            while not self._over.is_set():
                told.write(self._transaction().encode())
                told.flush()
                self.count += 1
                due_s = self._began_s + self.count / self._rate
                self._over.wait(max(0.0, due_s - time.monotonic()))

    def _transaction(self) -> str:
        statements = [self._statement() for _ in range(self._random.randint(1, 4))]
        return f"BEGIN; {' '.join(statements)} COMMIT;\n"

    def _statement(self) -> str:
        chance, table = self._random, f"t{self._random.randrange(self._tables)}"
        row = chance.randrange(1, IDS)
        what = chance.random()
        if what < DELETED:
            return f"DELETE FROM {table} WHERE id = {row};"  # noqa: S608 - of our own numbers
        if what < DELETED + MOVED:
            # A key change: Debezium tells it as a delete and an insert.
            new = chance.randrange(1, IDS)
            return f"UPDATE IGNORE {table} SET id = {new} WHERE id = {row};"  # noqa: S608
        names = ", ".join(f"`{name}`" for name in NAMES)
        changes = ", ".join(f"`{name}` = VALUES(`{name}`)" for name in NAMES[1:])
        values = ", ".join(self._values())
        return (
            f"INSERT INTO {table} ({names}) VALUES ({row}, {values}) "  # noqa: S608
            f"ON DUPLICATE KEY UPDATE {changes};"
        )

    def _values(self) -> list[str]:
        chance = self._random
        cents, seconds = chance.randrange(-(10**12), 10**12), chance.randrange(10**9)
        moment = datetime.fromtimestamp(seconds + 86_400, UTC)
        dates = (f"'{moment:%Y-%m-%d}'", "'0000-00-00'", "'1001-02-03'", "'9999-12-31'")
        values = [
            chance.choice((f"'name {chance.randrange(10**6)}'", "'上海 \"quoted\" 🙂'", "''")),
            chance.choice(("0", "1", "-7")),
            str(chance.randrange(65_536)),
            str(chance.randrange(2**32)),
            chance.choice((str(chance.randrange(2**64)), "18446744073709551615", "0")),
            f"{cents / 100:.2f}",
            repr(chance.choice((0.5, 1.25, -3.0, 1e10))),
            chance.choice(dates),
            f"'{moment:%Y-%m-%d %H:%M:%S}.{chance.randrange(10**6):06}'",
            f"'{moment:%Y-%m-%d %H:%M:%S}.{chance.randrange(10**3):03}'",
            chance.choice(("b'0'", "b'1'")),
            chance.choice(("'a'", "'b'", "'c'")),
            '\'{"k": [1, 2.50, "x"]}\'',
            chance.choice(("'line\\nbreak'", "'tab\\there'")),
        ]
        return [value if chance.random() > EMPTY else "NULL" for value in values]


class Run:
    """One run, step by step."""

    def __init__(self, folder: Path, lab: Lab, database: MariaDb, connect: Connect) -> None:
        self._folder, self._lab = folder, lab
        self._brokers = lab.endpoints().bootstrap_servers
        self._database, self._connect = database, connect
        self.outcome = Outcome()

    def go(self, given: argparse.Namespace, jars: Path) -> None:
        """Change, kill, catch up, compare.

        Raises:
            RunFailedError: A step did not come about.
        """
        tables: int = given.tables
        self.outcome.tables = tables
        made = "".join(_TABLE.format(n=n) for n in range(tables))
        self._database.run(f"CREATE DATABASE {DATABASE}; USE {DATABASE}; {made}")
        # Rows that Debezium's snapshot tells.
        load = Load(self._database, tables, 500.0, given.seed)
        time.sleep(2)
        load.end()
        self.outcome.transactions += load.count
        # A truncate is applied in a topic of one partition.
        last = NewTopic(f"{PREFIX}.{DATABASE}.t{tables - 1}", 1, 1)
        admin = AdminClient({"bootstrap.servers": self._brokers})
        for made_topic in admin.create_topics([last]).values():
            made_topic.result(PATIENCE_S)
        self._connect.start()
        self._wait_for_topics(tables)
        job = self._job(tables)
        load = Load(self._database, tables, given.rate, given.seed + 1)
        self._connect.wait_until_it_streams()
        for number in range(given.kills):
            bounced = number == given.kills // 2
            self._kill_one(job, given.seconds / max(given.kills, 1), bounced=bounced)
            self._disturb(number, tables)
        if not given.kills:
            time.sleep(given.seconds)
        load.end()
        self.outcome.transactions += load.count
        self.outcome.transactions_a_second = load.rate
        self._wait_until_told(tables)
        _tell("all is in the topics; catching up")
        with DriverProcess(job, self._folder, "--until-caught-up") as driver:
            ended = driver.wait(CATCH_UP_S)
        if ended.exit_code != 0:
            raise RunFailedError(f"catching up ended so:\n{ended.stderr[-3000:]}")
        with SparkReader(self._folder, jars) as spark:
            self._compare(tables, spark)
            self._compare_moments(tables, given.moments, spark)
        done = subprocess.run(
            [sys.executable, "-m", "sluiceway", "verify", str(job.path), "--deep"],
            capture_output=True,
            text=True,
            check=False,
        )
        _tell(done.stdout[-600:])
        self.outcome.verified = (
            done.returncode == 0 and self.outcome.rows_differ == self.outcome.moments_differ == 0
        )

    def _disturb(self, number: int, tables: int) -> None:
        """What happens to the database and Connect while no driver runs."""
        if number == 0:
            self._database.run(f"ALTER TABLE {DATABASE}.t0 ADD COLUMN extra INT DEFAULT 7;")
        if number % 2 == 0:
            self._connect.kill()
            self._connect.start()
            self.outcome.connector_kills += 1
        self._database.run(f"TRUNCATE TABLE {DATABASE}.t{tables - 1};")
        self.outcome.truncates += 1

    def _job(self, tables: int) -> JobFile:
        (self._folder / "lake").mkdir()
        routes = "\n".join(
            f"  - {{topics: [{PREFIX}.{DATABASE}.t{n}], table: ods.t{n}}}"
            for n in range(tables - 1)
        )
        last = tables - 1
        routes += f"""
  - topics: [{PREFIX}.{DATABASE}.t{last}]
    table: {{iceberg: {{name: ods.t{last}}}, key_order: one_partition, on_truncate: apply}}"""
        path = self._folder / "shop.yaml"
        path.write_text(_JOB.format(brokers=self._brokers, folder=self._folder, routes=routes))
        return JobFile(path, "ods.t0")

    def _wait_for_topics(self, tables: int) -> None:
        admin = AdminClient({"bootstrap.servers": self._brokers})
        wanted = {f"{PREFIX}.{DATABASE}.t{n}" for n in range(tables)}
        until_s = time.monotonic() + PATIENCE_S
        while not wanted <= admin.list_topics(timeout=10).topics.keys():
            if time.monotonic() > until_s:
                raise RunFailedError(f"no topics:\n{self._connect.log()}")
            time.sleep(0.5)

    def _kill_one(self, job: JobFile, seconds: float, *, bounced: bool) -> None:
        with DriverProcess(job, self._folder) as driver:
            driver.wait_for_event("lake_published")
            if bounced:
                self._lab.kill_server("kafka")
                time.sleep(2)
                self._lab.start_server("kafka")
                self.outcome.broker_kills += 1
            time.sleep(random.uniform(seconds / 2, seconds))  # noqa: S311 - a moment
            halted = driver.events("route_halted")
            if halted or not driver.lives():
                raise RunFailedError(f"the route halted: {halted}\n{driver.stderr()[-1000:]}")
            driver.kill_group()
            driver.wait()
        driver.wipe()
        self.outcome.kills += 1
        _tell(f"driver killed: {self.outcome.kills}")

    def _wait_until_told(self, tables: int) -> None:
        """Wait until a last row of each table is in its topic."""
        mark = secrets.token_hex(8)
        self._database.run(
            "".join(
                f"INSERT INTO {DATABASE}.t{n} (id, name) VALUES (999999, '{mark}');"  # noqa: S608
                for n in range(tables)
            )
        )
        consumer = Consumer(
            {
                "bootstrap.servers": self._brokers,
                "group.id": mark,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        names = [f"{PREFIX}.{DATABASE}.t{n}" for n in range(tables)]
        topics = consumer.list_topics(timeout=10).topics
        parts = [TopicPartition(name, p, 0) for name in names for p in topics[name].partitions]
        consumer.assign(parts)
        seen: set[str] = set()
        until_s = time.monotonic() + PATIENCE_S
        while len(seen) < tables:
            if time.monotonic() > until_s:
                raise RunFailedError(f"Debezium does not come to the end:\n{self._connect.log()}")
            message = consumer.poll(1.0)
            value = None if message is None else message.value()
            if message is not None and value is not None and mark.encode() in value:
                seen.add(str(message.topic()))
        consumer.close()

    def _catalog(self) -> SqlCatalog:
        return SqlCatalog(
            "lake",
            uri=f"sqlite:///{self._folder}/catalog.db",
            warehouse=f"file://{self._folder}/lake",
        )

    def _compare_moments(self, tables: int, count: int, spark: "SparkReader") -> None:
        topics = {f"{PREFIX}.{DATABASE}.t{n}": f"ods.t{n}" for n in range(tables)}
        readers = {"pyiceberg": pyiceberg_reader(self._catalog()), "spark": spark.read}
        found = compare_moments(self._brokers, self._catalog(), topics, count, readers)
        self.outcome.moments, self.outcome.moments_differ = found
        _tell(f"{found[0]} snapshots of the run, {found[1]} rows differ")

    def _compare(self, tables: int, spark: "SparkReader") -> None:
        catalog = self._catalog()
        for n in range(tables):
            lines = self._database.run(_SELECT.format(database=DATABASE, n=n))
            wanted = {row[0]: row for row in map(json.loads, lines)}
            scan = catalog.load_table(f"ods.t{n}").scan(selected_fields=NAMES)
            tasks = list(scan.plan_files())
            deletes = {each.file_path for task in tasks for each in task.delete_files}
            self.outcome.most_delete_files = max(self.outcome.most_delete_files, len(deletes))
            columns = scan.to_arrow().select(list(NAMES)).to_pydict()
            by_pyiceberg = [list(row) for row in zip(*columns.values(), strict=True)]
            by_spark = spark.read(f"ods.t{n}", None, NAMES)
            for engine, rows in (("spark", by_spark), ("pyiceberg", by_pyiceberg)):
                found: dict[int, list[Any]] = {}
                for row in map(_told, rows):
                    self.outcome.rows_differ += row[0] in found
                    found[row[0]] = row
                for key in wanted.keys() | found.keys():
                    if wanted.get(key) != found.get(key):
                        self.outcome.rows_differ += 1
                        if self.outcome.rows_differ <= MOST_SHOWN:
                            _tell(f"{engine} t{n}: {wanted.get(key)} {found.get(key)}")
            self.outcome.rows_compared += len(wanted)


def _told(row: list[Any]) -> list[Any]:
    """A row of the table as the database tells its own."""
    told = dict(zip(NAMES, row, strict=True))
    for name in ("big", "amount", "d"):
        told[name] = None if told[name] is None else str(told[name])
    told["ratio"] = None if told["ratio"] is None else f"{told['ratio']:.15g}"
    for name, digits in (("at", 6), ("ts", 3)):
        if told[name] is not None:
            text = told[name].replace(tzinfo=None).strftime("%Y-%m-%d %H:%M:%S.%f")
            told[name] = text[: len(text) - 6 + digits]
    told["yes"] = None if told["yes"] is None else int(told["yes"])
    return list(told.values())


class SparkReader:
    """A session of Spark with the catalog, as a context."""

    def __init__(self, folder: Path, jars: Path) -> None:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - a second, and only at the end

        os.environ["TZ"] = "UTC"
        time.tzset()
        catalog = "spark.sql.catalog.lake"
        packages = ",".join(str(jar) for jar in sorted((jars / "spark").glob("*.jar")))
        self._session = (
            SparkSession.builder.master("local[2]")
            .config("spark.jars", packages)
            .config("spark.ui.enabled", "false")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC")
            .config(catalog, "org.apache.iceberg.spark.SparkCatalog")
            .config(f"{catalog}.catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog")
            .config(f"{catalog}.uri", f"jdbc:sqlite:{folder}/catalog.db")
            .config(f"{catalog}.warehouse", f"file://{folder}/lake")
            .getOrCreate()
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.stop()

    def read(self, table: str, snapshot: int | None, names: Sequence[str]) -> list[list[Any]]:
        """Rows of a table, now or as a snapshot has them."""
        reader = self._session.read
        if snapshot is not None:
            reader = reader.option("versionAsOf", snapshot)
        found = reader.table(f"lake.{table}").select(*names).collect()
        return [list(row) for row in found]


def _tell(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Run once and print the figures."""
    end_tidily()
    parser = argparse.ArgumentParser(prog="python -m bench.e2e_cdc")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--tables", type=int, default=3)
    parser.add_argument("--rate", type=float, default=100.0, help="transactions a second")
    parser.add_argument("--moments", type=int, default=20, help="snapshots that are compared")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    given = parser.parse_args()
    _tell(str(given))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sluiceway-cdc-")))
        folder.chmod(0o755)
        try:
            jars = fetch(default_cache_folder(os.environ))
            lab = Lab(folder / "lab")
            stack.callback(lab.down)
            brokers = lab.up().bootstrap_servers
            database = MariaDb(folder / "my")
            stack.callback(database.stop)
            connect = Connect(folder / "connect", jars, database, brokers)
            stack.callback(connect.kill)
            run = Run(folder, lab, database, connect)
            run.go(given, jars)
        except (RunFailedError, ServerFailedError, AssertionError) as error:
            _tell(f"the run failed: {error}")
            return 1
    print(json.dumps(asdict(run.outcome)))
    return int(not run.outcome.verified or run.outcome.kills != given.kills)


if __name__ == "__main__":
    sys.exit(main())
