"""What a local put or publish leaves behind when the system fails it at one of its steps."""

import errno
import os
from pathlib import Path

import pytest

from sluiceway.errors import (
    FileLostError,
    StorageFullError,
    StorageUnavailableError,
    UnhealthyEnvironmentError,
)
from sluiceway.storage import local
from sluiceway.storage.contract import FileSeal, PutResult
from sluiceway.storage.local import LocalStorage


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for name in ("stage/a", "log/0", "tmp"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def _staged(table: Path) -> FileSeal:
    writer = LocalStorage().create_staged(str(table / "stage/a/f"))
    writer.handle().write(b"rows")
    return writer.seal()


def _publish(table: Path, seal: FileSeal) -> None:
    source, target = str(table / "stage/a/f"), str(table / "hr=08/f")
    LocalStorage().publish(source, target, size_bytes=seal.size_bytes, crc32c=seal.crc32c)


def _fail(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _refuse_link(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def link(*_: object) -> None:
        raise _fail(number)

    monkeypatch.setattr("os.link", link)


def _put(table: Path, content: bytes = b"{}") -> PutResult:
    target = str(table / "log/0/1.json")
    return LocalStorage().put_if_absent(target, content, tmp_folder=str(table / "tmp"))


def test_file_of_another_size_under_the_final_name_is_no_published_file(table: Path) -> None:
    seal = _staged(table)
    (table / "stage/a/f").unlink()
    with pytest.raises(FileLostError, match="neither staged nor published"):
        _publish(table, seal)
    (table / "hr=08/f").write_bytes(b"row")
    with pytest.raises(FileLostError, match="neither staged nor published"):
        _publish(table, seal)
    (table / "hr=08/f").write_bytes(b"rows")
    _publish(table, seal)


def test_staged_name_goes_for_good_where_its_folder_is_and_no_matter_where_it_is_gone(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    sync = local._sync_folder

    def record(folder: Path) -> None:
        synced.append(folder)
        sync(folder)

    monkeypatch.setattr(local, "_sync_folder", record)
    seal = _staged(table)
    _publish(table, seal)
    # The new name is durable before the old one's folder forgets it.
    assert synced[-2:] == [table / "hr=08", table / "stage/a"]
    (table / "stage/a").rmdir()
    _publish(table, seal)
    assert synced[-1] == table / "hr=08"


@pytest.mark.parametrize("number", [errno.EXDEV, errno.ENOTDIR])
def test_file_that_can_never_get_its_name_ends_the_driver(
    table: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    seal = _staged(table)
    _refuse_link(monkeypatch, number)
    with pytest.raises(UnhealthyEnvironmentError, match="can never get its name"):
        _publish(table, seal)


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.EIO, StorageUnavailableError), (errno.ENOSPC, StorageFullError)],
)
def test_file_that_cannot_get_its_name_now_is_tried_again(
    table: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    kind: type[StorageUnavailableError],
) -> None:
    seal = _staged(table)
    with monkeypatch.context() as broken:
        _refuse_link(broken, number)
        with pytest.raises(StorageUnavailableError, match="cannot publish") as told:
            _publish(table, seal)
    assert type(told.value) is kind
    _publish(table, seal)
    assert (table / "hr=08/f").read_bytes() == b"rows"


def test_put_leaves_no_temporary_file_whatever_came_of_it(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _put(table) is PutResult.CREATED
    assert _put(table, b"other") is PutResult.EXISTS
    _refuse_link(monkeypatch, errno.EIO)
    (table / "log/0/1.json").unlink()
    with pytest.raises(StorageUnavailableError, match="cannot create"):
        _put(table)
    assert list((table / "tmp").iterdir()) == []


def test_puts_at_one_time_have_temporary_files_of_their_own(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    link = os.link

    def record(source: Path, target: Path) -> None:
        seen.append(source.name)
        link(source, target)

    monkeypatch.setattr("os.link", record)
    assert _put(table) is PutResult.CREATED
    assert _put(table, b"other") is PutResult.EXISTS
    # Told by slot, so that whoever finds one knows of what it is; never the same name twice.
    assert [name.startswith("1.json.") for name in seen] == [True, True]
    assert len(set(seen)) == 2


def test_record_that_is_gone_behind_its_put_was_not_put(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalStorage, "read", lambda self, path: None)
    with pytest.raises(StorageUnavailableError, match="was created but cannot be read"):
        _put(table)


def test_record_whose_folder_cannot_be_synced_is_not_known_to_have_landed(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(folder: Path) -> None:
        raise _fail(errno.EIO)

    monkeypatch.setattr(local, "_sync_folder", fail)
    with pytest.raises(StorageUnavailableError, match="is not durable"):
        _put(table)
