"""The contract of each kind of server in a lab."""

import os
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.host.java import JavaHome
from sluiceway.lab.daemon import Launch
from sluiceway.lab.support import LOOPBACK, OnProgress

# Small and quick to start: these servers serve a laptop, not a cluster.
QUICK_JVM_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
OPENED_TO_JVMS = tuple(
    f"--add-opens=java.base/{name}=ALL-UNNAMED"
    for name in ("java.lang", "java.util", "java.net", "java.nio", "sun.nio.ch")
)
"""JVM options for servers that use Java's internal packages."""
_CONNECT_TIMEOUT_S = 1.0
_FORMAT_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class ServerSite:
    """Folder and ports of one server.

    Attributes:
        folder: Folder of its settings, data and temporary files.
        ports: Port of each of its listeners, by the names in `LabServer.listeners`.
    """

    folder: Path
    ports: Mapping[str, int]


def format_data(
    site: ServerSite, command: Sequence[str], java: JavaHome, timeout_s: float = _FORMAT_TIMEOUT_S
) -> None:
    """Run the tool that formats a server's empty data folder.

    Raises:
        UnhealthyEnvironmentError: It failed, with its last output; or it did not end in time on a
            busy machine.
    """
    data = str(site.folder / "data")
    try:
        done = subprocess.run(  # noqa: S603
            command,
            cwd=site.folder,
            env=server_environment(java),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
            umask=0o077,
        )
    except subprocess.TimeoutExpired as error:
        raise UnhealthyEnvironmentError(
            f"the data folder was not formatted in {timeout_s:.0f} s",
            where=data,
            hint="the machine may be busy: try again when it has less to do",
        ) from error
    if done.returncode != 0:
        last_lines = "\n".join((done.stdout + done.stderr).splitlines()[-5:])
        raise UnhealthyEnvironmentError(
            f"the data folder could not be formatted:\n{last_lines}", where=data
        )


class LabServer(ABC):
    """One kind of server that the lab can run."""

    name: ClassVar[str]
    title: ClassVar[str]
    listeners: tuple[str, ...]
    grace_s: ClassVar[float]

    @abstractmethod
    def fetch(self, java: JavaHome, on_progress: OnProgress) -> None:
        """Get the software if it is missing. Called before every start.

        Raises:
            UnhealthyEnvironmentError: It cannot be downloaded, or its hash differs.
        """

    @abstractmethod
    def prepare(self, site: ServerSite, java: JavaHome) -> None:
        """Write settings and, the first time, empty data. Called before every start.

        Raises:
            UnhealthyEnvironmentError: The data folder cannot be created.
        """

    @abstractmethod
    def launch(self, site: ServerSite, java: JavaHome) -> Launch:
        """The command that starts it at `site`."""

    @abstractmethod
    def answers(self, site: ServerSite) -> bool:
        """Whether exactly this server answers a real request of its protocol now.

        Called again and again during a start; may block for a few seconds.
        """


def server_environment(java: JavaHome) -> dict[str, str]:
    """A server's whole environment: of ours only paths, none of its secrets."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "USER") if name in os.environ}
    return {**kept, "JAVA_HOME": str(java.path), "LC_ALL": "C.UTF-8"}


def accepts_connections(port: int) -> bool:
    """Whether a process listens on the loopback port; cheap, checked before a real request."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=_CONNECT_TIMEOUT_S).close()
    except OSError:
        return False
    return True
