"""Stands in for a Kubernetes API server: takes what it is asked to make, and remembers it all.

It runs no pod. Lists are empty, watches tell nothing, and the driver's own pod is always there.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_KINDS = {"pods": "Pod", "services": "Service", "configmaps": "ConfigMap"}


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request.

    Attributes:
        verb: As roles name it.
        resource: Plural, such as `pods`.
        name: Of one object; empty for all of a kind.
        body: What was sent.
    """

    verb: str
    resource: str
    namespace: str
    name: str
    body: dict[str, Any] = field(default_factory=dict)


class FakeApi:
    """What was asked so far. Any thread may look.

    Attributes:
        url: Of the server.
        ended: Set when watches are to end.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.ended = threading.Event()
        self._lock = threading.Lock()
        self._requests: list[ApiRequest] = []

    def take(self, request: ApiRequest) -> int:
        """Remember a request; its number."""
        with self._lock:
            self._requests.append(request)
            return len(self._requests)

    def requests(self) -> list[ApiRequest]:
        """All so far, in order."""
        with self._lock:
            return list(self._requests)

    def made(self, resource: str) -> list[dict[str, Any]]:
        """Objects of a kind that were asked for."""
        return [r.body for r in self.requests() if (r.verb, r.resource) == ("create", resource)]


@contextmanager
def fake_api() -> Iterator[FakeApi]:
    """Serve on a free port of the loopback."""

    class Handler(_Handler):
        pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    api = Handler.api = FakeApi(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield api
    finally:
        api.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: ClassVar[FakeApi]

    def do_GET(self) -> None:
        request, query = self._request()
        if "watch" in query:
            self.api.take(ApiRequest("watch", request.resource, request.namespace, ""))
            self._watch()
            return
        number = self.api.take(request)
        kind = _KINDS.get(request.resource, "Pod")
        if request.name:
            self._answer(200, _known({"kind": kind, "metadata": {"name": request.name}}, number))
            return
        about = {"apiVersion": "v1", "metadata": {"resourceVersion": str(number)}}
        self._answer(200, {"kind": f"{kind}List", **about, "items": []})

    def do_POST(self) -> None:
        request, _ = self._request()
        self._answer(201, _known(request.body, self.api.take(request)))

    def do_PUT(self) -> None:
        self.do_PATCH()

    def do_PATCH(self) -> None:
        request, _ = self._request()
        self._answer(200, _known(request.body, self.api.take(request)))

    def do_DELETE(self) -> None:
        self.api.take(self._request()[0])
        self._answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        del format, args

    def _request(self) -> tuple[ApiRequest, dict[str, list[str]]]:
        address = urlsplit(self.path)
        # /api/v1/namespaces/lake/pods/name
        parts = address.path.strip("/").split("/")[2:]
        namespace, resource, name = (*parts[1:], "", "", "")[:3]
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        if self.command == "GET":
            verb = "get" if name else "list"
        elif self.command == "DELETE" and not name:
            verb = "deletecollection"
        else:
            verb = _VERBS[self.command]
        found = ApiRequest(verb, resource, namespace, name, body if isinstance(body, dict) else {})
        return found, parse_qs(address.query)

    def _watch(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.api.ended.wait()
        self.close_connection = True

    def _answer(self, code: int, body: dict[str, Any]) -> None:
        raw = json.dumps(body).encode()
        with suppress(ConnectionError):
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)


def _known(body: dict[str, Any], number: int) -> dict[str, Any]:
    """As a server has it that has taken it."""
    meta = {"uid": f"uid-{number}", "resourceVersion": str(number), **body.get("metadata", {})}
    return {"apiVersion": "v1", "kind": "Pod", **body, "metadata": meta}
