"""Kills, zombies and outages without end, under a load that never stops; then every row is judged.

A shard is a lab, a topic and a table of its own: a producer with transactions, some of them
aborted; a reader that looks all the time for anything visible that is not committed; and a driver
that dies, is paused while another takes over, loses its local files, its broker, its metastore, and
its store where the table lies on HDFS or S3.
At its end the job catches up; `sluiceway verify --deep` and the independent reader, which knows
nothing of the product, compare every value of every row with the broker.

`python -m bench.soak [--kills 20] [--store hdfs] [--seed N] [--results FILE]` runs as many shards
as the kills need, adds each finished shard to the results and ends with one JSON line; 1 is the
exit code when anything is wrong. A shard that was interrupted counts nothing.
"""

import argparse
import json
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from bench.soak_watch import FolderOf, Watcher, local_folder
from bench.tidy_end import end_tidily
from sluiceway.lab.demo_files import orders_job
from sluiceway.lab.demo_store import DemoStore, DemoTable, demo_table
from sluiceway.lab.lab import Lab, LabEndpoints

# The reader and the driver's handle belong to the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from tools.driver_process import DriverProcess, kill_quietly
from tools.job_files import JobFile
from tools.table_proofs import assert_verified, read_independently

_ROOT = Path(__file__).resolve().parents[1]
RESULTS = _ROOT / "bench" / "results" / "soak.jsonl"
SHARD_KILLS = 10
PARTITIONS = 4
MOST_PARTITIONS = 10
RATE = 1_500
INTERVAL = "1s"
REQUEST_TIMEOUT_S = 60.0
COMMIT_TIMEOUT_S = 180.0
CATCH_UP_TIMEOUT_S = 600.0
STOP_TIMEOUT_S = 90.0
LONGEST_PAUSE_S = 4.0
OUTAGE_S = 4.0
FENCED_EXIT = 7


class Disaster(StrEnum):
    """What happens to a job."""

    KILL_DRIVER = "SIGKILL of the driver"
    KILL_JVM = "SIGKILL of its JVM"
    KILL_ALL = "SIGKILL of driver and JVM"
    KILL_WORKER = "SIGKILL of a Python worker"
    ZOMBIE = "pause, takeover by a second driver, and waking up"
    BROKER = "SIGKILL of the broker"
    METASTORE = "metastore away"
    STORE = "SIGKILL of the table's store"
    GROWTH = "partitions added"


STORE_SERVERS = {DemoStore.HDFS: ("namenode", "datanode"), DemoStore.S3: ("s3",)}
KILLS = (Disaster.KILL_DRIVER, Disaster.KILL_ALL, Disaster.KILL_JVM, Disaster.KILL_WORKER)


class SoakFailedError(Exception):
    """A shard did not come to its end."""


@dataclass(slots=True)
class Shard:
    """What one shard did and found. All but the figures of work are faults when not 0."""

    seed: int
    store: str = "local"
    kills: int = 0
    zombies: int = 0
    wipes: int = 0
    broker_bounces: int = 0
    metastore_outages: int = 0
    store_outages: int = 0
    partitions_added: int = 0
    rows: int = 0
    dirty: int = 0
    lost: int = 0
    doubled: int = 0
    altered: int = 0
    uncommitted_seen: int = 0
    looks: int = 0
    recoveries_s: list[float] = field(default_factory=list)
    takeovers_s: list[float] = field(default_factory=list)
    seconds: float = 0.0


def plan_disasters(
    kills: int, rng: random.Random, store: DemoStore = DemoStore.LOCAL
) -> list[Disaster]:
    """So many kills, and for every six of them two zombies and two outages of each server."""
    other = 1 + kills // 6
    planned = [KILLS[number % len(KILLS)] for number in range(kills)]
    outages = [Disaster.ZOMBIE, Disaster.BROKER, Disaster.METASTORE]
    if store is not DemoStore.LOCAL:
        outages.append(Disaster.STORE)
    for each in outages:
        planned += [each] * other
    planned += [Disaster.GROWTH] * 2
    rng.shuffle(planned)
    return planned


