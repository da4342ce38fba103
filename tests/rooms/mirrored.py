"""Drills of a cluster in each room: room a is lost under load, room b continues in its copies.

MirrorMaker runs in room b and is killed too. Each drill has a topic and a table of its own.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rooms.driven import KINDS, DrivenRooms
from rooms.judge import (
    PARTITIONS,
    CheckedTopic,
    DrillResults,
    Rows,
    committed_rows,
    is_announced,
    wait_for,
)
from rooms.load import BY_MINUTE, EVENT_TIME, QUICK_STEP_MS, Load
from rooms.stretched import RoomCluster
from sluiceway.lab.lab import Lab
from sluiceway.ledger.operator_records import SourceChangeRecord
from sluiceway.ledger.records import DataRecord
from tools.driver_process import DriverProcess
from tools.job_files import write_job
from tools.mirror_maker import MirrorMaker
from tools.route_runs import RouteRun
from tools.two_rooms import RoomJob

MIRROR_FAULTS = ("none", "restarted", "dead")
"""What happens to the mirror before the room is lost."""

_ROOMS = """\
rooms:
  home: a
  after: 10s
  queue: mirrored
  {mirror}
  a: {{connections: {{main: {{kafka: {{bootstrap_servers: "{a}"}}}}}}}}
  b: {{connections: {{main: {{kafka: {{bootstrap_servers: "{b}"}}}}}}}}
