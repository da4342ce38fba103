import errno
import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from sluiceway.errors import StorageFullError, StorageRefusedError, StorageUnavailableError
from sluiceway.storage.local import LocalStorage, file_crc32c

Synced = Callable[[], set[str]]


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Synced:
    """Names of the folders and files that were synced so far."""
    names: set[str] = set()
    fsync = os.fsync

    def record(descriptor: int) -> None:
        names.add(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", record)
    return lambda: names


def test_put_makes_a_folder_durable_that_a_dead_writer_has_made(
    tmp_path: Path, synced: Synced
) -> None:
    (tmp_path / "log" / "0").mkdir(parents=True)
    LocalStorage().put_if_absent(str(tmp_path / "log/0/1.json"), b"{}", tmp_folder=str(tmp_path))
    assert {str(tmp_path / "log" / "0"), str(tmp_path / "log")} <= synced()


def test_publish_makes_a_folder_durable_that_a_dead_driver_has_made(
    tmp_path: Path, synced: Synced
) -> None:
    (tmp_path / "hr=08").mkdir()
    storage = LocalStorage()
    writer = storage.create_staged(str(tmp_path / "staged"))
    writer.handle().write(b"rows")
    seal = writer.seal()
    storage.publish(
        str(tmp_path / "staged"),
        str(tmp_path / "hr=08" / "final"),
        size_bytes=seal.size_bytes,
        crc32c=seal.crc32c,
    )
    assert {str(tmp_path / "hr=08"), str(tmp_path)} <= synced()


def test_listing_leaves_out_links_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "gone").symlink_to("nothing")
    (tmp_path / "link").symlink_to("file")
    found = LocalStorage().list(str(tmp_path))
    assert [(Path(one.path).name, one.is_link) for one in found] == [
        ("file", False),
        ("link", True),
    ]


def test_removing_a_link_leaves_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "row").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("folder")
    LocalStorage().remove(str(tmp_path / "link"))
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    assert (tmp_path / "folder" / "row").exists()


def test_status_asks_once_so_that_an_outage_has_one_meaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: Path) -> bool:
        raise OSError(errno.EIO, "input/output error", str(path))

    monkeypatch.setattr(Path, "is_dir", fails)
    status = LocalStorage().status(str(tmp_path))
    assert status is not None
    assert status.is_dir


@pytest.mark.parametrize(
    ("raised", "kind", "text"),
    [
        (
            PermissionError(errno.EACCES, "Permission denied"),
            StorageRefusedError,
            ": permission denied",
        ),
        (
            OSError(errno.EROFS, "Read-only file system", "/up/there"),
            StorageRefusedError,
            "system at /up/there",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            StorageFullError,
            ": no space left on device",
        ),
        (OSError(errno.EIO, "Input/output error"), StorageUnavailableError, ": input/output error"),
        (OSError("the mount is gone"), StorageUnavailableError, ": the mount is gone"),
    ],
)
def test_failure_tells_the_path_once_and_what_the_system_says(
    raised: OSError,
    kind: type[StorageUnavailableError],
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(path: Path) -> bytes:
        if raised.filename is None and raised.errno is not None:
            raised.filename = str(path)
        raise raised

    monkeypatch.setattr(Path, "read_bytes", fail)
    place = str(tmp_path / "record.json")
    with pytest.raises(StorageUnavailableError) as told:
        LocalStorage().read(place)
    assert type(told.value) is kind
    assert told.value.message.endswith(text)
    assert told.value.message.count(place) == 1
    assert "Errno" not in told.value.message
    outside = kind is not StorageUnavailableError
    assert (told.value.exit_code, bool(told.value.hint)) == ((5, True) if outside else (1, False))


def test_staged_file_gathers_small_pieces_and_counts_them_at_once(tmp_path: Path) -> None:
    writer = LocalStorage().create_staged(str(tmp_path / "staged"))
    stream, piece = writer.handle(), bytearray(b"0123456789")
    assert stream.write(piece) == 10
    piece[:] = b".........."
    open_file = tmp_path / "staged.inprogress"
    assert (stream.tell(), open_file.stat().st_size) == (10, 0)
    stream.write(b"x" * (1 << 20))
    assert (stream.tell(), open_file.stat().st_size) == (10 + (1 << 20),) * 2
    stream.write(b"end")
    stream.flush()
    seal = writer.seal()
    content = (tmp_path / "staged").read_bytes()
    assert content == b"0123456789" + b"x" * (1 << 20) + b"end"
    assert (seal.size_bytes, seal.crc32c) == (len(content), file_crc32c(tmp_path / "staged"))


def test_staged_file_is_whole_where_the_system_takes_a_part_of_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(FileIO):
        def write(self, data: Any, /) -> int:
            return super().write(data[:1000])

    monkeypatch.setattr(Path, "open", lambda path, mode, buffering: Slow(path, mode))
    writer = LocalStorage().create_staged(str(tmp_path / "staged"))
    monkeypatch.undo()
    writer.handle().write(bytes(range(256)) * 100)
    seal = writer.seal()
    assert (tmp_path / "staged").read_bytes() == bytes(range(256)) * 100
    assert seal.crc32c == file_crc32c(tmp_path / "staged")


@pytest.mark.parametrize("answer", [0, OSError(errno.ENOSPC, "full")])
def test_staged_file_that_was_not_written_is_never_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: int | OSError
) -> None:
    class Refusing(FileIO):
        def write(self, data: Any, /) -> int:
            if isinstance(answer, OSError):
                raise answer
            return answer

    monkeypatch.setattr(Path, "open", lambda path, mode, buffering: Refusing(path, mode))
    writer = LocalStorage().create_staged(str(tmp_path / "staged"))
    monkeypatch.undo()
    writer.handle().write(b"abc")
    for _ in range(2):
        with pytest.raises(StorageUnavailableError):
            writer.seal()
    writer.abort()
    assert list(tmp_path.iterdir()) == []
