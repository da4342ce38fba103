"""A name service of two name nodes: who is active is found, and a fail-over loses nothing."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluiceway.errors import StorageUnavailableError
from sluiceway.storage.access import StoreAccess
from sluiceway.storage.contract import FileSeal, PutResult, Storage
from sluiceway.storage.hdfs.storage import HdfsStorage
from tools.two_name_nodes import FIRST, SECOND, TwoNameNodes, two_name_nodes

SLOTS = 60
PATIENCE_S = 90.0


@pytest.fixture
def hdfs_pair(tmp_path: Path) -> Iterator[TwoNameNodes]:
    with two_name_nodes(tmp_path / "pair") as service:
        yield service


def opened(service: TwoNameNodes) -> Storage:
    access = StoreAccess("hdfs", (("config_dir", str(service.config_dir)),))
    return HdfsStorage(access, service.uri)


def patiently_put(storage: Storage, folder: str, slot: int) -> PutResult:
    """As a driver does it: the same bytes again, while nothing is known."""
    end_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return storage.put_if_absent(
                f"{folder}/{slot}", b"%d" % slot, tmp_folder=f"{folder}/stage"
            )
        except StorageUnavailableError:
            assert time.monotonic() < end_s
            time.sleep(0.3)


def staged(storage: Storage, path: str, content: bytes) -> FileSeal:
    writer = storage.create_staged(path)
    writer.handle().write(content)
    return writer.seal()


def test_fail_over_loses_no_record_and_no_file(hdfs_pair: TwoNameNodes) -> None:
    storage, folder = opened(hdfs_pair), f"{hdfs_pair.uri}/t"
    storage.make_folders(f"{folder}/stage")
    seal = staged(storage, f"{folder}/stage/f", b"rows")
    half, found = threading.Event(), []

    def put_all() -> None:
        for slot in range(SLOTS):
            found.append(patiently_put(storage, folder, slot))
            if slot == SLOTS // 2:
                half.set()

    writer = threading.Thread(target=put_all)
    writer.start()
    assert half.wait(PATIENCE_S)
    hdfs_pair.kill(FIRST)
    hdfs_pair.make_active(SECOND)
    writer.join(2 * PATIENCE_S)
    assert found == [PutResult.CREATED] * SLOTS
    assert [storage.read(f"{folder}/{slot}") for slot in range(SLOTS)] == [
        b"%d" % slot for slot in range(SLOTS)
    ]
    storage.publish(
        f"{folder}/stage/f", f"{folder}/p=1/f", size_bytes=seal.size_bytes, crc32c=seal.crc32c
    )
    assert storage.read(f"{folder}/p=1/f") == b"rows"
