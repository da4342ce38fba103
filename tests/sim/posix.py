"""A POSIX file system that forgets what was not fsynced, and the `os` and `Path` over it.

Each directory has the entries that processes see and the ones that would survive a power cut; each
file its bytes and the fsynced ones. After a cut any mixture of the two may be there.
"""

import errno
import os as real_os
import random
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Protocol

from sim.scheduler import DiedHereError, Scheduler

_USER = 1000
"""Whose all files and processes are."""


@dataclass(eq=False, slots=True)
class Inode:
    """A file (`entries` None) or directory."""

    data: bytes = b""
    synced: bytes | None = None
    entries: dict[str, "Inode"] | None = None
    durable: dict[str, "Inode"] = field(default_factory=dict)
    number: int = field(default_factory=count().__next__)


class Watcher(Protocol):
    """Called when a name begins or ceases to stand for a file."""

    def named(self, path: str, content: bytes) -> None: ...

    def unnamed(self, path: str) -> None: ...


class Faults(Protocol):
    """Decides how a system call ends."""

    def before(self, call: str, path: str) -> None: ...

    def after(self, call: str, path: str) -> None: ...

    def died(self, call: str, path: str, effect: Callable[[], Any]) -> None: ...


class FileSystem:
    """The disk that all simulated processes share."""

    def __init__(self, scheduler: Scheduler, watcher: Watcher, faults: Faults) -> None:
        self.root = Inode(entries={})
        self._scheduler = scheduler
        self._watcher = watcher
        self._faults = faults

    # Looking, without a call

    def find(self, path: str) -> Inode | None:
        """What a name stands for now."""
        inode = self.root
        for name in path.split("/"):
            if not name:
                continue
            found = None if inode.entries is None else inode.entries.get(name)
            if found is None:
                return None
            inode = found
        return inode

    def content(self, path: str) -> bytes | None:
        """Bytes of a file, as processes see it."""
        inode = self.find(path)
        return None if inode is None or inode.entries is not None else inode.data

    def durable_content(self, path: str) -> bytes | None:
        """Bytes of a file that a power cut would leave for sure."""
        inode = self.root
        for name in path.split("/"):
            if not name:
                continue
            found = inode.durable.get(name)
            if found is None:
                return None
            inode = found
        return inode.synced

    def files(self, folder: str) -> list[str]:
        """All files below a folder."""
        inode = self.find(folder)
        return [] if inode is None else list(_files(folder, inode))

    def power_cut(self, rng: random.Random) -> None:
        """Keep what was fsynced, and of the rest what chance leaves."""
        luck = rng.choice((0.0, 0.5, 1.0))
        _cut(self.root, rng, luck)

    # System calls

    def call(self, name: str, path: str, effect: Callable[[], Any]) -> Any:
        """One system call: it may fail before its effect or after it."""
        try:
            self._scheduler.call()
        except DiedHereError:
            self._faults.died(name, path, effect)
            raise
        self._faults.before(name, path)
        result = effect()
        self._faults.after(name, path)
        return result

    def parent(self, path: str) -> tuple[dict[str, Inode], Inode, str]:
        folder, _, name = path.rpartition("/")
        inode = self.find(folder)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        if inode.entries is None:
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", path)
        return inode.entries, inode, name

    def existing(self, path: str) -> Inode:
        inode = self.find(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return inode

    def link(self, source: str, target: str) -> None:
        inode = self.existing(source)
        entries, _, name = self.parent(target)
        if name in entries:
            raise FileExistsError(errno.EEXIST, "exists", target)
        entries[name] = inode
        self._watcher.named(target, inode.data)

    def rename(self, source: str, target: str) -> None:
        inode = self.existing(source)
        entries, _, name = self.parent(target)
        before, _, old = self.parent(source)
        del before[old]
        entries[name] = inode
        self._watcher.named(target, inode.data)
        self._watcher.unnamed(source)

    def unlink(self, path: str) -> None:
        self.existing(path)
        entries, _, name = self.parent(path)
        del entries[name]
        self._watcher.unnamed(path)

    def put(self, path: str, data: bytes) -> None:
        """A durable file that comes from outside, with the folder that it lies in."""
        folder = path.rpartition("/")[0]
        if self.find(folder) is None:
            self.mkdir(folder, exist_ok=False)
        entries, _, name = self.parent(path)
        entries[name] = Inode(data=data, synced=data)
        self._watcher.named(path, data)

    def mkdir(self, path: str, *, exist_ok: bool) -> None:
        entries, _, name = self.parent(path)
        if name in entries:
            if exist_ok:
                return
            raise FileExistsError(errno.EEXIST, "exists", path)
        entries[name] = Inode(entries={})

    def rmdir(self, path: str) -> None:
        inode = self.existing(path)
        entries, _, name = self.parent(path)
        if inode.entries:
            raise OSError(errno.ENOTEMPTY, "not empty", path)
        del entries[name]

    def create(self, path: str) -> Inode:
        entries, _, name = self.parent(path)
        if name in entries:
            raise FileExistsError(errno.EEXIST, "exists", path)
        entries[name] = Inode()
        return entries[name]

    @staticmethod
    def fsync(inode: Inode) -> None:
        if inode.entries is None:
            inode.synced = inode.data
        else:
            inode.durable = dict(inode.entries)


def _files(folder: str, inode: Inode) -> Iterator[str]:
    for name, child in (inode.entries or {}).items():
        if child.entries is None:
            yield f"{folder}/{name}"
        else:
            yield from _files(f"{folder}/{name}", child)


def _cut(folder: Inode, rng: random.Random, luck: float) -> None:
    entries = folder.entries or {}
    for name in sorted({*entries, *folder.durable}):
        now, kept = entries.get(name), folder.durable.get(name)
        if now is kept or rng.random() >= luck:
            continue
        if now is None:
            del folder.durable[name]
        else:
            folder.durable[name] = now
    folder.entries = dict(folder.durable)
    for child in folder.entries.values():
        if child.entries is not None:
            _cut(child, rng, luck)
        elif child.data != child.synced:
            if rng.random() >= luck:
                child.data = child.synced or b""
            else:
                child.data = child.data[: rng.randrange(len(child.data) + 1)]
            child.synced = child.data


class PosixFile:
    """An open file; what was written is in the process until it is flushed, if it is buffered."""

    def __init__(
        self, system: FileSystem, path: str, inode: Inode, *, buffered: bool = True
    ) -> None:
        self._buffered = buffered
        self._system = system
        self._path = path
        self._buffer: list[bytes] = []
        self._place = 0
        self.inode = inode

    def write(self, data: bytes | memoryview) -> int:
        self._buffer.append(bytes(data))
        if not self._buffered:
            self.flush()
        return len(data)

    def read(self, size: int = -1) -> bytes:
        rest: bytes = self._system.call("read", self._path, lambda: self.inode.data)[self._place :]
        part = rest if size < 0 else rest[:size]
        self._place += len(part)
        return part

    def flush(self) -> None:
        if not self._buffer:
            return
        data, self._buffer = b"".join(self._buffer), []

        def effect() -> None:
            self.inode.data += data

        self._system.call("write", self._path, effect)

    def fileno(self) -> Any:
        return self

    def close(self) -> None:
        self.flush()

    def __enter__(self) -> "PosixFile":
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.close()


@dataclass(slots=True)
class _Handle:
    inode: Inode
    path: str


@dataclass(slots=True)
class _Entry:
    path: str
    _inode: Inode

    def is_dir(self) -> bool:
        return self._inode.entries is not None

    def is_symlink(self) -> bool:
        # This file system has none.
        return False

    def stat(self) -> "_Stat":
        return _status(self._inode)


@dataclass(slots=True)
class _Stat:
    st_size: int
    st_mode: int
    st_ino: int
    st_dev: int = 0
    st_uid: int = _USER
    # Of no store that this world has does anything go by the time of a file.
    st_mtime_ns: int = 0


def _status(inode: Inode) -> _Stat:
    kind = stat.S_IFREG if inode.entries is None else stat.S_IFDIR
    return _Stat(len(inode.data), kind, inode.number)


class _Listing(list[_Entry]):
    def __enter__(self) -> "_Listing":
        return self

    def __exit__(self, *error: object) -> None:
        return


_mounts: list[Callable[[], FileSystem]] = []


def mount(mounted: Callable[[], FileSystem]) -> None:
    """From now on calls reach the file system that `mounted` gives."""
    _mounts[:] = [mounted]


def _mounted() -> FileSystem:
    return _mounts[0]()


class PosixCalls:
    """Stands in for the module `os`. What it has not is not simulated, and says so."""

    O_RDONLY = real_os.O_RDONLY
    O_DIRECTORY = real_os.O_DIRECTORY
    DirEntry = real_os.DirEntry

    def link(self, source: object, target: object) -> None:
        system, old, new = _mounted(), str(source), str(target)
        system.call("link", new, lambda: system.link(old, new))

    def geteuid(self) -> int:
        """All processes of this world are one user's."""
        return _USER

    def fsync(self, file: Any) -> None:
        system = _mounted()
        path = file._path if isinstance(file, PosixFile) else file.path
        system.call("fsync", path, lambda: system.fsync(file.inode))

    def open(self, path: object, flags: int) -> _Handle:
        del flags
        system = _mounted()
        inode = system.existing(str(path))
        if inode.entries is None:
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(path))
        return _Handle(inode, str(path))

    def close(self, handle: _Handle) -> None:
        del handle

    def scandir(self, path: object) -> _Listing:
        system, folder = _mounted(), str(path)

        def effect() -> _Listing:
            inode = system.existing(folder)
            if inode.entries is None:
                raise NotADirectoryError(errno.ENOTDIR, "not a folder", folder)
            return _Listing(_Entry(f"{folder}/{n}", child) for n, child in inode.entries.items())

        found: _Listing = system.call("scandir", folder, effect)
        return found


