"""Checksums of files that are there already."""

from typing import BinaryIO, cast

import google_crc32c

_READ_CHUNK_BYTES = 1 << 20


def stream_crc32c(stream: BinaryIO) -> str:
    """Castagnoli checksum of what is left of a stream, eight hex digits."""
    checksum = google_crc32c.Checksum()
    while chunk := stream.read(_READ_CHUNK_BYTES):
        checksum.update(chunk)
    return cast("bytes", checksum.hexdigest()).decode()
