"""One lab with all stores for the tests of this folder, and each store as tests look at it."""

from collections.abc import Iterator

import pytest

from sluiceway.lab.hdfs import HdfsEndpoint
from sluiceway.lab.lab import Lab, LabEndpoints, StoreServer
from sluiceway.lab.s3 import S3Endpoint
from tools.lab_fixture import running_lab
from tools.stores_under_test import HdfsUnderTest, S3UnderTest, StoreUnderTest


@pytest.fixture(scope="session")
def _session_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab of this folder's own, with stores."""
    with running_lab(
        tmp_path_factory.mktemp("lab") / "lab", stores=(StoreServer.S3, StoreServer.HDFS)
    ) as lab:
        yield lab


@pytest.fixture(scope="session")
def lab(_session_lab: Lab) -> Lab:
    """The same, for tests that end its servers and start them again."""
    return _session_lab


@pytest.fixture(scope="session")
def s3(lab_endpoints: LabEndpoints) -> S3Endpoint:
    assert lab_endpoints.s3 is not None
    return lab_endpoints.s3


@pytest.fixture(scope="session")
def hdfs(lab_endpoints: LabEndpoints) -> HdfsEndpoint:
    assert lab_endpoints.hdfs is not None
    return lab_endpoints.hdfs


@pytest.fixture(params=["s3", "hdfs"])
def store(request: pytest.FixtureRequest, s3: S3Endpoint, hdfs: HdfsEndpoint) -> StoreUnderTest:
    """Each store in its turn."""
    return S3UnderTest(s3) if request.param == "s3" else HdfsUnderTest(hdfs)
