"""Storages with a planted fault: the suite has to find each of them."""

import shutil
import time
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote

import pytest

from sluiceway.conformance.storage import StorageConformance
from sluiceway.errors import FileLostError
from sluiceway.storage.contract import FileSeal, FileStatus, PutResult, StagedWriter
from sluiceway.storage.local import LocalStorage
from tools.suite_runs import fails, names_of_tests

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class PutOverwrites(LocalStorage):
    def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        self.make_folders(str(Path(path).parent))
        self.overwrite(path, content)
        return PutResult.CREATED


class PutLooksFirst(LocalStorage):
    """Looks, then writes: two may see the free slot."""

    def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        if self.read(path) is None:
            time.sleep(0.005)
            self.overwrite(path, content)
            return PutResult.CREATED
        return super().put_if_absent(path, content, tmp_folder=tmp_folder)


class PutForgetsItsOwn(LocalStorage):
    """Answers by the store's error code instead of by what the slot holds."""

    def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        if self.status(path) is not None:
            return PutResult.EXISTS
        return super().put_if_absent(path, content, tmp_folder=tmp_folder)


class PutMakesAllFolders(LocalStorage):
    def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        self.make_folders(str(Path(path).parent))
        return super().put_if_absent(path, content, tmp_folder=tmp_folder)


class PutLeavesTemporaryFiles(LocalStorage):
    def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        Path(f"{path}.tmp").write_bytes(content)
        return super().put_if_absent(path, content, tmp_folder=tmp_folder)


