"""Probes each volume once a process: what a file system can do, it can do in all its folders."""

import threading
from typing import Final

from sluiceway.storage.contract import Storage


class ProbeOnce:
    """Remembers which volumes have passed the probe. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._volumes: dict[tuple[type[Storage], str], _Volume] = {}

    def probe(self, storage: Storage, folder: str, *, within: str | None = None) -> None:
        """Probe the folder's volume, unless one of its folders has passed. Once a route's start.

        Routes that start side by side wait for the one that probes; those of other volumes do
        not. A probe that fails is not remembered.

        Args:
            storage: Of the folder.
            folder: Exists.
            within: Folder below it that is made for the probe and removed after it, so that what
                a death leaves behind bears its name; None probes in `folder` itself.

        Raises:
            UnhealthyEnvironmentError: The store cannot do it; says what failed.
            StorageUnavailableError: It did not answer.
        """
        key = (type(storage), storage.volume(folder))
        with self._lock:
            volume = self._volumes.setdefault(key, _Volume())
        with volume.lock:
            if not volume.passed:
                _probe(storage, folder, within)
                volume.passed = True


def _probe(storage: Storage, folder: str, within: str | None) -> None:
    if within is None:
        storage.probe(folder)
        return
    storage.make_folders(within)
    try:
        storage.probe(within)
    finally:
        storage.remove(within)


class _Volume:
    """Whether one volume has passed; who holds the lock is at it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.passed = False


_PROBES: Final = ProbeOnce()


def process_probes() -> ProbeOnce:
    """What has been probed in this process."""
    return _PROBES
