"""A small schema registry for tests: the few calls of the REST API that reading needs.

It stands in for a real server, whose start takes Java 21 and 160 MB; it can also be down, slow to
know an id, refuse logins, and answer nonsense.
"""

import base64
import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


@dataclass
class Registry:
    """What the server knows, and how it behaves.

    Attributes:
        status: Answered in place of everything else, when it is not 0.
        login: `user:password` that is wanted.
        body: Answered in place of a schema, when it is not empty.
        asked: Paths that were asked for.
        known_after: Ids that are known only after so many questions.
        closes_after: Ends each session, unasked, after so many answers; 0 keeps it open.
        sessions: Connections that were made.
        guids: Ids of schemas by their GUIDs.
        knows_guids: Whether it is as new as GUIDs.
    """

    port: int = 0
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    status: int = 0
    login: str = ""
    body: bytes = b""
    asked: list[str] = field(default_factory=list)
    known_after: dict[int, int] = field(default_factory=dict)
    closes_after: int = 0
    sessions: int = 0
    guids: dict[str, int] = field(default_factory=dict)
    knows_guids: bool = True

    @property
    def url(self) -> str:
        """Its address, with a path as behind a gateway."""
        return f"http://127.0.0.1:{self.port}/apis/registry"

    def add(
        self,
        subject: str,
        schema: str,
        kind: str = "AVRO",
        references: Sequence[tuple[str, str, int]] = (),
    ) -> int:
        """Register a schema; references are name, subject, version. Returns its id."""
        number = len(self.schemas) + 1
        found: dict[str, Any] = {"schema": schema}
        if kind != "AVRO":
            found["schemaType"] = kind
        if references:
            found["references"] = [
                {"name": name, "subject": of, "version": version}
                for name, of, version in references
            ]
        self.schemas[number] = found
        self.subjects.setdefault(subject, []).append(number)
        return number

    def answer(self, path: str, login: str | None) -> tuple[int, bytes]:
        """Status and body for a path."""
        self.asked.append(path)
        if self.status:
            return self.status, b'{"error_code":50001,"message":"told to"}'
        wanted = f"Basic {base64.b64encode(self.login.encode()).decode()}"
        if self.login and login != wanted:
            return 401, b'{"error_code":401,"message":"Unauthorized"}'
        if self.body:
            return 200, self.body
        if found := re.fullmatch(r"/apis/registry/schemas/ids/([0-9]+)", path):
            return self._of_id(int(found[1]))
        found = re.fullmatch(r"/apis/registry/schemas/guids/([0-9a-f-]+)", path)
        if found and self.knows_guids:
            return self._of_id(self.guids.get(found[1], 0))
        if found := re.fullmatch(r"/apis/registry/subjects/([^/]+)/versions/([^/]+)", path):
            return self._of_subject(unquote(found[1]), found[2])
        return 404, b'{"error_code":404,"message":"HTTP 404 Not Found"}'

    def _of_id(self, number: int) -> tuple[int, bytes]:
        self.known_after[number] = self.known_after.get(number, 0) - 1
        if number not in self.schemas or self.known_after[number] >= 0:
            return 404, b'{"error_code":40403,"message":"Schema not found"}'
        return 200, json.dumps(self.schemas[number]).encode()

    def _of_subject(self, subject: str, version: str) -> tuple[int, bytes]:
        numbers = self.subjects.get(subject, [])
        place = len(numbers) if version == "latest" else int(version)
        if not 0 < place <= len(numbers):
            return 404, b'{"error_code":40401,"message":"Subject not found"}'
        number = numbers[place - 1]
        return 200, json.dumps({**self.schemas[number], "id": number, "version": place}).encode()


@contextmanager
def registry_server(registry: Registry | None = None) -> Iterator[Registry]:
    """A server on a free port of the loopback address while the block runs."""
    found = registry or Registry()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Else each answer waits for the acknowledgement of its own head.
        disable_nagle_algorithm = True
        wbufsize = -1
        answered = 0

        def setup(self) -> None:
            found.sessions += 1
            super().setup()

        def do_GET(self) -> None:
            status, body = found.answer(self.path, self.headers.get("Authorization"))
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.answered += 1
            # Whoever asks does not hear that it goes, and finds out with its next question.
            self.close_connection = self.answered == found.closes_after

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", found.port), Handler)
    server.daemon_threads = True
    found.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
