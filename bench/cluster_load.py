"""What the runs on clusters share: a topic that fills, the user's commands, a judge."""

import json
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

# The writer and the independent reader belong to the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from bench.run_failed import RunFailedError
from sluiceway.lab.lab import LabEndpoints
from tools.independent_reader import Report, broker_records, check, table_view
from tools.job_files import JobFile, event, write_job
from tools.row_oracle import Expectation
from tools.topic_writer import TopicWriter

START_MS = 1_795_161_600_000
HOUR_MS = 3_600_000
PATIENCE_S = 1_200.0
PARTITIONS = 4
_COMMAND_TIMEOUT_S = 900.0
_POLL_S = 1.0
_SAID_EVERY_S = 30.0
_TOPIC_TIMEOUT_S = 60.0


def tell(text: str) -> None:
    """Say on standard error what goes on."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def make_topic(bootstrap_servers: str, topic: str, partitions: int) -> None:
    """Create a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    made = admin.create_topics([NewTopic(topic, partitions, 1)])
    made[topic].result(_TOPIC_TIMEOUT_S)


@dataclass(slots=True)
class Load:
    """Rows that come, in two hours of event time.

    Attributes:
        written: So far.
    """

    bootstrap_servers: str
    topic: str
    partitions: int
    written: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    def burst(self, count: int) -> None:
        """Write rows at once."""
        writer = TopicWriter(self.bootstrap_servers)
        numbers = range(self.written, self.written + count)
        for partition in range(self.partitions):
            mine = numbers[partition :: self.partitions]
            writer.write(self.topic, map(row, mine), partition=partition)
        self.written += count

    def close_hours(self) -> None:
        """Write a row of a later hour to each partition, so that both hours are complete."""
        writer, ts_ms = TopicWriter(self.bootstrap_servers), START_MS + 5 * HOUR_MS
        for partition in range(self.partitions):
            writer.write(self.topic, [event(self.written, ts_ms=ts_ms)], partition=partition)
            self.written += 1

    def trickle(self, total: int, *, per_s: int) -> threading.Thread:
        """Write up to `total` rows, evenly, in a thread of its own."""

        def go_on() -> None:
            while self.written < total and not self._ended.wait(1.0):
                self.burst(min(per_s, total - self.written))

        thread = threading.Thread(target=go_on, name="load", daemon=True)
        thread.start()
        return thread

    def end(self) -> None:
        """No more rows of `trickle`."""
        self._ended.set()


def row(number: int) -> bytes:
    """A row of the small job."""
    ts_ms = START_MS + number % 2 * HOUR_MS + number % HOUR_MS
    return b'{"id": %d, "ts": %d, "city": "Bonn", "amount": "%d.25"}' % (number, ts_ms, number)


