"""A metastore that takes no connection is told with what to do about it."""

import socket

import pytest

from sluiceway.catalog.connection import MetastoreCalls
from sluiceway.errors import MetastoreUnavailableError


def test_refused_connection_is_told_with_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        connection = MetastoreCalls(f"thrift://127.0.0.1:{taken.getsockname()[1]}", 1.0)
        with pytest.raises(MetastoreUnavailableError, match="Connection refused") as told:
            connection.call("read table a.b", lambda client: client)
    assert told.value.hint.startswith("start it, or correct the `uri` of its connection; ")