class PosixTrees:
    """Stands in for the module `shutil`."""

    def rmtree(self, path: object) -> None:
        system = _mounted()
        self._empty(system, str(path))

    def _empty(self, system: FileSystem, path: str) -> None:
        inode = system.existing(path)
        for name, child in list((inode.entries or {}).items()):
            below = f"{path}/{name}"
            if child.entries is None:
                system.call("unlink", below, partial(system.unlink, below))
            else:
                self._empty(system, below)
        system.call("rmdir", path, lambda: system.rmdir(path))


class PosixPath:
    """Stands in for `pathlib.Path`."""

    __slots__ = ("_text",)

    def __init__(self, path: object) -> None:
        self._text = str(path)

    def __str__(self) -> str:
        return self._text

    def __truediv__(self, name: object) -> "PosixPath":
        return PosixPath(f"{self._text.rstrip('/')}/{name}")

    @property
    def parent(self) -> "PosixPath":
        return PosixPath(self._text.rpartition("/")[0] or "/")

    @property
    def name(self) -> str:
        return self._text.rpartition("/")[2]

    def with_name(self, name: str) -> "PosixPath":
        return self.parent / name

    def is_absolute(self) -> bool:
        return self._text.startswith("/")

    def exists(self) -> bool:
        return self._look() is not None

    def is_dir(self) -> bool:
        inode = self._look()
        return inode is not None and inode.entries is not None

    def is_symlink(self) -> bool:
        return False

    def stat(self) -> _Stat:
        system = _mounted()
        inode = system.call("stat", self._text, lambda: system.existing(self._text))
        return _status(inode)

    def samefile(self, other: object) -> bool:
        return _mounted().find(self._text) is _mounted().find(str(other))

    def open(self, mode: str = "r", buffering: int = -1) -> PosixFile:
        system = _mounted()
        make = system.create if "x" in mode else system.existing
        inode = system.call(f"open {mode}", self._text, lambda: make(self._text))
        return PosixFile(system, self._text, inode, buffered=buffering != 0)

    def read_bytes(self) -> bytes:
        system = _mounted()
        inode = system.call("read", self._text, lambda: system.existing(self._text))
        if inode.entries is not None:
            raise IsADirectoryError(errno.EISDIR, "a folder", self._text)
        data: bytes = inode.data
        return data

    def write_bytes(self, data: bytes) -> int:
        system = _mounted()

        def effect() -> None:
            inode = system.find(self._text) or system.create(self._text)
            inode.data = data

        system.call("write", self._text, effect)
        return len(data)

    def rename(self, target: object) -> None:
        system = _mounted()
        system.call("rename", str(target), lambda: system.rename(self._text, str(target)))

    def unlink(self, *, missing_ok: bool = False) -> None:
        system = _mounted()
        try:
            system.call("unlink", self._text, lambda: system.unlink(self._text))
        except FileNotFoundError:
            if not missing_ok:
                raise

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        assert not parents, "folders are made one by one, each synced"
        system = _mounted()
        system.call("mkdir", self._text, lambda: system.mkdir(self._text, exist_ok=exist_ok))

    def _look(self) -> Inode | None:
        system = _mounted()
        found: Inode | None = system.call("stat", self._text, lambda: system.find(self._text))
        return found
