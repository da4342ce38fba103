"""Three brokers as one cluster, restarted one after the other while clients go on."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from sluiceway.lab.lab import Lab
from sluiceway.lab.support import LOOPBACK, pick_free_ports

# The tool that reads a server's command belongs to the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from tools.second_broker import command_of

BROKERS = 3
_PATIENCE_S = 120.0
_ASK_S = 5.0
_POLL_S = 0.2
_ANSWERS = 3


class BrokersFailedError(Exception):
    """The cluster did not come to be, or not whole again."""


class ThreeBrokers:
    """A running cluster: each topic on all brokers, written when two of them have it.

    Attributes:
        servers: Addresses of all.
        restarts: Brokers that went and came back.
    """

    def __init__(self, command: list[str], folders: list[Path], servers: list[str]) -> None:
        self.servers = ",".join(servers)
        self.restarts = 0
        self._command = command
        self._folders = folders
        self._processes = [self._launch(folder) for folder in folders]
        self._admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def wait_until_whole(self) -> None:
        """Wait until all brokers are there and have all that is written.

        Raises:
            BrokersFailedError: They are not for long.
        """
        until = time.monotonic() + _PATIENCE_S
        answers = 0
        while answers < _ANSWERS:
            answers = answers + 1 if self._is_whole() else 0
            ended = [process.args for process in self._processes if process.poll() is not None]
            if ended or time.monotonic() > until:
                raise BrokersFailedError(f"the cluster is not whole; ended: {ended}")
            time.sleep(_POLL_S)

    def _is_whole(self) -> bool:
        with suppress(KafkaException):
            found = self._admin.list_topics(timeout=_ASK_S)
            logs = [log for topic in found.topics.values() for log in topic.partitions.values()]
            return len(found.brokers) == BROKERS and all(
                len(log.isrs) == len(log.replicas) and log.leader >= 0 for log in logs
            )
        return False

    def restart(self, number: int, *, killed: bool) -> None:
        """Take one broker away, bring it back and wait until it has all again.

        Args:
            number: 0, 1 or 2.
            killed: By SIGKILL; else it hands over what it leads.
        """
        process = self._processes[number]
        process.send_signal(signal.SIGKILL if killed else signal.SIGTERM)
        process.wait(_PATIENCE_S)
        self._processes[number] = self._launch(self._folders[number])
        self.wait_until_whole()
        self.restarts += 1

    def close(self) -> None:
        """End all."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()

    def _launch(self, folder: Path) -> "subprocess.Popen[bytes]":
        with (folder / "broker.log").open("ab") as log:
            return subprocess.Popen(
                self._command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )


@contextmanager
def three_brokers(lab: Lab, folder: Path) -> Iterator[ThreeBrokers]:
    """A cluster that is up in the block and gone after it.

    Args:
        lab: One that is up; its own broker is stopped, and says how brokers are started here.
        folder: For their data; does not exist.
    """
    first = lab.folder / "kafka"
    command = command_of(lab)
    settings = (first / "server.properties").read_text()
    cluster = re.search(r"(?m)^cluster\.id=(\S+)$", (first / "data/meta.properties").read_text())
    if cluster is None:
        raise BrokersFailedError("the lab's broker has no cluster id")
    lab.stop_server("kafka")
    ports = pick_free_ports(2 * BROKERS)
    folder.mkdir()
    folders = [folder / f"broker-{node}" for node in range(1, BROKERS + 1)]
    for node, place in enumerate(folders, 1):
        place.mkdir()
        (place / "server.properties").write_text(_settings(settings, node, ports, place))
        java = command[: command.index("kafka.Kafka")]
        tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster[1]}"]
        subprocess.run(
            [*java, *tool, "--config=server.properties"], cwd=place, check=True, capture_output=True
        )
    servers = [f"{LOOPBACK}:{port}" for port in ports[:BROKERS]]
    brokers = ThreeBrokers(command, folders, servers)
    try:
        brokers.wait_until_whole()
        yield brokers
    finally:
        brokers.close()


def _settings(settings: str, node: int, ports: list[int], folder: Path) -> str:
    """The lab's settings for one of three nodes that are broker and controller."""
    port, controller = ports[node - 1], ports[BROKERS + node - 1]
    voters = [f"{n}@{LOOPBACK}:{ports[BROKERS + n - 1]}" for n in range(1, BROKERS + 1)]
    changes = {
        "node.id": str(node),
        "controller.quorum.voters": ",".join(voters),
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller}",
        "log.dirs": str(folder / "data"),
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "share.coordinator.state.topic.replication.factor": "3",
        "share.coordinator.state.topic.min.isr": "2",
    }
    for key, value in changes.items():
        settings = re.sub(rf"(?m)^{re.escape(key)}=.*$", f"{key}={value}", settings)
    return settings
