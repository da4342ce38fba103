"""Loopback ports that the lab's servers keep over restarts, and what reports its progress."""

import random
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sluiceway.errors import UnhealthyEnvironmentError

LOOPBACK = "127.0.0.1"
LOG4J_SETTINGS = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %c{1}: %m%n%ex
"""
_LOWEST_PORT = 20_000
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FALLBACK_EPHEMERAL_START = 32_768
_ATTEMPTS = 500


def pick_free_ports(count: int) -> list[int]:
    """Pick ports without a listener, in random order.

    They lie below the range that the kernel gives to outgoing connections. So a port is still free
    when its server comes back after a restart.

    Args:
        count: How many ports; all different.

    Raises:
        UnhealthyEnvironmentError: Not enough free ports were found.
    """
    highest = max(_ephemeral_start(), _LOWEST_PORT + 1_000)
    picked: list[int] = []
    for port in random.sample(range(_LOWEST_PORT, highest), min(_ATTEMPTS, highest - _LOWEST_PORT)):
        if len(picked) == count:
            break
        if is_free(port):
            picked.append(port)
    if len(picked) < count:
        raise UnhealthyEnvironmentError(
            f"{count} free ports are needed between {_LOWEST_PORT} and {highest}; "
            f"found {len(picked)} in {_ATTEMPTS} tries"
        )
    return picked


def is_free(port: int) -> bool:
    """Whether a server could listen on `port`, on loopback and on all addresses."""
    for address in (LOOPBACK, "0.0.0.0"):  # noqa: S104 - the metastore listens on all
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # As servers do: a port whose last connections are in TIME_WAIT is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                return False
    return True


def _ephemeral_start() -> int:
    try:
        first = re.match(r"\d+", _EPHEMERAL_RANGE.read_text())
    except OSError:
        return _FALLBACK_EPHEMERAL_START
    return int(first[0]) if first else _FALLBACK_EPHEMERAL_START


@dataclass(frozen=True, slots=True)
class LabProgress:
    """A step of starting the lab.

    Attributes:
        text: The step in words, for example "downloading Kafka".
        done_bytes: Bytes that are downloaded so far.
        total_bytes: Size of the whole download; 0 when the step is not a download.
    """

    text: str
    done_bytes: int = 0
    total_bytes: int = 0


OnProgress = Callable[[LabProgress], None]


def ignore_progress(progress: LabProgress) -> None:
    """Ignore `progress`; for callers that show nothing."""
    del progress
