"""SIGKILL at random moments; the table alone must be enough to go on, every time.

Three kills, each victim once while tasks run; `make proofs NAME=kills` has ten, at start-up too.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from sluiceway.audit.open_table import open_table
from sluiceway.lab.demo_files import orders_job
from sluiceway.lab.lab import LabEndpoints
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import DataRecord, Record
from tools.driver_process import DriverProcess
from tools.job_files import JobFile
from tools.lab_fixture import TopicFactory
from tools.table_proofs import assert_verified, read_independently

SEED_VARIABLE = "SLUICEWAY_TEST_SEED"
KILLS_VARIABLE = "SLUICEWAY_TEST_KILLS"
MANY = 10
INTERVAL_S = 1.0
ORPHANS_GONE_S = 60.0
_TESTS = Path(__file__).resolve().parents[1]


class Victim(Enum):
    """What is killed."""

    DRIVER = "the Python driver"
    JVM = "its JVM"
    BOTH = "both at once"


class Moment(Enum):
    """When."""

    START_UP = "while Spark starts"
    FIRST_READS = "after the fence"
    MID_EPOCH = "while tasks read"
    AROUND_COMMIT = "around a commit"


VICTIMS = [*Victim, *Victim, *Victim]
MOMENTS = [
    *([Moment.START_UP] * 3),
    *([Moment.FIRST_READS] * 2),
    *([Moment.MID_EPOCH] * 2),
    *([Moment.AROUND_COMMIT] * 3),
]

BUSY = {Moment.MID_EPOCH, Moment.AROUND_COMMIT}


@dataclass(frozen=True, slots=True)
class Kill:
    """Who dies, and when."""

    victim: Victim
    moment: Moment
    delay_s: float


def _plan(rng: random.Random, *, many: bool) -> list[Kill]:
    """Each victim dies at least once in a driver that has run tasks: most is at stake there."""
    if many:
        victims, moments = [*VICTIMS, rng.choice(list(Victim))], list[Moment]()
        while {v for v, m in zip(victims, moments, strict=False) if m in BUSY} != set(Victim):
            moments = rng.sample(MOMENTS, len(MOMENTS))
    else:
        victims = rng.sample(list(Victim), len(Victim))
        moments = [rng.choice(sorted(BUSY, key=str)) for _ in victims]
    longest_s = {
        Moment.START_UP: 3.0,
        Moment.FIRST_READS: 3.0,
        Moment.MID_EPOCH: INTERVAL_S,
        Moment.AROUND_COMMIT: 0.08,
    }
    return [
        Kill(victim, moment, rng.uniform(0, longest_s[moment]))
        for victim, moment in zip(victims, moments, strict=True)
    ]


def test_job_killed_at_random_moments_has_every_row_once(
    lab_endpoints: LabEndpoints, new_topic: TopicFactory, tmp_path: Path
) -> None:
    seed = int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(2**32))
    kills = int(os.environ.get(KILLS_VARIABLE) or len(Victim))
    assert kills in (len(Victim), MANY), f"{KILLS_VARIABLE} is {kills}"
    print(f"\n{SEED_VARIABLE}={seed}")
    job = _orders(lab_endpoints, new_topic(4, prefix="orders"), tmp_path)
    with _producer(lab_endpoints, job.route.topics[0]) as finish_producing:
        for kill in _plan(random.Random(seed), many=kills == MANY):  # noqa: S311 - of a test
            with DriverProcess(job, tmp_path) as driver:
                _await_moment(driver, job, kill)
                print(f"{kill.victim.value} {kill.moment.value} + {kill.delay_s:.3f} s")
                _kill(driver, kill.victim)
                assert driver.orphans_after(ORPHANS_GONE_S) == {}
                driver.wipe()
        produced = finish_producing()
    with DriverProcess(job, tmp_path, "--until-caught-up") as driver:
        assert driver.wait().exit_code == 0, driver.stderr()
    assert_verified(job)
    found = read_independently(lab_endpoints, job)
    assert found["read"] == found["written"] + found["dirty"] == produced
    assert found["dirty"] > 0
    terms = {record.term for record in _records(job) if isinstance(record.body, DataRecord)}
    assert len(terms) >= min(kills, 4), "too few of the killed drivers had committed anything"


def _orders(endpoints: LabEndpoints, topic: str, folder: Path) -> JobFile:
    """The demo's job, with a topic, a table and an interval of its own."""
    text = orders_job().read_text()
    for old, new in {
        "${env:SLUICEWAY_KAFKA}": endpoints.bootstrap_servers,
        "${env:SLUICEWAY_METASTORE}": endpoints.metastore_uri,
        "name: orders\n": f"name: {topic.replace('_', '-')}\n",
        "topics: [orders]": f"topics: [{topic}]",
        "ods.orders": f"ods.{topic}",
        "interval: 2s": f"interval: {INTERVAL_S:.0f}s",
    }.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    path = folder / "orders.yaml"
    path.write_text(text)
    return JobFile(path, f"ods.{topic}")


@contextmanager
def _producer(endpoints: LabEndpoints, topic: str) -> Iterator[Callable[[], int]]:
    """Keeps producing; what is yielded ends it and tells how many records it has produced."""
    command = [sys.executable, "-m", "tools.endless_orders", endpoints.bootstrap_servers, topic]
    with subprocess.Popen(
        command, cwd=_TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def finish() -> int:
            assert process.poll() is None, "the producer has failed"
            out, _ = process.communicate(timeout=600)
            return int(json.loads(out)["produced"])

        try:
            yield finish
        finally:
            process.kill()


def _await_moment(driver: DriverProcess, job: JobFile, kill: Kill) -> None:
    match kill.moment:
        case Moment.START_UP:
            driver.wait_until(driver.jvm, "a JVM")
        case Moment.FIRST_READS:
            driver.wait_for_event("fenced")
        case Moment.MID_EPOCH:
            driver.wait_for_event("committed")
        case Moment.AROUND_COMMIT:
            driver.wait_for_event("committed")
            results = _results_folder(job)
            # A task has answered: what follows within milliseconds is the commit.
            driver.wait_until(lambda: list(results.glob("*/*.json")), "a task's result")
    time.sleep(kill.delay_s)


def _kill(driver: DriverProcess, victim: Victim) -> None:
    match victim:
        case Victim.DRIVER:
            driver.send(signal.SIGKILL)
            driver.wait()
        case Victim.BOTH:
            driver.kill_group()
            driver.wait()
        case Victim.JVM:
            jvm = driver.jvm()
            assert jvm is not None, driver.stderr()
            os.kill(jvm, signal.SIGKILL)
            ended = driver.wait()
            assert ended.exit_code > 0, ended.stderr
            errors = [line for line in ended.error_lines() if line.startswith("error[")]
            assert len(errors) == 1, ended.stderr
            assert "Traceback" not in ended.stderr
            if driver.events("spark_started"):
                assert ended.error_lines() == [
                    *errors,
                    "hint: start the job again; it goes on from the ledger",
                ]


def _results_folder(job: JobFile) -> Path:
    table = open_table(job.route)
    table.close()
    return Path(table.layout.stage) / "results"


def _records(job: JobFile) -> list[Record]:
    table = open_table(job.route)
    table.close()
    return [record for record, _ in LedgerLog(table.storage, table.layout).records()]