"""
_BY_HEADER = "switch: auto\n  mirror: {origin: sw-origin}"
_BY_TAIL = (
    "writers: shared\n"
    "  mirror: {copies: exactly_once, transactional_ids: [a-mm2-MirrorSourceConnector-0]}"
)
_READINESS = ("room_ready", "room_not_ready")
_OWN_FIRST = 10_000_000
_MOST_SHOWN = 9


@dataclass(frozen=True, slots=True)
class _Drill:
    """One job under load.

    Attributes:
        here: Its topic in room a.
        there: Its copy in room b.
        load: Room a's producers.
        own: Room b's.
    """

    rooms: DrivenRooms
    here: CheckedTopic
    there: CheckedTopic
    load: Load
    own: Load


class MirroredDrills:
    """A new job and table a drill.

    Args:
        clusters: Those of rooms a and b, up.
        lab: Its metastore.
        folder: For job files and logs.
        seed: Of what happens when.
        header: Whether the mirror names each row in a header. Otherwise it copies exactly once,
            and positions are found by the rows' tails.
    """

    def __init__(
        self,
        clusters: tuple[RoomCluster, RoomCluster],
        lab: Lab,
        folder: Path,
        seed: int,
        *,
        header: bool,
    ) -> None:
        self._a, self._b = clusters
        self._metastore = lab.endpoints().metastore_uri
        self._folder = folder
        self._rng = random.Random(seed)  # noqa: S311 - no secret
        self._prefix = f"mirrored{seed}{int(time.time())}"
        self._header = header
        self._mirror: MirrorMaker | None = None
        self.results = DrillResults()

    def play(self, drills: int) -> DrillResults:
        """Run so many drills, each with the comparison of its table."""
        for number in range(drills):
            kind = KINDS[number % len(KINDS)]
            fault = MIRROR_FAULTS[(number + number // len(KINDS)) % len(MIRROR_FAULTS)]
            with self._begun(number) as drill:
                self._play(drill, kind, fault)
            print(json.dumps(self.results.as_json("so far")), flush=True)
        return self.results

    @contextmanager
    def _begun(self, number: int) -> Iterator[_Drill]:
        """Drivers in both rooms, a mirror between them and rows that come."""
        topic, folder = f"{self._prefix}n{number}", self._folder / f"drill{number}"
        folder.mkdir()
        self._a.create_topic(topic, PARTITIONS)
        servers = (self._a.servers, self._b.servers)
        run = RouteRun(self._job(folder, topic))
        with ExitStack() as stack:
            self._mirror = stack.enter_context(
                MirrorMaker(
                    folder / "mirror",
                    servers,
                    self._cluster_id() if self._header else "",
                    topic,
                    launcher=self._b.places["b"].prefix,
                )
            )
            places = {**self._a.places, **self._b.places}
            rooms = stack.enter_context(DrivenRooms(places, run, folder))
            load = Load(servers[0], topic, PARTITIONS, step_ms=QUICK_STEP_MS)
            own = Load(servers[1], topic, PARTITIONS, first=_OWN_FIRST, step_ms=QUICK_STEP_MS)
            home = rooms.start("a")
            home.wait_for_event("fenced")
            load.start()
            home.wait_for_event("committed")
            here, there = (CheckedTopic(each, topic) for each in servers)
            wait_for(lambda: self._b.has(topic) and there.rows(), "copied rows")
            standby = rooms.start("b")
            standby.wait_until(lambda: _is_ready(standby), "a standby that is ready")
            wait_for(lambda: is_announced(rooms.read_log()), "an announced minute")
            yield _Drill(rooms, here, there, load, own)

    def _job(self, folder: Path, topic: str) -> RoomJob:
        job = write_job(
            folder,
            bootstrap_servers=self._a.servers,
            metastore_uri=self._metastore,
            topic=topic,
            partition_by=BY_MINUTE,
            event_time=EVENT_TIME,
            ready="{}",
        )
        rule = _BY_HEADER if self._header else _BY_TAIL
        block = _ROOMS.format(a=self._a.servers, b=self._b.servers, mirror=rule)
        job.path.write_text(job.path.read_text() + block)
        return RoomJob(job.path, job.table, "b")

    def _cluster_id(self) -> str:
        admin = self._a.admin()
        return str(admin.list_topics(timeout=30).cluster_id)

    def _play(self, drill: _Drill, kind: str, fault: str) -> None:
        assert self._mirror is not None
        if self._header:
            # A header tells rows apart: room b's own producers may write at any time.
            drill.own.start(drill.load.time_ms)
        if fault != "none":
            time.sleep(self._rng.uniform(0.0, 3.0))
            self._mirror.kill()
        if fault == "restarted":
            self._mirror.start()
        time.sleep(self._rng.uniform(0.0, 5.0))
        began = time.monotonic()
        self._lose(drill.rooms, kind)
        if not self._header:
            fault = self._switch(drill, fault)
            drill.own.start(drill.load.time_ms)
        drill.rooms.await_commit_of("b")
        self.results.add(f"{kind}, mirror {fault}", time.monotonic() - began)
        self._bring_back(drill.rooms, kind)
        if not self._header and fault != "dead":
            # Room b's driver has fenced the mirror's transactions. One that begins again goes on.
            self._mirror.kill()
            self._mirror.start()
        drill.load.close()
        drill.own.close()
        self._compare(drill, mirrored=fault != "dead")

    def _lose(self, rooms: DrivenRooms, kind: str) -> None:
        rooms.lose("a", kind)
        if kind == "cut":
            # The one store is on this machine; for a room that is cut off it is silent too.
            rooms.drivers["a"].send(signal.SIGSTOP)

    def _bring_back(self, rooms: DrivenRooms, kind: str) -> None:
        place = rooms.places["a"]
        if kind == "kill":
            place.start()
        else:
            if place.host is not None and kind == "cut":
                place.host.mend()
            rooms.assert_fenced("a")

    def _switch(self, drill: _Drill, fault: str) -> str:
        """The operator's command, with the confirmations that it asks for; the mirror's fault."""
        assert self._mirror is not None
        # Room b's producers wait for the switch: only the mirror wrote until now.
        given = ["--confirm", "mirror_only", "--confirm", "mirror_end"]
        done = self._command(drill, given)
        if "mirror_closed" in done.stderr:
            self._mirror.kill()
            fault, given = "dead", [*given, "--confirm", "mirror_closed"]
            self.results.confirmed += 1
            done = self._command(drill, given)
        assert done.returncode == 0, done.stdout + done.stderr
        return fault

    def _command(self, drill: _Drill, given: list[str]) -> "subprocess.CompletedProcess[str]":
        term = drill.rooms.caught_up().term
        command = [*self._b.places["b"].prefix, sys.executable, "-m", "sluiceway", "switch"]
        command += [str(drill.rooms.run.job.path), "--room", "b", "--to", "b", "--execute"]
        command += ["--now", "--term", str(term), "--reason", "room a is lost", *given]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def _compare(self, drill: _Drill, *, mirrored: bool) -> None:
        rooms, results = drill.rooms, self.results
        written = Rows()

        def whole() -> bool:
            nonlocal written
            written = drill.here.rows()
            return written.total() >= drill.load.acknowledged

        wait_for(whole, "all acknowledged rows of room a")
        if mirrored:
            ids = {row[2] for row in written}
            wait_for(lambda: ids <= {row[2] for row in drill.there.rows()}, "all rows mirrored")
        copied = drill.there.wait_read(rooms.caught_up, drill.own.acknowledged)
        rooms.end("b")
        rooms.read_log()
        bodies = [record.body for record in rooms.records]
        (change,) = [body for body in bodies if isinstance(body, SourceChangeRecord)]
        ends = {each.partition: each.old_end for each in change.partitions}
        read = Rows(row for row in written if row[1] < int(ends.get(row[0], 0)))
        wanted = wanted_rows(written, read, copied)
        results.stranded += len({row[2] for row in written} - {number for (number,) in wanted})
        found = committed_rows(rooms.log, "id, _partition, _offset")
        results.compare(wanted, Rows((row[0],) for row in found.elements()))
        for line in wrong_rows(wanted, found, written, copied):
            print(line, file=sys.stderr, flush=True)
        results.check_order(rooms.records)
        results.methods.update(each.evidence["method"] for each in change.partitions)
        ranges = (span for body in bodies if isinstance(body, DataRecord) for span in body.ranges)
        results.copies += sum(int(span.copies) for span in ranges)
        rooms.run.assert_verified()


def wanted_rows(written: Rows, read: Rows, copied: Rows) -> Rows:
    """How often the table should have each number.

    A row that the producer's broker has twice is two rows. A copy is none of its own.

    Args:
        written: `(partition, offset, number)` of room a's rows.
        read: Those of them that room a's driver has read.
        copied: Room b's rows, its own and copies.
    """
    there = {row[2] for row in copied}
    wanted = Rows((row[2],) for row in written if row in read or row[2] in there)
    own = Rows((row[2],) for row in copied if row[2] >= _OWN_FIRST)
    return wanted | own | Rows((number,) for number in there)


def wrong_rows(wanted: Rows, found: Rows, written: Rows, copied: Rows) -> Iterator[str]:
    """Where the first numbers are that the table lacks or has too often.

    Args:
        found: `(number, partition, offset)` of the table's rows.
    """
    numbers = Rows((row[0],) for row in found.elements())
    for (number,) in [*(wanted - numbers), *(numbers - wanted)][:_MOST_SHOWN]:
        here, there = (
            sorted(row[:2] for row in rows.elements() if row[2] == number)
            for rows in (written, copied)
        )
        table = sorted(row[1:] for row in found.elements() if row[0] == number)
        yield f"row {number}: in a at {here}, in b at {there}, in the table from {table}"


def _is_ready(driver: DriverProcess) -> bool:
    """Whether the last that it has logged of its readiness is that it is ready."""
    logged = [each["event"] for each in driver.events()]
    return "room_ready" in [each for each in logged if each in _READINESS][-1:]
