"""The page's server as a process: a job file that cannot be read needs no other server."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from sluiceway.console.server import MAX_CONNECTIONS


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "orders.yaml").write_text("version: 1\n")
    command = [sys.executable, "-m", "sluiceway", "serve", str(tmp_path), "--port", "0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()
        # Whoever sends what he likes writes nothing on the terminal.
        assert process.communicate(timeout=30)[1] == ""
        assert process.returncode == 0


def answers(address: str) -> bool:
    try:
        with urlopen(f"{address}api/fleet", timeout=5) as answer:  # noqa: S310 - our own
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01\0", b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"]
)
def test_what_is_no_request_of_a_browser_is_refused_in_silence(address: str, sent: bytes) -> None:
    place = urlsplit(address)
    with socket.create_connection((place.hostname, place.port), timeout=20) as client:
        client.sendall(sent + b"Connection: close, Upgrade\r\n\r\n")
        told = b"".join(iter(lambda: client.recv(65_536), b""))
    assert told.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 200 "))


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "])
def test_clients_that_never_finish_a_request_keep_nobody_out_for_long(
    address: str, sent: bytes
) -> None:
    assert answers(address)
    place = urlsplit(address)
    with ExitStack() as stack:
        idle = []
        for _ in range(MAX_CONNECTIONS):
            client = socket.create_connection((place.hostname, place.port), timeout=5)
            idle.append(stack.enter_context(client))
            client.sendall(sent)
        assert not answers(address)
        deadline = time.monotonic() + 15
        while not answers(address):
            assert time.monotonic() < deadline, "slow clients keep the page"
            for client in idle if sent else ():
                try:
                    client.sendall(b"x")
                except OSError:
                    continue
            time.sleep(0.5)
