"""Two rooms with a cluster each: a lost room is continued in copies, found by their tails."""

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

from sluiceway.lab.kafka import create_topic
from sluiceway.lab.lab import Lab
from sluiceway.ledger.operator_records import SourceChangeRecord
from sluiceway.ledger.records import FenceRecord
from tools.driver_process import DriverProcess
from tools.job_files import event
from tools.lab_fixture import TopicFactory
from tools.route_faults import NewRun
from tools.route_runs import RouteRun
from tools.row_mirror import RowMirror
from tools.topic_writer import TopicWriter

ROOMS = """\
rooms:
  home: a
  after: 2s
  queue: mirrored
  mirror: {{copies: exactly_once, transactional_ids: [m-{copy}]}}
  writers: {writers}
  a: {{connections: {{main: {{kafka: {{bootstrap_servers: "{a}"}}}}}}}}
  b: {{connections: {{}}, topics: {{{topic}: {copy}}}}}
"""


@dataclass
class Rooms:
    """A job in two rooms; room a's cluster is this test's own."""

    run: RouteRun
    a: Lab
    topic: str
    copy: str
    mirror: RowMirror
    writer: TopicWriter
    folder: Path
    stack: ExitStack

    @property
    def job(self) -> str:
        return str(self.run.job.path)

    def add_block(self, writers: str) -> None:
        path, mirror = self.run.job.path, self.mirror
        names = {"a": mirror.source, "topic": self.topic, "copy": self.copy}
        path.write_text(path.read_text() + ROOMS.format(**names, writers=writers))

    def start(self, room: str) -> DriverProcess:
        driver = DriverProcess(
            self.run.job, self.folder, "--room", room, module="tools.inline_driver"
        )
        return self.stack.enter_context(driver)

    def switch(self, *options: str) -> dict[str, Any]:
        """What `switch --to b` answers for the route."""
        done = self.command("switch", "--to", "b", "-o", "json", *options)
        (answer,) = json.loads(done.stdout)["routes"]
        return dict(answer)

    def command(self, name: str, *options: str) -> "subprocess.CompletedProcess[str]":
        """A command on a machine of room b."""
        command = [sys.executable, "-m", "sluiceway", name, self.job, "--room", "b", *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def ids(self) -> list[int]:
        return [int(str(number)) for (number,) in self.run.rows("id")]


@pytest.fixture
def rooms(
    new_run: NewRun, new_topic: TopicFactory, bootstrap_servers: str, tmp_path: Path
) -> Iterator[Rooms]:
    with ExitStack() as stack:
        a = Lab(tmp_path / "a", metastore=False)
        stack.callback(a.down)
        servers = a.up().bootstrap_servers
        copy = new_topic(3, prefix="copy")
        topic = copy.replace("copy", "orders")
        create_topic(servers, topic, 3)
        run, _ = new_run(topic=topic, bootstrap_servers=bootstrap_servers)
        yield Rooms(
            run,
            a,
            topic,
            copy,
            RowMirror(servers, bootstrap_servers, topic, copy),
            TopicWriter(servers),
            tmp_path,
            stack,
        )


def _events(span: range) -> list[bytes]:
    return [event(n) for n in span]


def _is_read(rooms: Rooms, rows: int) -> bool:
    return int(rooms.run.log().fold().counts.read) == rows


@pytest.mark.slow
def test_a_lost_room_is_continued_in_its_copies_with_no_row_lost_or_doubled(
    rooms: Rooms, bootstrap_servers: str
) -> None:
    rooms.add_block("shared")
    for first in range(0, 40, 10):
        rooms.writer.commit(rooms.topic, _events(range(first, first + 10)))
        rooms.writer.abort(rooms.topic, _events(range(900, 903)))
    rooms.writer.write(rooms.topic, _events(range(200, 220)), partition=1)
    home = rooms.start("a")
    home.wait_until(lambda: home.events("committed") and _is_read(rooms, 60), "60 rows")
    home.kill_group()
    # Of partition 0 the mirror has rows that the table lacks; of partition 1 it lacks some.
    rooms.writer.commit(rooms.topic, _events(range(40, 55)))
    assert rooms.mirror.run({1: 3}) == 72
    rooms.a.kill_server("kafka")
    own = TopicWriter(bootstrap_servers)
    for number, span in enumerate([range(100, 105), range(300, 305), range(400, 405)]):
        own.write(rooms.copy, _events(span), partition=number)
    standby = rooms.start("b")
    standby.wait_for_event("room_ready")
    lost = ("--now", "--term", "1", "--reason", "lost", "--execute")
    refused = rooms.switch(*lost, "--confirm", "mirror_only")
    assert "mirror_closed: the mirror that copied" in refused["error"]["message"]
    assert "--confirm mirror_closed --confirm mirror_only" in refused["error"]["hint"]
    done = rooms.switch(*lost, "--confirm", "mirror_only", "--confirm", "mirror_closed")
    assert done["done"], done
    standby.wait_until(lambda: _is_read(rooms, 90), "all rows")
    standby.send(signal.SIGTERM)
    assert standby.wait().exit_code == 0
    ids = [range(55), range(100, 105), range(200, 220), range(300, 305), range(400, 405)]
    assert rooms.ids() == [number for span in ids for number in span]
    assert rooms.command("verify", "--deep").returncode == 0
    fence, change = _after_last_fence(rooms)
    assert (fence.site, change.operator != "", change.reason) == ("b", True, "lost")
    moved = {each.partition: each for each in change.partitions}
    assert {number: each.evidence["method"] for number, each in moved.items()} == {
        0: "inside",
        1: "short",
        2: "begin",
    }
    assert moved[1].evidence["confirmed"] == "mirror_only,mirror_closed"
    # Transactions of the copy are other ones than those of the topic.
    assert moved[0].old_end != moved[0].new_end
    assert int(moved[2].new_end) == 0


def _after_last_fence(rooms: Rooms) -> tuple[FenceRecord, SourceChangeRecord]:
    bodies = [each.body for each in rooms.run.records()]
    (place,) = [n for n, body in enumerate(bodies) if isinstance(body, SourceChangeRecord)]
    fence, change = bodies[place - 1], bodies[place]
    assert isinstance(fence, FenceRecord)
    assert isinstance(change, SourceChangeRecord)
    return fence, change
