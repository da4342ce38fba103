"""Receivers of announcements that tests take away and bring back: a webhook, a way to a broker."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from confluent_kafka import Consumer

_LOOPBACK = "127.0.0.1"
_PATIENCE_S = 240.0
_PUMP_BYTES = 1 << 16


class HookServer(ThreadingHTTPServer):
    """A webhook that notes what it receives; its port is its own before it answers there.

    Attributes:
        told: Key and body of each POST, in order.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((_LOOPBACK, 0), _Handler, bind_and_activate=False)
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.server_bind()
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Its address; refused until it answers."""
        return f"http://{_LOOPBACK}:{self.server_address[1]}/ready"

    def come_up(self) -> None:
        """Answer from now on. Called once."""
        self.server_activate()
        self._thread.start()

    def heard(self) -> list[str]:
        """Keys that it received, repeats and all."""
        return [key for key, _ in list(self.told)]

    def end(self) -> None:
        """Answer no more."""
        if self._thread.is_alive():
            self.shutdown()
            self._thread.join(_PATIENCE_S)
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: HookServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.told.append((self.headers["Idempotency-Key"], body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def hook_server() -> Iterator[HookServer]:
    """A webhook that is not up yet, gone after the block."""
    server = HookServer()
    try:
        yield server
    finally:
        server.end()


class BrokerGate:
    """The only way that a client knows to a broker: closed, then open.

    A client finds the broker's own address after it and keeps that; one that starts over asks
    here first.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._threads: list[threading.Thread] = []
        self._passing: list[socket.socket] = []
        self._socket = socket.socket()
        self._socket.bind((_LOOPBACK, 0))
        self.address = f"{_LOOPBACK}:{self._socket.getsockname()[1]}"

    def open(self) -> None:
        """Let clients through from now on. Called once."""
        self._socket.listen()
        self._start(self._accept)

    def close(self) -> None:
        """Let no connection through, and end what is under way."""
        # Wakes whoever waits; a socket that was never connected refuses it.
        _shut(self._socket)
        self._socket.close()
        if self._threads:
            self._threads[0].join(_PATIENCE_S)
        for each in self._passing:
            _shut(each)
        for thread in self._threads:
            thread.join(_PATIENCE_S)
        for each in self._passing:
            each.close()

    def _start(self, act: Callable[..., None], *args: socket.socket) -> None:
        thread = threading.Thread(target=act, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            broker = socket.create_connection(self._target)
            self._passing += (client, broker)
            self._start(_pump, client, broker)
            self._start(_pump, broker, client)


def _pump(source: socket.socket, drain: socket.socket) -> None:
    """Hand on until one of both ends, then end the other too."""
    with suppress(OSError):
        while part := source.recv(_PUMP_BYTES):
            drain.sendall(part)
    _shut(source)
    _shut(drain)


def _shut(ended: socket.socket) -> None:
    with suppress(OSError):
        ended.shutdown(socket.SHUT_RDWR)


@contextmanager
def broker_gate(target: str) -> Iterator[BrokerGate]:
    """A way to this broker that is closed at first, and after the block."""
    gate = BrokerGate(target)
    try:
        yield gate
    finally:
        gate.close()


def told_keys(servers: str, topic: str, count: int) -> list[str]:
    """Keys of the messages of a topic's one partition, repeats and all.

    Waits for `count` different ones, then reads what else there is.
    """
    settings = {
        "bootstrap.servers": servers,
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
    }
    consumer, keys = Consumer(settings), list[str]()
    consumer.subscribe([topic])
    try:
        while True:
            found = consumer.poll(_PATIENCE_S)
            assert found is not None, keys
            if found.error() is None:
                keys.append((found.key() or b"").decode())
            elif len(set(keys)) >= count:
                return keys
    finally:
        consumer.close()
