"""S3 and HDFS, on real servers, against the suite that every storage has to pass."""

import time
from uuid import uuid4

import pytest

from sluiceway.conformance.storage import StorageConformance
from sluiceway.lab.hdfs import HdfsEndpoint
from sluiceway.lab.s3 import S3Endpoint
from sluiceway.storage.contract import Storage
from sluiceway.storage.hdfs import storage as hdfs_storage
from sluiceway.storage.s3 import storage as s3_storage
from tools.stores_under_test import HdfsUnderTest, S3UnderTest, StoreUnderTest


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


def test_a_second_name_that_is_asked_for_again_gets_a_new_time(
    store: StoreUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, folder = store.open(), f"{store.root}/conformance/{uuid4().hex}"
    storage.make_folders(folder)
    src, dst = f"{folder}/src", f"{folder}/dst"
    writer = storage.create_staged(src)
    writer.handle().write(b"rows")
    seal = writer.seal()

    def shared_ms() -> int:
        storage.share(src, dst, size_bytes=seal.size_bytes, crc32c=seal.crc32c)
        (found,) = [each for each in storage.list(folder) if each.path == dst]
        assert found.changed_ms is not None
        return found.changed_ms

    first_ms = shared_ms()
    time.sleep(2.0)
    assert shared_ms() == first_ms
    for module in (hdfs_storage, s3_storage):
        monkeypatch.setattr(module, "SHARED_ANEW_MS", 0)
    assert shared_ms() > first_ms + 1_000
    assert storage.read(dst) == b"rows"
