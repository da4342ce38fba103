"""Copies and checksums of files that exist already."""

from typing import BinaryIO, cast

import google_crc32c

from sluiceway.errors import StorageUnavailableError, TaskFailedError
from sluiceway.storage.contract import FileSeal, Storage

_BLOCK_BYTES = 1 << 20


def copy_staged(source: Storage, path: str, target: Storage, staged: str) -> FileSeal:
    """Copy a file, unchanged, to a new staged one; what is left of a failure is taken back.

    Args:
        source: Where the file is.
        path: Its name there.
        target: Where the copy is made; may be the same store.
        staged: A name that nothing has there.

    Returns:
        What was copied: the caller compares it with what it ought to be.

    Raises:
        StorageUnavailableError: A store failed.
    """
    writer = target.create_staged(staged)
    try:
        with source.open_read(path) as stream:
            while block := stream.read(_BLOCK_BYTES):
                writer.handle().write(block)
        return writer.seal()
    except OSError as error:
        writer.abort()
        raise StorageUnavailableError(f"cannot carry it over: {error}", where=path) from error
    except BaseException:
        writer.abort()
        raise


_READ_CHUNK_BYTES = 1 << 20


def stream_crc32c(stream: BinaryIO, *, read_at_once: int = _READ_CHUNK_BYTES) -> str:
    """Castagnoli checksum of what is left of a stream, eight hex digits."""
    checksum = google_crc32c.Checksum()
    while chunk := stream.read(read_at_once):
        checksum.update(chunk)
    return cast("bytes", checksum.hexdigest()).decode()


def check_content(storage: Storage, path: str, seal: FileSeal) -> None:
    """Read all bytes of a closed file through a fresh handle. Called by the task that wrote it.

    Raises:
        TaskFailedError: The file is not as it was written; discard the attempt.
        StorageUnavailableError: The store failed.
    """
    try:
        with storage.open_read(path) as handle:
            # A small file is not read into a large buffer.
            found = stream_crc32c(handle, read_at_once=min(seal.size_bytes + 1, _READ_CHUNK_BYTES))
    except OSError as error:
        raise StorageUnavailableError(f"cannot read {path}: {error}") from error
    if found != seal.crc32c:
        raise TaskFailedError(f"{path}: expected the checksum {seal.crc32c}, found {found}")
