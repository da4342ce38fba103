"""What every storage must do."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import TypeVar

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.errors import FileLostError, StorageUnavailableError
from sluiceway.storage.contract import PutResult, Storage

_WRITERS = 8
_ROUNDS = 20
_LISTED_AT_ONCE = 30
_NEAR_MS = 600_000
_TOLD_MS = 1_000
T = TypeVar("T")


def together(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Outcomes of calls that run at the same time, one thread each."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


def write_staged(storage: Storage, path: str, content: bytes) -> tuple[int, str]:
    """Write and seal a staged file; its size and checksum."""
    writer = storage.create_staged(path)
    writer.handle().write(content)
    seal = writer.seal()
    return seal.size_bytes, seal.crc32c


def _assert_staged_goes(storage: Storage, src: str) -> None:
    """Check that the staged name is gone where a publish moves; a copy leaves it to `gc`."""
    assert (storage.read(src) is None) == storage.has_folders


class StorageConformance:
    """Subclass it and override both fixtures."""

    @pytest.fixture
    def storage(self) -> Storage:
        """The storage under test."""
        raise NotImplementedError

    @pytest.fixture
    def folder(self) -> str:
        """An empty folder that exists, named as the storage names it."""
        raise NotImplementedError

    # The ledger's slots

    def test_put_has_one_winner_with_whole_content(self, storage: Storage, folder: str) -> None:
        contents = [b"%d" % number * 10_000 for number in range(_WRITERS)]
        for number in range(_ROUNDS):
            slot = f"{folder}/slot{number}"

            def put(content: bytes, slot: str = slot) -> PutResult:
                return storage.put_if_absent(slot, content, tmp_folder=folder)

            outcomes = together([lambda c=content: put(c) for content in contents])  # type: ignore[misc]
            assert outcomes.count(PutResult.CREATED) == 1
            assert storage.read(slot) == contents[outcomes.index(PutResult.CREATED)]
        names = {status.path.rpartition("/")[2] for status in storage.list(folder)}
        assert names == {f"slot{number}" for number in range(_ROUNDS)}

    def test_put_of_the_same_bytes_again_is_mine(self, storage: Storage, folder: str) -> None:
        slot = f"{folder}/s"
        for _ in range(2):
            put = storage.put_if_absent(slot, b"me", tmp_folder=folder)
            assert put is PutResult.CREATED
        for other in (b"you", b"", b"me and more"):
            assert storage.put_if_absent(slot, other, tmp_folder=folder) is PutResult.EXISTS
        assert storage.read(slot) == b"me"

    def test_put_creates_the_next_folder_only(self, storage: Storage, folder: str) -> None:
        put = storage.put_if_absent(f"{folder}/a/s", b"x", tmp_folder=folder)
        assert put is PutResult.CREATED
        if not storage.has_folders:
            return
        # An old driver must not bring a removed ledger back to life.
        with pytest.raises(StorageUnavailableError):
            storage.put_if_absent(f"{folder}/gone/a/s", b"x", tmp_folder=folder)
        assert storage.status(f"{folder}/gone") is None

    def test_puts_into_different_slots_do_not_meet(self, storage: Storage, folder: str) -> None:
        def put(number: int) -> PutResult:
            slot = f"{folder}/log/{number:020}"
            return storage.put_if_absent(slot, b"%d" % number, tmp_folder=folder)

        outcomes = together([lambda n=number: put(n) for number in range(_WRITERS)])  # type: ignore[misc]
        assert outcomes == [PutResult.CREATED] * _WRITERS
        assert [storage.read(f"{folder}/log/{n:020}") for n in range(_WRITERS)] == [
            b"%d" % number for number in range(_WRITERS)
        ]

    # Staged files

    def test_staged_file_appears_whole_with_size_and_checksum(
        self, storage: Storage, folder: str
    ) -> None:
        path = f"{folder}/f"
        writer = storage.create_staged(path)
        writer.handle().write(b"abc")
        writer.handle().write(b"def")
        assert storage.status(path) is None
        assert storage.read(path) is None
        seal = writer.seal()
        assert seal.size_bytes == 6
        assert seal.crc32c == f"{google_crc32c.value(b'abcdef'):08x}"
        assert storage.read(path) == b"abcdef"
        assert [status.path for status in storage.list(folder)] == [path]

    def test_staged_file_is_begun_once(self, storage: Storage, folder: str) -> None:
        writer = storage.create_staged(f"{folder}/f")
        with pytest.raises(StorageUnavailableError):
            storage.create_staged(f"{folder}/f")
        writer.handle().write(b"first")
        writer.seal()
        assert storage.read(f"{folder}/f") == b"first"

    def test_aborted_file_leaves_nothing(self, storage: Storage, folder: str) -> None:
        writer = storage.create_staged(f"{folder}/f")
        writer.handle().write(b"abc")
        writer.abort()
        writer.abort()
        assert storage.list(folder) == []
        assert write_staged(storage, f"{folder}/f", b"again")[0] == 5

    def test_parquet_is_written_and_read_through_the_handles(
        self, storage: Storage, folder: str
    ) -> None:
        table = pa.table({"n": list(range(200_000)), "text": ["bei jing"] * 200_000})
        writer = storage.create_staged(f"{folder}/f.parquet")
        pq.write_table(table, writer.handle(), row_group_size=20_000)
        seal = writer.seal()
        status = storage.status(f"{folder}/f.parquet")
        assert status is not None
        assert (status.size_bytes, status.is_dir) == (seal.size_bytes, False)
        with storage.open_read(f"{folder}/f.parquet") as stream:
            assert pq.ParquetFile(stream).read() == table

    # Publishing

    def test_publish_is_idempotent_at_every_point_of_a_crash(
        self, storage: Storage, folder: str
    ) -> None:
        src, dst = f"{folder}/f", f"{folder}/t/p=1/f"
        size, crc = write_staged(storage, src, b"rows")
        for _ in range(3):
            storage.publish(src, dst, size_bytes=size, crc32c=crc)
            assert storage.read(dst) == b"rows"
            _assert_staged_goes(storage, src)
        storage.remove(src)
        storage.publish(src, dst, size_bytes=size, crc32c=crc)
        assert storage.read(dst) == b"rows"

    def test_publish_with_both_names_of_one_file_drops_the_staged_one(
        self, storage: Storage, folder: str
    ) -> None:
        src, dst = f"{folder}/f", f"{folder}/g"
        size, crc = write_staged(storage, src, b"rows")
        write_staged(storage, dst, b"rows")
        storage.publish(src, dst, size_bytes=size, crc32c=crc)
        assert storage.read(dst) == b"rows"
        _assert_staged_goes(storage, src)

    def test_publish_never_overwrites_another_file(self, storage: Storage, folder: str) -> None:
        src = f"{folder}/f"
        size, crc = write_staged(storage, src, b"rows")
        for name, other in (("longer", b"others"), ("as-long", b"ROWS")):
            dst = f"{folder}/{name}"
            write_staged(storage, dst, other)
            with pytest.raises(FileLostError):
                storage.publish(src, dst, size_bytes=size, crc32c=crc)
            assert (storage.read(src), storage.read(dst)) == (b"rows", other)

    def test_publish_of_a_file_that_is_nowhere_says_so(self, storage: Storage, folder: str) -> None:
        with pytest.raises(FileLostError):
            storage.publish(f"{folder}/f", f"{folder}/g", size_bytes=4, crc32c="0" * 8)
        size, crc = write_staged(storage, f"{folder}/g", b"of another size")
        with pytest.raises(FileLostError):
            storage.publish(f"{folder}/f", f"{folder}/g", size_bytes=size + 1, crc32c=crc)

    def test_publish_race_leaves_one_whole_file(self, storage: Storage, folder: str) -> None:
        src, dst = f"{folder}/f", f"{folder}/p/g"
        size, crc = write_staged(storage, src, b"rows" * 1000)

        def publish() -> bool:
            try:
                storage.publish(src, dst, size_bytes=size, crc32c=crc)
            except StorageUnavailableError:
                return False
            return True

        assert any(together([publish] * _WRITERS))
        storage.publish(src, dst, size_bytes=size, crc32c=crc)
        assert storage.read(dst) == b"rows" * 1000
        _assert_staged_goes(storage, src)

    # Listing and status

    def test_list_names_the_direct_children_in_order(self, storage: Storage, folder: str) -> None:
        names = [f"{number:04}" for number in range(300)]
        # At once: some stores wait for the end of each file.
        with ThreadPoolExecutor(_LISTED_AT_ONCE) as pool:
            list(
                pool.map(lambda n: storage.overwrite(f"{folder}/{n}", n.encode()), reversed(names))
            )
        storage.make_folders(f"{folder}/sub/below")
        write_staged(storage, f"{folder}/sub/file", b"x")
        found = [(s.path, s.size_bytes, s.is_dir) for s in storage.list(folder)]
        files = [(f"{folder}/{name}", 4, False) for name in names]
        assert found == [*files, (f"{folder}/sub", 0, True)]
        storage.remove(f"{folder}/0007")
        assert f"{folder}/0007" not in [status.path for status in storage.list(folder)]

    def test_times_of_files_are_told_alike_by_a_look_and_a_listing(
        self, storage: Storage, folder: str
    ) -> None:
        write_staged(storage, f"{folder}/first", b"x")
        write_staged(storage, f"{folder}/second", b"x")
        listed = [each.changed_ms for each in storage.list(folder)]
        looked = [storage.status(f"{folder}/{name}") for name in ("first", "second")]
        told = [None if each is None else each.changed_ms for each in looked]
        if None in (*listed, *told):
            # A store may not know the age: then no file is removed by age.
            assert {*listed, *told} == {None}
            return
        times = [each for each in (*listed, *told) if each is not None]
        assert max(times) - min(times) < _NEAR_MS
        assert abs(listed[0] - told[0]) < _TOLD_MS  # type: ignore[operator]

    def test_names_are_taken_literally(self, storage: Storage, folder: str) -> None:
        for number, name in enumerate(("q=a%2Fb", "bei jing", "北京", "it's", "a#b?c", "A", "a")):
            path = f"{folder}/{name}/f"
            storage.make_folders(f"{folder}/{name}")
            write_staged(storage, path, b"%d" % number)
            assert [status.path for status in storage.list(f"{folder}/{name}")] == [path]
            assert storage.read(path) == b"%d" % number
        assert len(storage.list(folder)) == 7

    def test_reading_what_is_absent_gives_none_or_nothing(
        self, storage: Storage, folder: str
    ) -> None:
        gone = f"{folder}/gone"
        assert storage.read(gone) is None
        assert storage.status(gone) is None
        assert storage.list(gone) == []
        storage.remove(gone)
        with pytest.raises(StorageUnavailableError):
            storage.open_read(gone)

    def test_content_comes_back_byte_for_byte(self, storage: Storage, folder: str) -> None:
        content = bytes(range(256)) * 12_000
        storage.put_if_absent(f"{folder}/s", content, tmp_folder=folder)
        assert storage.read(f"{folder}/s") == content
        with storage.open_read(f"{folder}/s") as one, storage.open_read(f"{folder}/s") as other:
            assert one.read(300) == content[:300]
            assert other.read(10) == content[:10]
            one.seek(-4, 2)
            assert one.read() == content[-4:]
            assert BytesIO(content).seek(0, 2) == one.tell()

    def test_overwrite_is_whole_to_everyone(self, storage: Storage, folder: str) -> None:
        path, versions = f"{folder}/lease", [b"%d" % n * 50_000 for n in range(_WRITERS)]
        storage.overwrite(path, versions[0])

        def read() -> bool:
            return all(storage.read(path) in versions for _ in range(_ROUNDS))

        def write(version: bytes) -> bool:
            storage.overwrite(path, version)
            return storage.read(path) in versions

        calls: list[Callable[[], bool]] = [lambda v=version: write(v) for version in versions]  # type: ignore[misc]
        assert all(together([*calls, read, read]))
        storage.overwrite(path, b"last")
        assert storage.read(path) == b"last"

    # Folders

    def test_folders_are_made_once_by_many(self, storage: Storage, folder: str) -> None:
        deep = f"{folder}/a/b/c"
        together([lambda: storage.make_folders(deep)] * _WRITERS)
        storage.make_folders(deep)
        storage.sync_folder(deep)
        put = storage.put_if_absent(f"{deep}/d/s", b"x", tmp_folder=folder)
        assert put is PutResult.CREATED

    def test_remove_takes_a_whole_tree_and_no_more(self, storage: Storage, folder: str) -> None:
        for name in ("a/b/f", "a/g", "ab"):
            storage.make_folders(f"{folder}/{name}".rpartition("/")[0])
            write_staged(storage, f"{folder}/{name}", b"x")
        storage.remove(f"{folder}/a")
        assert storage.read(f"{folder}/a/b/f") is None
        assert [status.path for status in storage.list(folder)] == [f"{folder}/ab"]

    def test_probe_accepts_the_store_and_leaves_nothing(
        self, storage: Storage, folder: str
    ) -> None:
        storage.probe(folder)
        assert storage.list(folder) == []

    def test_volume_of_a_place_stays_the_same(self, storage: Storage, folder: str) -> None:
        place = f"{folder}/table"
        known = storage.volume(place)
        assert known
        # A folder that was probed once must be found again, by any driver that opens the place.
        storage.make_folders(f"{place}/p=1")
        write_staged(storage, f"{place}/p=1/f", b"x")
        assert [storage.volume(place) for _ in range(3)] == [known] * 3
