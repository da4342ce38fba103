"""A lab with a realm, secured HDFS and a secured metastore, for the tests of this folder."""

from collections.abc import Iterator

import pytest

from sluiceway.lab.lab import Lab, LabEndpoints, StoreServer
from tools.lab_fixture import running_lab


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(
        tmp_path_factory.mktemp("lab") / "lab", stores=(StoreServer.KERBEROS, StoreServer.HDFS)
    ) as lab:
        yield lab


@pytest.fixture(scope="session")
def endpoints(secured: Lab) -> LabEndpoints:
    return secured.endpoints()
