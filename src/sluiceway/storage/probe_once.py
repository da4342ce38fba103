"""Probes each volume once a process: what a file system can do, it can do in all its folders."""

import threading
from typing import Final

from sluiceway.storage.contract import Storage


class ProbeOnce:
    """Remembers which volumes have passed the probe. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._volumes: dict[tuple[type[Storage], str], _Volume] = {}

    def probe(self, storage: Storage, folder: str) -> None:
        """Probe the folder's volume, unless one of its folders has passed. Once a route's start.

        Routes that start side by side wait for the one that probes; those of other volumes do
        not. A probe that fails is not remembered.

        Args:
            storage: Of the folder.
            folder: Exists.

        Raises:
            UnhealthyEnvironmentError: The store cannot do it; says what failed.
            StorageUnavailableError: It did not answer.
        """
        key = (type(storage), storage.volume(folder))
        with self._lock:
            volume = self._volumes.setdefault(key, _Volume())
        with volume.lock:
            if not volume.passed:
                storage.probe(folder)
                volume.passed = True


class _Volume:
    """Whether one volume has passed; who holds the lock is at it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.passed = False


_PROBES: Final = ProbeOnce()


def process_probes() -> ProbeOnce:
    """What has been probed in this process."""
    return _PROBES
