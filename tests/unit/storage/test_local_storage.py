import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sluiceway.errors import StorageFullError, StorageRefusedError, StorageUnavailableError
from sluiceway.storage.local import LocalStorage

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
