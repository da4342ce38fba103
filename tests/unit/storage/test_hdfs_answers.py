"""Answers of HDFS: which of our errors they are; how its locations are named."""

import pytest

from sluiceway.errors import (
    StorageFullError,
    StorageRefusedError,
    StorageUnavailableError,
    UnhealthyEnvironmentError,
)
from sluiceway.storage.hdfs.client import failure
from sluiceway.storage.hdfs.storage import hdfs_location

STACK = "\\n\\tat org.apache.hadoop.hdfs.server.namenode.FSNamesystem.x(FSNamesystem.java:1)"


@pytest.mark.parametrize(
    ("said", "kind", "hint"),
    [
        ("hadoop.hdfs.protocol.DSQuotaExceededException: 3 of 3", StorageFullError, "quota"),
        ("hadoop.security.AccessControlException: denied", StorageRefusedError, "allow this user"),
        ("fs.ParentNotDirectoryException: /a", StorageRefusedError, "remove the file"),
        ("SafeModeException: Cannot create", StorageUnavailableError, "safe mode"),
        ("hadoop.ipc.StandbyException: read", StorageUnavailableError, "no name node is active"),
        ("written to 0 of the 1 minReplication nodes", StorageUnavailableError, "data node"),
        ("connection refused", StorageUnavailableError, ""),
    ],
)
def test_answer_is_one_line_with_the_way_out(
    said: str, kind: type[StorageUnavailableError], hint: str
) -> None:
    told = failure("cannot put hdfs://ns/k", RuntimeError(f"{said}{STACK}"))
    assert type(told) is kind
    assert hint in told.hint
    assert told.message == f"cannot put hdfs://ns/k: {said}"


def test_clock_of_a_name_node_that_differs_is_told_with_the_fix() -> None:
    said = (
        "SaslException: GSS initiate failed [Caused by GSSException: Failure unspecified at "
        "GSS-API level (Mechanism level: Clock skew too great (37))]"
    )
    told = failure("cannot status hdfs://ns/t", RuntimeError(said))
    assert type(told) is StorageRefusedError
    assert "set this machine's clock" in told.hint


@pytest.mark.parametrize(
    ("location", "service", "named"),
    [
        ("hdfs://ns/ods/t/", "hdfs://ns", "hdfs://ns/ods/t"),
        ("hdfs://nn:9000//ods//t", "hdfs://nn:9000", "hdfs://nn:9000/ods/t"),
        ("viewfs://c/q=a%2Fb", "viewfs://c", "viewfs://c/q=a%2Fb"),
    ],
)
def test_location_is_taken_literally(location: str, service: str, named: str) -> None:
    assert hdfs_location(location) == (service, named)
    assert hdfs_location(named) == (service, named)


def test_location_without_a_service_is_refused() -> None:
    with pytest.raises(UnhealthyEnvironmentError, match="hdfs://service/path"):
        hdfs_location("hdfs:///ods/t")
