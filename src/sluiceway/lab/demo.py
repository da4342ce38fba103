"""The demo: real servers, a paced producer, the example job, a SIGKILL, and the proof."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sluiceway.audit.open_table import open_table
from sluiceway.audit.run_verify import verify_route
from sluiceway.audit.verify import VerifyReport
from sluiceway.driver.spark.query import query_through_metastore
from sluiceway.errors import LedgerMismatchError, TableNotFoundError, UnhealthyEnvironmentError
from sluiceway.host.java import find_java
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.loader import load_job
from sluiceway.lab.demo_files import independent_reader, orders_job
from sluiceway.lab.demo_store import DemoStore, DemoTable, demo_table
from sluiceway.lab.kafka import create_topic
from sluiceway.lab.lab import Lab
from sluiceway.lab.state import load_state
from sluiceway.lab.support import OnProgress
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import DataRecord, Record

TOPIC = "orders"
PARTITIONS = 4
EVENTS = 200_000
"""Default number of rows of a demo."""
_ROWS_A_SECOND = 5_000
# Rows still arrive while a driver starts, however few they are.
_SHORTEST_PRODUCE_S = 4.0
_START_TIMEOUT_S = 240.0
_FINISH_TIMEOUT_S = 300.0
_STOP_TIMEOUT_S = 60.0
_LOG_TAIL_LINES = 20
_LOGS_FOLDER = "logs"
_FIRST_DRIVER = "driver-1"
_SERVERS = {
    DemoStore.LOCAL: "a real Kafka broker and a real Hive Metastore",
    DemoStore.HDFS: "a real Kafka broker, a real Hive Metastore and a real HDFS",
    DemoStore.S3: "a real Kafka broker, a real Hive Metastore and an S3 store",
}


@dataclass(frozen=True, slots=True)
class DemoPrinter:
    """Output of the demo for the person who waits.

    Attributes:
        say: Shows a line that stays.
        passing: Shows the progress in a line that the next one may replace.
        on_progress: Shows the lab's progress.
    """

    say: Callable[[str], None]
    passing: Callable[[str], None]
    on_progress: OnProgress


class DemoFailedError(UnhealthyEnvironmentError):
    """A step of the demo failed; says which, with the end of the log."""

    code = "SW490"
    exit_code = 1


@dataclass(slots=True)
class DemoResult:
    """The demo's result; `line()` is its closing JSON.

    Attributes:
        events: Rows that were produced.
    """

    events: int = EVENTS
    commits_before_kill: int = 0
    commits_after_kill: int = 0
    kills: int = 0
    independent: dict[str, object] = field(default_factory=dict)
    verify: VerifyReport = field(default_factory=VerifyReport)
    partitions: list[tuple[object, ...]] = field(default_factory=list)
    sample: list[tuple[object, ...]] = field(default_factory=list)
    table: DemoTable | None = None

    def _number(self, name: str) -> int:
        value = self.independent.get(name)
        return value if isinstance(value, int) else -1

    def ok(self) -> bool:
        """Whether every row is in the table once, unchanged, and `verify` agrees."""
        return (
            self.independent.get("ok") is True
            and self._number("read") == self.events
            and self._number("read") == self._number("written") + self._number("dirty")
            and self.verify.verified
            and min(self.commits_before_kill, self.commits_after_kill) >= 1
        )

    def line(self) -> str:
        """The closing line."""
        return json.dumps(
            {
                "demo": "ok" if self.ok() else "failed",
                "read": self._number("read"),
                "written": self._number("written"),
                "dirty": self._number("dirty"),
                "late": 0,
                "filtered": 0,
                "lost": self._number("lost"),
                "doubled": self._number("doubled"),
                "kills": self.kills,
                "commits_before_kill": self.commits_before_kill,
                "commits_after_kill": self.commits_after_kill,
                "verified": self.verify.verified,
            }
        )


def demo_folder(folder: Path | None) -> Path:
    """The folder of a demo: the given one, or a new temporary one.

    Raises:
        UnhealthyEnvironmentError: There is no suitable Java. Or an earlier demo ran in the folder,
            and its rows would count again. Or the folder holds a lab, whose servers the demo must
            not stop.
    """
    find_java()
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="sluiceway-demo-"))
    found = ""
    if (folder / _LOGS_FOLDER / f"{_FIRST_DRIVER}.log").exists():
        found = "an earlier demo ran in this folder, and its rows are still there"
    elif load_state(folder) is not None:
        found = "this folder holds a lab already; the demo starts and ends one of its own"
    if found:
        raise UnhealthyEnvironmentError(
            found,
            where=str(folder),
            hint="leave --dir out, take another folder, or end its servers and remove its data: "
            f"`sluiceway lab down --dir {shlex.quote(str(folder))} --remove-data`",
        )
    return folder


def run_demo(
    place: Path,
    printer: DemoPrinter,
    store: DemoStore = DemoStore.LOCAL,
    *,
    events: int = EVENTS,
    keep: bool,
    temporary: bool,
) -> DemoResult:
    """Run the demo once.

    Args:
        place: Folder of the demo, from `demo_folder`.
        printer: Prints for the person who waits.
        store: The store of the table.
        events: Number of rows to produce.
        keep: Whether to leave the servers running.
        temporary: Whether to remove the folder when all went well; after a failure it stays.

    Raises:
        SluicewayError: A step failed; the servers are ended unless `keep`.
    """
    lab = Lab(place, stores=store.servers)
    failed = False
    try:
        printer.say(f"1/6  starting {_SERVERS[store]}")
        endpoints = lab.up(printer.on_progress)
        table = demo_table(store, lab, endpoints, orders_job())
        result = _Demo(place, table, printer, events).run()
        failed = not result.ok()
    except Exception:
        failed = True
        raise
    finally:
        if not keep:
            done_with = temporary and not failed
            lab.down(remove_data=done_with)
            if done_with:
                # Of a store: the job file, and the copy that was counted.
                shutil.rmtree(place, ignore_errors=True)
    result.table = table
    return result


class _Demo:
    def __init__(self, place: Path, table: DemoTable, printer: DemoPrinter, events: int) -> None:
        self._place = place
        self._table = table
        endpoints = self._endpoints = table.endpoints
        self._say, self._passing = printer.say, printer.passing
        self._logs = place / _LOGS_FOLDER
        self._logs.mkdir(parents=True, exist_ok=True)
        self._environment = {
            **os.environ,
            "SLUICEWAY_KAFKA": endpoints.bootstrap_servers,
            "SLUICEWAY_METASTORE": endpoints.metastore_uri,
        }
        os.environ.update(
            {key: self._environment[key] for key in ("SLUICEWAY_KAFKA", "SLUICEWAY_METASTORE")}
        )
        self._job_file = table.job_file
        (self._route,) = load_job(self._job_file).spec.routes
        self._children: list[subprocess.Popen[bytes]] = []
        self._events = events
        self._produce_s = max(events / _ROWS_A_SECOND, _SHORTEST_PRODUCE_S)
        self._result = DemoResult(events)

    def run(self) -> DemoResult:
        try:
            self._create_topic()
            self._say(
                f"2/6  producing {self._events:,} orders over {self._produce_s:.0f} s, "
                "some of them broken"
            )
            # The first epoch must not find all rows, however slowly Spark starts.
            driver = self._start_driver(_FIRST_DRIVER)
            self._wait_until_it_owns_the_table(driver)
            producer = self._start_producer()
            self._say(f"3/6  running {self._shown_job()}; it will be killed between two commits")
            self._wait_for_a_commit(driver)
            self._kill(driver)
            # Rows that only the second driver can commit, however fast the first one was.
            self._let_go_on(producer)
            self._say("4/6  starting it again; it knows nothing but the table")
            driver = self._start_driver("driver-2")
            self._finish(driver, producer)
            self._say("5/6  verifying: our own check, then a reader that shares no code with us")
            self._result.verify = verify_route(compile_route(self._route), deep=True)
            self._result.independent = self._read_independently()
            self._say("6/6  reading the table with Spark SQL through the metastore")
            self._query()
        finally:
            self._end_children()
        return self._result

    def _shown_job(self) -> str:
        example = "examples/orders.yaml"
        place = self._table.location
        return f"{example} with its table at {place}" if place else example

    def _create_topic(self) -> None:
        if not create_topic(self._endpoints.bootstrap_servers, TOPIC, PARTITIONS):
            raise UnhealthyEnvironmentError(
                f"the lab has a topic {TOPIC} already",
                where=str(self._place),
                hint="leave --dir out, or take another folder",
            )

    def _start(
        self, name: str, command: list[str], *, stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        with (self._logs / f"{name}.log").open("wb") as log:
            child = subprocess.Popen(  # noqa: S603 - our own commands
                [sys.executable, "-m", *command],
                stdin=stdin,
                stdout=log,
                stderr=log,
                env=self._environment,
            )
        self._children.append(child)
        return child

    def _start_driver(self, name: str) -> subprocess.Popen[bytes]:
        self._driver_log = name
        return self._start(name, ["sluiceway", "run", str(self._job_file)])

    def _start_producer(self) -> subprocess.Popen[bytes]:
        servers = self._endpoints.bootstrap_servers
        counts = ["--count", str(self._events), "--seconds", str(self._produce_s)]
        return self._start(
            "producer",
            [
                "sluiceway.lab.order_events",
                "--bootstrap-servers",
                servers,
                "--topic",
                TOPIC,
                *counts,
                "--wait-halfway",
            ],
            stdin=subprocess.PIPE,
        )

    def _let_go_on(self, producer: subprocess.Popen[bytes]) -> None:
        """Release the second half of the orders."""
        if producer.stdin is not None:
            producer.stdin.close()

    def _records(self) -> list[Record]:
        """Records of the ledger so far; empty before the table exists."""
        try:
            table = open_table(compile_route(self._route))
        except (LedgerMismatchError, TableNotFoundError):
            return []
        table.close()
        return [record for record, _ in LedgerLog(table.storage, table.layout).records()]

    def _commits(self) -> tuple[int, int]:
        """Data records in the ledger and rows read so far."""
        data = [r.body for r in self._records() if isinstance(r.body, DataRecord)]
        return len(data), sum(int(body.counts.read) for body in data)

    def _wait_until_it_owns_the_table(
        self, driver: subprocess.Popen[bytes], *, term: int = 1
    ) -> None:
        until = time.monotonic() + _START_TIMEOUT_S
        while max((record.term for record in self._records()), default=0) < term:
            self._assert_lives(driver, until, "a first ledger record")
            time.sleep(0.3)

    def _wait_for_a_commit(self, driver: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + _START_TIMEOUT_S
        while not (commits := self._commits())[0]:
            self._assert_lives(driver, until, "a first commit")
            time.sleep(0.3)
        self._say(f"     {commits[1]:,} rows are committed; now SIGKILL between two commits")

    def _kill(self, driver: subprocess.Popen[bytes]) -> None:
        victims = [*process_tree(driver.pid), driver.pid]
        for pid in victims:
            _kill_quietly(pid)
        driver.wait()
        self._result.kills = 1
        self._result.commits_before_kill = self._commits()[0]
        self._say(f"     killed: the driver, its JVM and its workers ({len(victims)} processes)")

    def _finish(self, driver: subprocess.Popen[bytes], producer: subprocess.Popen[bytes]) -> None:
        self._wait_until_it_owns_the_table(driver, term=2)
        until = time.monotonic() + _FINISH_TIMEOUT_S
        shown = 0.0
        while (commits := self._commits())[1] < self._events:
            self._assert_lives(driver, until, f"{self._events} rows")
            if producer.poll() not in (None, 0):
                raise DemoFailedError("the producer failed", where=str(self._logs / "producer.log"))
            if time.monotonic() - shown > 2.0:  # noqa: PLR2004 - seconds between two lines
                shown = time.monotonic()
                self._passing(
                    f"     {commits[1]:>9,} of {self._events:,} rows in {commits[0]} commits"
                )
            time.sleep(0.3)
        driver.send_signal(signal.SIGTERM)
        if driver.wait(_STOP_TIMEOUT_S) != 0:
            raise self._failed("the driver did not stop cleanly")
        total = self._commits()[0]
        self._result.commits_after_kill = total - self._result.commits_before_kill
        self._say(
            f"     all {self._events:,} rows in {total} commits; stopped with SIGTERM, exit 0"
        )

    def _assert_lives(self, driver: subprocess.Popen[bytes], until: float, what: str) -> None:
        if driver.poll() is not None:
            raise self._failed(f"the driver ended with {driver.returncode} before {what}")
        if time.monotonic() > until:
            raise self._failed(f"no {what} in time")

    def _failed(self, what: str) -> DemoFailedError:
        path = self._logs / f"{self._driver_log}.log"
        tail = "\n".join(path.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:])
        return DemoFailedError(f"{what}; its log ends:\n{tail}", where=str(path))

    def _read_independently(self) -> dict[str, object]:
        servers, metastore = self._endpoints.bootstrap_servers, self._endpoints.metastore_uri
        table = self._route.table.target.name
        files = self._table.plain_files(self._place / "copy")
        at = [] if files is None else ["--at", self._table.location, str(files)]
        done = subprocess.run(  # noqa: S603 - our own command
            [
                sys.executable, str(independent_reader()), "--bootstrap-servers", servers,
                "--metastore", metastore, "--table", table, "--topic", TOPIC, *at,
            ],
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        for detail in done.stderr.splitlines():
            self._say(f"     {detail}")
        try:
            found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
        except (IndexError, ValueError) as error:
            raise DemoFailedError(
                f"the independent reader gave no result: {done.stderr[-500:]}"
            ) from error
        return {**found, "ok": done.returncode == 0}

    def _query(self) -> None:
        table = self._route.table.target.name
        self._result.partitions, self._result.sample = query_through_metastore(
            self._endpoints.metastore_uri,
            [
                f"SELECT dt, hr, count(*) FROM {table} GROUP BY dt, hr ORDER BY dt, hr",  # noqa: S608
                "SELECT order_id, status, amount, currency, geo.city, size(items), dt, hr "  # noqa: S608
                f"FROM {table} WHERE geo IS NOT NULL ORDER BY order_id LIMIT 5",
            ],
            self._table.spark_settings,
        )

    def _end_children(self) -> None:
        for child in self._children:
            if child.poll() is None:
                for pid in [*process_tree(child.pid), child.pid]:
                    _kill_quietly(pid)
                child.wait()
            if child.stdin is not None:
                child.stdin.close()


def process_tree(pid: int) -> list[int]:
    """All descendants of a process, from /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text(errors="replace")
        except OSError:
            continue
        parent = int(stat.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    queue = [pid]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def _kill_quietly(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
