"""Health endpoints of a running driver, on the loopback address only.

`GET /healthz` answers 200 while the loop goes round, else 503. `GET /readyz` answers 200 when
every route has started and none has halted, else 503. Both tell the state of all routes. A
request is small, is read in a few seconds or not at all, and never waits for the loop or makes
it wait.
"""

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from socketserver import TCPServer
from typing import Any

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.job.status_board import StatusBoard
from sluiceway.observe.log import Log

LOOPBACK = "127.0.0.1"
MAX_HEAD_BYTES = 8192
MAX_CONNECTIONS = 16
REQUEST_TIMEOUT_S = 5.0

_END_OF_HEAD = b"\r\n\r\n"
_CLOSE_TIMEOUT_S = 5.0
_POLL_S = 0.1


class _Handler(BaseHTTPRequestHandler):
    """Answers one request and hangs up."""

    server: "_Server"
    # Else what cannot be parsed is answered without a status line.
    default_request_version = "HTTP/1.0"

    def handle(self) -> None:
        head = self._read_head()
        if head is None:
            return
        # The parser sees what was read and cannot wait for more.
        self.rfile = BytesIO(head)
        self.connection.settimeout(REQUEST_TIMEOUT_S)
        if head.endswith(_END_OF_HEAD):
            self.handle_one_request()
        else:
            self.requestline, self.request_version, self.command = "", "HTTP/1.0", "GET"
            self._answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, {"error": "too large"})

    def _read_head(self) -> bytes | None:
        """Request line and headers; None when the client is slow or gone. Bodies are not read."""
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        head = b""
        while len(head) < MAX_HEAD_BYTES:
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            self.connection.settimeout(left)
            chunk: bytes = self.connection.recv(MAX_HEAD_BYTES - len(head))
            if not chunk:
                return None
            head += chunk
            end = head.find(_END_OF_HEAD)
            if end >= 0:
                return head[: end + len(_END_OF_HEAD)]
        return head

    def do_GET(self) -> None:
        """Answer by path; a query is not expected."""
        board = self.server.board
        if self.path == "/healthz":
            good = board.is_alive()
        elif self.path == "/readyz":
            good = board.is_ready()
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "only /healthz and /readyz are here"})
            return
        body = {
            "ok": good,
            "beat_age_s": round(board.beat_age_s(), 1),
            "routes": [asdict(status) for status in board.snapshot()],
        }
        self._answer(HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE, body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Called by the parser; what the client sent is not repeated to it."""
        del message, explain
        self._answer(HTTPStatus(code), {"error": HTTPStatus(code).phrase})

    def _answer(self, status: HTTPStatus, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def version_string(self) -> str:
        """Value of the header Server."""
        return "sluiceway"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing: a probe comes every few seconds."""


class _Server(ThreadingHTTPServer):
    """One thread a connection, and few of them."""

    # Two drivers with one port are a mistake that has to be seen.
    allow_reuse_port = False
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, port: int, board: StatusBoard, log: Log) -> None:
        self.board = board
        self._log = log
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__((LOOPBACK, port), _Handler)

    def server_bind(self) -> None:
        # The base class asks the resolver for a name, which can take seconds.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:
            # No thread can be started; the next probe comes soon.
            self._free.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        del request, client_address
        self._log.debug("health_request_failed", error=repr(sys.exception()))


class HealthServer:
    """Serves the health endpoints from threads of its own.

    Args:
        port: Of the loopback address; 0 takes a free one.
        board: What it tells.
        log: Told where it listens.

    Raises:
        UnhealthyEnvironmentError: The port cannot be had.
    """

    def __init__(self, port: int, board: StatusBoard, log: Log) -> None:
        try:
            self._server = _Server(port, board, log)
        except OSError as error:
            raise UnhealthyEnvironmentError(
                f"the health endpoints cannot listen: {error.strerror or error}",
                where=f"{LOOPBACK}:{port}",
                hint="another driver may have the port; choose another run.health_port",
            ) from error
        self._log = log
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="health", daemon=True
        )

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to answer. Called once."""
        self._thread.start()
        self._log.info("health_listening", host=LOOPBACK, port=self.port)

    def close(self) -> None:
        """Stop answering; requests that are being read are left to end by themselves."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(_CLOSE_TIMEOUT_S)
        self._server.server_close()


@contextmanager
def health_served(port: int | None, board: StatusBoard, log: Log) -> Iterator[int | None]:
    """Serve the health endpoints inside the block; the port, or None when nobody wants them.

    Raises:
        UnhealthyEnvironmentError: The port cannot be had.
    """
    if port is None:
        yield None
        return
    server = HealthServer(port, board, log)
    server.start()
    try:
        yield server.port
    finally:
        server.close()
