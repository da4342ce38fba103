"""Drills: a room is killed, stopped or cut under load, and every row is in the table once."""

import random
import signal
import statistics
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, TopicPartition

from rooms.load import Load
from rooms.stretched import StretchedCluster, wait_for
from sluiceway.lab.lab import Lab
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.partition_records import ReadyRecord
from sluiceway.ledger.records import DataRecord, FenceRecord, Record
from tools.driver_process import DriverProcess
from tools.job_files import write_job
from tools.route_runs import RouteRun

if TYPE_CHECKING:
    from sluiceway.ledger.log import LedgerLog

KINDS = ("kill", "stop", "cut")
PARTITIONS = 4
_ROOMS = """\
rooms:
  home: a
  switch: auto
  after: {after}
  give_way: 10s
  a: {{connections: {{main: {{kafka: {{bootstrap_servers: "{servers}"}}}}}}}}
  b: {{connections: {{main: {{kafka: {{bootstrap_servers: "{servers}"}}}}}}}}
"""
_EVENT_TIME = "{field: ts, unit: ms, out_of_orderness: 60s, idle_after: 20s}"
_PATIENCE_S = 180.0
_POLL_S = 0.05


@dataclass
class DrillResults:
    """What the drills of a case have shown; `wrong` has what must not be."""

    seconds: list[float] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    lost: int = 0
    doubled: int = 0
    zombie_commits: int = 0
    early_ready: int = 0
    announced: int = 0
    refused: int = 0
    cut: int = 0

    def as_json(self, case: str) -> dict[str, object]:
        """The last line of the programme."""
        seconds = sorted(self.seconds)
        at = max(0, -(-95 * len(seconds) // 100) - 1)
        return {
            "case": case,
            "drills": len(seconds),
            "rto_p50_s": round(statistics.median(seconds), 1),
            "rto_p95_s": round(seconds[at], 1),
            "rows": self.rows,
            "lost": self.lost,
            "doubled": self.doubled,
            "stranded": 0,
            "drained": 0,
            "refused": self.refused,
            "zombie_commits": self.zombie_commits,
            "early_ready": self.early_ready,
            "announced": self.announced,
            "kinds": dict(self.kinds),
            "slots_cut": self.cut,
        }


class StretchedDrills:
    """A job in two rooms over one cluster.

    Args:
        cluster: The brokers, up.
        lab: Its metastore.
        folder: For the job file and the drivers' logs.
        seed: Of what happens when.
        after: The job file's `rooms.after`.
    """

    def __init__(
        self, cluster: StretchedCluster, lab: Lab, folder: Path, seed: int, *, after: str = "10s"
    ) -> None:
        self._cluster = cluster
        self._folder = folder
        self._rng = random.Random(seed)  # noqa: S311 - no secret
        self._topic = f"rooms{seed}{int(time.time())}"
        job = write_job(
            folder,
            bootstrap_servers=cluster.servers,
            metastore_uri=lab.endpoints().metastore_uri,
            topic=self._topic,
            event_time=_EVENT_TIME,
            ready="{}",
        )
        job.path.write_text(
            job.path.read_text() + _ROOMS.format(servers=cluster.servers, after=after)
        )
        self.run = RouteRun(job)
        self._stack = ExitStack()
        self._drivers: dict[str, DriverProcess] = {}
        self._log: LedgerLog | None = None
        self._fold = Fold()
        self._records: list[Record] = []
        self.results = DrillResults()

    def play(self, drills: int) -> DrillResults:
        """Run so many drills, and compare the table with the topic."""
        self._cluster.create_topic(self._topic, PARTITIONS)
        load = Load(self._cluster.servers, self._topic, PARTITIONS)
        with self._stack:
            self._start("a")
            self._drivers["a"].wait_for_event("fenced")
            load.start()
            self._drivers["a"].wait_for_event("committed")
            self._start("b")
            self._drivers["b"].wait_for_event("room_ready")
            self._log = self.run.log()
            for number in range(drills):
                self._drill(KINDS[number % len(KINDS)])
            load.close()
            self._wait_read()
            for driver in self._drivers.values():
                driver.send(signal.SIGTERM)
                assert driver.wait().exit_code == 0, driver.stderr()[-2000:]
        self._compare()
        return self.results

    def _start(self, room: str) -> None:
        place = self._cluster.places[room]
        driver = DriverProcess(
            self.run.job,
            self._folder,
            *("--room", room, "--log-format", "json"),
            module="rooms.driver",
            launcher=place.prefix,
        )
        self._drivers[room] = self._stack.enter_context(driver)

    def _read_log(self) -> list[Record]:
        assert self._log is not None
        taken = self._log.advance(self._fold)
        self._records += taken
        return taken

    @property
    def _holder(self) -> str:
        assert self._fold.fence is not None
        return self._fold.fence.site

    def _drill(self, kind: str) -> None:
        """Lose the room that has the route; the other one commits; the lost one comes back."""
        self._read_log()
        room = self._holder
        other = "b" if room == "a" else "a"
        time.sleep(self._rng.uniform(0.0, 3.0))
        began = time.monotonic()
        self._lose(room, kind)
        self._await_commit_of(other)
        self.results.seconds.append(time.monotonic() - began)
        self.results.kinds[kind] += 1
        print(f"{kind} of {room}: {self.results.seconds[-1]:.1f} s", flush=True)
        self._bring_back(room, kind)

    def _lose(self, room: str, kind: str) -> None:
        place, driver = self._cluster.places[room], self._drivers[room]
        if kind == "cut":
            assert place.host is not None
            place.host.cut()
        elif kind == "stop":
            driver.send(signal.SIGSTOP)
            assert place.broker is not None
            place.broker.send_signal(signal.SIGSTOP)
        else:
            driver.kill_group()
            self._cluster.kill(room)

    def _await_commit_of(self, room: str) -> None:
        until = time.monotonic() + _PATIENCE_S
        fenced = False
        while time.monotonic() < until:
            for record in self._read_log():
                if isinstance(record.body, FenceRecord):
                    fenced = record.body.site == room
                elif fenced and isinstance(record.body, DataRecord):
                    return
            time.sleep(_POLL_S)
        tails = {name: each.stderr()[-2500:] for name, each in self._drivers.items()}
        raise AssertionError(f"room {room} commits nothing:\n{tails['a']}\n--- b\n{tails['b']}")

    def _bring_back(self, room: str, kind: str) -> None:
        place, driver = self._cluster.places[room], self._drivers[room]
        if kind == "cut":
            assert place.host is not None
            place.host.mend()
            ready = len(driver.events("room_ready"))
            driver.wait_until(lambda: _is_standby(driver, ready), "a standby again")
        else:
            if kind == "stop":
                assert place.broker is not None
                place.broker.send_signal(signal.SIGCONT)
                driver.send(signal.SIGCONT)
                ended = driver.wait()
                assert ended.exit_code == 7, ended.stderr[-2000:]
                assert "SW451" in ended.stderr
            else:
                self._cluster.start(room)
            driver.close()
            self._start(room)
            self._drivers[room].wait_for_event("room_ready")
        self._cluster.wait_in_sync(self._topic)

    def _wait_read(self) -> None:
        """Wait until the ledger has all that the topic has."""
        ends = self._ends()

        def whole() -> bool:
            self._read_log()
            sources = self._fold.sources
            return all(
                (known := sources.get((self._topic, number))) is not None and known.end >= end
                for number, end in ends.items()
            )

        wait_for(whole, "all rows committed")

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._cluster.servers,
                "group.id": f"{self._topic}-check",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )

    def _ends(self) -> Mapping[int, int]:
        consumer = self._consumer()
        try:
            return {
                number: consumer.get_watermark_offsets(TopicPartition(self._topic, number), 30.0)[1]
                for number in range(PARTITIONS)
            }
        finally:
            consumer.close()

    def _in_topic(self) -> Counter[tuple[int, int]]:
        """Offsets of all rows that a reader of committed rows gets."""
        consumer, found = self._consumer(), Counter[tuple[int, int]]()
        parts = [TopicPartition(self._topic, number, 0) for number in range(PARTITIONS)]
        consumer.assign(parts)
        ended: set[int] = set()
        while len(ended) < PARTITIONS:
            for message in consumer.consume(10_000, 1.0):
                if message.error() is not None:
                    ended.add(message.partition())
                else:
                    found[message.partition(), message.offset()] += 1
        consumer.close()
        return found

    def _compare(self) -> None:
        wanted = Counter[tuple[object, ...]](self._in_topic())
        found = Counter(self.run.rows())
        results = self.results
        results.rows = sum(found.values())
        results.lost = sum((wanted - found).values())
        results.doubled = sum((found - wanted).values())
        term, ready = 0, set[str]()
        for record in self._records:
            results.zombie_commits += record.term < term
            term = max(term, record.term)
            if isinstance(record.body, ReadyRecord):
                ready.add(record.body.prefix)
                results.announced += 1
            elif isinstance(record.body, DataRecord):
                folders = {each.final.rpartition("/")[0] for each in record.body.files}
                results.early_ready += len(folders & ready)
        self.run.assert_verified()


def _is_standby(driver: DriverProcess, ready: int) -> bool:
    return len(driver.events("room_ready")) > ready
