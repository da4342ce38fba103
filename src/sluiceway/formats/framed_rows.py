"""Payloads that name their schema: read group by group, put back in order."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.formats.collected_rows import CollectedRows
from sluiceway.formats.tombstones import count_tombstones

Key = TypeVar("Key")
Reader = TypeVar("Reader")

Framed = tuple[int, bytes, int]
"""Position of a payload in its batch, the payload, and where its content begins."""


def read_by_schema(
    payloads: Sequence[bytes | None],
    collected: CollectedRows,
    *,
    skips_tombstones: bool,
    frame: Callable[[bytes], tuple[Key, int]],
    readers: Callable[[Collection[Key]], Mapping[Key, Reader | DirtyValueError]],
    read: Callable[[Reader, list[Framed]], None],
) -> None:
    """Read a batch; every payload ends in `collected`.

    Called once per batch.

    Args:
        payloads: Payloads of the batch.
        collected: Gets the results.
        skips_tombstones: Whether a payload that is None or has no bytes is skipped; else it is
            dirty.
        frame: Returns a payload's schema name, and where the content begins; raises
            DirtyValueError.
        readers: Readers for the payloads of each name, or why there is none.
        read: Reads the payloads of one name into `collected`.
    """
    rows = count_tombstones(payloads, collected, skipped=skips_tombstones)
    groups: dict[Key, list[Framed]] = {}
    for row in rows.tolist():
        payload = payloads[row] or b""
        try:
            key, begin = frame(payload)
        except DirtyValueError as error:
            collected.dirty.append(error.row(row))
        else:
            groups.setdefault(key, []).append((row, payload, begin))
    for key, reader in readers(groups).items() if groups else ():
        if isinstance(reader, DirtyValueError):
            collected.dirty += [reader.row(row) for row, _, _ in groups[key]]
        else:
            read(reader, groups[key])


def read_rows(
    read: Callable[[bytes, int], Sequence[object]],
    group: Sequence[Framed],
    collected: CollectedRows,
) -> None:
    """Read payloads one by one.

    Args:
        read: From a payload and the start of its content to the row's values; raises
            DirtyValueError.
        group: The payloads.
        collected: Gets the results.
    """
    values, clean = [], []
    for row, payload, begin in group:
        try:
            values.append(read(payload, begin))
        except DirtyValueError as error:
            collected.dirty.append(error.row(row))
        else:
            clean.append(row)
    collected.add_values(values, clean)