@dataclass(slots=True)
class Story:
    """A job as a user runs it, with state and caches of its own.

    Attributes:
        folder: Of this run.
        environment: On top of this process's own.
    """

    job: JobFile
    folder: Path
    bootstrap_servers: str
    metastore_uri: str
    environment: dict[str, str] = field(default_factory=dict)
    _says: str = ""

    def command(self, *words: str) -> str:
        """A command of the product; it has to succeed."""
        done = self._done(*words)
        if done.returncode != 0:
            raise RunFailedError(f"sluiceway {' '.join(words)}: {done.stdout}\n{done.stderr}")
        return done.stdout

    def _done(self, *words: str) -> "subprocess.CompletedProcess[str]":
        own = {"XDG_STATE_HOME": str(self.folder / "state")}
        return subprocess.run(
            [sys.executable, "-m", "sluiceway", *words],
            env={**os.environ, **own, **self.environment},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMMAND_TIMEOUT_S,
        )

    def only_job(self) -> dict[str, object]:
        """The one job that was submitted, as `list` shows it."""
        found = json.loads(self.command("list", "-o", "json"))["jobs"]
        if len(found) != 1:
            raise RunFailedError(f"one job was submitted, and `list` shows {found}")
        return dict(found[0])

    def log_lines(self, event: str) -> list[dict[str, Any]]:
        """Of the driver that runs now, as `sluiceway logs` shows it."""
        text = self.command("logs", str(self.job.path), "--lines", "100000")
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return [line for line in lines if line.get("event") == event]

    def routes(self) -> list[dict[str, Any]]:
        """What `status` shows; nothing before the first start, when there is no table."""
        try:
            answer = json.loads(self._done("status", str(self.job.path), "-o", "json").stdout)
            return list(answer["routes"])
        except (ValueError, KeyError):
            return []

    def rows_read(self) -> int:
        """That the ledger has, whoever read them; says what a route that waits waits for."""
        routes = self.routes()
        says = "; ".join(str(route["message"]) for route in routes if route.get("code"))
        if says != self._says:
            tell(f"the route says: {says or 'all well'}")
        self._says = says
        return sum(int(route.get("rows_read") or 0) for route in routes)

    def wait_for_rows(self, count: int) -> None:
        """Wait until so many are committed."""
        self.wait_until(lambda: self.rows_read() >= count, f"{count} rows")

    def wait_until(self, happened: Callable[[], object], what: str) -> None:
        """Wait for something; commands that are asked for it take a second each.

        Says every half minute what it waits for, and gives up after twenty.
        """
        began = said = time.monotonic()
        while not happened():
            now = time.monotonic()
            if now - began > PATIENCE_S:
                raise RunFailedError(f"no {what} in {PATIENCE_S:.0f} s")
            if now - said > _SAID_EVERY_S:
                said = now
                tell(f"waits for {what}, {now - began:.0f} s of at most {PATIENCE_S:.0f}")
            time.sleep(_POLL_S)

    def verified(self) -> bool:
        """Whether `verify --deep` finds all well."""
        try:
            self.command("verify", str(self.job.path), "--deep")
        except RunFailedError as error:
            tell(str(error))
            return False
        return True

    def judge(self, at: tuple[str, Path] | None = None) -> Report:
        """What the independent reader counts.

        Args:
            at: Where the table's files are, and where a copy of them is on this machine.
        """
        database, _, table = self.job.table.partition(".")
        view = table_view(self.metastore_uri, database=database, table=table, at=at)
        records = broker_records(self.bootstrap_servers, self.job.route.topics)
        expectation = Expectation(required=frozenset(("id", "ts")), tombstones="skip")
        return check(records, view, expectation)


def new_story(
    folder: Path,
    endpoints: LabEndpoints,
    topic: str,
    *,
    master: str,
    environment: dict[str, str],
    **written: str,
) -> tuple[Story, Load]:
    """A job of a new topic that nobody has submitted, and what fills the topic.

    Args:
        folder: Of this run.
        endpoints: Of the lab.
        topic: Its name.
        master: What the job file has in place of a local master: `master: ...` and more keys.
        environment: Of the user's commands.
        written: Further arguments of `write_job`.
    """
    servers, metastore = endpoints.bootstrap_servers, endpoints.metastore_uri
    make_topic(servers, topic, PARTITIONS)
    job = write_job(
        folder, bootstrap_servers=servers, metastore_uri=metastore, topic=topic, **written
    )
    job.path.write_text(job.path.read_text().replace('master: "local[2]"', master))
    return Story(job, folder, servers, metastore, environment), Load(servers, topic, PARTITIONS)


def new_topic(prefix: str) -> str:
    """A name that no run had before."""
    return f"{prefix}_{secrets.token_hex(3)}"


def counts_of(report: Report, sent: int) -> dict[str, object]:
    """What every run tells of its rows: those in the table, lost ones, doubled ones."""
    return {
        "rows": report.written,
        "lost": report.lost + sent - report.read,
        "doubled": report.doubled,
    }
