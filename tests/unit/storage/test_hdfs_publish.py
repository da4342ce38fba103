"""A rename whose answer is lost, and that the name node carries out at any moment."""

from dataclasses import dataclass
from typing import Any

import pytest

from sluiceway.errors import FileLostError, StorageUnavailableError
from sluiceway.storage.access import StoreAccess
from sluiceway.storage.hdfs import storage as hdfs
from sluiceway.storage.hdfs.storage import HdfsStorage

STAGED, FINAL = "/t/stage/f", "/t/dt=1/f"


@dataclass(frozen=True)
class _Info:
    length: int
    isdir: bool
    modification_time: int = 0
    permission: int = 0o755


class NameNode:
    """Loses the answer of each rename.

    Attributes:
        files: Their sizes by path.
        looks: Paths that were looked at.
        carried_out: Behind how many looks the rename is done; None is never.
    """

    def __init__(self, carried_out: int | None) -> None:
        self.files = {STAGED: 7}
        self.looks: list[str] = []
        self.carried_out = carried_out

    def rename(self, src: str, dst: str, *, overwrite: bool = False) -> None:
        del src, dst, overwrite
        self._arrive()
        raise RuntimeError("connection reset by peer")

    def get_file_info(self, path: str) -> _Info:
        folder = any(each.startswith(f"{path}/") for each in (STAGED, FINAL))
        found = _Info(0, isdir=True) if folder else self._file(path)
        self.looks.append(path)
        self._arrive()
        if found is None:
            raise FileNotFoundError(path)
        return found

    def read(self, path: str) -> Any:
        raise RuntimeError(f"{path} is not read here")

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        del recursive
        return self.files.pop(path, None) is not None

    def _file(self, path: str) -> _Info | None:
        return _Info(self.files[path], isdir=False) if path in self.files else None

    def _arrive(self) -> None:
        if self.carried_out == len(self.looks) and STAGED in self.files:
            self.files[FINAL] = self.files.pop(STAGED)


def publish(name_node: NameNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish the one file, whose content is never compared anew."""
    monkeypatch.setattr(hdfs, "hdfs_client", lambda access, service: name_node)
    monkeypatch.setattr(HdfsStorage, "_crc32c", lambda self, path: "00000000")
    storage = HdfsStorage(StoreAccess("hdfs"), "hdfs://ns")
    storage.publish(f"hdfs://ns{STAGED}", f"hdfs://ns{FINAL}", size_bytes=7, crc32c="00000000")


# One look of the rename itself, at the folder; then those of publish.
@pytest.mark.parametrize("carried_out", [0, 1, 2])
def test_a_rename_that_is_done_before_publish_has_looked_twice_is_no_loss(
    carried_out: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_node = NameNode(carried_out)
    publish(name_node, monkeypatch)
    assert name_node.files == {FINAL: 7}


@pytest.mark.parametrize("carried_out", [3, None])
def test_a_rename_that_is_done_later_or_never_is_tried_again(
    carried_out: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_node = NameNode(carried_out)
    with pytest.raises(StorageUnavailableError):
        publish(name_node, monkeypatch)
    assert list(name_node.files.values()) == [7]


def test_a_file_that_is_nowhere_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    name_node = NameNode(None)
    name_node.files.clear()
    with pytest.raises(FileLostError, match="neither staged nor published"):
        publish(name_node, monkeypatch)
