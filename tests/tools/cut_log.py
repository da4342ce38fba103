"""Cuts a log of a stopped broker, as an unclean election or a restored disk does."""

import struct

from sluiceway.lab.lab import Lab

_HEADER = struct.Struct(">qi")


def cut_log(lab: Lab, topic: str, offset: int, *, partition: int = 0) -> None:
    """Remove what lies at an offset and behind. The broker is down, and was killed.

    Args:
        lab: Whose broker has the log.
        topic: With one segment, and a batch that begins at `offset`.
        offset: Where the log ends afterwards.
        partition: Of the topic.
    """
    folder = lab.folder / "kafka/data" / f"{topic}-{partition}"
    (segment,) = folder.glob("*.log")
    with segment.open("r+b") as stream:
        stream.truncate(_place(segment.read_bytes(), offset))
    for path in [*folder.glob("*.index"), *folder.glob("*.timeindex"), *folder.glob("*.snapshot")]:
        path.unlink()


def _place(content: bytes, offset: int) -> int:
    """Where the batch that begins at an offset lies."""
    place = 0
    while place < len(content):
        base, length = _HEADER.unpack_from(content, place)
        if base == offset:
            return place
        place += _HEADER.size + length
    raise ValueError(f"no batch begins at offset {offset}")
