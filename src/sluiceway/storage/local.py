"""Local and NFSv4 file systems: exclusive by link(2), durable by fsync."""

import errno
import os
import posixpath
import shutil
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from stat import S_ISDIR, S_ISGID, S_ISUID
from typing import BinaryIO, cast
from urllib.parse import urlsplit
from uuid import uuid4

from sluiceway.errors import (
    FileLostError,
    StorageFullError,
    StorageRefusedError,
    StorageUnavailableError,
    UnhealthyEnvironmentError,
)
from sluiceway.observe.failpoints import edge
from sluiceway.storage.checksummed import ChecksummedStream
from sluiceway.storage.contract import FileSeal, FileStatus, PutResult, StagedWriter, Storage
from sluiceway.storage.copying import stream_crc32c
from sluiceway.storage.probing import probe_exclusive_put, probe_publish

_EXCLUSIVE_LINKS = "use a file system with exclusive hard links (ext4, xfs, NFSv4)"
_MOST_NAMED = 10_000
# Repeating does not help: another file system, or a file where a folder has to be.
_NEVER = (errno.EXDEV, errno.ENOTDIR, errno.EEXIST)
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
# The store works and refuses: a person has to change it.
_REFUSALS = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}
)


def local_path(location: str) -> Path:
    """Absolute path of a `file:` URI or plain path.

    Raises:
        UnhealthyEnvironmentError: Another scheme, or not absolute.
    """
    if location.startswith("/") and not location.startswith("//"):
        return Path(posixpath.normpath(location))
    parts = urlsplit(location)
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        raise UnhealthyEnvironmentError(
            f"this version stores tables on a local or NFS path only, got {location}",
            hint="give the table a location that begins with file:/",
        )
    # Hadoop does not decode %, so neither do we: `q=a%2Fb` is the folder's very name.
    path = Path(location[len("file:") :].removeprefix("//localhost") if parts.scheme else location)
    if not path.is_absolute():
        raise UnhealthyEnvironmentError(f"expected an absolute path, got {location}")
    return Path(posixpath.normpath(f"/{str(path).lstrip('/')}"))


def file_crc32c(path: Path) -> str:
    """Castagnoli checksum of a whole file, eight hex digits."""
    with path.open("rb") as stream:
        return stream_crc32c(stream)


class _LocalStagedWriter(StagedWriter):
    def __init__(self, path: str) -> None:
        self.path = path
        self._open_path = Path(path + ".inprogress")
        try:
            with edge("storage.staged.create", path):
                self._file = self._open_path.open("xb", buffering=0)
        except OSError as error:
            raise _failure("cannot begin a staged file", error) from error
        self._stream = ChecksummedStream(self._file, path)
        self._sealed = False

    def handle(self) -> BinaryIO:
        return cast("BinaryIO", self._stream)

    def seal(self) -> FileSeal:
        try:
            self._stream.flush()
            with edge("storage.staged.fsync", self.path):
                os.fsync(self._file.fileno())
            self._file.close()
            # The attempt's folder is its own, so this rename cannot meet another file.
            with edge("storage.staged.rename", self.path):
                self._open_path.rename(self.path)
        except OSError as error:
            raise _failure(f"cannot close {self.path}", error) from error
        self._sealed = True
        return FileSeal(self._stream.size_bytes, self._stream.crc32c())

    def abort(self) -> None:
        if self._sealed:
            # A result that was put may name it; only garbage collection takes it away.
            return
        with suppress(OSError):
            # A file system may report a full disk as late as this.
            self._file.close()
        for path in (self._open_path, Path(self.path)):
            _unlink_quietly(path)


