"""Tries the storage contract for real: what a store cannot do is found before rows depend on it."""

import threading
from concurrent.futures import ThreadPoolExecutor

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.storage.contract import PutResult, Storage

_WRITERS = 8


def probe_exclusive_put(storage: Storage, folder: str, *, hint: str) -> None:
    """See that of many writers of one name exactly one wins, also when another was there before.

    Args:
        storage: Of the folder.
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
    """See that a staged file gets its final name, also when it is asked for twice.

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
