"""Requests to an ASGI application without a server or a socket."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message


@dataclass(frozen=True, slots=True)
class Answer:
    """What the application has answered."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.content)


def request(
    app: ASGIApp,
    target: str,
    *,
    method: str = "GET",
    headers: tuple[tuple[str, str], ...] = (("host", "localhost:8090"),),
) -> Answer:
    """One request; header names in lower case."""
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }
    told: list[Message] = []

    bodies = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        # The client stays until it has its answer.
        return bodies.pop() if bodies else await asyncio.Future()

    async def send(message: Message) -> None:
        told.append(message)

    asyncio.run(app(scope, receive, send))  # type: ignore[arg-type]
    begin = next(each for each in told if each["type"] == "http.response.start")
    content = b"".join(each.get("body", b"") for each in told[1:])
    sent = {name.decode().lower(): value.decode() for name, value in begin["headers"]}
    return Answer(begin["status"], sent, content)
