"""A transactional topic on three brokers that restart one after the other, while the driver dies.

A producer sends in transactions, of which it aborts some, and goes on through everything. Brokers
are restarted in turn: two hand over what they lead, the third is killed. The driver is killed with
all that it started at random moments, and left away for some time, so that it comes back to a
backlog that its tasks read in pieces. At the end the job catches up, and the independent reader,
which shares no code with the product, compares every row with the brokers.

`python -m bench.e2e_transactions [--seconds 600] [--rounds 2] [--kills 5] [--rate 3000]` tells what
it does on standard error and ends with one JSON line; 1 is the exit code when anything is wrong.
`rows` are those that the brokers hold as committed, `aborted` what the producer has taken back as
far as it knows, `restarts` brokers that went and came back whole.
"""

import argparse
import json
import random
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from bench.run_failed import RunFailedError
from bench.three_brokers import BROKERS, BrokersFailedError, ThreeBrokers, three_brokers
from bench.tidy_end import end_tidily
from sluiceway.audit.open_table import open_table
from sluiceway.lab.demo_files import orders_job
from sluiceway.lab.lab import Lab, LabEndpoints
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import DataRecord

# The reader and the driver's handle belong to the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from tools.driver_process import DriverProcess
from tools.job_files import JobFile
from tools.table_proofs import assert_verified, read_independently

_ROOT = Path(__file__).resolve().parents[1]
PARTITIONS = 2
# More than partitions, so that a backlog is read in pieces.
SLOTS = 4
INTERVAL = "1s"
REQUEST_TIMEOUT_S = 60.0
COMMIT_TIMEOUT_S = 240.0
CATCH_UP_TIMEOUT_S = 900.0
# A million rows, one by one, beside whatever else the machine does.
JUDGE_TIMEOUT_S = 1_800.0
PAUSE_S = 3.0
# So much comes meanwhile that several epochs are needed for it.
AWAY_S = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: how long, rolling restarts at least, kills, records a second."""

    seconds: float
    rounds: int
    kills: int
    rate: int
    seed: int


@dataclass(slots=True)
class Outcome:
    """The closing figures; all but the first four are faults when not 0."""

    rows: int = 0
    aborted: int = 0
    restarts: int = 0
    kills: int = 0
    lost: int = 0
    doubled: int = 0
    halted: int = 0


class Drivers:
    """`sluiceway run` again and again, one process after the other."""

    def __init__(self, job: JobFile, folder: Path) -> None:
        self._job = job
        self._folder = folder
        self._gone: list[dict[str, Any]] = []
        self._now: DriverProcess | None = None

    def start(self, *options: str) -> DriverProcess:
        """Start one; the one before is gone."""
        self._now = DriverProcess(self._job, self._folder, *options)
        return self._now

    def wait_for_commit(self) -> None:
        """Wait until the driver of now has committed rows."""
        driver = self._driver()
        until = time.monotonic() + COMMIT_TIMEOUT_S
        while not driver.events("committed"):
            if not driver.lives() or time.monotonic() > until:
                raise RunFailedError(f"no commit:\n{driver.stderr()[-3000:]}")
            time.sleep(0.2)

    def kill(self) -> None:
        """SIGKILL of driver, JVM and workers."""
        driver = self._driver()
        if not driver.lives():
            raise RunFailedError(f"the driver is gone already:\n{driver.stderr()[-3000:]}")
        driver.kill_group()
        driver.wait()
        self.leave()

    def leave(self) -> None:
        """Keep what the driver of now has told, and put it away."""
        if self._now is not None:
            self._gone += self._now.events("route_halted")
            self._now.close()
            self._now = None

    def halted(self) -> int:
        """How often a route halted, in any of them."""
        return len(self._gone)

    def _driver(self) -> DriverProcess:
        if self._now is None:
            raise RunFailedError("no driver runs")
        return self._now


class Rolling:
    """Restarts brokers in turn, in a thread of its own, until it is ended."""

    def __init__(self, brokers: ThreeBrokers, least: int) -> None:
        self._brokers = brokers
        self._least = least
        self._ended = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._go, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Wait for the restart that is under way, and for those that have to be."""
        self._ended.set()
        self._thread.join()
        if self._failure is not None:
            raise RunFailedError("a broker did not come back") from self._failure

    def _go(self) -> None:
        number = 0
        try:
            while not self._ended.is_set() or number < self._least:
                killed = number % BROKERS == BROKERS - 1
                self._brokers.restart(number % BROKERS, killed=killed)
                number += 1
                _tell(f"broker {(number - 1) % BROKERS + 1} {'killed' if killed else 'restarted'}")
                self._ended.wait(PAUSE_S)
        except Exception as error:  # noqa: BLE001 - the thread's boundary; `end` raises it
            self._failure = error


