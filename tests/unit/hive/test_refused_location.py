"""A location that the metastore cannot make halts; a metastore that fails is waited for."""

from typing import Any

import pytest

from sluiceway.catalog.connection import MetastoreCalls, ServerFailure
from sluiceway.catalog.hive_table import HiveLayout, MetastoreTable
from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.errors import MetastoreUnavailableError, UnhealthyEnvironmentError

_PLACE = "file:/data/orders"
_LAYOUT = HiveLayout(_PLACE, "serde", "input", "output", ())
_TABLE = MetastoreTable("ods", "orders", "EXTERNAL_TABLE", _LAYOUT, (), {})


class Server:
    """A metastore that has nothing, and fails at every creation."""

    def __init__(self, said: str | None) -> None:
        self._said = said

    def create_table(self, _: Any) -> None:
        raise ServerFailure(self._said)

    def create_database(self, _: Any) -> None:
        raise ServerFailure(self._said)

    def get_database(self, _: str) -> None:
        return None


def _client(said: str | None, monkeypatch: pytest.MonkeyPatch) -> MetastoreClient:
    monkeypatch.setattr(MetastoreCalls, "_open", lambda _: Server(said))
    return MetastoreClient("thrift://127.0.0.1:1")


@pytest.mark.parametrize(
    "said",
    [
        f"{_PLACE} is not a directory or unable to create one",
        "Got exception: org.apache.hadoop.fs.ParentNotDirectoryException Parent path is not a "
        "directory: file:/data",
        "Got exception: org.apache.hadoop.security.AccessControlException Permission denied: "
        "user=hive, access=WRITE",
        "Got exception: java.io.IOException Mkdirs failed to create file:/data/orders",
        "Got exception: java.io.FileNotFoundException /data/orders (Read-only file system)",
    ],
)
def test_location_that_cannot_be_made_halts_and_is_named(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = _client(said, monkeypatch)
    with pytest.raises(UnhealthyEnvironmentError) as refused:
        client.create_table(_TABLE)
    assert (refused.value.code, refused.value.mendable) == ("SW403", True)
    assert refused.value.where == _PLACE
    assert said in refused.value.message
    with pytest.raises(UnhealthyEnvironmentError, match="database ods"):
        client.create_database_if_missing("ods")


@pytest.mark.parametrize(
    "said",
    [
        None,
        "Got exception: java.net.ConnectException Call From a to b:8020 failed",
        "Got exception: java.io.IOException No space left on device",
        "javax.jdo.JDODataStoreException: Insert of object failed",
    ],
)
def test_other_failures_of_a_metastore_are_waited_for(
    said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MetastoreUnavailableError):
        _client(said, monkeypatch).create_table(_TABLE)