class LocalStorage(Storage):
    """Storage contract over POSIX calls; may be used by several threads."""

    @cached_property
    def _named(self) -> set[tuple[str, int, int]]:
        """Path, device and inode of folders whose own names this object has made durable."""
        return set()

    def volume(self, path: str) -> str:
        """See `Storage.volume`: the mounted file system, by its device number."""
        place = local_path(path)
        try:
            while not place.exists():
                place = place.parent
            return f"device-{place.stat().st_dev}"
        except OSError as error:
            raise StorageUnavailableError(f"cannot look at {path}: {error}") from error

    def probe(self, folder: str) -> None:
        """See `Storage.probe`."""
        place = local_path(folder) / f"probe-{uuid4().hex}"
        self.make_folders(str(place))
        try:
            probe_exclusive_put(self, str(place), hint=_EXCLUSIVE_LINKS)
            probe_publish(self, str(place))
        finally:
            self.remove(str(place))

    def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        """See `Storage.put_if_absent`."""
        target = local_path(path)
        tmp = local_path(tmp_folder) / f"{target.name}.{uuid4().hex}.tmp"
        try:
            _write_durably(tmp, content, for_=target)
            with edge("storage.put.link", target):
                _link_into(tmp, target)
        except OSError as error:
            # No error code decides; what the slot holds does.
            found = self.read(path)
            if found is None:
                raise _failure(f"cannot create {path}", error) from error
        finally:
            _unlink_quietly(tmp)
        found = self.read(path)
        if found is None:
            raise StorageUnavailableError(f"{path} was created but cannot be read")
        if found != content:
            return PutResult.EXISTS
        try:
            with edge("storage.put.fsync_folder", target):
                _sync_folder(target.parent)
            self._name_durably(target.parent)
        except OSError as error:
            raise _failure(f"{path} is not durable", error) from error
        return PutResult.CREATED

    def overwrite(self, path: str, content: bytes) -> None:
        """See `Storage.overwrite`."""
        target = local_path(path)
        tmp = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
        try:
            with edge("storage.overwrite.write", target):
                tmp.write_bytes(content)
            with edge("storage.overwrite.rename", target):
                tmp.rename(target)
        except OSError as error:
            raise _failure(f"cannot write {path}", error) from error
        finally:
            _unlink_quietly(tmp)

    def read(self, path: str) -> bytes | None:
        """See `Storage.read`."""
        try:
            with edge("storage.read", path):
                return local_path(path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _failure(f"cannot read {path}", error) from error

    def status(self, path: str) -> FileStatus | None:
        """See `Storage.status`."""
        target = local_path(path)
        try:
            with edge("storage.status", target):
                found = target.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _failure(f"cannot look at {path}", error) from error
        is_dir = S_ISDIR(found.st_mode)
        size_bytes = 0 if is_dir else found.st_size
        return FileStatus(str(target), size_bytes, is_dir, changed_ms=_changed_ms(found))

    def missing_parent(self, folder: str) -> str | None:
        """See `Storage.missing_parent`."""
        parent = str(local_path(folder).parent)
        return parent if self.status(parent) is None else None

    def list(self, folder: str) -> list[FileStatus]:
        """See `Storage.list`."""
        try:
            with edge("storage.list", folder), os.scandir(local_path(folder)) as entries:
                found = [status for entry in entries if (status := _status_of(entry)) is not None]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _failure(f"cannot list {folder}", error) from error
        return sorted(found, key=lambda status: status.path)

    def make_folders(self, folder: str) -> None:
        """See `Storage.make_folders`."""
        try:
            self._make_folders(local_path(folder))
        except (FileNotFoundError, FileExistsError) as error:
            # A file system that takes no folders, as /proc, or a file where one has to be.
            raise StorageRefusedError(f"cannot create {folder}: {error}") from error
        except OSError as error:
            raise _failure(f"cannot create {folder}", error) from error

    def _make_folders(self, folder: Path) -> None:
        missing = not folder.is_dir()
        if missing:
            self._make_folders(folder.parent)
            with edge("storage.mkdir", folder):
                folder.mkdir(exist_ok=True)
        self._name_durably(folder, again=missing)

    def _name_durably(self, folder: Path, *, again: bool = False) -> None:
        """Sync the folder's name, once: whoever made it may have died before doing so.

        Args:
            folder: Exists.
            again: It was just made, perhaps with the number of an earlier file that is gone.
        """
        found = folder.stat()
        key = (str(folder), found.st_dev, found.st_ino)
        if key in self._named and not again:
            return
        with suppress(PermissionError):
            # A parent that may not be read is none that we have made folders in.
            _sync_folder(folder.parent)
        if len(self._named) >= _MOST_NAMED:
            self._named.clear()
        self._named.add(key)

    def create_staged(self, path: str) -> StagedWriter:
        """See `Storage.create_staged`."""
        return _LocalStagedWriter(str(local_path(path)))

    def sync_folder(self, folder: str) -> None:
        """See `Storage.sync_folder`."""
        try:
            with edge("storage.fsync_folder", folder):
                _sync_folder(local_path(folder))
        except OSError as error:
            raise _failure(f"cannot sync {folder}", error) from error

    def publish(self, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        """See `Storage.publish`."""
        source, target = local_path(src), local_path(dst)
        try:
            self._make_folders(target.parent)
            if source.exists():
                with edge("storage.publish.link", target):
                    _link_or_recognise(source, target, size_bytes, crc32c)
            elif not _has_size(target, size_bytes):
                raise FileLostError(
                    "a committed file is neither staged nor published",
                    where=dst,
                    hint="run `sluiceway verify JOB` and restore the file from a backup",
                )
            # The new name must be durable before the old one goes.
            with edge("storage.publish.fsync_folder", target):
                _sync_folder(target.parent)
            with edge("storage.publish.unlink", target):
                source.unlink(missing_ok=True)
            if source.parent.exists():
                with edge("storage.publish.fsync_stage", target):
                    _sync_folder(source.parent)
        except OSError as error:
            if error.errno in _NEVER:
                raise UnhealthyEnvironmentError(
                    f"a committed file can never get its name here: {error}",
                    where=dst,
                    hint="the table's folders must be folders of the file system of its root; "
                    "mend that and start again, nothing is lost",
                ) from error
            raise _failure(f"cannot publish {dst}", error) from error

    def share(self, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        """See `Storage.share`: a hard link, which would keep the old time of change."""
        source, target = local_path(src), local_path(dst)
        try:
            self._make_folders(target.parent)
            if source.exists():
                with edge("storage.publish.link", target):
                    _link_or_recognise(source, target, size_bytes, crc32c)
            elif not _has_size(target, size_bytes):
                raise FileLostError(
                    "a committed file is neither where it was published nor in the table",
                    where=src,
                    hint="run `sluiceway verify JOB` and restore the file from a backup",
                )
            os.utime(target)
            with edge("storage.publish.fsync_folder", target):
                _sync_folder(target.parent)
        except OSError as error:
            raise _failure(f"cannot link {dst}", error) from error

    def open_read(self, path: str) -> BinaryIO:
        """See `Storage.open_read`."""
        try:
            with edge("storage.open_read", path):
                return local_path(path).open("rb")
        except OSError as error:
            raise _failure(f"cannot open {path}", error) from error

    def remove(self, path: str) -> None:
        """See `Storage.remove`."""
        target = local_path(path)
        try:
            with edge("storage.remove", target):
                # Of a link only itself goes, never what it leads to.
                if target.is_dir() and not target.is_symlink():
                    shutil.rmtree(target)
                else:
                    target.unlink(missing_ok=True)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _failure(f"cannot remove {path}", error) from error


def _failure(what: str, error: OSError) -> StorageUnavailableError:
    text = f"{what}: {_reason(what, error)}"
    if error.errno in _FULL:
        return StorageFullError(text, hint="make room; nothing is lost")
    if error.errno in _REFUSALS:
        return StorageRefusedError(text, hint="check the permissions there, and who runs this")
    return StorageUnavailableError(text)


def _reason(what: str, error: OSError) -> str:
    """What the system says, with the path where `what` does not have it."""
    if error.errno is None:
        return str(error)
    path = error.filename if isinstance(error.filename, str) else ""
    at = f" at {path}" if path and path not in what else ""
    return f"{(error.strerror or str(error)).lower()}{at}"


def _status_of(entry: os.DirEntry[str]) -> FileStatus | None:
    """One entry of a listing; None when it went meanwhile, or is a link that leads nowhere."""
    try:
        if entry.is_dir():
            return FileStatus(entry.path, 0, is_dir=True, is_link=entry.is_symlink())
        found = entry.stat()
        unfit = _why_no_link(entry.path, found)
        return FileStatus(
            entry.path,
            found.st_size,
            is_dir=False,
            is_link=entry.is_symlink(),
            unfit=unfit,
            changed_ms=_changed_ms(found),
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise


def _changed_ms(found: os.stat_result) -> int:
    return found.st_mtime_ns // 1_000_000


def _why_no_link(path: str, found: os.stat_result) -> str:
    """Why the kernel refuses this process a hard link to a file; empty when it does not.

    Source: proc(5), /proc/sys/fs/protected_hardlinks; `may_linkat` in the kernel's fs/namei.c.
    """
    user = os.geteuid()
    if user in (found.st_uid, 0) or not _protects_links():
        return ""
    special = found.st_mode & (S_ISUID | S_ISGID)
    if not special and os.access(path, os.R_OK | os.W_OK, effective_ids=True):
        return ""
    return (
        f"it belongs to user {found.st_uid}, this process is user {user} and may not write it: "
        "the kernel refuses a hard link to it (fs.protected_hardlinks)"
    )


@cache
def _protects_links() -> bool:
    # Other systems than Linux have no such file, and no such rule.
    with suppress(OSError):
        return Path("/proc/sys/fs/protected_hardlinks").read_text().strip() != "0"
    return False


def _write_durably(path: Path, content: bytes, *, for_: Path) -> None:
    with edge("storage.put.open", for_):
        stream = path.open("xb")
    with stream:
        with edge("storage.put.write", for_):
            stream.write(content)
            stream.flush()
        with edge("storage.put.fsync", for_):
            os.fsync(stream.fileno())


def _link_into(tmp: Path, target: Path) -> None:
    try:
        os.link(tmp, target)
    except FileNotFoundError:
        # Only the next folder may be missing: an old driver must not recreate a removed log.
        target.parent.mkdir(exist_ok=True)
        _sync_folder(target.parent.parent)
        os.link(tmp, target)


def _link_or_recognise(source: Path, target: Path, size_bytes: int, crc32c: str) -> None:
    try:
        os.link(source, target)
    except FileExistsError:
        same_file = source.samefile(target)
        if not same_file and not (_has_size(target, size_bytes) and file_crc32c(target) == crc32c):
            raise FileLostError(
                "another file stands at the final name of a committed file",
                where=str(target),
                hint="move it away and start again",
            ) from None


def _has_size(path: Path, size_bytes: int) -> bool:
    return path.exists() and path.stat().st_size == size_bytes


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unlink_quietly(path: Path) -> None:
    # A temporary file that stays is garbage under stage/, never an error of the put itself.
    try:
        with edge("storage.unlink_tmp", path):
            path.unlink(missing_ok=True)
    except OSError:
        return
