"""A Kafka broker of one topic, in a thread, that can say that no broker of its cluster is alive."""

import socket
import struct
import threading
from collections.abc import Callable, Collection
from typing import Self

from sluiceway.errors import SourceUnavailableError
from sluiceway.sources.contract import SourcePartition
from sluiceway.sources.kafka.client import KafkaSourceClient

TOPIC = "orders"
_API_VERSIONS, _METADATA, _METADATA_VERSION = 18, 3, 12
_UNKNOWN_TOPIC, _NO_LEADER = 3, 5
_CLUSTER, _TOPIC_ID = b"cluster-of-one", bytes(range(1, 17))
_NO_TAGS = b"\0"


class FencedBroker:
    """Listens as long as it is used as a context. It answers requests for metadata alone.

    Attributes:
        fenced: Whether it says that no broker is alive.
        servers: Its address.
    """

    def __init__(self) -> None:
        self.fenced = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port: int = self._listener.getsockname()[1]
        self.servers = f"127.0.0.1:{self._port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rwb") as stream:
            while len(size := stream.read(4)) == 4:
                answer = self._answer(stream.read(struct.unpack(">i", size)[0]))
                stream.write(struct.pack(">i", len(answer)) + answer)
                stream.flush()

    def _answer(self, request: bytes) -> bytes:
        key, version, correlation, client = struct.unpack_from(">hhih", request)
        head = struct.pack(">i", correlation)
        if key == _API_VERSIONS:
            return head + _versions(flexible=version >= 3)
        names = _requested(request[10 + client + 1 :])
        return head + _NO_TAGS + self._metadata(names)

    def _metadata(self, names: list[bytes]) -> bytes:
        node = struct.pack(">i", 1) + _text(b"127.0.0.1") + struct.pack(">i", self._port)
        brokers = [] if self.fenced else [node + b"\0" + _NO_TAGS]
        topics = [self._topic(name) for name in names]
        controller = struct.pack(">i", -1 if self.fenced else 1)
        return b"".join(
            (bytes(4), _array(brokers), _text(_CLUSTER), controller, _array(topics), _NO_TAGS)
        )

    def _topic(self, name: bytes) -> bytes:
        known = name == TOPIC.encode()
        error, leader = (_NO_LEADER, -1) if self.fenced else (0, 1)
        node = struct.pack(">i", 1)
        isr = [] if self.fenced else [node]
        partition = struct.pack(">hiii", error, 0, leader, 0)
        partition += _array([node]) + _array(isr) + _array([]) + _NO_TAGS
        return b"".join(
            (
                struct.pack(">h", 0 if known else _UNKNOWN_TOPIC),
                _text(name),
                _TOPIC_ID if known else bytes(16),
                b"\0",
                _array([partition] if known else []),
                struct.pack(">i", -(2**31)),
                _NO_TAGS,
            )
        )


def _versions(*, flexible: bool) -> bytes:
    ranges = [(_API_VERSIONS, 0, 3), (_METADATA, 0, _METADATA_VERSION)]
    packed = [struct.pack(">hhh", *each) for each in ranges]
    if not flexible:
        return bytes(2) + struct.pack(">i", len(packed)) + b"".join(packed)
    return bytes(2) + _array([each + _NO_TAGS for each in packed]) + bytes(4) + _NO_TAGS


def _requested(body: bytes) -> list[bytes]:
    """Names of topics; each has an id, a name and no tags."""
    names, at = [], 1
    for _ in range(max(0, body[0] - 1)):
        length = body[at + 16] - 1
        names.append(body[at + 17 : at + 17 + length])
        at += 18 + length
    return names


def _text(value: bytes) -> bytes:
    return bytes([len(value) + 1]) + value


def _array(items: list[bytes]) -> bytes:
    return bytes([len(items) + 1]) + b"".join(items)


def main() -> None:
    """Print what clients see before, while no broker is alive, and after."""
    one = SourcePartition(TOPIC, 0)
    with FencedBroker() as broker:
        client, fresh = (KafkaSourceClient(broker.servers, {}, 2.0) for _ in range(2))
        _print(lambda: client.discover([TOPIC]))
        broker.fenced = True
        _print(lambda: client.discover([TOPIC]))
        _print(lambda: fresh.discover([TOPIC]))
        _print(client.list_topics)
        _print(KafkaSourceClient(broker.servers, {}, 2.0).list_topics)
        broker.fenced = False
        _print(lambda: client.discover([TOPIC]))
        _print(lambda: fresh.gone([one]))


def _print(ask: Callable[[], Collection[object]]) -> None:
    try:
        print(len(ask()), flush=True)
    except SourceUnavailableError as error:
        print(error.code, flush=True)


if __name__ == "__main__":
    main()
