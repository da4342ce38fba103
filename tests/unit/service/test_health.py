import json
import socket
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.app import run_command
from sluiceway.driver.status_board import StatusBoard
from sluiceway.errors import JobFileError, TableMismatchError, UnhealthyEnvironmentError
from sluiceway.jobfile.loader import parse_job
from sluiceway.observe.log import stderr_log
from sluiceway.route.status import RouteState
from sluiceway.service import health
from sluiceway.service.health import HealthServer, HttpAccess, health_served
from tools.board_sessions import placed_session
from tools.ledger_records import fence, fold_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "orders.yaml"
GET = b"GET /healthz HTTP/1.1\r\n"
PATIENCE_S = 60.0


@pytest.fixture
def board() -> StatusBoard:
    board = StatusBoard()
    session = placed_session("orders")
    session.meter.advance(fold_of(fence()))
    board.update(session, RouteState.RUNNING, None)
    board.beat(60.0)
    return board


@pytest.fixture
def port(board: StatusBoard) -> Iterator[int]:
    with health_served(0, board, stderr_log()) as port:
        assert port is not None
        yield port


def get(port: int, path: str) -> tuple[int, dict[str, Any]]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def send(port: int, request: bytes) -> bytes:
    """What the server answers before it hangs up."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        try:
            client.sendall(request)
            return b"".join(iter(lambda: client.recv(65536), b""))
        except ConnectionError:
            return b""


def test_healthz_and_readyz_tell_the_state_of_the_routes(port: int) -> None:
    for path in ("/healthz", "/readyz"):
        code, body = get(port, path)
        assert (code, body["ok"]) == (200, True)
        (route,) = body["routes"]
        assert (route["route"], route["state"], route["term"]) == ("orders", "running", 1)


def test_healthz_is_unavailable_when_the_loop_stands_still(port: int, board: StatusBoard) -> None:
    board.beat(0.05)
    time.sleep(0.1)
    code, body = get(port, "/healthz")
    assert (code, body["ok"]) == (503, False)
    assert get(port, "/readyz")[0] == 200


def test_readyz_is_unavailable_when_a_route_has_halted(port: int, board: StatusBoard) -> None:
    board.update(placed_session("bad"), RouteState.HALTED, TableMismatchError("dropped"))
    code, body = get(port, "/readyz")
    assert (code, body["ok"]) == (503, False)
    assert [route["code"] for route in body["routes"]] == [None, "SW404"]
    assert get(port, "/healthz")[0] == 200


@pytest.mark.parametrize(
    "path", ["/", "/healthz/", "/healthz?x=1", "/../healthz", "/metrics/", "/HEALTHZ"]
)
def test_other_paths_are_not_found(port: int, path: str) -> None:
    code, body = get(port, path)
    assert code == 404
    assert "routes" not in body


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST /healthz HTTP/1.1\r\nContent-Length: 5\r\n\r\n12345", b"501"),
        (b"DELETE /healthz HTTP/1.1\r\n\r\n", b"501"),
        (b"<script>alert(1)</script> / HTTP/1.1\r\n\r\n", b"501"),
        (b"GET /healthz HTTP/9.9\r\n\r\n", b"505"),
        (b"GET /healthz JUNK/1.1\r\n\r\n", b"400"),
        (b"GET\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
        (GET + b"".join(b"X-%d: y\r\n" % n for n in range(150)) + b"\r\n", b"431"),
        (GET + b"X: " + b"y" * 100_000 + b"\r\n\r\n", b"431"),
        (b"GET /" + b"a" * 100_000, b"431"),
        (b"G" * 100_000, b"431"),
    ],
)
def test_hostile_request_is_refused_without_an_echo(
    port: int, request_bytes: bytes, status: bytes
) -> None:
    answer = send(port, request_bytes)
    # The rest of a large request may still be on its way when the server hangs up.
    assert answer.split(b" ")[1:2] == [status] or (answer == b"" and len(request_bytes) > 8192)
    assert b"script" not in answer
    assert b"routes" not in answer
    assert get(port, "/healthz")[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        b"Host: rebound.example\r\n",
        b"Host: rebound.example:8089\r\n",
        b"Host: 10.0.0.7\r\n",
        b"Host: localhost.rebound.example\r\n",
        b"Host: 127.0.0.1@rebound.example\r\n",
        b"Host: localhost:8089:8089\r\n",
        b"Host:\r\n",
        b"Host: localhost\r\nHost: rebound.example\r\n",
    ],
)
@pytest.mark.parametrize("path", [b"/healthz", b"/readyz"])
def test_request_for_another_host_is_told_nothing(port: int, host: bytes, path: bytes) -> None:
    answer = send(port, b"GET " + path + b" HTTP/1.1\r\n" + host + b"\r\n")
    assert answer.split(b" ")[1] == b"421"
    assert b"routes" not in answer
    assert b"rebound" not in answer


@pytest.mark.parametrize(
    "host",
    [b"", b"Host: LOCALHOST\r\n", b"Host: 127.0.0.1:%d\r\n", b"Host: [::1]:%d\r\n"],
)
def test_request_by_a_name_of_this_machine_or_none_is_answered(port: int, host: bytes) -> None:
    named = host % port if b"%d" in host else host
    assert send(port, GET + named + b"\r\n").split(b" ")[1] == b"200"


def test_request_in_small_pieces_is_answered_once_and_the_connection_closed(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        for piece in (
            b"GET /hea",
            b"lthz HTTP/1.1\r\nHost: localhost\r\n",
            b"Connection: keep-alive\r\n\r",
        ):
            client.sendall(piece)
            time.sleep(0.02)
        client.sendall(b"\n")
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.0 200 OK\r\n")
    assert answer.count(b"HTTP/1.0") == 1
    assert b"\r\nServer: sluiceway\r\n" in answer


def test_slow_client_is_left_after_the_time_out(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "REQUEST_TIMEOUT_S", 0.3)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(GET)
        client.settimeout(0.1)
        deadline, is_left = time.monotonic() + PATIENCE_S, False
        while not is_left:
            assert time.monotonic() < deadline, "a byte now and then prolongs it"
            try:
                client.sendall(b"X")
                is_left = client.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                is_left = True
    assert is_left


def test_idle_clients_use_up_no_threads_and_the_board_is_not_held(
    port: int, board: StatusBoard
) -> None:
    before = set(threading.enumerate())
    idle = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(40)]
    try:

        def serving() -> int:
            # Another test's server may still be at its last answers.
            new = [each for each in threading.enumerate() if each not in before]
            return len([each for each in new if "process_request_thread" in each.name])

        deadline = time.monotonic() + PATIENCE_S
        while not serving():
            assert time.monotonic() < deadline
        time.sleep(0.2)
        assert serving() <= health.MAX_CONNECTIONS
        # It waits for nobody.
        board.update(placed_session("more"), RouteState.RUNNING, None)
        board.beat()
    finally:
        for client in idle:
            client.close()
    deadline = time.monotonic() + PATIENCE_S
    while send(port, GET + b"\r\n")[9:12] != b"200":
        assert time.monotonic() < deadline


def test_it_listens_on_loopback_only(port: int) -> None:
    other = socket.gethostbyname(socket.gethostname())
    with socket.socket() as client:
        client.settimeout(1)
        reached = client.connect_ex((other, port)) == 0
    assert reached == other.startswith("127.0.0.1")


def test_port_that_is_taken_is_an_unfit_environment(port: int, board: StatusBoard) -> None:
    with pytest.raises(
        UnhealthyEnvironmentError, match="perhaps a driver of this very job"
    ) as caught:
        HealthServer(port, board, stderr_log())
    assert caught.value.where == f"127.0.0.1:{port}"


def test_command_with_a_port_that_is_taken_ends_before_spark_starts(
    port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLUICEWAY_KAFKA", "127.0.0.1:1")
    monkeypatch.setenv("SLUICEWAY_METASTORE", "thrift://127.0.0.1:1")
    assert run_command(["run", str(EXAMPLE), "--health-port", str(port)]) == 5
    assert f"error[SW403] 127.0.0.1:{port}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("written", "expected"), [("8089", 8089), ("0", 0), ("70000", None), ("-1", None)]
)
def test_port_of_the_job_file_is_a_port(written: str, expected: int | None) -> None:
    text = EXAMPLE.read_text().replace("\nrun: {", f"\nrun: {{health_port: {written}, ")
    environ = {"SLUICEWAY_KAFKA": "k:1", "SLUICEWAY_METASTORE": "thrift://m:1"}
    assert "health_port" in text
    if expected is None:
        with pytest.raises(JobFileError, match=f"expected a port, 0 to 65535, got .*{written}"):
            parse_job(text.encode(), EXAMPLE, environ)
    else:
        assert parse_job(text.encode(), EXAMPLE, environ).spec.run.health_port == expected


def test_nothing_is_served_unless_asked_for(board: StatusBoard) -> None:
    before = threading.active_count()
    with health_served(None, board, stderr_log()) as port:
        assert port is None
        assert threading.active_count() == before


TOKEN = "0123456789abcdef"  # noqa: S105 - of these tests


def fetch(port: int, path: str, **headers: str) -> tuple[int, str, str]:
    """Code, content type and body."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        kind = answer.getheader("Content-Type") or ""
        return answer.status, kind, answer.read().decode()
    finally:
        connection.close()


