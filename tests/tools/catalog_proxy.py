"""Between a driver and a REST catalog: requests are held back, doubled, or lose their answers."""

import http.client
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import urlsplit

_DROPPED = frozenset({"host", "connection", "accept-encoding", "content-length"})


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as the driver sent it."""

    method: str
    path: str
    body: bytes
    headers: dict[str, str]

    @property
    def is_commit(self) -> bool:
        """Whether it changes a table."""
        return self.method == "POST" and "/tables/" in self.path


class CatalogProxy:
    """A proxy on a port of its own, until it is closed.

    Args:
        upstream: `http://host:port` of the catalog.

    Attributes:
        faults: What becomes of the next commits: `pass`, `hold`, `drop` (lands, no answer),
            `twice`, or a status such as `503` without landing.
        held: Commits that may still land.
    """

    def __init__(self, upstream: str) -> None:
        self._host = urlsplit(upstream).netloc
        self.faults: list[str] = []
        self.held: list[Asked] = []
        self.commits = 0
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                return

            def do_GET(self) -> None:
                proxy._serve(self, "GET")

            def do_POST(self) -> None:
                proxy._serve(self, "POST")

            def do_HEAD(self) -> None:
                proxy._serve(self, "HEAD")

            def do_DELETE(self) -> None:
                proxy._serve(self, "DELETE")

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def uri(self) -> str:
        """What a job file names."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def land(self) -> int:
        """Let the oldest held commit reach the catalog; its status."""
        status, _ = self._forward(self.held.pop(0))
        return status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _serve(self, handler: BaseHTTPRequestHandler, method: str) -> None:
        length = int(handler.headers.get("content-length") or 0)
        headers = {k: v for k, v in handler.headers.items() if k.lower() not in _DROPPED}
        asked = Asked(method, handler.path, handler.rfile.read(length), headers)
        fault = self.faults.pop(0) if asked.is_commit and self.faults else "pass"
        self.commits += asked.is_commit
        if fault == "hold":
            self.held.append(asked)
        if fault in ("hold", "drop"):
            if fault == "drop":
                self._forward(asked)
            handler.close_connection = True
            return
        if fault.isdecimal():
            self._answer(handler, int(fault), b"{}")
            return
        if fault == "twice":
            self._forward(asked)
        self._answer(handler, *self._forward(asked))

    @staticmethod
    def _answer(handler: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
        handler.send_response(status)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def _forward(self, asked: Asked) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self._host, timeout=30.0)
        try:
            connection.request(asked.method, asked.path, asked.body or None, asked.headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()
