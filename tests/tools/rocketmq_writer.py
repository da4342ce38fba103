"""Writes to RocketMQ and makes topics: a small producer that shares no code with the source."""

import base64
import hashlib
import hmac
import itertools
import json
import os
import re
import socket
import ssl
import struct
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_CREATE_TOPIC, _DELETE_TOPIC, _DELETE_NAME, _ROUTE, _SEND, _SEND_BATCH = 17, 215, 216, 105, 310, 320
_END_TRANSACTION = 37
# Of a message's flag (`MessageSysFlag.java`).
_PREPARED, _COMMITTED, _ROLLED_BACK = 4, 8, 12
_GROUP = "WRITER"
_READ_WRITE = 6
_BATCH_BYTES = 1 << 20


class RocketMqRefusedError(Exception):
    """A server has answered with another code than success."""


class _Wire:
    def __init__(self, address: str, login: tuple[str, str] | None, ca_file: Path | None) -> None:
        host, port = address.rsplit(":", 1)
        plain = socket.create_connection((host, int(port)), 10)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket: socket.socket = plain
        if ca_file is not None:
            context = ssl.create_default_context(cafile=str(ca_file))
            context.check_hostname = False
            self._socket = context.wrap_socket(plain)
        self._login = login
        self._numbers = itertools.count(1)

    def ask(self, code: int, fields: Mapping[str, object], body: bytes = b"") -> bytes:
        return self.exchange(code, fields, body)[1]

    def exchange(
        self, code: int, fields: Mapping[str, object], body: bytes = b""
    ) -> tuple[dict[str, str], bytes]:
        """The fields of the answer, and its body."""
        number = next(self._numbers)
        texts = {name: str(value) for name, value in fields.items()}
        if self._login is not None:
            texts["AccessKey"] = self._login[0]
            signed = "".join(texts[name] for name in sorted(texts)).encode() + body
            digest = hmac.new(self._login[1].encode(), signed, hashlib.sha1).digest()
            texts["Signature"] = base64.b64encode(digest).decode()
        header = {
            "code": code,
            "language": "PYTHON",
            "version": 399,
            "opaque": number,
            "flag": 0,
            "serializeTypeCurrentRPC": "JSON",
            "extFields": texts,
        }
        raw = json.dumps(header).encode()
        self._socket.sendall(struct.pack(">ii", 4 + len(raw) + len(body), len(raw)) + raw + body)
        while True:
            length, header_length = struct.unpack(">iI", self._exactly(8))
            rest = self._exactly(length - 4)
            answer = json.loads(rest[: header_length & 0xFFFFFF])
            if answer["flag"] & 1 and answer["opaque"] == number:
                if answer["code"] not in (0, 10, 11, 12):
                    raise RocketMqRefusedError(f"{answer['code']}: {answer.get('remark')}")
                return answer.get("extFields") or {}, rest[header_length & 0xFFFFFF :]

    def _exactly(self, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            part = self._socket.recv(count - len(found))
            if not part:
                raise ConnectionError("closed by the server")
            found += part
        return bytes(found)

    def close(self) -> None:
        self._socket.close()


@dataclass(frozen=True, slots=True)
class HalfMessage:
    """A message of a transaction that is open.

    Attributes:
        address: Of its broker.
        message_id: As the broker has answered it.
        queue_offset: In the topic of half messages.
    """

    address: str
    topic: str
    message_id: str
    queue_offset: int


class RocketMqWriter:
    """Producer and administrator of a lab's RocketMQ.

    Args:
        name_server: `host:port`.
        login: Access key and secret key; None signs nothing.
        ca_file: Whom to trust, over TLS; None without.
    """

    def __init__(
        self,
        name_server: str,
        *,
        login: tuple[str, str] | None = None,
        ca_file: Path | None = None,
    ) -> None:
        self._name_server = name_server
        self._how = (login, ca_file)
        self._wires: dict[str, _Wire] = {}

    def create_topic(self, topic: str, queues: Mapping[str, int]) -> None:
        """Make a topic, or give it other numbers of queues.

        Args:
            topic: Its name.
            queues: Address of a broker -> queues on it.
        """
        for address, count in queues.items():
            self._wire(address).ask(
                _CREATE_TOPIC,
                {
                    "topic": topic,
                    "defaultTopic": "TBW102",
                    "readQueueNums": count,
                    "writeQueueNums": count,
                    "perm": _READ_WRITE,
                    "topicFilterType": "SINGLE_TAG",
                    "topicSysFlag": 0,
                    "order": "false",
                },
            )
        self.wait_for_route(topic, sum(queues.values()))

    def wait_for_route(self, topic: str, queues: int) -> None:
        """Wait until the name server names all queues."""
        deadline_s = time.monotonic() + 60
        while self._queues(topic) != queues:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{topic} does not have {queues} queues")
            time.sleep(0.05)

    def delete_topic(self, topic: str, brokers: Sequence[str]) -> None:
        """Delete a topic on brokers and at the name server."""
        for address in brokers:
            try:
                self._wire(address).ask(_DELETE_TOPIC, {"topic": topic})
            except RocketMqRefusedError as error:
                # 5.5.0 deletes it and then looks for a timer store, which the lab's does not have.
                if "TimerMessageStore" not in str(error):
                    raise
        self._wire(self._name_server).ask(_DELETE_NAME, {"topic": topic})

    def send(
        self,
        address: str,
        topic: str,
        queue: int,
        bodies: Sequence[bytes],
        *,
        properties: Mapping[str, str] | None = None,
        compressed: bool = False,
    ) -> None:
        """Append messages one by one."""
        texts = (properties or {}).items()
        for body in bodies:
            self._wire(address).ask(
                _SEND,
                {
                    **_send_fields(topic, queue, flag=1 if compressed else 0),
                    "i": "".join(f"{name}\x01{value}\x02" for name, value in texts),
                    "m": "false",
                },
                zlib.compress(body) if compressed else body,
            )

    def send_half(self, address: str, topic: str, queue: int, body: bytes) -> "HalfMessage":
        """Begin a transaction of one message."""
        names = {"TRAN_MSG": "true", "PGROUP": _GROUP, "UNIQ_KEY": os.urandom(16).hex().upper()}
        texts = "".join(f"{name}\x01{value}\x02" for name, value in names.items())
        fields = {**_send_fields(topic, queue, flag=_PREPARED), "i": texts, "m": "false"}
        told, _ = self._wire(address).exchange(_SEND, fields, body)
        return HalfMessage(address, topic, told["msgId"], int(told["queueOffset"]))

    def end(self, half: "HalfMessage", *, commit: bool) -> None:
        """End a transaction."""
        self._wire(half.address).ask(
            _END_TRANSACTION,
            {
                "topic": half.topic,
                "producerGroup": _GROUP,
                "tranStateTableOffset": half.queue_offset,
                # An id ends with the message's place in the commit log.
                "commitLogOffset": int(half.message_id[-16:], 16),
                "commitOrRollback": _COMMITTED if commit else _ROLLED_BACK,
                "fromTransactionCheck": "false",
                "msgId": half.message_id,
            },
        )

    def send_many(self, address: str, topic: str, queue: int, bodies: Sequence[bytes]) -> None:
        """Append messages in batches, without properties."""
        batch: list[bytes] = []
        size = 0
        for body in bodies:
            one = struct.pack(">iiiii", 22 + len(body), 0, 0, 0, len(body)) + body + b"\0\0"
            if size + len(one) > _BATCH_BYTES:
                self._send_batch(address, topic, queue, batch)
                batch, size = [], 0
            batch.append(one)
            size += len(one)
        if batch:
            self._send_batch(address, topic, queue, batch)

    def drop(self, address: str) -> None:
        """Close the connection to a broker that is gone; the next call makes another."""
        wire = self._wires.pop(address, None)
        if wire is not None:
            wire.close()

    def close(self) -> None:
        """Close all connections."""
        for address in list(self._wires):
            self.drop(address)

    def _send_batch(self, address: str, topic: str, queue: int, batch: Sequence[bytes]) -> None:
        fields = {**_send_fields(topic, queue), "i": "", "m": "true"}
        self._wire(address).ask(_SEND_BATCH, fields, b"".join(batch))

    def _queues(self, topic: str) -> int:
        try:
            raw = self._wire(self._name_server).ask(_ROUTE, {"topic": topic})
        except RocketMqRefusedError:
            return 0
        data = json.loads(re.sub(rb"([{,])(\d+):", rb'\1"\2":', raw))
        return sum(int(each["readQueueNums"]) for each in data["queueDatas"])

    def _wire(self, address: str) -> _Wire:
        if address not in self._wires:
            self._wires[address] = _Wire(address, *self._how)
        return self._wires[address]


def _send_fields(topic: str, queue: int, flag: int = 0) -> dict[str, object]:
    return {
        "a": _GROUP,
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": queue,
        "f": flag,
        "g": int(time.time() * 1000),
        "h": 0,
        "j": 0,
        "k": "false",
    }