class Soak:
    """One shard, step by step.

    Args:
        shard: Filled in.
        lab: Its own; up.
        endpoints: Of the lab.
        folder: An existing folder for jobs and logs.
    """

    def __init__(self, shard: Shard, lab: Lab, endpoints: LabEndpoints, folder: Path) -> None:
        self.shard = shard
        self._lab = lab
        self._endpoints = endpoints
        self._folder = folder
        self._random = random.Random(shard.seed)  # noqa: S311 - moments of disasters
        self._topic = f"soak_{shard.seed}"
        self._store = DemoStore(shard.store)
        self._table = demo_table(self._store, lab, endpoints, orders_job())
        self._job = _write_job(folder, self._table, self._topic)
        self._driver: DriverProcess | None = None
        self._partitions = PARTITIONS

    def go(self, kills: int, *, rate: int) -> None:
        """Produce, destroy, catch up, judge.

        Raises:
            SoakFailedError: A step did not come about.
        """
        admin = AdminClient(
            {"bootstrap.servers": self._endpoints.bootstrap_servers, "log_level": 0}
        )
        topic = NewTopic(self._topic, PARTITIONS, 1)
        admin.create_topics([topic])[self._topic].result(REQUEST_TIMEOUT_S)
        watcher = Watcher(self._endpoints.metastore_uri, "ods", self._topic, self._folder_of())
        try:
            with _load(self._endpoints, self._topic, rate, self.shard.seed) as end_load:
                self._start()
                self._wait_for_commit(0)
                watcher.start()
                for disaster in plan_disasters(kills, self._random, self._store):
                    time.sleep(self._random.uniform(0, LONGEST_PAUSE_S))
                    self._strike(disaster, admin)
                _tell(f"produced {end_load()}")
            self._stop()
            self._catch_up()
        finally:
            if self._driver is not None:
                self._driver.close()
        watcher.end()
        self._judge(watcher)

    def _strike(self, disaster: Disaster, admin: AdminClient) -> None:
        _tell(f"{disaster.value} ...")
        began = time.monotonic()
        match disaster:
            case Disaster.ZOMBIE:
                self._pause_and_replace()
                self.shard.takeovers_s.append(round(time.monotonic() - began, 1))
            case Disaster.BROKER:
                self._bounce("kafka", 0.0)
                self.shard.broker_bounces += 1
            case Disaster.METASTORE:
                self._bounce("metastore", OUTAGE_S)
                self.shard.metastore_outages += 1
            case Disaster.STORE:
                self._bounce(self._random.choice(STORE_SERVERS[self._store]), OUTAGE_S)
                self.shard.store_outages += 1
            case Disaster.GROWTH:
                self._grow(admin)
            case _:
                self._kill(disaster)
                self.shard.recoveries_s.append(round(time.monotonic() - began, 1))
                self.shard.kills += 1
        _tell(f"... commits again after {time.monotonic() - began:.1f} s")

    # Disasters; each ends with the first commit after it

    def _kill(self, disaster: Disaster) -> None:
        driver = self._now
        if disaster is Disaster.KILL_WORKER:
            before = self._commits()
            workers = driver.workers()
            if not workers:
                raise SoakFailedError("there is no Python worker to kill")
            kill_quietly(self._random.choice(workers))
            self._wait_for_commit(before)
            return
        if disaster is Disaster.KILL_JVM:
            jvm = driver.jvm()
            if jvm is None:
                raise SoakFailedError("there is no JVM to kill")
            kill_quietly(jvm)
            driver.wait(STOP_TIMEOUT_S)
        elif disaster is Disaster.KILL_ALL:
            driver.kill_group()
            driver.wait()
        else:
            driver.send(signal.SIGKILL)
            driver.wait()
        # Every second death takes the machine's local files with it.
        if self.shard.kills % 2 == 0:
            driver.close()
            driver.wipe()
            self.shard.wipes += 1
        self._start()
        self._wait_for_commit(0)
        driver.close()

    def _pause_and_replace(self) -> None:
        sleeper = self._now
        sleeper.send(signal.SIGSTOP)
        self._start()
        self._wait_for_commit(0)
        sleeper.send(signal.SIGCONT)
        ended = sleeper.wait(STOP_TIMEOUT_S)
        sleeper.close()
        if ended.exit_code != FENCED_EXIT:
            raise SoakFailedError(
                f"a driver that was replaced ended with {ended.exit_code}:\n{ended.stderr[-3000:]}"
            )
        self.shard.zombies += 1
        # The winner must not have noticed.
        self._wait_for_commit(self._commits())

    def _bounce(self, server: str, away_s: float) -> None:
        before = self._commits()
        self._lab.kill_server(server)
        time.sleep(away_s)
        self._lab.start_server(server)
        self._wait_for_commit(before + 1)

    def _grow(self, admin: AdminClient) -> None:
        before = self._commits()
        self._partitions = min(MOST_PARTITIONS, self._partitions + 2)
        asked = admin.create_partitions([NewPartitions(self._topic, self._partitions)])
        asked[self._topic].result(REQUEST_TIMEOUT_S)
        self.shard.partitions_added += 2
        self._wait_for_commit(before)

    # The driver

    @property
    def _now(self) -> DriverProcess:
        if self._driver is None:
            raise SoakFailedError("no driver was started")
        return self._driver

    def _start(self) -> None:
        self._driver = DriverProcess(self._job, self._folder)

    def _commits(self) -> int:
        return len(self._now.events("committed"))

    def _wait_for_commit(self, before: int) -> None:
        until = time.monotonic() + COMMIT_TIMEOUT_S
        while self._commits() <= before:
            if not self._now.lives() or time.monotonic() > until:
                raise SoakFailedError(f"no commit:\n{self._now.stderr()[-3000:]}")
            time.sleep(0.1)

    def _stop(self) -> None:
        self._now.send(signal.SIGTERM)
        ended = self._now.wait(STOP_TIMEOUT_S)
        if ended.exit_code != 0:
            raise SoakFailedError(f"a stop ended with {ended.exit_code}:\n{ended.stderr[-3000:]}")

    def _catch_up(self) -> None:
        self._now.close()
        self._driver = DriverProcess(self._job, self._folder, "--until-caught-up")
        ended = self._driver.wait(CATCH_UP_TIMEOUT_S)
        if ended.exit_code != 0:
            raise SoakFailedError(
                f"catching up ended with {ended.exit_code}:\n{ended.stderr[-3000:]}"
            )

    def _folder_of(self) -> FolderOf:
        """How the watcher sees the store's files."""
        s3, hdfs = self._endpoints.s3, self._endpoints.hdfs
        if s3 is not None:
            return s3.plain_files
        if hdfs is None:
            return local_folder
        mirror = self._folder / "watched"

        def copied(location: str) -> Path:
            folder = mirror / location.removeprefix(f"{self._table.location}/")
            try:
                hdfs.copy(location, folder)
            except RuntimeError as error:
                # As the client says that a server is away, which is part of the plan.
                raise OSError(str(error)[:200]) from error
            return folder

        return copied

    def _judge(self, watcher: Watcher) -> None:
        _tell("judging every row")
        shard = self.shard
        shard.looks, shard.uncommitted_seen = watcher.rounds, watcher.uncommitted
        for detail in watcher.details:
            _tell(detail)
        if watcher.rounds == 0 or watcher.files == 0:
            raise SoakFailedError("the watcher has seen nothing")
        files = self._table.plain_files(self._folder / "copy")
        at = None if files is None else (self._table.location, files)
        found = read_independently(self._endpoints, self._job, at=at)
        shard.rows, shard.dirty = found["read"], found["dirty"]
        shard.lost, shard.doubled = found["lost"], found["doubled"]
        faults = ("altered", "wrong_partition", "uncovered_dirty", "broken_written", "unknown")
        shard.altered = sum(found[name] for name in faults) + found["schema_errors"]
        assert_verified(self._job)


