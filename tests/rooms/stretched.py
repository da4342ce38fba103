"""One Kafka cluster over two rooms and a third place: three brokers with racks and a quorum."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from sluiceway.lab.lab import Lab
from sluiceway.lab.support import LOOPBACK
from tools.far_host import FarHost, far_host
from tools.second_broker import command_of

TESTS = Path(__file__).parents[1]
THIRD = "c"
"""The place outside of both rooms: this machine's own network."""

_BROKER_PORT, _CONTROLLER_PORT = 19092, 19093
_PATIENCE_S = 120.0
_POLL_S = 0.2


@dataclass
class Place:
    """A room, or the third place.

    Attributes:
        host: Its network; None for the third place.
        address: Where the others reach it.
        broker: Its running broker; None while it is down.
    """

    name: str
    number: int
    host: FarHost | None
    address: str
    folder: Path
    broker: "subprocess.Popen[bytes] | None" = None

    @property
    def prefix(self) -> tuple[str, ...]:
        """Begins the command of a program that is to run there."""
        return () if self.host is None else self.host.prefix


@dataclass
class StretchedCluster:
    """The brokers, by place."""

    places: Mapping[str, Place]
    command: list[str]
    servers: str = ""
    _stack: ExitStack = field(default_factory=ExitStack)

    def start(self, name: str) -> None:
        """Start the broker of a place, which is down."""
        place = self.places[name]
        log = self._stack.enter_context((place.folder / "broker.log").open("ab"))
        place.broker = subprocess.Popen(
            [*place.prefix, *self.command],
            cwd=place.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def kill(self, name: str) -> None:
        """SIGKILL the broker of a place."""
        broker = self.places[name].broker
        assert broker is not None
        broker.kill()
        broker.wait()

    def close(self) -> None:
        """End all brokers."""
        for name, place in self.places.items():
            if place.broker is not None and place.broker.poll() is None:
                self.kill(name)
        self._stack.close()

    def admin(self) -> AdminClient:
        """A client of this machine's network."""
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def wait_in_sync(self, topic: str) -> None:
        """Wait until every replica of the topic is in sync."""

        def whole() -> bool:
            found = self.admin().list_topics(topic, timeout=5).topics[topic].partitions.values()
            return bool(found) and all(len(each.isrs) == len(self.places) for each in found)

        wait_for(whole, f"all replicas of {topic} in sync")

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic with a replica in every place."""
        new = NewTopic(topic, partitions, len(self.places))
        wait_for(lambda: len(self.admin().list_topics(timeout=5).brokers) == 3, "three brokers")
        admin = self.admin()  # It has to live as long as the request.
        admin.create_topics([new])[topic].result()
        self.wait_in_sync(topic)


def wait_for(happened: "object", what: str) -> None:
    """Wait until a call returns something true; an outage of the brokers is waited for."""
    assert callable(happened)
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        try:
            if happened():
                return
        except KafkaException:
            pass
        time.sleep(_POLL_S)
    raise AssertionError(f"not in {_PATIENCE_S:.0f} s: {what}")


@contextmanager
def stretched_cluster(lab: Lab, folder: Path) -> Iterator[StretchedCluster]:
    """Two rooms and a cluster over them, up in the block; nothing of it stays.

    Args:
        lab: Gives the broker's program, and the metastore that both rooms reach.
        folder: For the brokers' data.

    Raises:
        NoFarHostError: This machine has no network namespaces.
    """
    metastore = int(lab.endpoints().metastore_uri.rpartition(":")[2])
    with ExitStack() as stack:
        hosts = [stack.enter_context(far_host(())) for _ in "ab"]
        _forward(stack, hosts)
        for host in hosts:
            _relay(stack, host, metastore)
        places = {
            name: Place(name, number, host, host.there, folder / name)
            for number, (name, host) in enumerate(zip("ab", hosts, strict=True), 1)
        }
        places[THIRD] = Place(THIRD, 3, None, hosts[0].here, folder / THIRD)
        cluster = StretchedCluster(places, command_of(lab))
        cluster.servers = ",".join(f"{p.address}:{_BROKER_PORT}" for p in places.values())
        stack.callback(cluster.close)
        _format(cluster, (lab.folder / "kafka/server.properties").read_text())
        for name in places:
            cluster.start(name)
        yield cluster


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


def _format(cluster: StretchedCluster, settings: str) -> None:
    voters = ",".join(
        f"{place.number}@{place.address}:{_CONTROLLER_PORT}" for place in cluster.places.values()
    )
    common = {
        "controller.quorum.voters": voters,
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "unclean.leader.election.enable": "false",
    }
    java = cluster.command[: cluster.command.index("kafka.Kafka")]
    cluster_id = "cm9vbXMtYXJlLW9uZS1jMQ"
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
