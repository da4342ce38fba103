"""The storages of this package against the suite for all, and what only they have."""

from pathlib import Path

import pytest

from sluiceway.conformance.storage import StorageConformance
from sluiceway.errors import StorageRefusedError, UnhealthyEnvironmentError
from sluiceway.storage.contract import PutResult, Storage
from sluiceway.storage.local import LocalStorage, local_path
from sluiceway.storage.measured import MeasuredStorage
from sluiceway.storage.registry import open_storage
from tools.mapped_storage import MappedStorage, open_mapped
from tools.read_only import read_only


class TestLocalStorage(StorageConformance):
    @pytest.fixture
    def storage(self, folder: str) -> Storage:
        opened, named = open_storage(f"file:{folder}")
        assert named == folder
        return opened

    @pytest.fixture
    def folder(self, tmp_path: Path) -> str:
        return str(tmp_path)


class TestStorageOfAnotherScheme(StorageConformance):
    """What a plug-in of its own scheme would be; the suite must not take names for local paths."""

    @pytest.fixture
    def storage(self) -> Storage:
        return MappedStorage()

    @pytest.fixture
    def folder(self, tmp_path: Path) -> str:
        return open_mapped(f"mapped:{tmp_path}", {})[1]


class TestMeasuredStorage(StorageConformance):
    """A storage whose calls are timed is the storage behind it."""

    @pytest.fixture
    def storage(self) -> Storage:
        return MeasuredStorage(LocalStorage(), lambda operation, seconds: None)

    @pytest.fixture
    def folder(self, tmp_path: Path) -> str:
        return str(tmp_path)


class OverwritingStorage(LocalStorage):
    """A store that answers like one that ignores the condition of a conditional put."""

    def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        del tmp_folder
        local_path(path).write_bytes(content)
        return PutResult.CREATED


def test_probe_refuses_a_store_without_exclusive_puts(tmp_path: Path) -> None:
    with pytest.raises(UnhealthyEnvironmentError, match="8 of 8 writers"):
        OverwritingStorage().probe(str(tmp_path))


@pytest.mark.parametrize("location", ["hdfs://ns/t", "s3://b/t", "file://host/t", "relative/t"])
def test_location_that_is_not_local_is_refused(location: str) -> None:
    with pytest.raises(UnhealthyEnvironmentError):
        local_path(location)


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/w/t", "/w/t"),
        ("file:/w/t", "/w/t"),
        ("file:///w/t/", "/w/t"),
        ("file://localhost/w/t", "/w/t"),
        ("file:/w/q=a%2Fb", "/w/q=a%2Fb"),
        ("/w/a b#c?d", "/w/a b#c?d"),
    ],
)
def test_location_is_taken_as_hadoop_takes_it(location: str, path: str) -> None:
    assert str(local_path(location)) == path
    assert open_storage(location)[1] == path


def test_volume_is_the_same_for_all_folders_of_a_file_system(tmp_path: Path) -> None:
    storage = LocalStorage()
    known = storage.volume(str(tmp_path))
    assert known == storage.volume(str(tmp_path / "not" / "there" / "yet"))
    assert known != storage.volume("/proc/self")


def test_place_where_nothing_can_be_made_is_refused_and_no_outage() -> None:
    with pytest.raises(StorageRefusedError, match="cannot create"):
        LocalStorage().probe("/proc/sluiceway/stage")


def test_file_where_a_folder_has_to_be_is_refused_and_no_outage(tmp_path: Path) -> None:
    storage = LocalStorage()
    (tmp_path / "file").write_bytes(b"")
    for call in (
        lambda: storage.make_folders(f"{tmp_path}/file/stage"),
        lambda: storage.create_staged(f"{tmp_path}/file/staged"),
        lambda: storage.overwrite(f"{tmp_path}/file/lease", b""),
        lambda: storage.put_if_absent(f"{tmp_path}/file/a", b"", tmp_folder=f"{tmp_path}/file"),
    ):
        with pytest.raises(StorageRefusedError):
            call()


def test_folder_that_is_read_only_is_refused_and_no_outage(tmp_path: Path) -> None:
    with read_only(tmp_path), pytest.raises(StorageRefusedError):
        LocalStorage().probe(str(tmp_path / "stage"))
