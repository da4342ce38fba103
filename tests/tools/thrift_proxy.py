"""Between a driver and a Hive Metastore: changes of tables are held back, doubled, or unanswered.

Thrift's clients send one call and wait for its answer, so that what comes until they fall silent
is one call. It forwards bytes and knows nothing of Thrift but the name of the call it waits for.
"""

import socket
import threading
from contextlib import suppress
from typing import Self
from urllib.parse import urlsplit

CHANGE = b"alter_table_with_environment_context"
_SILENCE_S = 0.03
_ANSWER_S = 30.0
_CHUNK = 1 << 16


class ThriftProxy:
    """A proxy on a port of its own, until it is closed.

    Args:
        upstream: `thrift://host:port` of the metastore.

    Attributes:
        faults: What becomes of the next changes of a table: `pass`, `hold` (kept, connection
            closed), `drop` (lands, no answer), `lost`, `twice`.
        held: Changes that may still land.
        changes: How many were asked for.
    """

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        assert parts.hostname is not None
        assert parts.port is not None
        self._upstream = (parts.hostname, parts.port)
        self.faults: list[str] = []
        self.held: list[bytes] = []
        self.changes = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self._port = self._server.getsockname()[1]
        self._closed = False
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    @property
    def uri(self) -> str:
        """What a job file names."""
        return f"thrift://127.0.0.1:{self._port}"

    def land(self) -> bool:
        """Let the oldest held change reach the metastore; whether it has answered."""
        call = self.held.pop(0)
        with socket.create_connection(self._upstream, timeout=_ANSWER_S) as upstream:
            upstream.sendall(call)
            return bool(upstream.recv(_CHUNK))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        # What waits in `accept` ends by a connection, not by the socket's end.
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1.0):
            pass
        self._thread.join()
        self._server.close()

    def _accept(self) -> None:
        while True:
            client, _ = self._server.accept()
            if self._closed:
                client.close()
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with (
            client,
            suppress(OSError),
            socket.create_connection(self._upstream, timeout=_ANSWER_S) as upstream,
        ):
            while call := _until_silent(client, None):
                if not self._pass(call, client, upstream):
                    return

    def _pass(self, call: bytes, client: socket.socket, upstream: socket.socket) -> bool:
        """One call; whether the connection goes on."""
        fault = "pass"
        if CHANGE in call:
            self.changes += 1
            fault = self.faults.pop(0) if self.faults else "pass"
        if fault == "hold":
            self.held.append(call)
        if fault in ("hold", "lost"):
            return False
        upstream.sendall(call)
        answer = _until_silent(upstream, _ANSWER_S)
        if fault == "drop" or not answer:
            return False
        if fault == "twice":
            upstream.sendall(call)
            _until_silent(upstream, _ANSWER_S)
        client.sendall(answer)
        return True


def _until_silent(side: socket.socket, wait_s: float | None) -> bytes:
    """What comes until nothing comes for a moment; empty at the connection's end."""
    side.settimeout(wait_s)
    found = side.recv(_CHUNK)
    if not found:
        return b""
    side.settimeout(_SILENCE_S)
    with suppress(TimeoutError):
        while more := side.recv(_CHUNK):
            found += more
    side.settimeout(_ANSWER_S)
    return found
