"""Health endpoints and metrics of a running driver, on the loopback address by default.

`GET /healthz` answers 200 while the loop goes round, else 503. `GET /readyz` answers 200 when every
route has started and none has halted, else 503. Both return the state of all routes. `GET /metrics`
is the page for Prometheus. A request is small, is read in a few seconds or not at all, and never
waits for the loop or makes it wait. With a token each request has to bring it. Without one, a
request that names another host than this machine is refused: a browser would send it for a foreign
page.
"""

import hmac
import json
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from errno import EADDRINUSE
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from socketserver import TCPServer
from typing import Any

from sluiceway.driver.status_board import StatusBoard
from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.jobfile.blocks.models import JobSpec
from sluiceway.jobfile.compile.compile import figure_limits
from sluiceway.observe.figures import PLAIN_LIMITS, FigureLimits
from sluiceway.observe.log import Log
from sluiceway.service.metrics_page import MetricsPage

LOOPBACK = "127.0.0.1"
OWN_NAMES = frozenset({LOOPBACK, "localhost", "[::1]"})
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
        token = self.server.access.token
        if token is not None:
            if not _brings(token, self.headers.get_all("Authorization", [])):
                self._answer(HTTPStatus.UNAUTHORIZED, {"error": "the token is missing or wrong"})
                return
        elif not _is_loopback(self.headers.get_all("Host", [])):
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, {"error": "the header Host is not ours"})
            return
        board = self.server.board
        if self.path == "/metrics":
            accepted = ", ".join(self.headers.get_all("Accept", []))
            content, content_type = self.server.page.render(accepted)
            self._send(HTTPStatus.OK, content, content_type)
            return
        if self.path == "/healthz":
            good = board.is_alive()
        elif self.path == "/readyz":
            good = board.is_ready()
        else:
            told = "only /healthz, /readyz and /metrics are here"
            self._answer(HTTPStatus.NOT_FOUND, {"error": told})
            return
        body = {
            "ok": good,
            "beat_age_ms": round(1000 * board.beat_age_s()),
            "routes": [asdict(status) for status in board.snapshot()],
        }
        self._answer(HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE, body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Called by the parser; what the client sent is not repeated to it."""
        del message, explain
        self._answer(HTTPStatus(code), {"error": HTTPStatus(code).phrase})

    def _answer(self, status: HTTPStatus, body: dict[str, Any]) -> None:
        self._send(status, json.dumps(body).encode() + b"\n", "application/json")

    def _send(self, status: HTTPStatus, content: bytes, content_type: str) -> None:
        self.send_response(status)
        if status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def version_string(self) -> str:
        """Value of the header Server."""
        return "sluiceway"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing: a probe comes every few seconds."""


def _is_loopback(hosts: list[str]) -> bool:
    """Whether a request asks this machine by a name of its own; probes that name none do.

    A page in a browser may have its own name point here (DNS rebinding); it then asks by that.
    """
    if len(hosts) > 1:
        return False
    name = re.sub(r":[0-9]*\Z", "", hosts[0].strip()) if hosts else LOOPBACK
    return name.lower() in OWN_NAMES


def _brings(token: str, headers: list[str]) -> bool:
    """Whether a request has the token, and it alone; compared in constant time."""
    scheme, _, given = headers[0].strip().partition(" ") if len(headers) == 1 else ("", "", "")
    return scheme.lower() == "bearer" and hmac.compare_digest(
        given.strip().encode(errors="replace"), token.encode()
    )


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """Who may ask, and what the metrics say.

    Attributes:
        job: The job's name.
        address: IP address that is listened on.
        token: Each request has to bring it; None asks for none, on a loopback address only.
        limits: How many routes have series of their own.
    """

    job: str = ""
    address: str = LOOPBACK
    token: str | None = field(default=None, repr=False)
    limits: FigureLimits = PLAIN_LIMITS

    @classmethod
    def of(cls, spec: JobSpec) -> "HttpAccess":
        """As a job file says."""
        told = spec.metrics
        token = None if told.token is None else told.token.reveal()
        return cls(spec.name, told.address, token, figure_limits(told))

    def url(self, port: int) -> str:
        """Where the endpoints are."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{port}"


class _Server(ThreadingHTTPServer):
    """One thread a connection, and few of them."""

    # Two drivers with one port are a mistake that has to be seen.
    allow_reuse_port = False
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, port: int, board: StatusBoard, log: Log, access: HttpAccess) -> None:
        self.board = board
        self.access = access
        self.page = MetricsPage(access.job, board, access.limits)
        self._log = log
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        if ":" in access.address:
            self.address_family = socket.AF_INET6
        super().__init__((access.address, port), _Handler)

    def server_bind(self) -> None:
        # The base class asks the resolver for a name, which can take seconds.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.access.address, self.server_address[1]

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
        port: Port at the address; 0 takes a free one.
        board: What it reports.
        log: Gets where it listens.
        access: Address, and who may ask.

    Raises:
        UnhealthyEnvironmentError: The port cannot be had.
    """

    def __init__(
        self, port: int, board: StatusBoard, log: Log, access: HttpAccess | None = None
    ) -> None:
        access = access or HttpAccess()
        try:
            self._server = _Server(port, board, log, access)
        except OSError as error:
            raise _cannot_listen(error, f"{access.address}:{port}") from error
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
        host = self._server.access.address
        self._log.info("health_listening", host=host, port=self.port)

    def close(self) -> None:
        """Stop answering; requests that are being read are left to end by themselves."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(_CLOSE_TIMEOUT_S)
        self._server.server_close()


@contextmanager
def health_served(
    port: int | None, board: StatusBoard, log: Log, access: HttpAccess | None = None
) -> Iterator[int | None]:
    """Serve health and metrics inside the block; the port, or None when none is asked for.

    Raises:
        UnhealthyEnvironmentError: The port cannot be had.
    """
    if port is None:
        yield None
        return
    server = HealthServer(port, board, log, access)
    server.start()
    try:
        yield server.port
    finally:
        server.close()


def _cannot_listen(error: OSError, where: str) -> UnhealthyEnvironmentError:
    if error.errno == EADDRINUSE:
        return UnhealthyEnvironmentError(
            "the health endpoints cannot listen: another process has the port, perhaps a driver of "
            "this very job",
            where=where,
            hint="`sluiceway status JOB` says whether one runs; if not, choose another "
            "run.health_port",
        )
    return UnhealthyEnvironmentError(
        f"the health endpoints cannot listen: {error.strerror or error}",
        where=where,
        hint="metrics.address may be none of this machine; choose another run.health_port or "
        "address",
    )
