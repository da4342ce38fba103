"""A stand-in for RocketMQ's servers: bytes as they send them, and a server that may lie."""

import json
import socket
import ssl
import struct
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

SUCCESS, NOT_FOUND, RETRY, MOVED, NO_TOPIC, BUSY = 0, 19, 20, 21, 17, 2
_HEAD = struct.Struct(">iIIiiqqiq")
MAGIC_V1, MAGIC_V2 = 0xDAA320A7, 0xDAA320AB
COMPRESSED, BORN_V6, STORE_V6, BATCH = 1, 16, 32, 64 | 128


def stored_message(  # noqa: PLR0913 - all parts of the format
    body: bytes,
    *,
    offset: int = 0,
    queue: int = 0,
    topic: str = "t",
    properties: bytes = b"",
    flag: int = 0,
    magic: int = MAGIC_V1,
    stored_ms: int = 1_700_000_000_000,
    physical: int = 0,
    crc: int | None = None,
) -> bytes:
    """A message as it lies in a commit log."""
    crc = zlib.crc32(body) & 0x7FFFFFFF if crc is None else crc
    born, store = (20 if flag & BORN_V6 else 8), (20 if flag & STORE_V6 else 8)
    name = topic.encode()
    length = struct.pack(">B" if magic == MAGIC_V1 else ">h", len(name))
    tail = (
        bytes(born)
        + struct.pack(">q", stored_ms)
        + bytes(store)
        + struct.pack(">iqi", 0, 0, len(body))
        + body
        + length
        + name
        + struct.pack(">h", len(properties))
        + properties
    )
    born_ms = stored_ms - 5
    size = _HEAD.size + len(tail)
    return _HEAD.pack(size, magic, crc, queue, 0, offset, physical, flag, born_ms) + tail


def inner_batch(messages: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Bodies and properties as a producer's batch holds them."""
    return b"".join(
        struct.pack(">iIIii", 22 + len(body) + len(properties), 0, 0, 0, len(body))
        + body
        + struct.pack(">h", len(properties))
        + properties
        for body, properties in messages
    )


def reply_frame(
    opaque: int,
    code: int = SUCCESS,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    flag: int = 1,
) -> bytes:
    """An answer."""
    header = json.dumps(
        {
            "code": code,
            "flag": flag,
            "language": "JAVA",
            "opaque": opaque,
            "remark": "as told" if code else None,
            "extFields": dict(fields or {}),
            "serializeTypeCurrentRPC": "JSON",
            "version": 500,
        }
    ).encode()
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


@dataclass(frozen=True, slots=True)
class Request:
    """What a client has sent."""

    code: int
    opaque: int
    fields: Mapping[str, str]


@dataclass(slots=True)
class FakeQueue:
    """A queue: stored messages by offset, and where it begins and ends."""

    messages: dict[int, bytes] = field(default_factory=dict)
    start: int = 0
    end: int = 0

    def add(self, *bodies: bytes, queue: int = 0, **more: object) -> None:
        """Append messages."""
        for body in bodies:
            number = self.end
            found = {"stored_ms": 1_700_000_000_000 + number, "physical": 100 * number, **more}
            self.messages[number] = stored_message(body, offset=number, queue=queue, **found)  # type: ignore[arg-type]
            self.end += 1

    def add_batch(self, *bodies: bytes, queue: int = 0) -> None:
        """Append messages that are stored as one, which comes whole for each of their offsets."""
        first, whole = self.end, inner_batch([(body, b"") for body in bodies])
        stored = stored_message(whole, offset=first, queue=queue, flag=BATCH, physical=100 * first)
        for number in range(first, first + len(bodies)):
            self.messages[number] = stored
        self.end += len(bodies)


class FakeRocketMq:
    """Name server and the only broker, `broker-a`, with topic `t`, at one address.

    Attributes:
        queues: By number.
        answer: Called for each request first; what it returns is sent as it is, None goes on.
        seen: Codes of all requests.
    """

    def __init__(self, queues: int = 1, *, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.queues = {number: FakeQueue() for number in range(queues)}
        self.answer: Callable[[Request], bytes | None] = lambda _: None
        self.seen: list[Request] = []
        self.replica_only = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> "FakeRocketMq":
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)

    @property
    def connections(self) -> int:
        """How many clients have made so far."""
        return len(self._open)

    def cut(self) -> None:
        """Close all connections of clients."""
        for each in self._open:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                # Closed by the client already.
                continue

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._tls is not None:
                try:
                    client = self._tls.wrap_socket(client, server_side=True)
                except OSError:
                    # The client does not trust us, and has gone.
                    client.close()
                    continue
            self._open.append(client)
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as stream:
            try:
                while len(sizes := stream.read(8)) == 8:
                    length, header_length = struct.unpack(">ii", sizes)
                    rest = stream.read(length - 4)
                    header = json.loads(rest[:header_length])
                    request = Request(header["code"], header["opaque"], header["extFields"])
                    self.seen.append(request)
                    told = self.answer(request)
                    client.sendall(self._usual(request) if told is None else told)
            except OSError:
                return

    def _usual(self, request: Request) -> bytes:
        if request.code == 105:
            body = {
                "queueDatas": [
                    {"brokerName": "broker-a", "readQueueNums": len(self.queues), "perm": 6}
                ],
                "brokerDatas": [self._place()],
            }
            return reply_frame(request.opaque, body=json.dumps(body).encode())
        if request.code == 106:
            table = {"brokerAddrTable": {"broker-a": self._place()}}
            return reply_frame(request.opaque, body=json.dumps(table).encode())
        queue = self.queues[int(request.fields["queueId"])]
        if request.code == 31:
            return reply_frame(request.opaque, fields={"offset": str(queue.start)})
        if request.code == 30:
            return reply_frame(request.opaque, fields={"offset": str(queue.end)})
        return self._pulled(request, queue)

    def _pulled(self, request: Request, queue: FakeQueue) -> bytes:
        offset = int(request.fields["queueOffset"])
        places = {
            "minOffset": str(queue.start),
            "maxOffset": str(queue.end),
            "nextBeginOffset": str(queue.end),
        }
        if not queue.start <= offset <= queue.end:
            return reply_frame(request.opaque, MOVED, places)
        held = (queue.messages[n] for n in range(offset, queue.end) if n in queue.messages)
        found = [*dict.fromkeys(held)][:4]
        code = SUCCESS if found else NOT_FOUND
        return reply_frame(request.opaque, code, places, b"".join(found))

    def _place(self) -> dict[str, object]:
        number = "1" if self.replica_only else "0"
        return {
            "brokerName": "broker-a",
            "cluster": "lab",
            "brokerAddrs": {number: self.address},
        }
