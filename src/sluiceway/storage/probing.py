"""Tries the storage contract for real: what a store cannot do is found before rows depend on it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.storage.contract import PutResult, Storage

_WRITERS = 8


def probe_exclusive_put(storage: Storage, folder: str, *, hint: str) -> None:
    """Check that of many writers of one name exactly one wins, also when the name was taken before.

    Args:
        storage: Storage of the folder.
        folder: Exists, and is removed by the caller.
        hint: What has to be done about a store that fails.

    Raises:
        UnhealthyEnvironmentError: Several writers win, or none.
        StorageUnavailableError: The store failed.
    """
    slot = f"{folder}/slot"
    winners = _race(storage, slot, folder)
    if winners != 1:
        raise UnhealthyEnvironmentError(
            f"{folder.rpartition('/')[0]} let {winners} of {_WRITERS} writers create the same file",
            hint=hint,
        )
    if storage.put_if_absent(slot, b"late", tmp_folder=folder) is not PutResult.EXISTS:
        raise UnhealthyEnvironmentError(
            f"{folder.rpartition('/')[0]} let a late writer replace a file", hint=hint
        )


def _race(storage: Storage, slot: str, folder: str) -> int:
    gate = threading.Barrier(_WRITERS)

    def compete(number: int) -> PutResult:
        gate.wait()
        return storage.put_if_absent(slot, b"%d" % number, tmp_folder=folder)

    with ThreadPoolExecutor(_WRITERS) as pool:
        return list(pool.map(compete, range(_WRITERS))).count(PutResult.CREATED)


def probe_publish(storage: Storage, folder: str) -> None:
    """Check that a staged file gets its final name, also when it is asked for twice.

    Raises:
        UnhealthyEnvironmentError: The file is not what was written.
        StorageUnavailableError: The store failed.
    """
    staged, final = f"{folder}/staged", f"{folder}/p=1/final"
    writer = storage.create_staged(staged)
    writer.handle().write(b"probe")
    seal = writer.seal()
    for _ in range(2):
        storage.publish(staged, final, size_bytes=seal.size_bytes, crc32c=seal.crc32c)
    if storage.read(final) != b"probe":
        raise UnhealthyEnvironmentError(f"{folder.rpartition('/')[0]} lost a published file")


class ProbeOnce:
    """Remembers which volumes have passed the probe. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._volumes: dict[tuple[type[Storage], str], _Volume] = {}

    def probe(self, storage: Storage, folder: str, *, within: str | None = None) -> None:
        """Probe the folder's volume, unless one of its folders has passed. Once a route's start.

        Routes that start at the same time wait for the one that probes; routes on other volumes do
        not. A probe that fails is not remembered.

        Args:
            storage: Storage of the folder.
            folder: Exists.
            within: Folder below it that is made for the probe and removed after it, so that
                leftovers of a death bear its name; None probes in `folder` itself.

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
