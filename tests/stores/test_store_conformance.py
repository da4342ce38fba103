"""S3 and HDFS, on real servers, against the suite that every storage has to pass."""

from uuid import uuid4

import pytest

from sluiceway.conformance.storage import StorageConformance
from sluiceway.lab.hdfs import HdfsEndpoint
from sluiceway.lab.s3 import S3Endpoint
from sluiceway.storage.contract import Storage
from tools.stores_under_test import HdfsUnderTest, S3UnderTest


class TestS3Storage(StorageConformance):
    @pytest.fixture
    def storage(self, s3: S3Endpoint) -> Storage:
        return S3UnderTest(s3).open()

    @pytest.fixture
    def folder(self, s3: S3Endpoint) -> str:
        return f"{S3UnderTest(s3).root}/conformance/{uuid4().hex}"


class TestHdfsStorage(StorageConformance):
    @pytest.fixture
    def storage(self, hdfs: HdfsEndpoint) -> Storage:
        return HdfsUnderTest(hdfs).open()

    @pytest.fixture
    def folder(self, hdfs: HdfsEndpoint, storage: Storage) -> str:
        folder = f"{HdfsUnderTest(hdfs).root}/conformance/{uuid4().hex}"
        storage.make_folders(folder)
        return folder