def _write_job(folder: Path, table: DemoTable, topic: str) -> JobFile:
    """The demo's job with a topic, a table and an interval of its own."""
    text, endpoints = table.job_file.read_text(), table.endpoints
    for old, new in {
        "${env:SLUICEWAY_KAFKA}": endpoints.bootstrap_servers,
        "${env:SLUICEWAY_METASTORE}": endpoints.metastore_uri,
        "name: orders\n": f"name: {topic.replace('_', '-')}\n",
        "topics: [orders]": f"topics: [{topic}]",
        "ods.orders": f"ods.{topic}",
        "interval: 2s": f"interval: {INTERVAL}",
    }.items():
        if text.count(old) != 1:
            raise SoakFailedError(f"the demo's job file has {text.count(old)} times {old}")
        text = text.replace(old, new)
    path = folder / f"{topic}.yaml"
    path.write_text(text)
    return JobFile(path, f"ods.{topic}")


@contextmanager
def _load(
    endpoints: LabEndpoints, topic: str, rate: int, seed: int
) -> Iterator[Callable[[], dict[str, int]]]:
    """Keeps producing; what is yielded ends it and tells what it has produced."""
    command = [
        *(sys.executable, "-m", "bench.soak_load", endpoints.bootstrap_servers, topic),
        *("--rate", str(rate), "--seed", str(seed)),
    ]
    with subprocess.Popen(
        command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def end() -> dict[str, int]:
            out, _ = process.communicate(timeout=REQUEST_TIMEOUT_S * 3)
            produced: dict[str, int] = json.loads(out)
            return produced

        try:
            yield end
        finally:
            process.kill()


def run_shard(kills: int, *, seed: int, rate: int, store: DemoStore = DemoStore.LOCAL) -> Shard:
    """One shard in a folder that goes away.

    Raises:
        SoakFailedError: It did not come to its end.
    """
    shard, began = Shard(seed, str(store)), time.monotonic()
    with ExitStack() as cleanup:
        name = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="soak-"))
        folder = Path(name)
        lab = Lab(folder / "lab", stores=store.servers)
        cleanup.callback(lab.down)
        _tell(f"seed {seed}: {kills} kills, store {store}")
        Soak(shard, lab, lab.up(), folder).go(kills, rate=rate)
    shard.seconds = round(time.monotonic() - began, 1)
    return shard