class Load:
    """The transactional producer, a process of its own."""

    def __init__(self, servers: str, topic: str, plan: Plan) -> None:
        command = [
            *(sys.executable, "-m", "bench.soak_load", servers, topic),
            *("--rate", str(plan.rate), "--seed", str(plan.seed)),
        ]
        self._process = subprocess.Popen(
            command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def end(self) -> dict[str, int]:
        """Stop producing; what was committed, aborted, and not known."""
        out, _ = self._process.communicate(timeout=REQUEST_TIMEOUT_S * 3)
        produced: dict[str, int] = json.loads(out)
        return produced

    def kill(self) -> None:
        """Whatever becomes of it."""
        self._process.kill()
        self._process.communicate()


def demo_job_file(folder: Path, endpoints: LabEndpoints, topic: str) -> JobFile:
    """The demo's job on these brokers, with more tasks than source partitions."""
    text = orders_job().read_text()
    for old, new in {
        "${env:SLUICEWAY_KAFKA}": endpoints.bootstrap_servers,
        "${env:SLUICEWAY_METASTORE}": endpoints.metastore_uri,
        "name: orders\n": f"name: {topic.replace('_', '-')}\n",
        "topics: [orders]": f"topics: [{topic}]",
        "ods.orders": f"ods.{topic}",
        "{interval: 2s}": f'{{interval: {INTERVAL}, master: "local[{SLOTS}]"}}',
    }.items():
        if text.count(old) != 1:
            raise RunFailedError(f"the demo's job file has {text.count(old)} times {old}")
        text = text.replace(old, new)
    path = folder / f"{topic}.yaml"
    path.write_text(text)
    return JobFile(path, f"ods.{topic}")


class Run:
    """One run, step by step."""

    def __init__(self, plan: Plan, brokers: ThreeBrokers, endpoints: LabEndpoints) -> None:
        self._plan = plan
        self._brokers = brokers
        self._endpoints = replace(endpoints, bootstrap_servers=brokers.servers)
        self._random = random.Random(plan.seed)  # noqa: S311 - moments of kills
        self.outcome = Outcome()

    def go(self, folder: Path) -> None:
        """Produce, restart, kill, catch up, judge.

        Raises:
            RunFailedError: A step did not come about.
        """
        topic = f"transactions_{self._plan.seed}"
        admin = AdminClient({"bootstrap.servers": self._brokers.servers, "log_level": 0})
        made = NewTopic(topic, PARTITIONS, BROKERS)
        admin.create_topics([made])[topic].result(REQUEST_TIMEOUT_S)
        job = demo_job_file(folder, self._endpoints, topic)
        drivers = Drivers(job, folder)
        load = Load(self._brokers.servers, topic, self._plan)
        try:
            rolling = Rolling(self._brokers, self._plan.rounds * BROKERS)
            self._disturb(drivers)
            rolling.end()
            produced = load.end()
            _tell(f"produced {produced}; catching up")
            drivers.kill()
            self.outcome.kills += 1
            ended = drivers.start("--until-caught-up").wait(CATCH_UP_TIMEOUT_S)
            if ended.exit_code != 0:
                raise RunFailedError(f"catching up ended so:\n{ended.stderr[-3000:]}")
        finally:
            load.kill()
            drivers.leave()
        self.outcome.aborted = produced["aborted"]
        self.outcome.restarts = self._brokers.restarts
        self.outcome.halted = drivers.halted()
        self._judge(job)

    def _disturb(self, drivers: Drivers) -> None:
        """Until the time is over; all kills but the last, which comes behind the last event."""
        began = time.monotonic()
        moments = self._plan.kills - 1
        for number in range(self._plan.kills):
            # The driver comes to a backlog each time.
            time.sleep(min(AWAY_S, self._plan.seconds / (2 * self._plan.kills)))
            drivers.start()
            drivers.wait_for_commit()
            if number < moments:
                left = self._plan.seconds * (number + 1) / self._plan.kills
                left -= time.monotonic() - began
                time.sleep(self._random.uniform(0.3, 1.0) * max(1.0, left))
                drivers.kill()
                self.outcome.kills += 1
                _tell("killed the driver")
        time.sleep(max(0.0, self._plan.seconds - (time.monotonic() - began)))

    def _judge(self, job: JobFile) -> None:
        _tell(f"{_shared_epochs(job)} epochs were read in pieces; judging every row")
        found = read_independently(self._endpoints, job, timeout_s=JUDGE_TIMEOUT_S)
        self.outcome.rows = found["read"]
        self.outcome.lost, self.outcome.doubled = found["lost"], found["doubled"]
        assert_verified(job, timeout_s=JUDGE_TIMEOUT_S)


def _shared_epochs(job: JobFile) -> int:
    """Epochs in which more tasks have read than there are source partitions."""
    table = open_table(job.route)
    table.close()
    shared = 0
    for record, _ in LedgerLog(table.storage, table.layout).records():
        files = record.body.files if isinstance(record.body, DataRecord) else ()
        tasks = {file.staged.rpartition("/")[2].split("-")[-2] for file in files}
        shared += len(tasks) > PARTITIONS
    return shared


def _tell(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def run(plan: Plan) -> Outcome:
    """One run in a folder that goes away."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sluiceway-tx-")))
        lab = Lab(folder / "lab")
        stack.callback(lab.down)
        endpoints = lab.up()
        brokers = stack.enter_context(three_brokers(lab, folder / "brokers"))
        whole = Run(plan, brokers, endpoints)
        whole.go(folder)
        return whole.outcome


def main() -> int:
    """Run once and print the figures."""
    end_tidily()
    parser = argparse.ArgumentParser(prog="python -m bench.e2e_transactions")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--rounds", type=int, default=2, help="rolling restarts at least")
    parser.add_argument("--kills", type=int, default=5, help="of the driver")
    parser.add_argument("--rate", type=int, default=3_000, help="records a second")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    given = parser.parse_args()
    plan = Plan(given.seconds, given.rounds, given.kills, given.rate, given.seed)
    _tell(str(plan))
    try:
        outcome = run(plan)
    except (RunFailedError, BrokersFailedError, AssertionError) as error:
        _tell(f"the run failed: {error}")
        return 1
    print(json.dumps(asdict(outcome)))
    worked = outcome.rows > 0 and outcome.aborted > 0 and outcome.kills == plan.kills
    worked = worked and outcome.restarts >= plan.rounds * BROKERS
    return int(not worked or outcome.lost + outcome.doubled + outcome.halted > 0)


if __name__ == "__main__":
    sys.exit(main())
