"""Brokers next to a lab's: one for topics with another leader, one of a cluster of its own."""

import base64
import re
import signal
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient

from sluiceway.lab.lab import Lab
from sluiceway.lab.support import LOOPBACK, pick_free_ports
from tools.route_faults import wait_until

SECOND = 2
"""Its node id; that of the lab's own is 1."""


class SecondBroker:
    """A running broker that can be made silent.

    Args:
        process: The broker's.

    Attributes:
        pid: Of the process.
    """

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.pid = process.pid

    def fall_silent(self) -> None:
        """It keeps its connections and answers nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """It answers again."""
        self._process.send_signal(signal.SIGCONT)


@contextmanager
def second_broker(lab: Lab, folder: Path) -> Iterator[SecondBroker]:
    """A broker of the lab's cluster, up in the block and gone after it.

    Args:
        lab: One of the test's own: topics of other tests would get a leader here.
        folder: For its data; does not exist.
    """
    first = lab.folder / "kafka"
    (port,) = pick_free_ports(1)
    changes = {
        "process.roles": "broker",
        "node.id": str(SECOND),
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
    }
    cluster = re.search(r"(?m)^cluster\.id=(\S+)$", (first / "data/meta.properties").read_text())
    assert cluster is not None
    with _started(lab, folder, changes, cluster[1]) as process:
        admin = AdminClient(
            {"bootstrap.servers": lab.endpoints().bootstrap_servers, "log_level": 0}
        )
        wait_until(lambda: SECOND in admin.list_topics(timeout=10).brokers)
        yield SecondBroker(process)


@contextmanager
def lone_broker(lab: Lab, folder: Path) -> Iterator[tuple[SecondBroker, str]]:
    """A cluster of its own: a broker, and in another process the controller that fences it.

    Args:
        lab: Gives the broker's program.
        folder: For the data; does not exist.

    Returns:
        The broker, up in the block, and its bootstrap servers.
    """
    port, controller = pick_free_ports(2)
    common = {"controller.quorum.voters": f"1@{LOOPBACK}:{controller}"}
    roles = {
        "controller": {"node.id": "1", "listeners": f"CONTROLLER://{LOOPBACK}:{controller}"},
        "broker": {"node.id": str(SECOND), "listeners": f"PLAINTEXT://{LOOPBACK}:{port}"},
    }
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    folder.mkdir()
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                _started(lab, folder / role, {**common, "process.roles": role, **own}, cluster)
            )
            for role, own in roles.items()
        ]
        yield SecondBroker(processes[-1]), f"{LOOPBACK}:{port}"


@contextmanager
def _started(
    lab: Lab, folder: Path, changes: Mapping[str, str], cluster: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """A node with the lab's settings but for these, formatted in a new folder."""
    command = command_of(lab)
    settings = (lab.folder / "kafka/server.properties").read_text()
    for key, value in {**changes, "log.dirs": str(folder / "data")}.items():
        settings = re.sub(rf"(?m)^{re.escape(key)}=.*$", f"{key}={value}", settings)
    folder.mkdir()
    (folder / "tmp").mkdir()
    (folder / "server.properties").write_text(settings)
    java = command[: command.index("kafka.Kafka")]
    tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster}"]
    subprocess.run(
        [*java, *tool, "--config=server.properties"], cwd=folder, check=True, capture_output=True
    )
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def command_of(lab: Lab) -> list[str]:
    """How the lab has started its broker, which runs."""
    (status,) = [server for server in lab.status() if server.name == "kafka"]
    return Path(f"/proc/{status.pid}/cmdline").read_text().rstrip("\0").split("\0")
