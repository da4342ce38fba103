"""A lost room comes back: its last rows are drained, and the job returns to a new copy there."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from sluiceway.lab.kafka import create_topic
from sluiceway.lab.lab import Lab
from sluiceway.ledger.room_files import RoomReport, read_advice
from tools.driver_process import DriverProcess
from tools.job_files import event
from tools.lab_fixture import running_lab
from tools.mirror_maker import MirrorMaker
from tools.mirrored_job import TOPIC, mirrored_job
from tools.route_faults import wait_until
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter


@dataclass(frozen=True)
class Returning:
    """A job in two rooms with a broker each."""

    folder: Path
    labs: dict[str, Lab]
    run: RouteRun
    stack: ExitStack

    def servers(self, room: str) -> str:
        return self.labs[room].endpoints().bootstrap_servers

    def admin(self, room: str) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers(room), "log_level": 0})

    def mirror(self, source: str, target: str) -> MirrorMaker:
        cluster_id = self.admin(source).list_topics(timeout=30).cluster_id
        servers = (self.servers(source), self.servers(target))
        made = MirrorMaker(self.folder / f"to-{target}", servers, cluster_id, TOPIC)
        return self.stack.enter_context(made)

    def start(self, room: str) -> DriverProcess:
        driver = DriverProcess(
            self.run.job, self.folder, "--room", room, module="tools.inline_driver"
        )
        return self.stack.enter_context(driver)

    def write(self, room: str, span: range) -> None:
        TopicWriter(self.servers(room)).write(TOPIC, [event(n) for n in span])

    def seen(self, room: str) -> tuple[int, int]:
        """The number of a room's report, and the log end in it."""
        log = self.run.log()
        report = read_advice(log.storage, log.layout.room(room), RoomReport)
        assert report is not None
        return report.counter, report.log_ends.get(f"{TOPIC}/0", -1)

    def switch(self, room: str, *options: str) -> tuple[int, dict[str, Any]]:
        """Exit code of `switch` in a room, and what it answers for the route."""
        command = [sys.executable, "-m", "sluiceway", "switch", str(self.run.job.path)]
        command += ["--room", room, "-o", "json", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout, done.stderr
        (answer,) = json.loads(done.stdout)["routes"]
        return done.returncode, dict(answer)

    def ids(self) -> list[int]:
        """What the table has."""
        return sorted(int(str(row)) for (row,) in self.run.rows("id"))


@pytest.fixture
def rooms(tmp_path: Path, metastore_uri: str) -> Iterator[Returning]:
    with ExitStack() as stack:
        labs = {
            room: stack.enter_context(running_lab(tmp_path / room, metastore=False))
            for room in ("a", "b")
        }
        a, b = (each.endpoints().bootstrap_servers for each in labs.values())
        yield Returning(tmp_path, labs, mirrored_job(tmp_path, (a, b), metastore_uri), stack)


@pytest.mark.slow
def test_a_room_is_drained_when_it_is_back_and_then_gets_the_job_again(rooms: Returning) -> None:
    rooms.write("a", range(200))
    there, home = rooms.mirror("a", "b"), rooms.start("a")
    home.wait_for_event("committed")
    standby = rooms.start("b")
    standby.wait_for_event("room_ready")
    home.wait_until(lambda: len(rooms.ids()) == 200, "all rows")
    # Room a is lost with rows that were neither read nor copied.
    home.kill_group()
    there.kill()
    rooms.write("a", range(200, 250))
    rooms.labs["a"].kill_server("kafka")
    now = ("--to", "b", "--now", "--term", "1", "--reason", "a is lost", "--execute")
    assert rooms.switch("b", *now)[0] == 0
    rooms.write("b", range(1000, 1050))
    standby.wait_until(lambda: len(rooms.ids()) == 250, "room b's rows")

    rooms.labs["a"].start_server("kafka")
    code, left = rooms.switch("a", "--drain", "a")
    assert (code, left["done"]) == (0, False)
    assert [(log["end"], log["rows"]) for log in left["logs"]] == [(200, 50)]
    there.start()
    code, left = rooms.switch("a", "--drain", "a", "--execute")
    assert (code, left["done"], left["logs"][0]["rows"]) == (0, True, 0)
    there.kill()

    # Room a gets the topic again, and a copy of all of room b's rows.
    admin = rooms.admin("a")
    admin.delete_topics([TOPIC])[TOPIC].result(60)
    wait_until(lambda: TOPIC not in admin.list_topics(timeout=30).topics)
    create_topic(rooms.servers("a"), TOPIC, 1)
    rooms.mirror("b", "a")
    rooms.write("b", range(1050, 1060))
    again = rooms.start("a")
    again.wait_for_event("room_ready")
    assert rooms.switch("a", "--to", "a", "--execute")[0] == 0
    standby.wait_for_event("room_released")
    rooms.write("a", range(300, 320))
    wanted = [*range(250), *range(300, 320), *range(1000, 1060)]
    again.wait_until(lambda: len(rooms.ids()) >= len(wanted), "all rows")
    again.send(signal.SIGTERM)
    assert again.wait().exit_code == 0
    assert rooms.ids() == wanted


@pytest.mark.slow
def test_the_home_room_reads_rows_only_once_they_are_copied(rooms: Returning) -> None:
    path = rooms.run.job.path
    path.write_text(path.read_text().replace("home: a", "home: a\n  mirrored_first: true"))
    rooms.write("a", range(100))
    there, home = rooms.mirror("a", "b"), rooms.start("a")
    rooms.start("b")
    home.wait_until(lambda: home.events("committed") and len(rooms.ids()) == 100, "all rows")
    there.kill()
    rooms.write("a", range(100, 150))
    # The driver sees the rows, and has planned at least one more epoch since.
    home.wait_until(lambda: rooms.seen("a")[1] == 150, "the rows in a report")
    counter, _ = rooms.seen("a")
    home.wait_until(lambda: rooms.seen("a")[0] > counter, "one more report")
    assert rooms.ids() == list(range(100))
    there.start()
    home.wait_until(lambda: len(rooms.ids()) == 150, "the rest")
    home.send(signal.SIGTERM)
    assert home.wait().exit_code == 0
    assert rooms.ids() == list(range(150))