class PublishOnlyOnce(LocalStorage):
    def publish(self, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        if self.status(src) is None:
            raise FileLostError("it is not staged", where=src)
        super().publish(src, dst, size_bytes=size_bytes, crc32c=crc32c)


class PublishOverwrites(LocalStorage):
    def publish(self, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        if self.status(src) is not None:
            self.make_folders(str(Path(dst).parent))
            Path(src).replace(dst)


class PublishTrustsTheSize(LocalStorage):
    def publish(self, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        there = self.status(dst)
        if there is not None and there.size_bytes == size_bytes:
            self.remove(src)
            return
        super().publish(src, dst, size_bytes=size_bytes, crc32c=crc32c)


class PublishCopies(LocalStorage):
    def publish(self, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        content = self.read(src)
        super().publish(src, dst, size_bytes=size_bytes, crc32c=crc32c)
        if content is not None:
            Path(src).write_bytes(content)


class ListLosesTheLast(LocalStorage):
    def list(self, folder: str) -> list[FileStatus]:
        return super().list(folder)[:-1]


class ListHasOnePage(LocalStorage):
    def list(self, folder: str) -> list[FileStatus]:
        return super().list(folder)[:100]


class ListHasNoOrder(LocalStorage):
    def list(self, folder: str) -> list[FileStatus]:
        return super().list(folder)[::-1]


class ListRemembers(LocalStorage):
    """Serves a listing from before."""

    def __init__(self) -> None:
        self._seen: dict[str, list[FileStatus]] = {}

    def list(self, folder: str) -> list[FileStatus]:
        return self._seen.setdefault(folder, super().list(folder))


class NamesAreDecoded(LocalStorage):
    def create_staged(self, path: str) -> StagedWriter:
        self.make_folders(str(Path(unquote(path)).parent))
        return super().create_staged(unquote(path))


class OverwriteInPieces(LocalStorage):
    def overwrite(self, path: str, content: bytes) -> None:
        half = len(content) // 2
        with Path(path).open("wb") as stream:
            stream.write(content[:half])
            stream.flush()
            time.sleep(0.1)
            stream.write(content[half:])


class RemoveByPrefix(LocalStorage):
    def remove(self, path: str) -> None:
        for found in self.list(str(Path(path).parent)):
            if found.path.startswith(path):
                super().remove(found.path)


class ReadOfNothingIsEmpty(LocalStorage):
    def read(self, path: str) -> bytes | None:
        return super().read(path) or b""


class ProbeLeavesRubbish(LocalStorage):
    def probe(self, folder: str) -> None:
        super().probe(folder)
        Path(folder, "probe").touch()


class VolumeIsNeverTheSame(LocalStorage):
    def volume(self, path: str) -> str:
        return f"{super().volume(path)}-{time.monotonic_ns()}"


class _OpenFile(BytesIO):
    """Every write is seen at once under the final name."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = Path(path)
        self._path.touch()

    def write(self, data: "ReadableBuffer") -> int:
        written = super().write(data)
        self._path.write_bytes(self.getvalue())
        return written


class _OpenlyStaged(StagedWriter):
    def __init__(self, path: str) -> None:
        self.path = path
        self._file = _OpenFile(path)

    def handle(self) -> BinaryIO:
        return self._file

    def seal(self) -> FileSeal:
        return FileSeal(Path(self.path).stat().st_size, "0" * 8)

    def abort(self) -> None:
        Path(self.path).unlink(missing_ok=True)


class StagedFilesAreSeen(LocalStorage):
    def create_staged(self, path: str) -> StagedWriter:
        return _OpenlyStaged(path)


class AbortLeavesTheFile(LocalStorage):
    def create_staged(self, path: str) -> StagedWriter:
        Path(f"{path}.part").touch()
        return super().create_staged(path)


class FoldersOneDeep(LocalStorage):
    def make_folders(self, folder: str) -> None:
        Path(folder).mkdir(exist_ok=True)


class RemoveLeavesFolders(LocalStorage):
    def remove(self, path: str) -> None:
        if Path(path).is_dir():
            shutil.rmtree(path)
            Path(path).mkdir()
        else:
            super().remove(path)


FAULTS: list[tuple[type[LocalStorage], str]] = [
    (PutOverwrites, "test_put_has_one_winner_with_whole_content"),
    (PutOverwrites, "test_put_of_the_same_bytes_again_is_mine"),
    (PutLooksFirst, "test_put_has_one_winner_with_whole_content"),
    (PutForgetsItsOwn, "test_put_of_the_same_bytes_again_is_mine"),
    (PutMakesAllFolders, "test_put_creates_the_next_folder_only"),
    (PutLeavesTemporaryFiles, "test_put_has_one_winner_with_whole_content"),
    (PublishOnlyOnce, "test_publish_is_idempotent_at_every_point_of_a_crash"),
    (PublishOverwrites, "test_publish_never_overwrites_another_file"),
    (PublishOverwrites, "test_publish_of_a_file_that_is_nowhere_says_so"),
    (PublishTrustsTheSize, "test_publish_never_overwrites_another_file"),
    (PublishOnlyOnce, "test_publish_race_leaves_one_whole_file"),
    (PublishCopies, "test_publish_with_both_names_of_one_file_drops_the_staged_one"),
    (ListLosesTheLast, "test_list_names_the_direct_children_in_order"),
    (ListHasOnePage, "test_list_names_the_direct_children_in_order"),
    (ListHasNoOrder, "test_list_names_the_direct_children_in_order"),
    (ListRemembers, "test_list_names_the_direct_children_in_order"),
    (NamesAreDecoded, "test_names_are_taken_literally"),
    (OverwriteInPieces, "test_overwrite_is_whole_to_everyone"),
    (RemoveByPrefix, "test_remove_takes_a_whole_tree_and_no_more"),
    (RemoveLeavesFolders, "test_remove_takes_a_whole_tree_and_no_more"),
    (ReadOfNothingIsEmpty, "test_reading_what_is_absent_gives_none_or_nothing"),
    (ProbeLeavesRubbish, "test_probe_accepts_the_store_and_leaves_nothing"),
    (VolumeIsNeverTheSame, "test_volume_of_a_place_stays_the_same"),
    (StagedFilesAreSeen, "test_staged_file_appears_whole_with_size_and_checksum"),
    (StagedFilesAreSeen, "test_staged_file_is_begun_once"),
    (AbortLeavesTheFile, "test_aborted_file_leaves_nothing"),
    (FoldersOneDeep, "test_folders_are_made_once_by_many"),
]


@pytest.mark.parametrize(("broken", "test"), FAULTS)
def test_planted_fault_is_found(broken: type[LocalStorage], test: str, tmp_path: Path) -> None:
    (tmp_path / "sound").mkdir()
    (tmp_path / "broken").mkdir()
    suite = StorageConformance()
    assert not fails(suite, test, storage=LocalStorage(), folder=str(tmp_path / "sound"))
    assert fails(suite, test, storage=broken(), folder=str(tmp_path / "broken"))


def test_most_of_the_suite_has_a_fault_that_only_it_is_shown() -> None:
    shown = {test for _, test in FAULTS}
    assert shown <= names_of_tests(StorageConformance)
    assert len(shown) > len(names_of_tests(StorageConformance)) * 2 / 3
