"""Lines of standard input as RocketMQ messages, for a lab, which has no other producer.

`python -m sluiceway.lab.rocketmq_lines --name-server HOST:PORT --topic clicks < clicks.jsonl`
creates the topic if it is missing, and sends each line to the topic's queues in turn. It prints one
JSON line when the brokers have all of them.
"""

import argparse
import json
import socket
import struct
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Final

from sluiceway.errors import SourceUnavailableError, TopicNotFoundError
from sluiceway.sources.rocketmq.brokers import Brokers, check_answer
from sluiceway.sources.rocketmq.frames import Reply, read_frame, read_reply, request_frame
from sluiceway.sources.rocketmq.options import read_options
from sluiceway.sources.rocketmq.routes import MASTER

_CREATE_TOPIC: Final = 17
_SEND: Final = 310
_READ_WRITE: Final = 6
_TIMEOUT_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.1
_CHUNK_BYTES: Final = 65_536


class _Wire:
    """A connection to a broker of a lab without a login. One request at a time."""

    def __init__(self, address: str) -> None:
        self._address = address
        host, _, port = address.rpartition(":")
        try:
            self._socket = socket.create_connection((host, int(port)), _TIMEOUT_S)
        except OSError as error:
            raise SourceUnavailableError(str(error), where=address) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self._opaque = 0

    def ask(self, code: int, fields: dict[str, object], body: bytes = b"") -> None:
        """Send a request and check that it succeeded.

        Raises:
            SourceUnavailableError: It failed, or no answer came.
        """
        self._opaque += 1
        frame = request_frame(self._opaque, code, fields, None)
        (length,) = struct.unpack_from(">i", frame)
        try:
            self._socket.sendall(struct.pack(">i", length + len(body)) + frame[4:] + body)
            reply = self._reply()
        except OSError as error:
            raise SourceUnavailableError(str(error), where=self._address) from error
        check_answer(reply, self._address)

    def _reply(self) -> Reply:
        while True:
            while (frame := read_frame(self._received)) is None:
                part = self._socket.recv(_CHUNK_BYTES)
                if not part:
                    raise SourceUnavailableError("it has closed", where=self._address)
                self._received += part
            reply = read_reply(frame)
            if reply is not None and reply.opaque == self._opaque:
                return reply

    def close(self) -> None:
        self._socket.close()


def send_lines(name_server: str, topic: str, queues: int, lines: Iterable[bytes]) -> int:
    """Send each line as a message; a missing topic is created, with `queues` queues on each broker.

    Returns:
        Number of messages that were sent.

    Raises:
        SourceUnavailableError: A server does not answer, or refuses.
    """
    brokers = Brokers(read_options({"name_servers": name_server}), _TIMEOUT_S)
    try:
        masters = {
            name: place.addresses[MASTER]
            for name, place in brokers.registered().items()
            if MASTER in place.addresses
        }
        wires = {name: _Wire(address) for name, address in sorted(masters.items())}
        places = _ensured(brokers, wires, topic, queues)
    finally:
        brokers.close()
    count = 0
    try:
        for line in lines:
            broker, queue = places[count % len(places)]
            wires[broker].ask(_SEND, _message_fields(topic, queue), line.rstrip(b"\r\n"))
            count += 1
    finally:
        for wire in wires.values():
            wire.close()
    return count


def _ensured(
    brokers: Brokers, wires: dict[str, _Wire], topic: str, queues: int
) -> Sequence[tuple[str, int]]:
    """Queues of the topic, which is created if it is missing."""
    found = _queues(brokers, topic)
    if not found:
        for wire in wires.values():
            wire.ask(_CREATE_TOPIC, _topic_fields(topic, queues))
        until_s = time.monotonic() + _TIMEOUT_S
        # Each broker registers it with the name server a moment later.
        while {name for name, _ in found} != wires.keys():
            if time.monotonic() > until_s:
                raise SourceUnavailableError("not all brokers have registered it", where=topic)
            time.sleep(_LOOK_EVERY_S)
            found = _queues(brokers, topic)
    return found


def _queues(brokers: Brokers, topic: str) -> list[tuple[str, int]]:
    try:
        found = brokers.route(topic).queues
    except TopicNotFoundError:
        return []
    return [(name, number) for name in sorted(found) for number in range(found[name])]


def _topic_fields(topic: str, queues: int) -> dict[str, object]:
    return {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": _READ_WRITE,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }


def _message_fields(topic: str, queue: int) -> dict[str, object]:
    """Fields of a send in their short names (`SendMessageRequestHeaderV2.java`)."""
    return {
        "a": "SLUICEWAY_LAB",
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": queue,
        "f": 0,
        "g": int(time.time() * 1000),
        "h": 0,
        "i": "",
        "j": 0,
        "k": False,
        "m": False,
    }


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description="Lines of standard input as RocketMQ messages.")
    parser.add_argument("--name-server", required=True, help="as `lab up` prints it")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--queues", type=int, default=2, help="on each broker, of a new topic")
    given = parser.parse_args()
    lines = (line for line in sys.stdin.buffer if line.strip())
    sent = send_lines(given.name_server, given.topic, given.queues, lines)
    sys.stdout.write(json.dumps({"topic": given.topic, "sent": sent}) + "\n")


if __name__ == "__main__":
    main()
