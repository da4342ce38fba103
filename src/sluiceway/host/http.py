"""HTTP calls to the given address only: no redirects and no proxies.

The job file decides who gets credentials and events; the environment cannot change that.
"""

import http.client
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from urllib.parse import urlsplit

from sluiceway.errors import Retriable
from sluiceway.host.http_receiver import HttpReceiver

OK = range(200, 300)
"""Status codes of success."""

NO_HEADERS: Mapping[str, str] = {}
_LOOK_S = 0.5


class HttpStatusError(OSError):
    """An answer that is no success."""


class HttpClient:
    """Keeps one connection to each address open. Used by one thread at a time.

    Args:
        timeout_s: Longest wait for one step of a call, in seconds: connecting, or the next bytes.
        tls: For https; None trusts the authorities of the system.
        most_bytes: Most bytes of an answer's body to read; None reads all.
    """

    def __init__(
        self,
        timeout_s: float,
        *,
        tls: ssl.SSLContext | None = None,
        most_bytes: int | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._tls = tls
        self._most_bytes = most_bytes
        self._kept: dict[str, http.client.HTTPConnection] = {}
        weakref.finalize(self, _close_all, self._kept)

    def get(self, url: str, headers: Mapping[str, str] = NO_HEADERS) -> tuple[int, bytes]:
        """Status and body of an answer, whatever the status is.

        Raises:
            OSError, http.client.HTTPException: There is no whole answer.
        """
        address, path = _parts(url)
        kept = self._kept.pop(address, None)
        if kept is not None:
            # The server may have closed it since: that says nothing about the server.
            with suppress(ConnectionError):
                return self._exchange(address, kept, path, headers)
        made = _connection(address, self._timeout_s, self._tls)
        return self._exchange(address, made, path, headers)

    def _exchange(
        self,
        address: str,
        connection: http.client.HTTPConnection,
        path: str,
        headers: Mapping[str, str],
    ) -> tuple[int, bytes]:
        """One request and its answer; the connection is kept when both are whole."""
        most = self._most_bytes
        try:
            connection.request("GET", path, headers=dict(headers))
            answer = connection.getresponse()
            body = answer.read(None if most is None else most + 1)
        except BaseException:
            connection.close()
            raise
        if answer.will_close or not answer.isclosed():
            connection.close()
        else:
            self._kept[address] = connection
        if most is not None and len(body) > most:
            raise http.client.HTTPException(f"an answer of more than {most} bytes")
        return answer.status, body


def read_url(url: str, timeout_s: float) -> bytes:
    """The body of one URL. Called for a single answer; see `HttpClient`.

    Raises:
        OSError: The URL is not reached, or its answer is no success.
        ValueError: It is no URL.
    """
    client = HttpClient(timeout_s)
    try:
        status, body = client.get(url, {"Connection": "close"})
    except http.client.HTTPException as error:
        raise HttpStatusError(f"{type(error).__name__}: {error}") from error
    if status not in OK:
        raise HttpStatusError(f"HTTP {status}")
    return body


def post_json(receiver: HttpReceiver, body: bytes, headers: Mapping[str, str]) -> None:
    """Send a body of JSON; returns when the status was 2xx, or in the receiver's `accept`.

    Args:
        receiver: The receiver.
        body: Canonical JSON.
        headers: More headers; they win over the receiver's own.

    Raises:
        Retriable: The receiver did not get it, or that is not known. Holds no secret.
    """
    given = (("Content-Type", "application/json"), *receiver.headers, *headers.items())
    named = {name.lower(): (name, value) for name, value in given}
    try:
        status = _posted(receiver, body, dict(named.values()))
    except (OSError, http.client.HTTPException, ValueError) as error:
        # The error's text may hold the URL, and that a secret.
        told = f"does not answer: {type(error).__name__}"
        raise Retriable(told, where=receiver.host) from None
    if status not in OK and status not in receiver.accept:
        raise Retriable(f"answers {status}", where=receiver.host)


def _posted(receiver: HttpReceiver, body: bytes, headers: Mapping[str, str]) -> int:
    """The status of the answer; the body of the answer is not read."""
    address, path = _parts(receiver.url)
    connection = _connection(address, receiver.timeout_s, None)
    with closing(connection), _cut_off(connection, receiver.timeout_s):
        connection.request("POST", path, body, {"Connection": "close", **headers})
        with connection.getresponse() as answer:
            return answer.status


@contextmanager
def _cut_off(connection: http.client.HTTPConnection, timeout_s: float) -> Iterator[None]:
    """Limit the time of the block: a socket's timeout begins again with each byte.

    Raises:
        TimeoutError: It took longer.
    """
    done, cut = threading.Event(), threading.Event()
    until = time.monotonic() + timeout_s

    def watch() -> None:
        while not done.wait(max(_LOOK_S, until - time.monotonic())):
            cut.set()
            if connection.sock is not None:
                with suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)

    thread = threading.Thread(target=watch, name="cut_off", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    if cut.is_set():
        # What came before may look like a whole answer.
        raise TimeoutError


def _parts(url: str) -> tuple[str, str]:
    """A server's address as `https://host:port`, and the path of the URL."""
    parts = urlsplit(url)
    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    return f"{parts.scheme}://{parts.netloc}", path


def _connection(
    address: str, timeout_s: float, tls: ssl.SSLContext | None
) -> http.client.HTTPConnection:
    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port
    if parts.scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=tls)
    return http.client.HTTPConnection(host, port, timeout=timeout_s)


def _close_all(connections: Mapping[str, http.client.HTTPConnection]) -> None:
    for connection in connections.values():
        connection.close()
