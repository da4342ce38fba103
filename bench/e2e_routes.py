"""Many topics into many tables by one job, while topics come, a table goes and the driver dies.

Starts a lab and one job file with `routes:`, a third of them listed, the others by patterns that
name the tables. One topic is poisoned: all of its rows have to become dirty rows. One table is
dropped in mid-run: its route has to halt, and no other. Topics and partitions are added, and the
driver is killed with all that it started at random moments. After the last event the job catches
up and is stopped gracefully; then the independent reader judges every row of every route. The
route without a table is judged by its files: no hole below its last row.

`python -m bench.e2e_routes [--topics 60] [--added 20] [--seconds 150] [--rate 200] [--kills 5]`
tells what it does on standard error and ends with one JSON line; 1 is the exit code when
anything is wrong.
"""

import argparse
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pymetastore.hive_metastore import ThriftHiveMetastore
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from bench.route_judge import Place, all_faults, judge
from bench.route_topics import LOG_PARTITIONS, PacedProducer, Topic, make_topics, route_entries
from bench.run_failed import RunFailedError
from bench.tidy_end import end_tidily
from sluiceway.lab.demo import process_tree
from sluiceway.lab.lab import Lab, LabEndpoints
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.storage.local import LocalStorage

DATABASE = "ods"
REQUEST_TIMEOUT_S = 60.0
START_TIMEOUT_S = 180.0
CATCH_UP_TIMEOUT_S = 900.0
STOP_TIMEOUT_S = 90.0
POLL_S = 0.5
BATCHES_OF_ADDED = 4
# A kill comes at a random moment within so much of the time, from a commit on.
KILLS_APART = 10
TAIL_CHARACTERS = 3000


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: topics at the start, added ones, production time, rate a topic, kills."""

    topics: int
    added: int
    seconds: float
    rate: float
    kills: int
    seed: int


@dataclass(slots=True)
class Outcome:
    """The closing figures."""

    routes: int = 0
    halted: int = 0
    halted_expected: int = 0
    rows: int = 0
    lost: int = 0
    doubled: int = 0
    kills: int = 0
    altered: int = 0
    dirty: int = 0
    read: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


def job_text(endpoints: LabEndpoints, topics: Sequence[Topic]) -> str:
    """The one job file; JSON is YAML."""
    job: dict[str, Any] = {
        "version": 1,
        "name": "e2e-routes",
        "connections": {
            "broker": {"kafka": {"bootstrap_servers": endpoints.bootstrap_servers}},
            "hms": {"metastore": {"uri": endpoints.metastore_uri}},
        },
        "source": {"connection": "broker", "start": "earliest"},
        "format": {"json": {"unknown_fields": "ignore"}},
        "table": {
            "hive": {"connection": "hms", "create": "if_missing"},
            "meta": ["topic", "partition", "offset", "timestamp"],
        },
        "run": {"interval": "4s", "discover_interval": "2s", "master": "local"},
        "routes": list(route_entries(topics)),
    }
    return json.dumps(job, indent=1)


class Driver:
    """`sluiceway run` again and again, one process after the other.

    Args:
        job: The job file.
        logs: An existing folder for a log a process.
    """

    def __init__(self, job: Path, logs: Path) -> None:
        self._job = job
        self._logs = logs
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0

    def start(self) -> None:
        """Start it; the one before is gone."""
        self._starts += 1
        with self._log().open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sluiceway", "run", str(self._job)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "TMPDIR": str(self._logs)},
            )

    def check(self) -> None:
        """Refuse a driver that ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise self.failed(f"the driver ended with {self._process.returncode}")

    def has_committed(self) -> bool:
        """Whether the process that runs now has committed rows."""
        return bool(self.events("committed", last=True))

    def kill(self) -> int:
        """SIGKILL the driver with its JVM and its workers; how many they were."""
        if self._process is None or self._process.poll() is not None:
            return 0
        victims = [self._process.pid, *process_tree(self._process.pid)]
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        return len(victims)

    def stop(self) -> None:
        """Stop it gracefully; its exit code is 0."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise self.failed(f"the driver runs on after {STOP_TIMEOUT_S} s") from error
        if code != 0:
            raise self.failed(f"the driver stopped with {code}")

    def events(self, name: str, *, last: bool = False) -> list[dict[str, Any]]:
        """Log lines of one event, of all processes or of the last one."""
        numbers = [self._starts] if last else range(1, self._starts + 1)
        found = []
        for number in numbers:
            # A killed process may leave half a line.
            for line in self._log(number).read_text(errors="replace").splitlines():
                if line.startswith("{") and line.endswith("}") and f'"event": "{name}"' in line:
                    found.append(json.loads(line))
        return found

    def failed(self, what: str) -> RunFailedError:
        """The error for a driver that did not do what it should."""
        tail = self._log().read_text(errors="replace")[-TAIL_CHARACTERS:]
        return RunFailedError(f"{what}; its log ends:\n{tail}")

    def _log(self, number: int = 0) -> Path:
        return self._logs / f"driver-{number or self._starts}.log"


class Ledgers:
    """What the ledgers of the routes say so far, read from their folders."""

    def __init__(self, warehouse: Path, topics: Sequence[Topic]) -> None:
        storage = LocalStorage()
        roots = {topic: warehouse / f"{DATABASE}.db" / topic.name for topic in topics}
        self._folds = {
            topic: (LedgerLog(storage, LedgerLayout(str(root), topic.route)), Fold())
            for topic, root in roots.items()
        }

    def rows_read(self, topic: Topic) -> int:
        """Committed ends of a topic whose logs begin at 0, added up."""
        log, fold = self._folds[topic]
        log.advance(fold)
        return sum(known.end for known in fold.sources.values())

    def all_rows_read(self) -> int:
        """Of all topics."""
        return sum(self.rows_read(topic) for topic in self._folds)


class Run:
    """One run, step by step."""

    def __init__(self, plan: Plan, endpoints: LabEndpoints, folder: Path) -> None:
        self._plan = plan
        self._endpoints = endpoints
        self._random = random.Random(plan.seed)  # noqa: S311 - moments of kills
        self._first, self._added = make_topics(plan.topics, plan.added)
        self._all = [*self._first, *self._added]
        self._admin = AdminClient(
            {"bootstrap.servers": endpoints.bootstrap_servers, "log_level": 0}
        )
        self._producer = PacedProducer(
            endpoints.bootstrap_servers, rate=plan.rate, seconds=plan.seconds
        )
        job = folder / "routes.yaml"
        job.write_text(job_text(endpoints, self._first))
        self._driver = Driver(job, folder)
        self._ledgers = Ledgers(endpoints.warehouse, self._all)
        self.outcome = Outcome()

    def go(self) -> None:
        """Produce, disturb, catch up, stop, judge.

        Raises:
            RunFailedError: A step did not come about.
        """
        try:
            self._create(self._first)
            self._driver.start()
            self._wait(self._all_fenced, START_TIMEOUT_S, "all routes started")
            self._producer.start()
            self._producer.add(self._first)
            self._disturb()
            self._wait(self._caught_up, CATCH_UP_TIMEOUT_S, "catch-up")
            self._driver.stop()
        finally:
            self._driver.kill()
            self._producer.end()
        self._judge()

    # What happens while events come

    def _disturb(self) -> None:
        """Until the time is over and all kills are done; the last ones may come in catch-up."""
        began = time.monotonic()
        schedule = self._schedule()
        kill_at: float | None = None
        while schedule or self._kills_left():
            passed = time.monotonic() - began
            self._driver.check()
            while schedule and schedule[0][0] <= passed:
                schedule.pop(0)[1]()
            if kill_at is not None and passed >= kill_at:
                self._kill()
                kill_at = None
            elif kill_at is None and self._kills_left() and self._works():
                kill_at = passed + self._random.uniform(0, self._plan.seconds / KILLS_APART)
            if passed > self._plan.seconds + CATCH_UP_TIMEOUT_S:
                raise self._driver.failed(f"{self._kills_left()} kills are left")
            time.sleep(POLL_S)

    def _works(self) -> bool:
        """Whether the driver that runs now has committed rows, or has none left."""
        return self._driver.has_committed() or self._caught_up()

    def _kills_left(self) -> int:
        return self._plan.kills - self.outcome.kills

    def _schedule(self) -> list[tuple[float, Callable[[], None]]]:
        """Moments in seconds from the first event, and what happens then."""
        length = self._plan.seconds
        grown = [topic for topic in self._first if not topic.dropped][:: len(self._first) // 5 or 1]
        schedule: list[tuple[float, Callable[[], None]]] = [
            (length * 0.5, self._drop_table),
            (length * 0.6, partial(self._grow, grown)),
            (length, self._end_production),
        ]
        for number in range(BATCHES_OF_ADDED):
            if batch := self._added[number::BATCHES_OF_ADDED]:
                moment = length * self._random.uniform(0.1, 0.7)
                schedule.append((moment, partial(self._add, batch)))
        return sorted(schedule, key=lambda each: each[0])

    def _end_production(self) -> None:
        # On a busy machine the last topics were added a moment ago.
        self._wait(self._all_have_events, CATCH_UP_TIMEOUT_S, "an event of each topic")
        self._producer.end()
        _tell(f"produced {self._producer.acked.total()} events; catching up")

    def _kill(self) -> None:
        killed = self._driver.kill()
        if killed == 0:
            raise self._driver.failed("the driver was gone before it was killed")
        self.outcome.kills += 1
        rows = self._ledgers.all_rows_read()
        _tell(f"killed {killed} processes; {rows} rows are committed; starting again")
        self._driver.start()

    def _drop_table(self) -> None:
        topic = next(topic for topic in self._first if topic.dropped)
        # A table without a row would leave the judge nothing to compare.
        self._wait(lambda: self._ledgers.rows_read(topic) > 0, CATCH_UP_TIMEOUT_S, "first row")
        host, _, port = self._endpoints.metastore_uri.removeprefix("thrift://").rpartition(":")
        transport = TBufferedTransport(TSocket(host, int(port)))
        transport.open()
        client = ThriftHiveMetastore.Client(TBinaryProtocol(transport))
        client.drop_table(DATABASE, topic.name, deleteData=False)
        transport.close()
        self.outcome.halted_expected += 1
        _tell(f"dropped the table {DATABASE}.{topic.name}")

    def _create(self, topics: Sequence[Topic]) -> None:
        wanted = [NewTopic(topic.name, LOG_PARTITIONS, 1) for topic in topics]
        if wanted:
            for future in self._admin.create_topics(wanted).values():
                future.result(REQUEST_TIMEOUT_S)

    def _add(self, topics: Sequence[Topic]) -> None:
        self._create(topics)
        self._producer.add(topics)
        _tell(f"added {len(topics)} topics")

    def _grow(self, topics: Sequence[Topic]) -> None:
        wanted = LOG_PARTITIONS + 1
        asked = [NewPartitions(topic.name, wanted) for topic in topics]
        for future in self._admin.create_partitions(asked).values():
            future.result(REQUEST_TIMEOUT_S)
        for topic in topics:
            self._producer.take_partitions(topic, wanted)
        _tell(f"added a partition to {len(topics)} topics")

    # Waiting for the driver

    def _wait(self, happened: Callable[[], bool], timeout_s: float, what: str) -> None:
        until = time.monotonic() + timeout_s
        while not happened():
            self._driver.check()
            if time.monotonic() > until:
                raise self._driver.failed(f"no {what} in {timeout_s:.0f} s")
            time.sleep(POLL_S)

    def _all_fenced(self) -> bool:
        fenced = {line["route"] for line in self._driver.events("fenced")}
        return fenced == {topic.route for topic in self._first}

    def _caught_up(self) -> bool:
        behind = [
            topic
            for topic in self._all
            if not topic.dropped
            and self._ledgers.rows_read(topic) < self._producer.acked[topic.name]
        ]
        return not behind and self._halted_in_last() == self._expected_halts()

    def _all_have_events(self) -> bool:
        return all(self._producer.acked[topic.name] for topic in self._all)

    def _expected_halts(self) -> set[str]:
        return {topic.route for topic in self._first if topic.dropped}

    def _halted_in_last(self) -> set[str]:
        return {line["route"] for line in self._driver.events("route_halted", last=True)}

    # Judging

    def _judge(self) -> None:
        _tell("reading everything with the independent reader")
        outcome = self.outcome
        halted = {line["route"] for line in self._driver.events("route_halted")}
        outcome.halted = len(halted)
        if halted != self._expected_halts():
            outcome.wrong.append(f"halted: {sorted(halted)}, not {sorted(self._expected_halts())}")
        outcome.routes = len({line["route"] for line in self._driver.events("fenced")})
        place = Place(
            self._endpoints.bootstrap_servers,
            self._endpoints.metastore_uri,
            DATABASE,
            self._endpoints.warehouse,
        )
        for topic, report in judge(place, self._all):
            outcome.rows += report.written
            outcome.dirty += report.dirty
            outcome.read += report.read
            outcome.lost += report.lost
            outcome.doubled += report.doubled
            outcome.altered += all_faults(report)
            outcome.wrong += [f"{topic.name}: {detail}" for detail in report.details]
            outcome.wrong += self._unexpected(topic, report.read, report.written, report.dirty)

    def _unexpected(self, topic: Topic, read: int, written: int, dirty: int) -> list[str]:
        """What the reader cannot know: how much there has to be."""
        wrong = []
        acked = self._producer.acked[topic.name]
        if read == 0 or (not topic.dropped and read != acked):
            wrong.append(f"{topic.name}: {acked} events were produced, {read} are judged")
        if read != written + dirty:
            wrong.append(f"{topic.name}: {read} events, {written} rows, {dirty} dirty rows")
        if topic.poisoned and written:
            wrong.append(f"{topic.name}: {written} rows of a topic without a good event")
        if self._producer.refused[topic.name]:
            wrong.append(f"{topic.name}: the broker refused events")
        return wrong


def _tell(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def is_right(outcome: Outcome, plan: Plan) -> bool:
    """Whether the run shows what it has to."""
    return (
        not outcome.wrong
        and outcome.routes == plan.topics + plan.added
        and outcome.halted == outcome.halted_expected == 1
        and outcome.kills == plan.kills
        and (outcome.lost, outcome.doubled, outcome.altered) == (0, 0, 0)
    )


def closing_line(outcome: Outcome) -> str:
    """The figures as one line of JSON."""
    figures = asdict(outcome)
    del figures["wrong"]
    return json.dumps(figures)


def read_plan(arguments: Sequence[str] | None = None) -> tuple[Plan, Path | None]:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.e2e_routes")
    parser.add_argument("--topics", type=int, default=60)
    parser.add_argument("--added", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--rate", type=float, default=200.0, help="events a second and topic")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--keep", type=Path, help="leave logs and tables in this new folder")
    given = parser.parse_args(arguments)
    if given.topics < 3:  # noqa: PLR2004 - a poisoned one, one without a table, another
        parser.error("three topics are the least")
    values = vars(given)
    keep = values.pop("keep")
    return Plan(**values), keep


def main() -> int:
    """Start a lab in a folder that goes away, run, print the closing line."""
    plan, keep = read_plan()
    end_tidily()
    began = time.monotonic()
    with ExitStack() as cleanup:
        if keep is None:
            folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="routes-")))
        else:
            keep.mkdir(parents=True)
            folder = keep.absolute()
        lab = Lab(folder / "lab")
        cleanup.callback(lab.down)
        _tell(f"seed {plan.seed}; starting a broker and a metastore")
        run = Run(plan, lab.up(), folder)
        try:
            run.go()
        except RunFailedError as error:
            run.outcome.wrong.append(str(error))
    run.outcome.seconds = round(time.monotonic() - began, 1)
    for detail in run.outcome.wrong:
        _tell(detail)
    print(closing_line(run.outcome))
    return 0 if is_right(run.outcome, plan) else 1


if __name__ == "__main__":
    sys.exit(main())
