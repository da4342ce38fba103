"""Names of the folders that a partition's files move through.

A partition is named for ever by the folder of its first rows, `dt=20261120/hr=08`. Where it is
now is another question: a REPLACE or EXPIRE gives it a folder that no other slot can name,
`dt=20261120/_sluiceway-17-<uuid>/hr=08`. The `_` hides it from engines that find partitions by
listing (MSCK). It stands a level above, since Hadoop's text readers refuse a location whose own
name begins so.
"""

import hashlib
import re
from collections.abc import Iterator

_MOVED = "_sluiceway-"
_MOVED_NAME = re.compile(r"_sluiceway-(?P<seq>\d+)-(?P<uuid>[0-9a-f]{32})")
_INTENT = re.compile(r"i(?P<seq>\d+)-(?P<uuid>[0-9a-f]{32})")
_UUID = re.compile(r"[0-9a-f]{32}")
_SUM_BITS = 128


def is_uuid(text: str) -> bool:
    """Whether it is a uuid as these names have it: 32 hex digits."""
    return _UUID.fullmatch(text) is not None


def moved_folder(partition: str, seq: int, uuid: str) -> str:
    """Folder that a partition moves to, relative to the table.

    Args:
        partition: Its name.
        seq: Slot of the INTENT or EXPIRE that makes the folder's name unique.
        uuid: UUID of the same work.
    """
    return f"{moved_prefix(partition)}{seq}-{uuid}/{partition.rpartition('/')[2]}"


def moved_prefix(partition: str) -> str:
    """What the names of all folders begin with that a partition may have moved to."""
    parent = partition.rpartition("/")[0]
    return f"{parent}/{_MOVED}" if parent else _MOVED


def is_moved_folder(folder: str) -> bool:
    """Whether rows were sent there by a REPLACE or EXPIRE, and by no first row."""
    above = folder.rpartition("/")[0].rpartition("/")[2]
    return _MOVED_NAME.fullmatch(above) is not None


def swap_folder(partition: str, intent: int, uuid: str) -> str:
    """Folder that a partition goes on in after a SWAP, relative to the table.

    Each partition of a prefix has one of its own, which goes as a whole when it was left.

    Args:
        partition: Its name.
        intent: Slot of the INTENT.
        uuid: UUID of the INTENT.
    """
    own = hashlib.sha256(f"{uuid}/{partition}".encode()).hexdigest()[: len(uuid)]
    return moved_folder(partition, intent, own)


def partition_in(folder: str) -> str:
    """Name of the partition whose files this folder holds, or once held."""
    if not is_moved_folder(folder):
        return folder
    above, _, last = folder.rpartition("/")
    parent = above.rpartition("/")[0]
    return f"{parent}/{last}" if parent else last


def partition_of(final: str) -> str:
    """Name of the partition of a file, by its path relative to the table."""
    return partition_in(final.rpartition("/")[0])


def folder_to_remove(folder: str) -> str:
    """What goes when a folder that a partition has left is empty: what was made for it alone."""
    return folder.rpartition("/")[0] if is_moved_folder(folder) else folder


def intent_folder(seq: int, uuid: str) -> str:
    """Staged folder of an INTENT, relative to stage/."""
    return f"i{seq}-{uuid}"


def intent_of(name: str) -> int | None:
    """Slot of the INTENT that a staged folder belongs to; None for any other name."""
    found = _INTENT.fullmatch(name)
    return int(found["seq"]) if found else None


def prefixes(partition: str) -> Iterator[str]:
    """The folders above a partition, from the table down, and itself."""
    parts = partition.split("/")
    for count in range(1, len(parts) + 1):
        yield "/".join(parts[:count])


def is_below(partition: str, prefix: str) -> bool:
    """Whether a prefix stands for this partition, alone or among others."""
    return partition == prefix or partition.startswith(f"{prefix}/")


def overlaps(one: str, other: str) -> bool:
    """Whether one of two prefixes stands for all or a part of the other."""
    return is_below(one, other) or is_below(other, one)


def file_sum(name: str, rows: int, size_bytes: int, crc32c: str) -> int:
    """What a file adds to its partition's sum, which does not depend on the order."""
    text = f"{name}\0{rows}\0{size_bytes}\0{crc32c}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[: _SUM_BITS // 8])


def add_sums(one: int, other: int) -> int:
    """The sum of two disjoint sets of files."""
    return (one + other) % (1 << _SUM_BITS)
