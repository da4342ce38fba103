"""A second host on this machine: a network namespace at the end of a wire that can be cut.

Cut means that packets are dropped, in both directions and inside of the namespace: neither side
hears of it, as when a switch dies. It takes root, iproute2 and iptables.
"""

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sluiceway.lab.support import LOOPBACK

_END_S = 10.0


class NoFarHostError(Exception):
    """This machine cannot have one; says what is missing."""


@dataclass(frozen=True, slots=True)
class FarHost:
    """A host that is there.

    Attributes:
        name: Of the namespace.
        wire: Its end of it.
        here: Address of this side.
        there: Address of the other one.
    """

    name: str
    wire: str
    here: str
    there: str

    @property
    def prefix(self) -> tuple[str, ...]:
        """Begins the command of a program that is to run there; its pid is the program's."""
        return ("ip", "netns", "exec", self.name)

    def cut(self) -> None:
        """Drop all packets from now on."""
        _run(*self.prefix, "iptables", "-A", "INPUT", "-i", self.wire, "-j", "DROP")
        _run(*self.prefix, "iptables", "-A", "OUTPUT", "-o", self.wire, "-j", "DROP")

    def mend(self) -> None:
        """Let packets through again; connections that neither side gave up go on."""
        _run(*self.prefix, "iptables", "-F")


@contextmanager
def far_host(ports: Sequence[int]) -> Iterator[FarHost]:
    """Make a host; it goes at the end, and nothing of it stays.

    Args:
        ports: Of servers of this machine's loopback, which are reached there under the same
            address by way of the wire.

    Raises:
        NoFarHostError: A program or a right is missing.
    """
    missing = [name for name in ("ip", "iptables") if shutil.which(name) is None]
    if missing:
        raise NoFarHostError(
            f"missing: {', '.join(missing)} (on Debian and Ubuntu: "
            "apt-get install iproute2 iptables)"
        )
    if os.geteuid() != 0:
        raise NoFarHostError("network namespaces take root")
    mark = secrets.token_hex(3)
    net = f"10.213.{secrets.randbelow(256)}"
    host = FarHost(f"sw-{mark}", f"swb{mark}", f"{net}.1", f"{net}.2")
    with ExitStack() as stack:
        _make(host, f"swa{mark}", stack)
        for port in ports:
            _begin_relay(stack, (), (host.here, port, LOOPBACK, port))
            _begin_relay(stack, host.prefix, (LOOPBACK, port, host.here, port))
        yield host


def _make(host: FarHost, near: str, stack: ExitStack) -> None:
    try:
        _run("ip", "netns", "add", host.name)
        # The wire goes with it.
        stack.callback(_run, "ip", "netns", "delete", host.name)
        _run("ip", "link", "add", near, "type", "veth", "peer", "name", host.wire)
        _run("ip", "link", "set", host.wire, "netns", host.name)
        _run("ip", "address", "add", f"{host.here}/30", "dev", near)
        _run("ip", "link", "set", near, "up")
        _run(*host.prefix, "ip", "address", "add", f"{host.there}/30", "dev", host.wire)
        for name in ("lo", host.wire):
            _run(*host.prefix, "ip", "link", "set", name, "up")
        _run(*host.prefix, "iptables", "-L", "-n")
    except subprocess.CalledProcessError as error:
        stack.close()
        raise NoFarHostError(f"{' '.join(error.cmd)}: {error.stderr.strip()}") from error


def _begin_relay(stack: ExitStack, prefix: Sequence[str], words: tuple[str, int, str, int]) -> None:
    command = [*prefix, sys.executable, "-m", "tools.tcp_relay", *map(str, words)]
    tests = Path(__file__).resolve().parents[1]
    process = subprocess.Popen(
        command, cwd=tests, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    stack.callback(_end, process)
    if process.stdout is None or not process.stdout.readline():
        raise NoFarHostError(f"a relay did not begin: {words}")


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.wait(_END_S)
    if process.stdout is not None:
        process.stdout.close()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)
