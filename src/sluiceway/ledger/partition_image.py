"""The part of a SNAPSHOT's side file that holds the table's partitions."""

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

from sluiceway.ledger.folding.fold_state import (
    ClosedPrefix,
    FileTotals,
    FoldState,
    LeftFolder,
    OpenIntent,
    PartitionState,
)
from sluiceway.ledger.kept_partitions import forget
from sluiceway.ledger.sealing import after_sealing
from sluiceway.types.strict_json import BigInt, StrictJsonError, loads

_KINDS: dict[str, type] = {
    "folder": str,
    "first_seq": int,
    "last_seq": int,
    "location": str,
    "moved_seq": int,
    "placed_seq": int,
    "rows": int,
    "files": int,
    "size_bytes": int,
    "file_sum": str,
    "version": int,
    "whole": bool,
    "expired": bool,
}
"""Columns in addition to `values`; a sum is in hexadecimal digits."""


def packed_states(states: Iterable[PartitionState]) -> str:
    """All that is known of partitions, as one text."""
    kept = list(states)
    columns: dict[str, Any] = {name: [getattr(each, name) for each in kept] for name in _KINDS}
    columns["file_sum"] = [f"{each.file_sum:x}" for each in kept]
    columns["values"] = [each.values for each in kept]
    text = json.dumps(columns, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    return base64.b64encode(zlib.compress(text.encode(), 3)).decode()


def unpacked_states(packed: str) -> list[PartitionState]:
    """The same again.

    Raises:
        StrictJsonError: It is no such text.
    """
    try:
        columns = loads(zlib.decompress(base64.b64decode(packed, validate=True)))
    except (ValueError, zlib.error) as error:
        raise StrictJsonError(f"no columns of partitions: {error}") from error
    names = [each.name for each in fields(PartitionState)]
    if not isinstance(columns, dict) or columns.keys() != set(names):
        raise StrictJsonError("columns of partitions have other names")
    for name, kind in {**_KINDS, "values": list}.items():
        column = columns[name]
        if not isinstance(column, list) or set(map(type, column)) - {kind}:
            raise StrictJsonError(f"column {name} of partitions holds something else")
    texts = {type(text) for values in columns["values"] for text in values}
    if len({len(column) for column in columns.values()}) > 1 or texts - {str, type(None)}:
        raise StrictJsonError("columns of partitions do not fit together")
    columns["values"] = map(tuple, columns["values"])
    columns["file_sum"] = map(_sum, columns["file_sum"])
    return [PartitionState(*row) for row in zip(*map(columns.get, names), strict=True)]


def _sum(digits: str) -> int:
    try:
        return int(digits, 16)
    except ValueError as error:
        raise StrictJsonError(f"no sum of files: {digits[:40]!r}") from error


def packed_names(slots: Mapping[str, int]) -> str:
    """The names in order, then their slots, each as its distance from the one before."""
    if not slots:
        return ""
    names = sorted(slots)
    told = [slots[name] for name in names]
    steps = [told[0], *(after - before for before, after in pairwise(told))]
    text = "\n".join([*names, *map(str, steps)])
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def unpacked_names(packed: str) -> dict[str, int]:
    """The same again.

    Raises:
        StrictJsonError: It is no such text.
    """
    if not packed:
        return {}
    try:
        lines = zlib.decompress(base64.b64decode(packed, validate=True)).decode().split("\n")
        half, odd = divmod(len(lines), 2)
        steps = [int(line) for line in lines[half:]]
    except (ValueError, zlib.error) as error:
        raise StrictJsonError(f"no list of names: {error}") from error
    if odd:
        raise StrictJsonError("a list of names has a name without a slot")
    found, slot = dict[str, int](), 0
    for name, step in zip(lines, steps, strict=False):
        slot += step
        found[name] = slot
    return found


@dataclass(frozen=True, slots=True)
class _Intent:
    seq: int
    partition: str
    uuid: str
    version: int
    purpose: str
    rows: BigInt
    files: BigInt
    size_bytes: BigInt
    file_sum: str


@dataclass(frozen=True, slots=True)
class _Closed:
    prefix: str
    closed_seq: int
    version: int
    ready_seq: int
    ready_at_us: BigInt | None
    late_rows: BigInt


@dataclass(frozen=True, slots=True)
class _Left:
    folder: str
    partition: str
    seq: int


@dataclass(frozen=True, slots=True)
class PartitionsImage:
    """What a fold knows of partitions, as strict JSON holds it."""

    kept: str
    forgotten_up_to: str
    intents: tuple[_Intent, ...]
    swaps: str
    swap_dirty: BigInt
    closed: tuple[_Closed, ...]
    sealed: str
    left: tuple[_Left, ...]


def partitions_image(fold: FoldState, sealed: Iterable[str] = ()) -> PartitionsImage:
    """The image of a fold, without what the SNAPSHOT makes it forget; the fold stays as it is.

    Args:
        fold: Fold up to the SNAPSHOT's slot.
        sealed: What the SNAPSHOT seals. It is in the image still: whoever reads that takes the
            SNAPSHOT in next, and tests whether it may be sealed.
    """
    after = after_sealing(fold, sealed)
    forget(after)
    kept = [
        state
        for name, state in fold.partitions.items()
        if name in after.partitions or after.sealed_above(name) is not None
    ]
    return PartitionsImage(
        kept=packed_states(kept),
        forgotten_up_to=after.forgotten_up_to,
        intents=tuple(_intent(seq, each) for seq, each in sorted(fold.intents.items())),
        swaps=packed_names(after.swaps),
        swap_dirty=BigInt(fold.swap_dirty),
        closed=tuple(_closed(prefix, each) for prefix, each in sorted(fold.closed.items())),
        sealed=packed_names(fold.sealed),
        left=tuple(
            _Left(folder, each.partition, each.seq) for folder, each in sorted(fold.left.items())
        ),
    )


def restore_partitions(fold: FoldState, image: PartitionsImage) -> None:
    """Give a fold what the image says; called while it has no partitions yet."""
    kept = unpacked_states(image.kept)
    fold.partitions = {each.folder: each for each in kept}
    fold.forgotten_up_to = image.forgotten_up_to
    fold.moved = {each.location: each.folder for each in kept if each.version}
    fold.intents = {each.seq: _open_intent(each) for each in image.intents}
    fold.swaps = unpacked_names(image.swaps)
    fold.swap_dirty = int(image.swap_dirty)
    fold.closed = {
        each.prefix: ClosedPrefix(
            each.closed_seq,
            each.version,
            each.ready_seq,
            None if each.ready_at_us is None else int(each.ready_at_us),
            int(each.late_rows),
        )
        for each in image.closed
    }
    fold.sealed = unpacked_names(image.sealed)
    fold.left = {each.folder: LeftFolder(each.partition, each.seq) for each in image.left}


def _intent(seq: int, each: OpenIntent) -> _Intent:
    since = each.since
    return _Intent(
        seq,
        each.partition,
        each.uuid,
        each.version,
        each.purpose,
        BigInt(since.rows),
        BigInt(since.files),
        BigInt(since.size_bytes),
        f"{since.file_sum:x}",
    )


def _open_intent(each: _Intent) -> OpenIntent:
    rows, files, size_bytes = int(each.rows), int(each.files), int(each.size_bytes)
    since = FileTotals(rows, files, size_bytes, _sum(each.file_sum))
    return OpenIntent(each.partition, each.uuid, each.version, each.purpose, since)


def _closed(prefix: str, each: ClosedPrefix) -> _Closed:
    at_us = None if each.ready_at_us is None else BigInt(each.ready_at_us)
    late_rows = BigInt(each.late_rows)
    return _Closed(prefix, each.closed_seq, each.version, each.ready_seq, at_us, late_rows)