def test_metrics_are_served_beside_the_health_endpoints(port: int) -> None:
    code, kind, body = fetch(port, "/metrics")
    assert (code, kind.partition(";")[0]) == (200, "text/plain")
    assert 'sluiceway_job_state{job_name="",route="orders"' in body
    code, kind, body = fetch(port, "/metrics", Accept="application/openmetrics-text")
    assert (code, kind.partition(";")[0]) == (200, "application/openmetrics-text")
    assert body.endswith("# EOF\n")


def test_with_a_token_every_request_has_to_bring_it(board: StatusBoard) -> None:
    access = HttpAccess("job", token=TOKEN)
    with health_served(0, board, stderr_log(), access) as port:
        assert port is not None
        for path in ("/healthz", "/readyz", "/metrics"):
            for headers in (
                {},
                {"Authorization": f"Bearer {TOKEN}x"},
                {"Authorization": f"Basic {TOKEN}"},
                {"Authorization": TOKEN},
                {"Authorization": "Bearer \u00e9"},
            ):
                code, _, body = fetch(port, path, **headers)
                assert code == 401, (path, headers)
                assert "orders" not in body
            given = {"Authorization": f"Bearer {TOKEN}", "Host": "ingest-1:8089"}
            assert fetch(port, path, **given)[0] == 200
        request = GET + f"Authorization: Bearer {TOKEN}\r\n".encode() * 2 + b"\r\n"
        assert b" 401 " in send(port, request)


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("{address: 0.0.0.0}", "expected a token with an address that others can reach"),
        ('{address: "::"}', "expected a token with an address that others can reach"),
        ("{address: localhost}", "expected an IP address of this machine"),
        ('{token: "${env:SHORT}"}', "expected 16 or more printable ASCII characters"),
        ("{token: 0123456789abcdef}", "token"),
        ("{max_topics: 0}", "expected a number from 1 to 10000"),
        ("{max_partition: 3}", "did you mean `max_partitions`?"),
    ],
)
def test_access_that_is_not_safe_is_refused_with_its_place(block: str, problem: str) -> None:
    environ = {"SLUICEWAY_KAFKA": "k:1", "SLUICEWAY_METASTORE": "thrift://m:1", "SHORT": "abc"}
    text = EXAMPLE.read_text() + f"metrics: {block}\n"
    with pytest.raises(JobFileError) as caught:
        parse_job(text.encode(), EXAMPLE, environ)
    assert problem in str(caught.value)
    assert "abc" not in str(caught.value).replace("abcdef", "")


def test_access_of_a_job_file_is_what_it_says() -> None:
    environ = {"SLUICEWAY_KAFKA": "k:1", "SLUICEWAY_METASTORE": "thrift://m:1", "T": TOKEN}
    text = EXAMPLE.read_text() + (
        'metrics: {address: 10.0.0.1, token: "${env:T}", max_routes: 3, max_topics: 2}\n'
    )
    spec = parse_job(text.encode(), EXAMPLE, environ).spec
    access = HttpAccess.of(spec)
    assert (access.job, access.address, access.token) == ("orders", "10.0.0.1", TOKEN)
    assert (access.limits.routes, access.limits.topics, access.limits.partitions) == (3, 2, 20)
    assert TOKEN not in repr(access)
    plain = parse_job(EXAMPLE.read_bytes(), EXAMPLE, environ).spec
    assert (HttpAccess.of(plain).address, HttpAccess.of(plain).token) == ("127.0.0.1", None)
