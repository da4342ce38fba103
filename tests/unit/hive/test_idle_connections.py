import socket
import time
from contextlib import AbstractContextManager, closing
from typing import Any

import pytest
from pymetastore.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from sluiceway.catalog.connection import IdleConnections, MetastoreCalls, OpenConnection
from sluiceway.errors import MetastoreUnavailableError
from tools.raw_metastore import ServedMetastore, served

_SLOW = "slow"


class Databases:
    """A metastore that knows databases only."""

    def get_database(self, name: str) -> Any:
        """As the metastore's: one that is not there is an answer too."""
        if name == _SLOW:
            time.sleep(0.5)
        if name == "missing":
            raise ttypes.NoSuchObjectException(name)
        return ttypes.Database(name=name)


def _server(port: int = 0) -> AbstractContextManager[ServedMetastore]:
    return served(ThriftHiveMetastore.Processor(Databases()), port)


def _connection(server: ServedMetastore, idle: IdleConnections, timeout_s: float = 5.0) -> Any:
    return closing(MetastoreCalls(server.uri, timeout_s, {}, idle))


def _ask(connection: MetastoreCalls, name: str = "ods") -> Any:
    expected = (ttypes.NoSuchObjectException,)
    return connection.call(
        f"read database {name}", lambda c: c.get_database(name), expected=expected
    )


def test_who_comes_after_another_has_its_connection() -> None:
    idle = IdleConnections()
    with _server() as server:
        for _ in range(3):
            with _connection(server, idle) as connection:
                assert _ask(connection).name == "ods"
                with pytest.raises(ttypes.NoSuchObjectException):
                    _ask(connection, "missing")
        assert len(server.accepted) == 1


def test_two_at_a_time_have_one_each() -> None:
    idle = IdleConnections()
    with _server() as server:
        with _connection(server, idle) as one, _connection(server, idle) as another:
            assert (_ask(one, "a").name, _ask(another, "b").name) == ("a", "b")
        assert len(server.accepted) == 2


def test_connection_with_an_answer_on_its_way_is_for_nobody_else() -> None:
    idle = IdleConnections()
    with _server() as server:
        connection = MetastoreCalls(server.uri, 0.1, {}, idle)
        with closing(connection), pytest.raises(MetastoreUnavailableError):
            _ask(connection, _SLOW)
        with _connection(server, idle) as connection:
            assert _ask(connection).name == "ods"
        assert len(server.accepted) == 2


def test_server_that_was_started_again_is_connected_to_again() -> None:
    idle = IdleConnections()
    with _server() as server, _connection(server, idle) as connection:
        _ask(connection)
    with _server(server.port) as again:
        with _connection(again, idle) as connection:
            assert _ask(connection).name == "ods"
        assert len(again.accepted) == 1


def test_connections_that_were_opened_otherwise_are_not_taken() -> None:
    idle = IdleConnections()
    with _server() as server:
        for timeout_s in (5.0, 6.0):
            with _connection(server, idle, timeout_s) as connection:
                _ask(connection)
        assert len(server.accepted) == 2


def _open(owner: int | None = None) -> tuple[OpenConnection, socket.socket]:
    near, far = socket.socketpair()
    wire = TSocket()
    wire.setHandle(near)
    given = {} if owner is None else {"owner": owner}
    return OpenConnection(near, TBufferedTransport(wire), None, **given), far


def test_connection_of_the_process_before_a_fork_is_not_used() -> None:
    idle = IdleConnections()
    connection, far = _open(owner=1)
    with far:
        idle.keep("m", connection)
        assert idle.acquire("m") is None


def test_connection_on_which_something_came_unasked_is_not_used() -> None:
    idle = IdleConnections()
    connection, far = _open()
    with far:
        far.send(b"\0")
        idle.keep("m", connection)
        assert idle.acquire("m") is None
    assert connection.wire.fileno() == -1


def test_four_are_kept_and_the_last_is_taken_first() -> None:
    idle = IdleConnections()
    opened = [_open() for _ in range(6)]
    for connection, _ in opened:
        idle.keep("m", connection)
    assert [connection.wire.fileno() == -1 for connection, _ in opened] == [True] * 2 + [False] * 4
    assert [idle.acquire("m") for _ in range(5)] == [
        *(connection for connection, _ in reversed(opened[2:])),
        None,
    ]
    for connection, far in opened:
        connection.transport.close()
        far.close()


def test_connection_that_nobody_took_for_half_a_minute_is_closed() -> None:
    now_s = 0.0
    idle = IdleConnections(lambda: now_s)
    connection, far = _open()
    with far:
        idle.keep("m", connection)
        now_s = 31.0
        assert idle.acquire("m") is None
    assert connection.wire.fileno() == -1
