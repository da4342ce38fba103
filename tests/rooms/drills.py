"""Drills of one cluster over two rooms: a room is lost under load, and each row is there once."""

import random
import time
from pathlib import Path

from rooms.driven import KINDS, DrivenRooms
from rooms.judge import PARTITIONS, CheckedTopic, DrillResults, committed_rows
from rooms.load import Load
from rooms.stretched import RoomCluster
from sluiceway.lab.lab import Lab
from tools.driver_process import DriverProcess
from tools.job_files import write_job
from tools.route_runs import RouteRun

_ROOMS = """\
rooms:
  home: a
  switch: auto
  after: 10s
  give_way: 10s
  a: {{connections: {{main: {{kafka: {{bootstrap_servers: "{servers}"}}}}}}}}
  b: {{connections: {{main: {{kafka: {{bootstrap_servers: "{servers}"}}}}}}}}
"""
_EVENT_TIME = "{field: ts, unit: ms, out_of_orderness: 10m, idle_after: 20s}"


class StretchedDrills:
    """A job in two rooms over one cluster.

    Args:
        cluster: The brokers, up.
        lab: Its metastore.
        folder: For the job file and the drivers' logs.
        seed: Of what happens when.
    """

    def __init__(self, cluster: RoomCluster, lab: Lab, folder: Path, seed: int) -> None:
        self._cluster = cluster
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
        job.path.write_text(job.path.read_text() + _ROOMS.format(servers=cluster.servers))
        self._rooms = DrivenRooms(cluster.places, RouteRun(job), folder)
        self._checked = CheckedTopic(cluster.servers, self._topic)
        self.results = DrillResults()

    def play(self, drills: int) -> DrillResults:
        """Run so many drills, and compare the table with the topic."""
        self._cluster.create_topic(self._topic, PARTITIONS)
        load = Load(self._cluster.servers, self._topic, PARTITIONS)
        with self._rooms as rooms:
            home = rooms.start("a")
            home.wait_for_event("fenced")
            load.start()
            home.wait_for_event("committed")
            rooms.start("b").wait_for_event("room_ready")
            for number in range(drills):
                self._drill(KINDS[number % len(KINDS)])
            load.close()
            wanted = self._checked.wait_read(rooms.caught_up, load.acknowledged)
            rooms.end("a", "b")
            rooms.read_log()
        self.results.compare(wanted, committed_rows(rooms.log))
        self.results.check_order(rooms.records)
        rooms.run.assert_verified()
        return self.results

    def _drill(self, kind: str) -> None:
        """Lose the room that has the route; the other one commits; the lost one comes back."""
        room = self._rooms.holder
        other = "b" if room == "a" else "a"
        time.sleep(self._rng.uniform(0.0, 3.0))
        began = time.monotonic()
        self._rooms.lose(room, kind)
        self._rooms.await_commit_of(other)
        self.results.add(kind, time.monotonic() - began)
        self._bring_back(room, kind)

    def _bring_back(self, room: str, kind: str) -> None:
        rooms = self._rooms
        place, driver = rooms.places[room], rooms.drivers[room]
        if kind == "cut":
            assert place.host is not None
            place.host.mend()
            ready = len(driver.events("room_ready"))
            driver.wait_until(lambda: _is_standby(driver, ready), "a standby again")
        else:
            if kind == "stop":
                rooms.assert_fenced(room)
            else:
                place.start()
            driver.close()
            rooms.start(room).wait_for_event("room_ready")
        self._cluster.wait_in_sync(self._topic)


def _is_standby(driver: DriverProcess, ready: int) -> bool:
    return len(driver.events("room_ready")) > ready
