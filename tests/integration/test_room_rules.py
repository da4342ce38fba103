"""Access rules of two rooms as docs/guides/operations.md has them, on brokers that go by rules."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.loader import inspect_job
from sluiceway.lab.kafka import create_topic
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.sources.kafka.client import KafkaSourceClient
from sluiceway.sources.topic_sample import read_splits
from tools.driver_process import DriverProcess
from tools.guarded_broker import RuledBroker, ruled_broker
from tools.job_files import event, write_job
from tools.mirror_maker import MirrorMaker
from tools.route_faults import wait_until
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

# Brokers of its own, and a MirrorMaker.
pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "operations.md"
TOPIC = "orders"
MIRROR_ID = "a-mm2-MirrorSourceConnector-0"
ROOMS = """\
rooms:
  home: a
  after: 2s
  queue: mirrored
  mirror: {{copies: exactly_once, transactional_ids: [{id}]}}
  writers: own
  a: {{connections: {{main: {{kafka: {{bootstrap_servers: "{a}"}}}}}}}}
  b: {{connections: {{main: {{kafka: {{bootstrap_servers: "{b}"}}}}}}}}
"""
_KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.BROKER,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}


@dataclass(frozen=True)
class Row:
    """A line of the page, for one kind of resource."""

    login: str
    rooms: tuple[str, ...]
    kind: str
    operations: tuple[str, ...]

    def rules(self, group: str) -> list[AclBinding]:
        """The rules that it asks for."""
        names = {"topic": TOPIC, "group": group, "cluster": "kafka-cluster"}
        name = names.get(self.kind, MIRROR_ID) if self.login == "driver" else "*"
        if (self.login, self.rooms) == ("mirror", ("a",)):
            name = TOPIC
        return [
            AclBinding(
                *(_KINDS[self.kind], name, ResourcePatternType.LITERAL, f"User:{self.login}", "*"),
                *(AclOperation[_enum_name(each)], AclPermissionType.ALLOW),
            )
            for each in self.operations
        ]


def _enum_name(operation: str) -> str:
    return "".join(f"_{c}" if c.isupper() else c.upper() for c in operation).strip("_").upper()


def rows() -> list[Row]:
    """What the page allows."""
    text = PAGE.read_text("utf-8").split("```text\ndriver ")[1].split("```")[0]
    found = []
    for line in f"driver {text}".splitlines():
        subject, _, allow = line.partition(": ")
        login, rooms, on = subject.split()[:3]
        operations = tuple(allow.split())
        found += [Row(login, tuple(rooms.split(",")), kind, operations) for kind in on.split(",")]
    return found


@dataclass(frozen=True)
class Rooms:
    """A broker in each room that allows what the page says."""

    folder: Path
    a: RuledBroker
    b: RuledBroker
    run: RouteRun

    @property
    def group(self) -> str:
        return self.run.job.route.group

    def rules(self, room: str) -> list[AclBinding]:
        return [rule for row in rows() if room in row.rooms for rule in row.rules(self.group)]

    def driver(self, room: str) -> DriverProcess:
        return DriverProcess(
            self.run.job, self.folder, "--room", room, module="tools.inline_driver"
        )

    def sluiceway(self, verb: str, *options: str) -> "subprocess.CompletedProcess[str]":
        """A command in room b."""
        command = [sys.executable, "-m", "sluiceway", verb, str(self.run.job.path), *options]
        command += ["--room", "b"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def copied(self) -> int:
        admin = AdminClient({"bootstrap.servers": self.b.plain, "log_level": 0})
        if TOPIC not in admin.list_topics(timeout=30).topics:
            return 0
        (end,) = admin.list_offsets({TopicPartition(TOPIC, 0): OffsetSpec.latest()}).values()
        return int(end.result(30).offset)

    def ids(self) -> list[int]:
        return sorted(int(str(number)) for (number,) in self.run.rows("id"))


@pytest.fixture
def rooms(tmp_path: Path, metastore_uri: str) -> Iterator[Rooms]:
    with ExitStack() as stack:
        users = ("driver", "mirror")
        a, b = (stack.enter_context(ruled_broker(tmp_path / room, users)) for room in ("a", "b"))
        create_topic(a.plain, TOPIC, 1)
        job = write_job(
            tmp_path,
            bootstrap_servers=a.sasl,
            metastore_uri=metastore_uri,
            topic=TOPIC,
            table=f"ods.{tmp_path.name.replace('-', '_')}",
        )
        text, password = job.path.read_text(), tmp_path / "password"
        login = RuledBroker.login("driver")
        password.write_text(login["sasl.password"])
        login = {**login, "sasl.password": f"${{file:{password}}}"}
        one = f'{{kafka: {{bootstrap_servers: "{a.sasl}"}}}}'
        assert one in text
        with_login = (
            f'{{kafka: {{bootstrap_servers: "{a.sasl}", properties: {json.dumps(login)}}}}}'
        )
        block = ROOMS.format(a=a.sasl, b=b.sasl, id=MIRROR_ID)
        job.path.write_text(text.replace(one, with_login) + block)
        made = Rooms(tmp_path, a, b, RouteRun(job))
        a.allow(made.rules("a"))
        b.allow(made.rules("b"))
        yield made


def test_the_rules_of_the_page_are_enough_for_driver_standby_and_mirror(rooms: Rooms) -> None:
    writer = TopicWriter(rooms.a.plain)
    writer.write(TOPIC, [event(n) for n in range(100)])
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = dict(RuledBroker.login("mirror"))
    user, password = login.pop("sasl.username"), login.pop("sasl.password")
    login["sasl.jaas.config"] = f'{jaas} required username="{user}" password="{password}";'
    with ExitStack() as stack:
        mirror = MirrorMaker(rooms.folder / "mirror", (rooms.a.sasl, rooms.b.sasl), "", TOPIC)
        mirror.log_in(login)
        stack.enter_context(mirror)
        home = stack.enter_context(rooms.driver("a"))
        home.wait_for_event("committed")
        # Each row, and the end of a transaction.
        wait_until(lambda: rooms.copied() > 100)
        standby = stack.enter_context(rooms.driver("b"))
        standby.wait_for_event("room_ready")
        found = rooms.sluiceway("doctor")
        assert "only User:mirror may write" in found.stdout, found.stdout + found.stderr
        mirror.kill()
        home.send(signal.SIGKILL)
        now = ("--to", "b", "--now", "--term", "1", "--reason", "lost", "--execute")
        done = rooms.sluiceway("switch", *now)
        assert done.returncode == 0, done.stdout + done.stderr
        standby.wait_until(lambda: rooms.ids() == list(range(100)), "all rows")
        assert not standby.events("mirror_transaction_left")
        standby.send(signal.SIGTERM)
        assert standby.wait().exit_code == 0
    blocked = [*home.events("follower_blocked"), *standby.events("follower_blocked")]
    assert not [each for each in blocked if "AUTHORIZATION" in str(each)]


def test_a_rule_that_is_missing_is_named_with_what_to_allow(rooms: Rooms) -> None:
    create_topic(rooms.b.plain, TOPIC, 1)
    TopicWriter(rooms.b.plain).write(TOPIC, [event(1)])
    one = SourcePartition(TOPIC, 0)
    path = rooms.run.job.path
    loaded = inspect_job(path.read_bytes(), path, {}, room="b").job
    assert loaded is not None
    access = compile_route(loaded.spec.routes[0]).source

    def read(client: KafkaSourceClient) -> None:
        # Of a topic that it may not even see, a reader says nothing; each driver asks first.
        client.discover([TOPIC])
        list(read_splits(access, [Split(one, 0, 1)]))

    def traits(client: KafkaSourceClient) -> None:
        client.copy_traits([TOPIC])

    def report(client: KafkaSourceClient) -> None:
        client.report(rooms.group, {one: 1})

    def end(client: KafkaSourceClient) -> None:
        client.end_transactions((MIRROR_ID,))

    uses: Sequence[tuple[str, tuple[str, ...], Callable[[KafkaSourceClient], None], str, str]] = (
        ("topic", ("Read",), read, TOPIC, "Describe, DescribeConfigs and Read on topics"),
        ("topic", ("DescribeConfigs",), traits, TOPIC, "Describe, DescribeConfigs and Read"),
        ("group", ("Read",), report, rooms.group, "Read on the group"),
        ("transactional-id", ("Write",), end, MIRROR_ID, "Write on the id, or remove it from"),
    )
    for kind, operations, use, place, hint in uses:
        (row,) = [each for each in rows() if (each.login, each.kind) == ("driver", kind)]
        rules = [
            rule
            for each, rule in zip(row.operations, row.rules(rooms.group), strict=True)
            if each in operations
        ]
        assert rules, kind
        _use(rooms, use)
        rooms.b.forbid(rules)
        with pytest.raises(UnhealthyEnvironmentError) as refused:
            _use(rooms, use)
        assert place in refused.value.where
        assert hint in refused.value.hint
        rooms.b.allow(rules)


def test_doctor_says_that_access_rules_cannot_be_read(rooms: Rooms) -> None:
    create_topic(rooms.b.plain, TOPIC, 1)
    rules = [
        rule
        for row in rows()
        if (row.login, row.kind) == ("driver", "cluster")
        for rule in row.rules(rooms.group)
    ]
    assert rules
    rooms.b.forbid(rules)
    found = rooms.sluiceway("doctor")
    assert "no access rule of it can be read" in found.stdout, found.stdout + found.stderr


def _use(rooms: Rooms, use: Callable[[KafkaSourceClient], None]) -> None:
    """With a new client: rules that an old one knows do not count."""
    client = KafkaSourceClient(rooms.b.sasl, RuledBroker.login("driver"), 20.0)
    try:
        use(client)
    finally:
        client.close()