def summary(shards: Sequence[Shard]) -> dict[str, Any]:
    """The closing figures over some shards."""
    added = (
        "kills", "zombies", "wipes", "broker_bounces", "metastore_outages", "store_outages",
        "partitions_added", "rows", "dirty", "lost", "doubled", "altered", "uncommitted_seen",
    )  # fmt: skip
    figures: dict[str, Any] = {name: sum(getattr(each, name) for each in shards) for name in added}
    recoveries = [each for shard in shards for each in shard.recoveries_s]
    takeovers = [each for shard in shards for each in shard.takeovers_s]
    return figures | {
        "recovery_p50_s": percentile(recoveries, 50),
        "recovery_p95_s": percentile(recoveries, 95),
        "takeover_p95_s": percentile(takeovers, 95),
        "seconds": round(sum(each.seconds for each in shards), 1),
    }


def percentile(values: Sequence[float], percent: int) -> float | None:
    """The smallest value that so many percent of all do not exceed; None without values."""
    if not values:
        return None
    rank = max(1, -(-len(values) * percent // 100))
    return sorted(values)[rank - 1]


def read_results(path: Path) -> list[Shard]:
    """Shards of earlier runs, the oldest first."""
    if not path.exists():
        return []
    kept = [json.loads(line) for line in path.read_text().splitlines()]
    return [Shard(**{key: each[key] for key in each if key != "commit"}) for each in kept]


def keep_result(shard: Shard, path: Path) -> None:
    """Add a finished shard, with the commit that it ran on."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=_ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        line = {"commit": done.stdout.strip() or "unknown", **asdict(shard)}
        stream.write(json.dumps(line) + "\n")


def is_right(figures: dict[str, Any]) -> bool:
    """Whether nothing was lost, doubled, altered or seen too early."""
    faults = ("lost", "doubled", "altered", "uncommitted_seen")
    return figures["rows"] > 0 and not any(figures[name] for name in faults)


def _tell(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Run shards until there were as many kills as asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rate", type=int, default=RATE, help="orders a second")
    parser.add_argument("--store", type=DemoStore, default=DemoStore.LOCAL, choices=DemoStore)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--results", type=Path, default=RESULTS, help="where shards are kept")
    given = parser.parse_args()
    end_tidily()
    shards: list[Shard] = []
    left = given.kills
    while left > 0:
        kills = min(left, SHARD_KILLS)
        try:
            seed = given.seed + len(shards)
            shard = run_shard(kills, seed=seed, rate=given.rate, store=given.store)
        except (SoakFailedError, AssertionError) as error:
            _tell(str(error))
            print(json.dumps(summary(shards) | {"failed": str(error)[:200]}))
            return 1
        keep_result(shard, given.results)
        shards.append(shard)
        left -= kills
    _tell(f"all shards so far: {json.dumps(summary(read_results(given.results)))}")
    figures = summary(shards)
    print(json.dumps(figures))
    return 0 if is_right(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
