"""Rooms as network namespaces with brokers: one cluster over both and a third place, or two."""

import base64
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from rooms.judge import wait_for
from sluiceway.lab.lab import Lab
from sluiceway.lab.support import LOOPBACK
from tools.far_host import FarHost, far_host
from tools.second_broker import command_of

TESTS = Path(__file__).parents[1]
THIRD = "c"
"""The place outside of both rooms: this machine's own network."""

_BROKER_PORT, _CONTROLLER_PORT = 19092, 19093


@dataclass
class Place:
    """A room, or the third place, with the broker that runs there.

    Attributes:
        host: Its network; None for the third place.
        address: Where the others reach it.
        folder: The broker's.
        command: How the broker is started.
    """

    name: str
    number: int
    host: FarHost | None
    address: str
    folder: Path
    command: list[str]
    _broker: "subprocess.Popen[bytes] | None" = None

    @property
    def prefix(self) -> tuple[str, ...]:
        """Begins the command of a program that is to run there."""
        return () if self.host is None else self.host.prefix

    def start(self) -> None:
        """Start the broker, which is down."""
        with (self.folder / "broker.log").open("ab") as log:
            self._broker = subprocess.Popen(
                [*self.prefix, *self.command],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def signal(self, number: signal.Signals) -> None:
        """Signal the broker, which runs."""
        assert self._broker is not None
        self._broker.send_signal(number)

    def kill(self) -> None:
        """SIGKILL the broker. Safe to repeat."""
        broker, self._broker = self._broker, None
        if broker is not None:
            broker.kill()
            broker.wait()


@dataclass(frozen=True, slots=True)
class RoomCluster:
    """The brokers of a cluster, by place."""

    places: Mapping[str, Place]

    @property
    def servers(self) -> str:
        """Its bootstrap servers."""
        return ",".join(f"{place.address}:{_BROKER_PORT}" for place in self.places.values())

    def admin(self) -> AdminClient:
        """A client of this machine's network."""
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def has(self, topic: str) -> bool:
        """Whether it has a topic."""
        return topic in self.admin().list_topics(timeout=5).topics

    def wait_in_sync(self, topic: str) -> None:
        """Wait until every replica of the topic is in sync."""

        def whole() -> bool:
            found = self.admin().list_topics(topic, timeout=5).topics[topic].partitions.values()
            return bool(found) and all(len(each.isrs) == len(self.places) for each in found)

        wait_for(whole, f"all replicas of {topic} in sync")

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic with a replica in every place."""
        new = NewTopic(topic, partitions, len(self.places))
        wait_for(
            lambda: len(self.admin().list_topics(timeout=5).brokers) == len(self.places), "brokers"
        )
        admin = self.admin()  # It has to live as long as the request.
        admin.create_topics([new])[topic].result()
        self.wait_in_sync(topic)


@contextmanager
def stretched_cluster(lab: Lab, folder: Path) -> Iterator[RoomCluster]:
    """Two rooms and a cluster over them, up in the block; nothing of it stays.

    Args:
        lab: Gives the broker's program, and the metastore that both rooms reach.
        folder: For the brokers' data.

    Raises:
        NoFarHostError: This machine has no network namespaces.
    """
    with ExitStack() as stack:
        a, b = _hosts(lab, stack)
        yield _begin(lab, folder, stack, {"a": a, "b": b, THIRD: None}, a.here)


@contextmanager
def cluster_each(lab: Lab, folder: Path) -> Iterator[tuple[RoomCluster, RoomCluster]]:
    """Two rooms with a cluster of one broker each; otherwise as `stretched_cluster`."""
    with ExitStack() as stack:
        a, b = _hosts(lab, stack)
        yield _begin(lab, folder, stack, {"a": a}), _begin(lab, folder, stack, {"b": b})


def _hosts(lab: Lab, stack: ExitStack) -> list[FarHost]:
    """Two networks that reach each other, and the lab's metastore under its own address."""
    metastore = int(lab.endpoints().metastore_uri.rpartition(":")[2])
    hosts = [stack.enter_context(far_host(())) for _ in "ab"]
    _forward(stack, hosts)
    for host in hosts:
        _relay(stack, host, metastore)
    return hosts


def _begin(
    lab: Lab, folder: Path, stack: ExitStack, hosts: Mapping[str, FarHost | None], third: str = ""
) -> RoomCluster:
    command = command_of(lab)
    places = {
        name: Place(
            name, number, host, third if host is None else host.there, folder / name, command
        )
        for number, (name, host) in enumerate(hosts.items(), 1)
    }
    cluster = RoomCluster(places)
    _format(cluster, command, (lab.folder / "kafka/server.properties").read_text())
    for place in places.values():
        stack.callback(place.kill)
        place.start()
    return cluster


def _forward(stack: ExitStack, hosts: list[FarHost]) -> None:
    """Let the rooms reach each other by way of this machine."""
    switch = Path("/proc/sys/net/ipv4/ip_forward")
    before = switch.read_text()
    switch.write_text("1")
    stack.callback(switch.write_text, before)
    for host in hosts:
        command = [*host.prefix, "ip", "route", "add", "default", "via", host.here]
        subprocess.run(command, check=True)


def _relay(stack: ExitStack, host: FarHost, port: int) -> None:
    """Reach the metastore from a room under its own address: it listens on all of this machine."""
    words = (LOOPBACK, port, host.here, port)
    command = [*host.prefix, sys.executable, "-m", "tools.tcp_relay", *map(str, words)]
    relay = subprocess.Popen(
        command, cwd=TESTS, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    stack.callback(relay.wait)
    stack.callback(relay.terminate)
    assert relay.stdout is not None
    assert relay.stdout.readline(), "a relay did not begin"


def _format(cluster: RoomCluster, command: list[str], settings: str) -> None:
    voters = ",".join(
        f"{place.number}@{place.address}:{_CONTROLLER_PORT}" for place in cluster.places.values()
    )
    brokers = len(cluster.places)
    copies, in_sync = str(brokers), str(brokers // 2 + 1)
    common = {
        "controller.quorum.voters": voters,
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "unclean.leader.election.enable": "false",
    }
    java = command[: command.index("kafka.Kafka")]
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    for place in cluster.places.values():
        listen = f"PLAINTEXT://{place.address}:{_BROKER_PORT}"
        own = {
            "node.id": str(place.number),
            "broker.rack": place.name,
            "listeners": f"{listen},CONTROLLER://{place.address}:{_CONTROLLER_PORT}",
            "log.dirs": str(place.folder / "data"),
        }
        text = settings
        for key in (*common, *own):
            text = re.sub(rf"(?m)^{re.escape(key)}=.*\n", "", text)
        lines = [f"{key}={value}" for key, value in {**common, **own}.items()]
        (place.folder / "tmp").mkdir(parents=True)
        (place.folder / "server.properties").write_text("\n".join([text, *lines, ""]))
        tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}"]
        subprocess.run(
            [*java, *tool, "--config=server.properties"],
            cwd=place.folder,
            check=True,
            capture_output=True,
        )
