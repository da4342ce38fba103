"""A proxy before a real S3 server that signs again what it alters: stores with other manners."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from sluiceway.lab.s3 import S3Endpoint
from sluiceway.storage.access import StoreAccess

_TIMEOUT_S = 30
_SIGNED_BY_US = frozenset({"authorization", "x-amz-date", "x-amz-content-sha256", "host", "expect"})
_HOP = frozenset({"connection", "transfer-encoding", "keep-alive"})


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came in."""

    method: str
    path: str


@dataclass(frozen=True, slots=True)
class Said:
    """An answer that does not come from the store.

    Attributes:
        code: Of S3's errors; empty for a page of somebody else.
    """

    status: int
    code: str = ""
    body: bytes = b"<html><body>not here</body></html>"

    def to(self, client: BaseHTTPRequestHandler) -> None:
        """Answer a request so."""
        body = self.body
        if self.code:
            body = f"<Error><Code>{self.code}</Code><Message>no.</Message></Error>".encode()
        client.send_response(self.status)
        client.send_header("Content-Type", "application/xml" if self.code else "text/html")
        client.send_header("Content-Length", str(len(body)))
        client.end_headers()
        if client.command != "HEAD":
            client.wfile.write(body)


Chooses = Callable[[Asked], bool]


@dataclass(slots=True)
class Manners:
    """What the store is like.

    Attributes:
        ignores_conditions: It takes a conditional put for a plain one.
        tells_no_checksums: It neither compares nor keeps them.
        keeps_any_checksum: It keeps what it gets, without a look at the content.
        loses_reply: Requests that are carried out, and whose answers get lost.
        refuses: Requests that are answered with 503.
        says: What is answered in place of the store; None for what the store says.
        delay_s: Before each request.
    """

    ignores_conditions: bool = False
    tells_no_checksums: bool = False
    keeps_any_checksum: bool = False
    loses_reply: Chooses = lambda _: False
    refuses: Chooses = lambda _: False
    says: "Callable[[Asked], Said | None]" = lambda _: None
    delay_s: float = 0.0
    asked: list[Asked] = field(default_factory=list)


class S3Proxy:
    """Runs in threads of this process; use it as a context."""

    def __init__(self, endpoint: S3Endpoint, manners: Manners) -> None:
        self._endpoint = endpoint
        self.manners = manners
        self._told: dict[str, str] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> "S3Proxy":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def access(self) -> StoreAccess:
        """The store as the product reaches it through here."""
        options = dict(self._endpoint.access.options)
        options["endpoint"] = f"http://127.0.0.1:{self._server.server_port}"
        return StoreAccess("s3", tuple(sorted(options.items())))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass_on(self) -> None:
                proxy.serve(self)

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass_on  # noqa: N815

            def log_message(self, *_: object) -> None:
                return

        return Handler

    def serve(self, client: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        body = client.rfile.read(int(client.headers.get("Content-Length") or 0))
        asked = Asked(client.command, client.path)
        manners = self.manners
        manners.asked.append(asked)
        time.sleep(manners.delay_s)
        if manners.refuses(asked):
            client.send_response(503)
            client.send_header("Content-Length", "0")
            client.end_headers()
            return
        if (said := manners.says(asked)) is not None:
            said.to(client)
            return
        headers = self._altered(client, asked)
        status, answer, content = self._forward(asked, headers, body)
        if manners.loses_reply(asked):
            client.close_connection = True
            client.connection.close()
            return
        client.send_response(status)
        for name, value in answer:
            client.send_header(name, value)
        if asked.method == "HEAD" and asked.path in self._told:
            client.send_header("x-amz-checksum-crc32c", self._told[asked.path])
        client.end_headers()
        client.wfile.write(content)

    def _altered(self, client: BaseHTTPRequestHandler, asked: Asked) -> dict[str, str]:
        headers = {
            name: value
            for name, value in client.headers.items()
            if name.lower() not in _SIGNED_BY_US | _HOP
        }
        names = {name.lower(): name for name in headers}
        if self.manners.ignores_conditions:
            headers.pop(names.get("if-none-match", ""), None)
        if self.manners.tells_no_checksums or self.manners.keeps_any_checksum:
            told = headers.pop(names.get("x-amz-checksum-crc32c", ""), None)
            if told is not None and self.manners.keeps_any_checksum:
                self._told[asked.path] = told
        return headers

    def _forward(
        self, asked: Asked, headers: dict[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        url = f"{self._endpoint.url}{asked.path}"
        request = AWSRequest(asked.method, url, headers=headers, data=body)
        login = Credentials(self._endpoint.access_key, self._endpoint.secret_key)
        S3SigV4Auth(login, "s3", "us-east-1").add_auth(request)
        connection = HTTPConnection(urlsplit(url).netloc, timeout=_TIMEOUT_S)
        try:
            connection.request(asked.method, asked.path, body, dict(request.headers))
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        silent = self.manners.tells_no_checksums or self.manners.keeps_any_checksum
        kept = [
            (name, value)
            for name, value in answer.getheaders()
            if name.lower() not in _HOP
            and not (silent and name.lower().startswith("x-amz-checksum"))
        ]
        return answer.status, kept, content
