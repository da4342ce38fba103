"""One HTTP client: who is asked, what counts as an answer, and which connections stay open."""

import socket
import threading
from collections.abc import Iterator
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sluiceway.host.http import HttpClient, HttpStatusError, read_url


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    connections = 0

    def get_request(self) -> tuple[socket.socket, object]:
        self.connections += 1
        return super().get_request()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        code = int(self.path.strip("/").partition("?")[0] or 200)
        body = self.path.encode()
        self.send_response(code)
        if code == 302:
            self.send_header("Location", "/200")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Nothing: the test's output stays clean."""


@pytest.fixture
def server() -> Iterator[_Server]:
    made = _Server(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join(10)


def _url(server: _Server) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


def test_body_of_a_url_is_read_whatever_proxy_the_environment_names(
    server: _Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert read_url(f"{_url(server)}/200?a=1", 5) == b"/200?a=1"
    assert read_url(_url(server), 5) == b"/"


@pytest.mark.parametrize("code", [302, 404, 503])
def test_answer_that_is_no_success_says_its_status(server: _Server, code: int) -> None:
    with pytest.raises(HttpStatusError, match=f"HTTP {code}"):
        read_url(f"{_url(server)}/{code}", 5)


def test_client_keeps_its_connection_and_opens_another_where_the_server_closed_it(
    server: _Server,
) -> None:
    client = HttpClient(5)
    for code in (200, 404, 200):
        assert client.get(f"{_url(server)}/{code}") == (code, f"/{code}".encode())
    assert server.connections == 1
    for kept in client._kept.values():
        kept.sock.shutdown(socket.SHUT_RDWR)
    assert client.get(_url(server)) == (200, b"/")
    assert server.connections == 2


def test_answer_that_is_too_large_is_none(server: _Server) -> None:
    with pytest.raises(HTTPException, match="more than 3 bytes"):
        HttpClient(5, most_bytes=3).get(f"{_url(server)}/200")
