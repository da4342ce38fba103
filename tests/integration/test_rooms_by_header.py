"""Two rooms with a broker each; MirrorMaker names rows in a header, and a room is lost."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from sluiceway.lab.lab import Lab
from sluiceway.ledger.operator_records import SourceChangeRecord
from sluiceway.ledger.records import DataRecord
from tools.driver_process import DriverProcess
from tools.job_files import event
from tools.lab_fixture import running_lab
from tools.mirror_maker import MirrorMaker
from tools.mirrored_job import TOPIC, mirrored_job
from tools.route_faults import wait_until
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter


@dataclass(frozen=True)
class TwoRooms:
    """Both brokers, the job, and who writes to which room."""

    folder: Path
    a: Lab
    b: Lab
    run: RouteRun

    @property
    def servers(self) -> tuple[str, str]:
        return self.a.endpoints().bootstrap_servers, self.b.endpoints().bootstrap_servers

    def mirror(self) -> MirrorMaker:
        cluster = AdminClient({"bootstrap.servers": self.servers[0], "log_level": 0})
        cluster_id = cluster.list_topics(timeout=30).cluster_id
        return MirrorMaker(self.folder / "mirror", self.servers, cluster_id, TOPIC)

    def copied(self) -> int:
        """Rows in room b's log."""
        admin = AdminClient({"bootstrap.servers": self.servers[1], "log_level": 0})
        if TOPIC not in admin.list_topics(timeout=30).topics:
            return 0
        (end,) = admin.list_offsets({TopicPartition(TOPIC, 0): OffsetSpec.latest()}).values()
        return int(end.result(30).offset)

    def ids(self) -> list[int]:
        """What the table has."""
        return [int(str(row)) for (row,) in self.run.rows("id")]

    def sluiceway(self, verb: str, *options: str) -> None:
        """A command in room b."""
        command = [sys.executable, "-m", "sluiceway", verb, str(self.run.job.path), *options]
        command += ["--room", "b"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def rooms(tmp_path: Path, metastore_uri: str) -> Iterator[TwoRooms]:
    with ExitStack() as labs:
        a = labs.enter_context(running_lab(tmp_path / "a", metastore=False))
        b = labs.enter_context(running_lab(tmp_path / "b", metastore=False))
        here, there = (each.endpoints().bootstrap_servers for each in (a, b))
        yield TwoRooms(tmp_path, a, b, mirrored_job(tmp_path, (here, there), metastore_uri))


def _driver(rooms: TwoRooms, room: str, *options: str) -> DriverProcess:
    return DriverProcess(
        rooms.run.job, rooms.folder, "--room", room, *options, module="tools.inline_driver"
    )


@pytest.mark.slow
def test_a_mirror_is_killed_and_repeats_and_the_other_room_reads_each_row_once(
    rooms: TwoRooms,
) -> None:
    here, there = (TopicWriter(each) for each in rooms.servers)
    here.write(TOPIC, [event(n) for n in range(300)])
    with ExitStack() as stack:
        mirror, home = stack.enter_context(rooms.mirror()), stack.enter_context(_driver(rooms, "a"))
        # The database's first table: its folder is made by one driver.
        home.wait_for_event("committed")
        standby = stack.enter_context(_driver(rooms, "b"))
        wait_until(lambda: rooms.copied() >= 300)
        # Room b's own producers write before the switch, and the mirror copies all once more.
        there.write(TOPIC, [event(n) for n in range(1000, 1050)])
        mirror.kill()
        mirror.start()
        here.write(TOPIC, [event(n) for n in range(300, 400)])
        wait_until(lambda: rooms.copied() >= 750)
        mirror.kill()
        home.send(signal.SIGKILL)
        rooms.a.down()
        standby.wait_for_event("room_ready")
        there.write(TOPIC, [event(n) for n in range(1050, 1100)])
        now = ("--to", "b", "--now", "--term", "1", "--reason", "a is lost", "--execute")
        rooms.sluiceway("switch", *now)
        standby.wait_for_event("committed")
        standby.send(signal.SIGKILL)
    there.write(TOPIC, [event(n) for n in range(1100, 1120)])
    wanted = [*range(400), *range(1000, 1120)]
    with _driver(rooms, "b") as again:
        again.wait_until(lambda: len(rooms.ids()) >= len(wanted), "all rows")
        again.send(signal.SIGTERM)
        assert again.wait().exit_code == 0
    assert sorted(rooms.ids()) == wanted
    bodies = [each.body for each in rooms.run.records()]
    (change,) = [body for body in bodies if isinstance(body, SourceChangeRecord)]
    assert change.partitions[0].evidence["method"] == "header"
    ranges = [span for body in bodies if isinstance(body, DataRecord) for span in body.ranges]
    assert sum(int(span.copies) for span in ranges) > 0
    assert ranges[-1].origin_end == 400
    rooms.sluiceway("verify", "--deep")
