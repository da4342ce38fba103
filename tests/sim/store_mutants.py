"""Wrong variants of the local storage's own steps."""

from typing import Any
from uuid import uuid4

from sluiceway.errors import StorageUnavailableError
from sluiceway.storage import local
from sluiceway.storage.contract import FileSeal, PutResult
from sluiceway.storage.local import local_path
from sluiceway.worker import answers
from sluiceway.worker.plan import TaskPlan, TaskResult


def write_without_sync(path: Any, content: bytes, *, for_: object) -> None:
    del for_
    with path.open("xb") as stream:
        stream.write(content)


def rename_into(tmp: Any, target: Any) -> None:
    if not target.parent.is_dir():
        target.parent.mkdir()
    tmp.rename(target)


def make_folders_once(storage: Any, folder: Any) -> None:
    if folder.is_dir():
        return
    make_folders_once(storage, folder.parent)
    folder.mkdir(exist_ok=True)
    local._sync_folder(folder.parent)


def seal_without_sync(writer: Any) -> FileSeal:
    try:
        writer._stream.flush()
        writer._file.close()
        writer._open_path.rename(writer.path)
    except OSError as error:
        raise StorageUnavailableError("cannot close") from error
    writer._sealed = True
    return FileSeal(writer._stream.size_bytes, writer._stream.crc32c())


def publish_by_rename(storage: Any, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
    del size_bytes, crc32c
    try:
        storage._make_folders(local_path(dst).parent)
        if local_path(src).exists():
            local_path(src).rename(local_path(dst))
    except OSError as error:
        raise StorageUnavailableError("cannot publish") from error


def publish_without_sync(storage: Any, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
    source, target = local_path(src), local_path(dst)
    try:
        storage._make_folders(target.parent)
        if source.exists():
            local._link_or_recognise(source, target, size_bytes, crc32c)
        source.unlink(missing_ok=True)
        local._sync_folder(target.parent)
    except OSError as error:
        raise StorageUnavailableError("cannot publish") from error


def put_blindly(storage: Any, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
    target = local_path(path)
    tmp = local_path(tmp_folder) / f"{target.name}.{uuid4().hex}.tmp"
    try:
        local._write_durably(tmp, content, for_=target)
        try:
            local._link_into(tmp, target)
        except FileExistsError:
            return PutResult.CREATED
        local._sync_folder(target.parent)
    except OSError as error:
        raise StorageUnavailableError("cannot put") from error
    finally:
        local._unlink_quietly(tmp)
    return PutResult.CREATED


def put_without_reading(storage: Any, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
    target = local_path(path)
    tmp = local_path(tmp_folder) / f"{target.name}.{uuid4().hex}.tmp"
    try:
        local._write_durably(tmp, content, for_=target)
        local._link_into(tmp, target)
        local._sync_folder(target.parent)
        local._sync_folder(target.parent.parent)
    except FileExistsError:
        return PutResult.EXISTS
    except OSError as error:
        raise StorageUnavailableError("cannot put") from error
    finally:
        local._unlink_quietly(tmp)
    return PutResult.CREATED


def put_result_or_take_back(plan: TaskPlan, storage: Any, result: TaskResult) -> TaskResult:
    try:
        return _PUT_RESULT(plan, storage, result)
    except StorageUnavailableError:
        storage.remove(plan.route.layout.attempt(result.attempt))
        raise


_PUT_RESULT = answers.put_result
