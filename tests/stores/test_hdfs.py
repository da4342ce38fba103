"""HDFS at its edges: modes that come down, quotas, safe mode, a name node that dies."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from hdfs_native import Client

from sluiceway.errors import (
    FileLostError,
    StorageFullError,
    StorageRefusedError,
    StorageUnavailableError,
    UnhealthyEnvironmentError,
)
from sluiceway.lab.hdfs import NAME_NODE, HdfsEndpoint
from sluiceway.lab.lab import Lab
from sluiceway.storage.access import StoreAccess, Stores
from sluiceway.storage.contract import PutResult, Storage
from sluiceway.storage.hdfs import storage as hdfs_storage
from sluiceway.storage.hdfs.timed_calls import begun
from sluiceway.storage.registry import open_storage
from tools.hdfs_admin import hdfs_admin
from tools.stores_under_test import HdfsUnderTest


@pytest.fixture
def storage(hdfs: HdfsEndpoint) -> Storage:
    return HdfsUnderTest(hdfs).open()


@pytest.fixture
def client(hdfs: HdfsEndpoint) -> Client:
    return Client(hdfs.uri)


@pytest.fixture
def folder(hdfs: HdfsEndpoint, storage: Storage) -> str:
    folder = f"{hdfs.uri}/tests/{uuid4().hex}"
    storage.make_folders(folder)
    return folder


def _plain(hdfs: HdfsEndpoint, path: str) -> str:
    return path.removeprefix(hdfs.uri)


def test_new_folders_and_files_have_the_mode_and_group_of_the_table(
    hdfs: HdfsEndpoint, client: Client, storage: Storage, folder: str
) -> None:
    top = _plain(hdfs, folder)
    client.set_permission(top, 0o770)
    client.set_owner(top, None, "analysts")
    table = HdfsUnderTest(hdfs).fresh()
    table.make_folders(f"{folder}/a/b")
    writer = table.create_staged(f"{folder}/a/b/f")
    writer.handle().write(b"rows")
    seal = writer.seal()
    table.publish(
        f"{folder}/a/b/f", f"{folder}/p=1/f", size_bytes=seal.size_bytes, crc32c=seal.crc32c
    )
    for path, mode in (("/a", 0o770), ("/a/b", 0o770), ("/p=1", 0o770), ("/p=1/f", 0o660)):
        found = client.get_file_info(f"{top}{path}")
        assert (oct(found.permission), found.group) == (oct(mode), "analysts"), path
    assert storage.read(f"{folder}/p=1/f") == b"rows"


def test_end_of_a_file_does_not_wait_for_the_end_that_the_library_makes(
    hdfs: HdfsEndpoint,
    client: Client,
    storage: Storage,
    folder: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = threading.Event()

    def never_through(call: Callable[[], Any]) -> Any:
        return begun(lambda: (call(), gate.wait()))

    monkeypatch.setattr(hdfs_storage, "begun", never_through)
    try:
        for number in range(9):
            path = f"{folder}/f{number}"
            writer = storage.create_staged(path)
            writer.handle().write(b"rows")
            writer.seal()
            # Only a file that nobody writes any more can be added to.
            client.append(_plain(hdfs, path)).close()
            assert storage.read(path) == b"rows"
    finally:
        gate.set()


def test_files_that_end_together_are_closed_and_whole(
    hdfs: HdfsEndpoint, client: Client, storage: Storage, folder: str
) -> None:
    def write(number: int) -> None:
        writer = storage.create_staged(f"{folder}/f{number}")
        for _ in range(number % 4):
            writer.handle().write(bytes([number]) * 300_000)
        seal = writer.seal()
        assert seal.size_bytes == number % 4 * 300_000

    with ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(write, number) for number in range(64)]:
            done.result()
    for number in range(64):
        path = f"{folder}/f{number}"
        client.append(_plain(hdfs, path)).close()
        assert storage.read(path) == bytes([number]) * (number % 4 * 300_000)


def test_quota_that_is_used_up_is_a_full_store(
    hdfs: HdfsEndpoint, storage: Storage, folder: str
) -> None:
    hdfs_admin(hdfs, "-setQuota", "3", _plain(hdfs, folder))
    storage.overwrite(f"{folder}/first", b"x")
    storage.overwrite(f"{folder}/second", b"x")
    with pytest.raises(StorageFullError) as full:
        storage.overwrite(f"{folder}/third", b"x")
    assert "quota" in full.value.hint
    assert "\n" not in str(full.value)


def test_disk_space_that_is_used_up_is_a_full_store(
    hdfs: HdfsEndpoint, storage: Storage, folder: str
) -> None:
    hdfs_admin(hdfs, "-setSpaceQuota", "1m", _plain(hdfs, folder))
    with pytest.raises(StorageFullError, match="DSQuotaExceededException") as full:
        storage.overwrite(f"{folder}/f", b"x" * (1 << 20))
    assert "make room" in full.value.hint
    assert "\n" not in str(full.value)
    hdfs_admin(hdfs, "-clrSpaceQuota", _plain(hdfs, folder))
    storage.overwrite(f"{folder}/f", b"x")
    assert storage.list(folder)[0].size_bytes == 1


def test_file_where_a_folder_has_to_be_is_refused(storage: Storage, folder: str) -> None:
    storage.overwrite(f"{folder}/file", b"x")
    with pytest.raises(StorageRefusedError):
        storage.make_folders(f"{folder}/file/below")


def test_folder_at_the_final_name_is_no_place_to_move_into(storage: Storage, folder: str) -> None:
    writer = storage.create_staged(f"{folder}/f")
    writer.handle().write(b"rows")
    seal = writer.seal()
    storage.make_folders(f"{folder}/g")
    with pytest.raises(FileLostError):
        storage.publish(
            f"{folder}/f", f"{folder}/g", size_bytes=seal.size_bytes, crc32c=seal.crc32c
        )
    assert storage.list(f"{folder}/g") == []
    assert storage.read(f"{folder}/f") == b"rows"


def test_configuration_that_is_missing_is_told(hdfs: HdfsEndpoint) -> None:
    access = StoreAccess("hdfs", (("config_dir", "/no/such/folder"),))
    with pytest.raises(UnhealthyEnvironmentError, match="/no/such/folder"):
        open_storage(f"{hdfs.uri}/t", Stores((access,)))


@pytest.fixture
def in_safe_mode(hdfs: HdfsEndpoint) -> Iterator[None]:
    hdfs_admin(hdfs, "-safemode", "enter")
    yield
    hdfs_admin(hdfs, "-safemode", "leave")


def test_safe_mode_is_an_outage_that_is_named(
    request: pytest.FixtureRequest, storage: Storage, folder: str
) -> None:
    request.getfixturevalue("in_safe_mode")
    with pytest.raises(StorageUnavailableError) as failed:
        storage.put_if_absent(f"{folder}/slot", b"x", tmp_folder=folder)
    assert not isinstance(failed.value, StorageRefusedError)
    assert "safe mode" in failed.value.hint


def test_name_node_that_was_killed_is_waited_for(lab: Lab, storage: Storage, folder: str) -> None:
    storage.put_if_absent(f"{folder}/before", b"x", tmp_folder=folder)
    lab.kill_server(NAME_NODE)
    with pytest.raises(StorageUnavailableError):
        storage.put_if_absent(f"{folder}/slot", b"me", tmp_folder=folder)
    starting = threading.Thread(target=lab.start_server, args=(NAME_NODE,))
    starting.start()
    put = _patiently(storage, f"{folder}/slot", folder)
    starting.join()
    assert put is PutResult.CREATED
    assert storage.read(f"{folder}/before") == b"x"


def _patiently(storage: Storage, path: str, folder: str) -> PutResult:
    """As the writer of the log repeats the same bytes until the slot is known to hold them."""
    while True:
        try:
            return storage.put_if_absent(path, b"me", tmp_folder=folder)
        except StorageUnavailableError:
            time.sleep(0.2)
