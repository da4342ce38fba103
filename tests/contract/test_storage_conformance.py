"""What every storage must do. A new storage joins by adding itself to `STORAGES`."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import google_crc32c
import pytest

from sluiceway.errors import (
    FileLostError,
    StorageRefusedError,
    StorageUnavailableError,
    UnhealthyEnvironmentError,
)
from sluiceway.storage.contract import PutResult, Storage
from sluiceway.storage.local import LocalStorage, local_path
from tools.read_only import read_only

STORAGES: dict[str, Callable[[], Storage]] = {"local": LocalStorage}


@pytest.fixture(params=STORAGES)
def storage(request: pytest.FixtureRequest) -> Storage:
    return STORAGES[request.param]()


def staged(storage: Storage, path: str, content: bytes) -> tuple[int, str]:
    writer = storage.create_staged(path)
    writer.handle().write(content)
    seal = writer.seal()
    return seal.size_bytes, seal.crc32c


def test_put_has_one_winner_with_whole_content(storage: Storage, tmp_path: Path) -> None:
    contents = [b"%d" % number * 10_000 for number in range(8)]
    for round_number in range(20):
        slot = str(tmp_path / f"slot{round_number}")

        def compete(content: bytes, slot: str = slot) -> PutResult:
            return storage.put_if_absent(slot, content, tmp_folder=str(tmp_path))

        with ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(compete, contents))
        assert outcomes.count(PutResult.CREATED) == 1
        assert storage.read(slot) == contents[outcomes.index(PutResult.CREATED)]
    assert [s for s in storage.list(str(tmp_path)) if s.path.endswith(".tmp")] == []


def test_put_of_the_same_bytes_again_is_mine(storage: Storage, tmp_path: Path) -> None:
    for _ in range(2):
        result = storage.put_if_absent(str(tmp_path / "s"), b"me", tmp_folder=str(tmp_path))
        assert result is PutResult.CREATED
    result = storage.put_if_absent(str(tmp_path / "s"), b"you", tmp_folder=str(tmp_path))
    assert result is PutResult.EXISTS


def test_put_creates_the_next_folder_only(storage: Storage, tmp_path: Path) -> None:
    tmp = str(tmp_path)
    assert storage.put_if_absent(f"{tmp}/a/s", b"x", tmp_folder=tmp) is PutResult.CREATED
    with pytest.raises(StorageUnavailableError):
        storage.put_if_absent(f"{tmp}/gone/a/s", b"x", tmp_folder=tmp)
    assert storage.status(f"{tmp}/gone") is None


def test_staged_file_appears_whole_with_size_and_checksum(storage: Storage, tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    writer = storage.create_staged(path)
    writer.handle().write(b"abc")
    writer.handle().write(b"def")
    assert storage.status(path) is None
    seal = writer.seal()
    assert seal.size_bytes == 6
    assert seal.crc32c == f"{google_crc32c.value(b'abcdef'):08x}"
    assert storage.read(path) == b"abcdef"


def test_aborted_file_leaves_nothing(storage: Storage, tmp_path: Path) -> None:
    writer = storage.create_staged(str(tmp_path / "f"))
    writer.handle().write(b"abc")
    writer.abort()
    writer.abort()
    assert storage.list(str(tmp_path)) == []


def test_publish_is_idempotent_at_every_point_of_a_crash(storage: Storage, tmp_path: Path) -> None:
    src, dst = str(tmp_path / "f"), str(tmp_path / "t" / "p=1" / "f")
    size, crc = staged(storage, src, b"rows")
    for _ in range(3):
        storage.publish(src, dst, size_bytes=size, crc32c=crc)
        assert storage.read(dst) == b"rows"
        assert storage.status(src) is None


def test_publish_with_both_names_of_one_file_drops_the_staged_one(
    storage: Storage, tmp_path: Path
) -> None:
    src, dst = str(tmp_path / "f"), str(tmp_path / "g")
    size, crc = staged(storage, src, b"rows")
    staged(storage, dst, b"rows")
    storage.publish(src, dst, size_bytes=size, crc32c=crc)
    assert (storage.status(src), storage.read(dst)) == (None, b"rows")


def test_publish_never_overwrites_another_file(storage: Storage, tmp_path: Path) -> None:
    src, dst = str(tmp_path / "f"), str(tmp_path / "g")
    size, crc = staged(storage, src, b"rows")
    staged(storage, dst, b"other")
    with pytest.raises(FileLostError):
        storage.publish(src, dst, size_bytes=size, crc32c=crc)
    assert (storage.read(src), storage.read(dst)) == (b"rows", b"other")


def test_publish_of_a_file_that_is_nowhere_says_so(storage: Storage, tmp_path: Path) -> None:
    with pytest.raises(FileLostError):
        storage.publish(str(tmp_path / "f"), str(tmp_path / "g"), size_bytes=4, crc32c="0" * 8)


def test_publish_race_leaves_one_whole_file(storage: Storage, tmp_path: Path) -> None:
    src, dst = str(tmp_path / "f"), str(tmp_path / "p" / "g")
    size, crc = staged(storage, src, b"rows" * 1000)

    def publish(_: int) -> bool:
        try:
            storage.publish(src, dst, size_bytes=size, crc32c=crc)
        except StorageUnavailableError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert any(pool.map(publish, range(8)))
    storage.publish(src, dst, size_bytes=size, crc32c=crc)
    assert storage.read(dst) == b"rows" * 1000


def test_reading_what_is_absent_gives_none_or_nothing(storage: Storage, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    assert storage.read(gone) is None
    assert storage.status(gone) is None
    assert storage.list(gone) == []
    storage.remove(gone)
    with pytest.raises(StorageUnavailableError):
        storage.open_read(gone)


def test_volume_is_the_same_for_all_folders_of_a_table(storage: Storage, tmp_path: Path) -> None:
    known = storage.volume(str(tmp_path))
    assert known
    assert known == storage.volume(str(tmp_path))
    if isinstance(storage, LocalStorage):
        assert known == storage.volume(str(tmp_path / "not" / "there" / "yet"))
        assert known != storage.volume("/proc/self")


def test_probe_accepts_the_store_and_leaves_nothing(storage: Storage, tmp_path: Path) -> None:
    storage.probe(str(tmp_path))
    assert storage.list(str(tmp_path)) == []


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


def test_place_where_nothing_can_be_made_is_refused_and_no_outage(storage: Storage) -> None:
    with pytest.raises(StorageRefusedError, match="cannot create"):
        storage.probe("/proc/sluiceway/stage")


def test_file_where_a_folder_has_to_be_is_refused_and_no_outage(
    storage: Storage, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    for call in (
        lambda: storage.make_folders(f"{tmp_path}/file/stage"),
        lambda: storage.create_staged(f"{tmp_path}/file/staged"),
        lambda: storage.overwrite(f"{tmp_path}/file/lease", b""),
        lambda: storage.put_if_absent(f"{tmp_path}/file/a", b"", tmp_folder=f"{tmp_path}/file"),
    ):
        with pytest.raises(StorageRefusedError):
            call()


def test_folder_that_is_read_only_is_refused_and_no_outage(
    storage: Storage, tmp_path: Path
) -> None:
    with read_only(tmp_path), pytest.raises(StorageRefusedError):
        storage.probe(str(tmp_path / "stage"))
