"""A second broker next to a lab's, for topics with another leader."""

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient

from sluiceway.lab.lab import Lab
from sluiceway.lab.support import LOOPBACK, pick_free_ports
from tools.route_faults import wait_until

SECOND = 2
"""Its node id; that of the lab's own is 1."""


class SecondBroker:
    """A running broker that can be made silent."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

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
    command = command_of(lab)
    settings = (first / "server.properties").read_text()
    (port,) = pick_free_ports(1)
    changes = {
        "process.roles": "broker",
        "node.id": str(SECOND),
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "log.dirs": str(folder / "data"),
    }
    for key, value in changes.items():
        settings = re.sub(rf"(?m)^{re.escape(key)}=.*$", f"{key}={value}", settings)
    folder.mkdir()
    (folder / "server.properties").write_text(settings)
    cluster = re.search(r"(?m)^cluster\.id=(\S+)$", (first / "data/meta.properties").read_text())
    assert cluster is not None
    java = command[: command.index("kafka.Kafka")]
    tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster[1]}"]
    subprocess.run(
        [*java, *tool, "--config=server.properties"], cwd=folder, check=True, capture_output=True
    )
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
        try:
            admin = AdminClient(
                {"bootstrap.servers": lab.endpoints().bootstrap_servers, "log_level": 0}
            )
            wait_until(lambda: SECOND in admin.list_topics(timeout=10).brokers)
            yield SecondBroker(process)
        finally:
            process.kill()


def command_of(lab: Lab) -> list[str]:
    """How the lab has started its broker, which runs."""
    (status,) = [server for server in lab.status() if server.name == "kafka"]
    return Path(f"/proc/{status.pid}/cmdline").read_text().rstrip("\0").split("\0")
